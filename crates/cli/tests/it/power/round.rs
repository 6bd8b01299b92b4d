//! One round: a run whose driver is killed again and again until it comes to its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::power::account::{End, done_twice, unrecorded};
use crate::power::disk::{Cut, Disk, names};
use crate::power::rng::Rng;
use crate::power::stage::{Kill, Recorded, Setting, Stage};
use crate::support::{Ran, bodies, finish};

/// How many kills a round has at most, the likelier the more often it is here.
const DEPTHS: [u64; 6] = [1, 1, 1, 2, 2, 3];

/// Changes and syncs of the last part of a run.
const LATE: u64 = 150;

/// A run whose driver is left alone: what it comes to, and how long it takes.
pub(crate) struct Whole {
    end: End,
    /// From the driver's start to its end, and to the first event.
    time: Duration,
    start_up: Duration,
    steps: u64,
    setting: Setting,
}

impl Whole {
    pub(crate) fn new(setting: Setting) -> Self {
        // Twice: the first finds cold caches.
        let [_, whole] = std::array::from_fn(|_| {
            let stage = Stage::new(setting);
            let (begun, begun_at) = (Instant::now(), SystemTime::now());
            let ran = stage.run(Kill::Never).unwrap().code(0);
            let time = begun.elapsed();
            let steps = stage.disk.as_ref().map_or(0, Disk::steps);
            assert_eq!(steps > 0, stage.disk.is_some(), "the shim is at work");
            assert_eq!(unrecorded(&stage, stage.on_disk().as_ref()), [""; 0]);
            let journal = stage.env.journal(&ran.run());
            assert_eq!(done_twice(&stage, &ran.run(), &journal), [""; 0]);
            let first = UNIX_EPOCH + Duration::from_millis(journal[0]["at_ms"].as_u64().unwrap());
            let start_up = first.duration_since(begun_at).unwrap_or_default();
            Self { end: End::of(&stage, &ran.run(), &journal), time, start_up, steps, setting }
        });
        whole
    }
}

/// What a round came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    /// Drivers that were killed before they were done.
    pub(crate) kills: u64,
    /// Times that nothing of the run was recorded yet, so that it was begun anew.
    pub(crate) anew: u64,
    /// Times that a run waited because nobody could tell whether a command had run.
    pub(crate) waited: u64,
    /// Commands and gates that were cut short.
    pub(crate) interrupted: u64,
    /// Runs that were over before any kill met them.
    pub(crate) unmet: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.kills += other.kills;
        self.anew += other.anew;
        self.waited += other.waited;
        self.interrupted += other.interrupted;
        self.unmet += other.unmet;
    }
}

/// What a power cut does to the record of a command that has no end in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spool {
    Survives,
    /// The record of the exit is gone; that it started is still there.
    LosesExit,
    /// The folder is gone.
    LosesFolder,
}

/// A run on its way through one round.
pub(crate) struct Round<'a> {
    seed: u64,
    rng: Rng,
    whole: &'a Whole,
    stage: Stage,
    /// Acts whose records a power cut took.
    lost: BTreeSet<u64>,
    tally: Tally,
}

impl<'a> Round<'a> {
    pub(crate) fn new(seed: u64, whole: &'a Whole) -> Self {
        let stage = Stage::new(whole.setting);
        Self { seed, rng: Rng::new(seed), whole, stage, lost: BTreeSet::new(), tally: Tally::default() }
    }

    /// Plays the round to its end.
    pub(crate) fn play(mut self) -> Tally {
        self.tally.rounds = 1;
        let kills = self.rng.pick(&DEPTHS);
        let mut run = None;
        for kill in 0..=kills {
            let kill = if kill == kills { Kill::Never } else { self.choose_kill() };
            if let Some(ran) = self.drive(run.as_deref(), kill) {
                if self.tally.kills == 0 {
                    self.tally.unmet += 1;
                }
                self.over(&ran);
                return self.tally;
            }
            self.tally.kills += 1;
            run = self.after_kill().map(|recorded| recorded.run);
        }
        unreachable!("the last driver is not killed");
    }

    fn choose_kill(&mut self) -> Kill {
        let steps = self.whole.steps;
        if self.stage.disk.is_some() && self.rng.below(3) > 0 {
            // Most changes are made while the log is folded into the file, so half of the kills are aimed behind that.
            let from = self.rng.pick(&[0, steps.saturating_sub(LATE)]);
            Kill::Before(from + self.rng.below(steps - from))
        } else if self.rng.below(5) == 0 {
            Kill::After(self.rng.moment(self.whole.time))
        } else {
            // Most of the time is start-up; most of what can go wrong comes after it.
            let Whole { time, start_up, .. } = self.whole;
            Kill::After(*start_up + self.rng.moment(time.saturating_sub(*start_up)))
        }
    }

    fn drive(&mut self, run: Option<&str>, kill: Kill) -> Option<Ran> {
        if let Some(run) = run {
            return self.stage.resume(run, kill);
        }
        self.tally.anew += u64::from(self.tally.kills > 0);
        self.stage.run(kill)
    }

    /// Cuts the power, if it may be, and looks at what is left.
    fn after_kill(&mut self) -> Option<Recorded> {
        if let Some(disk) = &self.stage.disk {
            self.stage.settle();
            disk.cut(Cut::random(&mut self.rng), &mut self.rng);
        }
        let recorded = self.stage.on_disk();
        self.hold(&unrecorded(&self.stage, recorded.as_ref()));
        if let Some(Recorded { run, .. }) = &recorded
            && self.stage.disk.is_some()
        {
            self.lose_records(run);
        }
        recorded
    }

