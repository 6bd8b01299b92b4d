//! The self-test: every attack of `attack/` against a rung of this host, each beside a control without containment, held
//! against what the rung promises.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::containment::{Guarantee, Receipt, Rung};
use provost_core::policy::{Effect, Layer, Policy, Preset};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::attack::{self, Attack, Control, Judge, Needs, Promised, Scene, Sighting};
use crate::egress::{Egress, HostDecision, NotRecorded, Record};
use crate::sandbox::{RungChoice, Sandbox, Unavailable};
use crate::setting::{Attacker, Network, Setting, Workspace};
use crate::tended::{Ends, Program, Tended};
use crate::{Cancel, Command, Disabled, Ended, HOME, Probe, sys};

/// As long as an attack has, contained or not.
const LIMIT: Duration = Duration::from_secs(10);
/// The limit of a command that is to be stopped at its limit.
const SHORT: Duration = Duration::from_millis(400);
/// How much more of both a command has that a container engine starts.
const STARTS: Duration = Duration::from_secs(5);
/// As long as something that is watched at intervals may go on before it has to be over.
const GRACE: Duration = Duration::from_millis(2_000);
/// Attacks that are under way at the same time.
const WORKERS: usize = 3;
/// A host that attacks may dial and that nobody is: the name is set aside for that.
const SOME_HOST: &str = "net host.invalid:443";
/// Attacks that load the machine, beside those.
const HEAVY_WORKERS: usize = 2;

/// What became of all attacks under one rung.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfTest {
    /// The rung that was attacked.
    pub rung: Rung,
    /// What was asked for beside the rung, as people call it.
    pub extras: Vec<&'static str>,
    /// What it says of itself on this host.
    pub receipt: Receipt,
    /// Each attack, in a fixed order.
    pub attempts: Vec<Attempt>,
    /// How long all of it took, in milliseconds.
    pub took_ms: u64,
}

/// One attack and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Its name.
    pub name: &'static str,
    /// What it tries, in words that follow "it".
    pub tries: &'static str,
    /// The guarantee that it would break.
    pub breaks: Guarantee,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What became of an attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// It works without containment and failed, as promised.
    Held {
        /// The guarantee or layer that it failed by.
        by: String,
        /// What it said of its end.
        said: String,
    },
    /// It was promised to fail and worked.
    Broken {
        /// What was to make it fail.
        by: String,
        /// How it shows.
        seen: String,
    },
    /// Nothing is promised of it under this rung.
    NotPromised {
        /// Why.
        why: String,
        /// How it shows that it worked; `None` where it failed all the same.
        seen: Option<String>,
    },
    /// It does not work here without containment either, so that its failure proves nothing.
    NotExpressible {
        /// Why.
        why: String,
    },
    /// It could not be tried.
    Failed {
        /// Why.
        why: String,
    },
}

impl Verdict {
    /// Whether the rung is not what it says it is: a promise was broken, or could not be looked at.
    pub fn is_mismatch(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Failed { .. })
    }
}

impl SelfTest {
    /// Attacks that show the rung not to be what it says it is.
    pub fn mismatches(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.verdict.is_mismatch())
    }

    /// What a probe has to remember of it: the rung, if it was found wanting.
    pub fn disabled(&self) -> Option<Disabled> {
        let named = |attempt: &Attempt| [&[attempt.name], self.extras.as_slice()].concat().join(" with ");
        let attacks: Vec<String> = self.mismatches().map(named).collect();
        (!attacks.is_empty()).then_some(Disabled { rung: self.rung, engine: self.receipt.engine, attacks })
    }

    /// How many attacks were tried, held, not promised and not expressible here.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for attempt in &self.attempts {
            match attempt.verdict {
                Verdict::Held { .. } => counts.held += 1,
                Verdict::Broken { .. } => counts.broken += 1,
                Verdict::NotPromised { .. } => counts.not_promised += 1,
                Verdict::NotExpressible { .. } => counts.not_expressible += 1,
                Verdict::Failed { .. } => counts.failed += 1,
            }
        }
        counts
    }
}

