//! `provost demo`: the main job, end to end. Only the model's decisions are recorded; the wire that they come over,
//! the door, the sandbox, cargo, git, the journal and the signatures are the real ones.

mod git;
pub(super) mod package;
mod rehearsal;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost::agent::{Always, Ending, Order, command_environment, export, toolchain_folders};
use provost::core::budget::{Budget, Price};
use provost::core::contract::{Contract, Gate, Source};
use provost::core::path::RelPath;
use provost::core::policy::{Policy, Preset};
use provost::evidence::git::Repository;
use provost::evidence::keys::{SigningKey, VerifyingKey};
use provost::evidence::verify::{ClaimId, Finding, Require, verify};
use provost::sandbox::{Cancel, Command, Ended, Profile, RungChoice, Sandbox};
use serde_json::json;

pub(super) use self::git::git;
pub(super) use self::rehearsal::Rehearsal;
use super::model_choice::ModelChoice;
use super::output::Output;
use super::routing::Models;
use super::setup::{Place, host, interrupt, probe, runtime};
use super::verify::claim_lines;
use crate::args::{Demo, Wire};
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, duration, say};
use crate::world::World;
use std::sync::Arc;

/// Where everything lies.
struct Layout {
    root: PathBuf,
}

impl Layout {
    fn make(out: Option<PathBuf>) -> Result<Self, Failure> {
        let root = match out {
            Some(out) => out,
            None => fresh_name()?,
        };
        if root.exists() && fs::read_dir(&root).at(&root)?.next().is_some() {
            return Err(Failure::usage(format!("`{}` is not empty", root.display()))
                .hint("name a new folder with --out"));
        }
        fs::create_dir_all(&root).at(&root)?;
        Ok(Self { root: root.canonicalize().at(&root)? })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// The first of `provost-demo`, `provost-demo-2`, … that does not exist.
fn fresh_name() -> Result<PathBuf, Failure> {
    (1..1000)
        .map(|n| PathBuf::from(if n == 1 { "provost-demo".to_owned() } else { format!("provost-demo-{n}") }))
        .find(|path| !path.exists())
        .ok_or_else(|| Failure::usage("there are too many demo folders here").hint("name one with --out"))
}

/// Says what happens, to people or to programs.
struct Say {
    json: bool,
}

impl Say {
    fn heading(&self, text: &str) {
        if !self.json {
            say!("\n{text}");
        }
    }

    fn line(&self, text: &str) {
        if !self.json {
            say!("  {text}");
        }
    }

    fn fact(&self, kind: &str, mut value: serde_json::Value) {
        if self.json {
            value["kind"] = json!(format!("demo.{kind}"));
            JsonLines::say(&value);
        }
    }
}

pub(crate) async fn demo(world: &World, args: Demo) -> Result<u8, Failure> {
    let begun = Instant::now();
    check_cargo()?;
    let layout = Layout::make(args.out)?;
    let say = Say { json: args.json };

    say.heading("1. A repository with a broken library");
    let commit = make_repository(&layout)?;
    say.line(&format!(
        "`{}`, commit {commit}; `package/` holds the library",
        layout.at("repository").display()
    ));
    say.line("a file that is not committed holds a canary: nothing of it may reach the run");
    say.fact("repository", json!({ "path": layout.at("repository"), "commit": commit }));

    say.heading("2. The agent works on the committed subtree");
    let keys = Keys::make(&layout)?;
    let place = Place::at(&layout.at("store/provost.db"))?;
    let (run, ending) = work(world, &layout, &place, &commit, args.json).await?;
    if ending.exit_code() != 0 {
        return Ok(ending.exit_code());
    }

    say.heading("3. The evidence");
    let bundle = layout.at("bundle");
    let exported =
        export(place.store.as_ref(), &run, &keys.runner, &bundle).await.map_err(Failure::internal)?;
    say.line(&format!("`{}`, signed by key {}", bundle.display(), exported.key_id));
    let patch = fs::read_to_string(bundle.join("changes.patch")).at(&bundle)?;
    for line in patch.lines() {
        say.line(&format!("  {line}"));
    }
    say.fact("exported", json!({ "bundle": bundle, "key_id": exported.key_id, "patch": patch }));

    say.heading("4. The recipient, with a checkout and the runner's public key");
    let accepted = receive(world, &layout, &commit, &bundle, &say)?;

    say.heading("5. Nothing leaked");
    let leaks = find_canary(&layout)?;
    if leaks.is_empty() {
        say.line("the canary is in no byte of store, bundle and requests");
    }
    for leak in &leaks {
        say.line(&format!("LEAK: the canary is in `{}`", leak.display()));
    }

    let code = if accepted && leaks.is_empty() { 0 } else { 8 };
    if !accepted {
        say.heading("The recipient did not get what it should: see part 4.");
    }
    say.heading(&format!(
        "Done in {}. Everything lies in `{}`:",
        duration(begun.elapsed().as_millis() as u64),
        layout.root.display()
    ));
    for (name, what) in [
        ("repository", "the author's repository, untouched"),
        ("workspace", "where the agent worked"),
        ("store/provost.db", "the journal (`provost log RUN --store …`)"),
        ("bundle", "patch, journal and attestation"),
        ("recipient", "the recipient's checkout with the patch applied"),
        ("keys", "the runner's key pair, and a stranger's public key"),
        ("requests.ndjson", "what the model was sent"),
    ] {
        say.line(&format!("{name:<18} {what}"));
    }
    say.fact(
        "done",
        json!({
            "outcome": ending.word(),
            "exit_code": code,
            "run": run.as_str(),
            "duration_ms": begun.elapsed().as_millis() as u64,
            "folder": layout.root,
            "leaks": leaks,
        }),
    );
    Ok(code)
}

/// The demonstration compiles and tests, so it needs a cargo that works.
fn check_cargo() -> Result<(), Failure> {
    let hint = "install a Rust toolchain, or put it on PATH";
    let tried = std::process::Command::new("cargo").arg("--version").output();
    let output = tried.map_err(|error| Failure::usage(format!("cargo cannot be run: {error}")).hint(hint))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Failure::usage(format!("cargo does not work: {}", words.trim())).hint(hint))
}

fn make_repository(layout: &Layout) -> Result<String, Failure> {
    let repository = layout.at("repository");
    for (name, content) in package::FILES {
        let path = repository.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).at(folder)?;
        }
        fs::write(&path, content).at(&path)?;
    }
    git(&repository, &["init", "-q"])?;
    git(&repository, &["add", "-A"])?;
    git(&repository, &["commit", "-q", "-m", "A library of sums"])?;
    let canary = repository.join("package/notes.txt");
    fs::write(&canary, format!("{}\n", package::CANARY)).at(&canary)?;
    Ok(git(&repository, &["rev-parse", "HEAD"])?.trim().to_owned())
}