    /// The supervisor syncs nothing, so that a power cut may take what it wrote. It is moved, to be found again.
    fn lose_records(&mut self, run: &str) {
        let fate = self.rng.pick(&[Spool::Survives, Spool::LosesExit, Spool::LosesFolder]);
        for (act, folder) in self.stage.records(run) {
            let (from, to) = match fate {
                Spool::Survives => continue,
                Spool::LosesExit => (folder.join("exit.json"), self.kept(act).with_extension("json")),
                Spool::LosesFolder => (folder, self.kept(act)),
            };
            if from.exists() {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                if to.is_dir() {
                    // Lost before, and begun again since.
                    fs::remove_dir_all(&to).unwrap();
                }
                fs::rename(from, to).unwrap();
                self.lost.insert(act);
            }
        }
    }

    fn kept(&self, act: u64) -> PathBuf {
        self.stage.env.at(format!("tmp/lost/act-{act}"))
    }

    /// Gives back what the power cut took.
    fn find_records(&mut self, run: &str) {
        let spool = self.stage.env.store().with_extension("spool").join(run);
        fs::create_dir_all(&spool).unwrap();
        for act in std::mem::take(&mut self.lost) {
            let folder = spool.join(format!("act-{act}"));
            let (whole, exit) = (self.kept(act), self.kept(act).with_extension("json"));
            if whole.exists() {
                let _ = fs::remove_dir_all(&folder);
                fs::rename(whole, &folder).unwrap();
            }
            if exit.exists() {
                fs::create_dir_all(&folder).unwrap();
                fs::rename(exit, folder.join("exit.json")).unwrap();
            }
        }
    }

    /// A driver came to an end by itself.
    fn over(&mut self, ran: &Ran) {
        if ran.stderr.contains("panicked at") || !matches!(ran.code, 0 | 5) {
            self.hold(&[format!("an end that must not be\n{ran}")]);
        }
        let journal = self.stage.env.journal(&ran.run());
        match ran.code {
            5 => self.waits(ran, &journal),
            _ => self.done(ran, &journal),
        }
        let cut_short = |body: &&&Value| body["end"] == "interrupted";
        self.tally.interrupted = bodies(&journal, "act.finished").iter().filter(cut_short).count() as u64;
    }

    fn done(&mut self, ran: &Ran, journal: &[Value]) {
        let run = ran.run();
        self.hold(&End::of(&self.stage, &run, journal).complaints(&self.whole.end));
        self.hold(&done_twice(&self.stage, &run, journal));
        let tree = &bodies(journal, "run.finished")[0]["tree"]["sha1"];
        if *tree != self.stage.tree_id() {
            self.hold(&[format!("the journal ends at tree {tree}, git finds {}", self.stage.tree_id())]);
        }
        self.stage.env.assert_store_intact();
        self.stage.env.assert_no_processes();
        if self.rng.below(4) == 0 {
            self.verifies(&run);
        }
    }

    /// Evidence of it holds for a stranger.
    fn verifies(&self, run: &str) {
        let env = &self.stage.env;
        let key = env.public_key();
        let out = env.at("bundle").display().to_string();
        let _ = env.provost(["export", run, "--out", &out]).code(0);
        let mut verify = env.provost_command(["verify", &out, "--repo", "repository", "--key"]);
        verify.arg(key);
        let _ = finish(verify).code(0);
    }

    /// Nobody can tell whether a command ran: that is said, and it is not run again. With its record found, it goes on.
    fn waits(&mut self, ran: &Ran, journal: &[Value]) {
        self.tally.waited += 1;
        let run = ran.run();
        let last = ran.last();
        let waiting = last["waiting_act"].as_u64().unwrap_or(u64::MAX);
        let mut complaints = done_twice(&self.stage, &run, journal);
        if last["outcome"] != "waiting_for_decision" || !self.lost.contains(&waiting) {
            complaints.push(format!("it waits, and only the records of {:?} were lost\n{ran}", self.lost));
        }
        let has = |kind: &str| bodies(journal, kind).iter().any(|body| body["act"] == waiting);
        if !has("act.started") || has("act.finished") {
            complaints.push(format!("act {waiting} is not one that started and has no end"));
        }
        let asked = self.stage.asked().len();
        let again = self.stage.resume(&run, Kill::Never).unwrap().code(5);
        let starts = |events: &[Value]| bodies(events, "act.started").len();
        if starts(&self.stage.env.journal(&run)) != starts(journal) || self.stage.asked().len() != asked {
            complaints.push(format!("it went on without an answer\n{again}"));
        }
        self.hold(&complaints);

        self.find_records(&run);
        let ran = self.stage.resume(&run, Kill::Never).unwrap().code(0);
        self.done(&ran, &self.stage.env.journal(&run));
    }

    /// Fails the test if there are complaints, and says how to see them again.
    #[track_caller]
    fn hold(&self, complaints: &[String]) {
        assert!(
            complaints.is_empty(),
            "PROVOST_CRASH_SEED={} after {} kills:\n{}\nin the store's folder: {:?}",
            self.seed,
            self.tally.kills,
            complaints.join("\n"),
            names(self.stage.env.store().parent().unwrap())
        );
    }
}