/// Attacks by what became of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// [`Verdict::Held`].
    pub held: usize,
    /// [`Verdict::Broken`].
    pub broken: usize,
    /// [`Verdict::NotPromised`].
    pub not_promised: usize,
    /// [`Verdict::NotExpressible`].
    pub not_expressible: usize,
    /// [`Verdict::Failed`].
    pub failed: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, broken, not_promised, not_expressible, failed } = self;
        write!(f, "{held} held, {broken} broken, {not_promised} not promised, ")?;
        write!(f, "{not_expressible} not expressible here, {failed} could not be tried")
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// The probe did not establish the rung on this host.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is nowhere to make the things that are attacked, or this binary cannot be found.
    #[error("cannot make ready for the self-test: {what}")]
    Io {
        /// What was done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl SelfTest {
    /// Runs all attacks in a setting, which a [`Rung`] by itself is too; some seconds long. Nothing of the host is changed:
    /// what is attacked is made for the purpose and taken away.
    ///
    /// # Errors
    ///
    /// [`SelfTestError::Unavailable`] when the host does not have the rung, or not in that setting.
    pub fn run(probe: &Probe, setting: impl Into<Setting>) -> Result<Self, SelfTestError> {
        Self::of(probe, setting, |_| true)
    }

    /// Runs the attacks whose names are wanted.
    ///
    /// # Errors
    ///
    /// As [`SelfTest::run`].
    pub fn of(
        probe: &Probe,
        setting: impl Into<Setting>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, SelfTestError> {
        let began = Instant::now();
        let bench = Bench::new(probe, setting.into())?;
        let (heavy, light): (Vec<_>, Vec<_>) = attack::all()
            .enumerate()
            .filter(|(_, attack)| wanted(attack.name) && attack.applies(&bench.receipt))
            .partition(|(_, attack)| attack.is_heavy());
        let found = Mutex::new(BTreeMap::new());
        let work = |queue: &[(usize, &'static Attack)], next: &AtomicUsize| {
            while let Some((place, attack)) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                let attempt = bench.attempt(attack);
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(*place, attempt);
            }
        };
        let (first_heavy, first_light) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..HEAVY_WORKERS {
                scope.spawn(|| work(&heavy, &first_heavy));
            }
            for _ in 0..WORKERS {
                scope.spawn(|| work(&light, &first_light));
            }
        });
        let attempts = found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
        let took_ms = began.elapsed().as_millis() as u64;
        let Bench { setting, receipt, .. } = &bench;
        Ok(Self { rung: setting.rung, extras: setting.extras(), receipt: receipt.clone(), attempts, took_ms })
    }
}

/// What all attacks of one self-test have in common.
struct Bench {
    probe: Probe,
    setting: Setting,
    receipt: Receipt,
    attacker: Attacker,
    base: PathBuf,
}

/// What was seen of one run of an attack.
struct Seen {
    /// How it shows that it worked.
    evidence: Option<String>,
    /// The last line that it said.
    said: String,
}