struct Keys {
    runner: SigningKey,
}

impl Keys {
    fn make(layout: &Layout) -> Result<Self, Failure> {
        let folder = layout.at("keys");
        fs::create_dir_all(&folder).at(&folder)?;
        let runner = SigningKey::generate().map_err(Failure::internal)?;
        runner.write_private(&folder.join("runner.pem")).map_err(Failure::usage)?;
        let stranger = SigningKey::generate().map_err(Failure::internal)?;
        for (name, key) in
            [("runner.pub.pem", runner.verifying_key()), ("stranger.pub.pem", stranger.verifying_key())]
        {
            let path = folder.join(name);
            fs::write(&path, key.to_pem().map_err(Failure::internal)?).at(&path)?;
        }
        Ok(Self { runner })
    }
}

async fn work(
    world: &World,
    layout: &Layout,
    place: &Place,
    commit: &str,
    json: bool,
) -> Result<(provost::core::id::RunId, Ending), Failure> {
    let script = layout.at("script.json");
    fs::write(&script, package::SCRIPT).at(&script)?;
    let rehearsal = Rehearsal::start(&script, &layout.at("requests.ndjson"))?;
    let model = ModelChoice {
        wire: Wire::Openai,
        name: "rehearsal".to_owned(),
        base_url: rehearsal.base_url.clone(),
        key_env: None,
        provider: None,
        window: None,
        cassette: None,
    };

    let repository = Repository::discover(&layout.at("repository")).map_err(Failure::internal)?;
    let scope = RelPath::parse("package").map_err(Failure::internal)?;
    let workspace = layout.at("workspace");
    repository.export(commit, &scope, &workspace).map_err(Failure::internal)?;

    let contract = Contract::new(package::GOAL)
        .policy(Policy::preset(Preset::Workspace))
        .budget(Budget {
            steps: Some(20),
            tokens: Some(100_000),
            cost_micros: Some(1_000_000),
            time_ms: Some(300_000),
        })
        .price(Price::flat(3_000_000, 15_000_000))
        .gate(Gate::command(["cargo", "test", "--offline"].map(str::to_owned).to_vec()));
    let order = Order {
        contract,
        workspace,
        source: Source::Commit { commit: commit.to_owned(), scope },
        repository: Some(layout.at("repository")),
    };
    let output = Output::new(json);
    let (models, later) = (Models::only(model), Arc::new(Always::LATER));
    let runtime = runtime(world, place, &models, &order.workspace, output.observer(), later)?;
    let (run, ending) = runtime.start(order, interrupt()?).await?;
    let _ = output.ended(place, &run, &ending, None).await?;
    Ok((run, ending))
}