impl Bench {
    fn new(probe: &Probe, setting: Setting) -> Result<Self, SelfTestError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| SelfTestError::Io { what, source }
        };
        let exe = std::env::current_exe().and_then(fs::canonicalize).map_err(failed("this binary's path"))?;
        let mut random = [0u8; 8];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let base = PathBuf::from(format!("/tmp/provost-selftest-{:016x}", u64::from_ne_bytes(random)));
        rustix::fs::mkdir(&base, rustix::fs::Mode::from_raw_mode(0o700))
            .map_err(io::Error::from)
            .map_err(failed("a folder in /tmp"))?;
        // Whatever an earlier one found: this one looks for itself.
        let probe = probe.clone().with_disabled(Vec::new());
        let receipt = probe.receipt(setting.rung);
        let attacker = match setting.image {
            Some(_) => Attacker::with_libraries(&exe, &base.join("libraries"))
                .map_err(failed("copies of the libraries of this program"))?,
            None => Attacker::plain(&exe),
        };
        let mut bench = Self { probe, setting, receipt, attacker, base };
        // Asked for once, so that a rung that is not to be had is one error and not one of each attack.
        let any = bench.scene(&Attack::NOTHING).map_err(failed("a scene"))?;
        let sandbox = bench.sandbox(&any)?;
        bench.receipt = sandbox.receipt().clone();
        Ok(bench)
    }

    fn scene(&self, attack: &'static Attack) -> io::Result<Scene> {
        Scene::new(attack, &self.setting, &self.base, &self.attacker.exe)
    }

    fn sandbox(&self, scene: &Scene) -> Result<Sandbox, Unavailable> {
        let profile = scene.profile(&self.attacker)?;
        Sandbox::new(&self.probe, profile, RungChoice::Exactly(self.setting.rung))
    }

    fn attempt(&self, attack: &'static Attack) -> Attempt {
        let verdict = self.verdict(attack).unwrap_or_else(|error| Verdict::Failed { why: error.to_string() });
        Attempt { name: attack.name, tries: attack.tries, breaks: attack.breaks, verdict }
    }

    fn verdict(&self, attack: &'static Attack) -> io::Result<Verdict> {
        let promised = attack.promised(&self.receipt);
        // Only a promise has a time by which it has to be kept.
        let grace = match (&promised, self.receipt.engine) {
            (Promised::Nothing { .. }, _) => Duration::ZERO,
            (_, None) => GRACE,
            // Its limit has room for the container to be made, and that is removed by asking.
            (_, Some(_)) => GRACE + STARTS + STARTS,
        };
        let contained = match self.contained(attack, grace)? {
            Ok(seen) => seen,
            Err(why) => return Ok(Verdict::Failed { why }),
        };
        let (by, seen) = match (promised, contained.evidence) {
            (Promised::Nothing { why }, seen) => return Ok(Verdict::NotPromised { why, seen }),
            (Promised::Fails { by } | Promised::Noticed { by }, seen) => (by, seen),
        };
        // Whatever the control says, this was not to be.
        if let Some(seen) = seen {
            return Ok(Verdict::Broken { by, seen });
        }
        let said = contained.said;
        Ok(match attack.control {
            Control::Harmful(why) => Verdict::NotExpressible { why: why.to_owned() },
            Control::Tended | Control::Plain => match self.control(attack)? {
                Seen { evidence: Some(_), .. } => Verdict::Held { by, said },
                Seen { said, .. } => Verdict::NotExpressible { why: said },
            },
        })
    }

    /// Runs an attack as the contained command. The inner error says that the command did not run.
    fn contained(&self, attack: &'static Attack, grace: Duration) -> io::Result<Result<Seen, String>> {
        let mut scene = self.scene(attack)?;
        let sandbox = match self.sandbox(&scene) {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let wants_hosts = attack.needs == Needs::Hosts || self.setting.network == Network::Hosts;
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", HOME), ("LANG", "C.UTF-8")];
        let command = Command {
            argv: self.attacker.argv.iter().cloned().chain(scene.arguments()).collect(),
            cwd: scene.stage.workspace.clone(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            wall: match (attack.judge, self.receipt.engine) {
                (Judge::Overruns, None) => SHORT,
                (Judge::Overruns, Some(_)) => SHORT + STARTS,
                (_, None) => LIMIT,
                (_, Some(_)) => LIMIT + STARTS,
            },
            keep_head: 64 * 1024,
            keep_tail: 64 * 1024,
            program: None,
            egress: (wants_hosts && self.receipt.can_dial()).then(some_host).transpose()?,
            reaches: Vec::new(),
            record_dir: scene.beside("records"),
        };
        let cancel = Cancel::new()?;
        let (live, ran) = std::thread::scope(|scope| {
            let run = scope.spawn(|| match self.setting.workspace {
                Workspace::Direct => sandbox.run(&command, &cancel),
                Workspace::Staged => sandbox.run_staged(&command, &cancel).map(|ran| ran.record),
            });
            let live = attack
                .judge
                .is_live()
                .then(|| observe(attack, &scene, grace, || run.is_finished()))
                .flatten();
            if attack.judge.is_live() {
                cancel.cancel();
            }
            (live, run.join())
        });
        let record = match ran {
            Ok(Ok(record)) => record,
            Ok(Err(error)) => return Ok(Err(error.to_string())),
            Err(_) => return Ok(Err("the thread that ran it panicked".to_owned())),
        };
        let output = [record.output.head.as_slice(), &record.output.tail].concat();
        let mut evidence = live.or_else(|| scene.traces(&output));
        if attack.judge == Judge::Lives {
            let left = Sighting::of(attack, &scene);
            // Counted is noticed.
            evidence = left.evidence().filter(|_| record.survivors == 0);
            end(attack, &scene);
        }
        let said = match record.ended {
            Ended::Capped(hit) => format!("ended: {hit}"),
            Ended::TimedOut { .. } => "ended at its limit of time".to_owned(),
            Ended::Signalled(signal) => format!("ended by signal {signal}"),
            _ => last_line(&output),
        };
        Ok(Ok(Seen { evidence, said }))
    }

    /// Runs an attack without containment.
    fn control(&self, attack: &'static Attack) -> io::Result<Seen> {
        let mut scene = self.scene(attack)?;
        let path = scene.beside("control/output");
        let output = File::create(&path)?;
        let live = match attack.control {
            Control::Plain => self.plain(attack, &scene, output)?,
            Control::Tended | Control::Harmful(_) => self.tended(attack, &scene, output)?,
        };
        let output = fs::read(&path)?;
        let evidence = live.or_else(|| scene.traces(&output));
        Ok(Seen { evidence, said: last_line(&output) })
    }

    fn tended(&self, attack: &'static Attack, scene: &Scene, output: File) -> io::Result<Option<String>> {
        let program = Program {
            path: self.attacker.exe.clone(),
            args: scene.arguments().into(),
            cwd: scene.stage.workspace.clone(),
            env: [
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("TMPDIR".into(), scene.beside("tmp").into_os_string()),
            ]
            .into(),
        };
        let (stderr, stdin) = (output.try_clone()?, File::open("/dev/null")?);
        let ends = Ends { stdin: stdin.into(), stdout: output.into(), stderr: stderr.into() };
        let tended = Tended::start(&program, ends).map_err(io::Error::other)?;
        let ended = OnceCell::new();
        let is_over = || {
            if ended.get().is_none()
                && let Some(how) = tended.ended()
            {
                let _ = ended.set(how);
            }
            ended.get().is_some()
        };
        if attack.judge.is_live() {
            return Ok(observe(attack, scene, Duration::ZERO, is_over));
        }
        let limit = Timespec { tv_sec: LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&tended.as_fd(), PollFlags::IN)], Some(&limit));
        // Dropped here: with it goes all that the attack left.
        Ok(None)
    }

    /// As a child like any other: with the caller's environment, its open descriptors, and nobody who cleans up.
    fn plain(&self, attack: &'static Attack, scene: &Scene, output: File) -> io::Result<Option<String>> {
        let mut child = std::process::Command::new(&self.attacker.exe)
            .args(scene.arguments())
            .env("TMPDIR", scene.beside("tmp"))
            .current_dir(&scene.stage.workspace)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let until = Instant::now() + LIMIT;
        while child.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let _ = child.wait();
        let left = Sighting::of(attack, scene);
        let evidence = (attack.judge == Judge::Lives).then(|| left.evidence()).flatten();
        end(attack, scene);
        Ok(evidence)
    }
}