/// What a recipient does. Says whether all of it went as it should.
fn receive(world: &World, layout: &Layout, commit: &str, bundle: &Path, say: &Say) -> Result<bool, Failure> {
    let recipient = layout.at("recipient");
    let source = layout.at("repository").display().to_string();
    git(&layout.root, &["clone", "-q", "--no-hardlinks", "--no-checkout", &source, "recipient"])?;
    git(&recipient, &["checkout", "-q", commit])?;

    let base = Repository::discover(&recipient).map_err(Failure::internal)?;
    let runner = VerifyingKey::read(&layout.at("keys/runner.pub.pem")).map_err(Failure::usage)?;
    let report = verify(bundle, &[runner], Some(&base), Require::Repository);
    for line in claim_lines(&report) {
        say.line(line.trim_start());
    }
    for claim in &report.claims {
        say.fact("claim", json!({ "claim": claim }));
    }
    if !report.ok() {
        return Ok(false);
    }

    let stranger = VerifyingKey::read(&layout.at("keys/stranger.pub.pem")).map_err(Failure::usage)?;
    let refused = verify(bundle, &[stranger], Some(&base), Require::Repository);
    let refusal = match refused.finding(ClaimId::Signature) {
        Finding::Failed(reason) => reason.clone(),
        _ => String::new(),
    };
    say.line(&format!("with a stranger's key it is refused: {refusal}"));
    say.fact("stranger", json!({ "refused": !refused.ok(), "reason": refusal }));

    let before = cargo_test(world, layout, &recipient.join("package"), "before")?;
    git(&recipient, &["apply", "--index", &bundle.join("changes.patch").display().to_string()])?;
    let after = cargo_test(world, layout, &recipient.join("package"), "after")?;
    say.line(&format!("tests before: {}", before.summary));
    say.line(&format!("tests after:  {}", after.summary));
    say.fact("tests", json!({ "before": before.summary, "after": after.summary }));
    Ok(!refused.ok() && !refusal.is_empty() && !before.passed && after.passed)
}

struct Tests {
    passed: bool,
    summary: String,
}

/// The recipient's own tests: contained as well, for they are somebody's code.
fn cargo_test(world: &World, layout: &Layout, dir: &Path, name: &str) -> Result<Tests, Failure> {
    let host = host(world);
    let mut profile = Profile::for_workspace(dir).map_err(Failure::internal)?;
    profile.readable.extend(toolchain_folders(&host, &profile.workspace));
    let rungs = RungChoice::Strongest { at_least: provost::core::containment::Rung::R0 };
    let sandbox = Sandbox::new(&probe(world), profile, rungs).map_err(Failure::internal)?;
    let record_dir = layout.at("store").join(format!("recipient-{name}"));
    fs::create_dir_all(&record_dir).at(&record_dir)?;
    let env = command_environment(&host);
    let command = Command {
        program: None,
        argv: ["cargo", "test", "--offline"].map(Into::into).to_vec(),
        cwd: dir.to_owned(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        wall: Duration::from_mins(5),
        keep_head: 16 * 1024,
        keep_tail: 16 * 1024,
        egress: None,
        reaches: Vec::new(),
        record_dir: record_dir.clone(),
    };
    let cancel = Cancel::new().map_err(Failure::internal)?;
    let record = sandbox.run(&command, &cancel).map_err(Failure::internal)?;
    fs::remove_dir_all(&record_dir).at(&record_dir)?;
    let mut output = record.output.head;
    output.extend_from_slice(&record.output.tail);
    let text = String::from_utf8_lossy(&output);
    let summary = text
        .lines()
        .find(|line| line.starts_with("test result:"))
        .or_else(|| text.lines().rev().find(|line| !line.trim().is_empty()))
        .map_or_else(|| "no output".to_owned(), str::to_owned);
    Ok(Tests { passed: record.ended == Ended::Exited(0), summary })
}

/// Files of store, bundle and requests that hold the canary.
fn find_canary(layout: &Layout) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for name in ["store", "bundle", "requests.ndjson", "workspace"] {
        search(&layout.at(name), &mut found)?;
    }
    Ok(found)
}

fn search(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let meta = fs::symlink_metadata(path).at(path)?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).at(path)? {
            search(&entry.at(path)?.path(), found)?;
        }
    } else if meta.is_file() {
        let bytes = fs::read(path).at(path)?;
        let canary = package::CANARY.as_bytes();
        if bytes.windows(canary.len()).any(|window| window == canary) {
            found.push(path.to_owned());
        }
    }
    Ok(())
}