/// Ends what an attack left behind: processes that have its token in their command lines.
fn end(attack: &'static Attack, scene: &Scene) {
    // Again where one forked meanwhile.
    for _ in 0..8 {
        let left = Sighting::of(attack, scene);
        if left.pids().is_empty() {
            return;
        }
        for pid in left.pids() {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
    }
}

/// Looks at an attack that has got where it wanted and waits there. What is watched at intervals has `grace` to be over.
fn observe(
    attack: &'static Attack,
    scene: &Scene,
    grace: Duration,
    is_over: impl Fn() -> bool,
) -> Option<String> {
    let held = scene.stage.work.join(attack::HELD);
    let until = Instant::now() + LIMIT;
    while !held.exists() {
        if is_over() || Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let patient = matches!(attack.judge, Judge::Takes(_) | Judge::Overruns);
    let until = Instant::now() + if patient { grace } else { Duration::ZERO };
    loop {
        let seen = Sighting::of(attack, scene).evidence()?;
        if is_over() {
            return None;
        }
        if Instant::now() >= until {
            return Some(seen);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What attacks dial is put on no record.
struct Unrecorded;

impl Record for Unrecorded {
    fn record(&self, _: HostDecision) -> Result<(), NotRecorded> {
        Ok(())
    }
}

/// A network of one host.
fn some_host() -> io::Result<Egress> {
    let layer = Layer::named("self-test").rule(Effect::Allow, SOME_HOST).map_err(io::Error::other)?;
    Ok(Egress::new(Policy::preset(Preset::Workspace).with(layer).into(), Arc::new(Unrecorded)))
}

/// The last thing that an attack said, for people.
fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(&output[output.len().saturating_sub(512)..]).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.strip_prefix("tried: ").unwrap_or(last).to_owned()
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// All attacks with what each rung promises of them on a host with this receipt, for documents and tests.
pub fn promises(receipt: &Receipt) -> Vec<(&'static str, String)> {
    attack::all()
        .filter(|attack| attack.applies(receipt))
        .map(|attack| {
            let promise = match attack.promised(receipt) {
                Promised::Fails { by } => format!("fails: {by}"),
                Promised::Noticed { by } => format!("is noticed and ended: {by}"),
                Promised::Nothing { why } => format!("not promised: {why}"),
            };
            (attack.name, promise)
        })
        .collect()
}

/// Names are the handle on attacks, so each has one of its own.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = attack::all().map(|attack| attack.name).collect();
        assert_eq!(names.len(), attack::all().count());
        assert!(names.len() >= 67, "{}", names.len());
    }
}
