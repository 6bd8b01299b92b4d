//! `provost store`: what it takes up, and what goes: only what was asked for, and only what nobody needs.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{call, exec, script, submit, with, write};
use crate::support::{
    Ran, Rehearsal, Repo, Running, TestEnvironment, contains, eventually, files_with, finish, text,
};

/// What the model says, and writes into a file.
const WORD: &str = "XYZZY-do-not-keep-me";

/// A store with a run that is over and one that waits for a person.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    over: String,
    waiting: String,
}

impl Case {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let steps = [with(exec(&["true"]), "say", WORD), write("b.txt", &WORD.repeat(500)), submit()];
        let model = env.rehearse(&script(steps));
        let over = env.run(&repo.path, &model, &[]).code(0).run();
        repo.git(&["clean", "-fdq"]);
        let waiting = env.run(&repo.path, &model, &["--policy", "strict"]).code(5).run();
        Self { env, repo, model, over, waiting }
    }

    fn store(&self, args: &[&str]) -> Ran {
        self.env.provost(["store"].iter().chain(args))
    }

    /// A run whose driver is at work: it waits for an answer of this model.
    fn driven(&self) -> (Running, Rehearsal, String) {
        let before = self.env.runs();
        let stalls =
            with(call("submit", json!({ "summary": "done" })), "fault", json!({ "stall_ms": 900_000 }));
        let model = self.env.rehearse(&script([stalls]));
        let dir = self.repo.clone_to("elsewhere").path;
        let driver = self.env.start(self.env.run_args(&dir, &model, &[]));
        eventually("the model is asked", || model.requests().len() == 1);
        let run = self.env.runs().into_iter().find(|run| !before.contains(run)).unwrap();
        (driver, model, run)
    }

    fn filtered(&self, ran: &Ran) -> String {
        let text = ran.to_string().replace(env!("CARGO_BIN_EXE_provost"), "provost");
        text.replace(&self.over, "[OVER]").replace(&self.waiting, "[WAITING]")
    }

    /// Numbers depend on the host, on the lengths of names, and on the hour.
    fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(&self.env.root().display().to_string(), "[ROOT]");
        settings.add_filter(r"r[0-9a-f]{12}-[0-9a-f]{10}", "[RUN]");
        settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "[MOMENT]");
        settings.add_filter(r"process \d+ on host `[^`]*`", "process [PID] on host `[HOST]`");
        settings.add_filter(r"\b[\d,]+ (bytes?|events?|blobs?|pages)\b", "[N] $1");
        settings.add_filter(r" +\[N\]", " [N]");
        settings.add_filter(r"[\d,]+ in (the file|its write-ahead log)", "[N] in $1");
        settings
    }

    fn snapshot(&self, name: &str, outputs: &[Ran]) {
        let all: Vec<String> = outputs.iter().map(|ran| self.filtered(ran)).collect();
        self.settings().bind(|| assert_snapshot!(name, all.join("\n\n")));
    }

    /// Fails the test if the waiting run is other than it was; that is the control of most tests.
    fn assert_waiting_goes_on(&self) {
        let ran = self.env.provost(["resume", &self.waiting, "--yes", "--json"]).code(0);
        assert_eq!(ran.last()["outcome"], "done", "{ran}");
    }
}

#[test]
fn what_it_takes_up() {
    let case = Case::new();
    let size = case.store(&["size"]).code(0);
    case.snapshot("what_it_takes_up", &[size]);

    let lines = case.store(&["size", "--json"]).code(0).json();
    let runs: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "run").collect();
    assert_eq!(runs.iter().map(|run| text(&run["run"])).collect::<Vec<_>>(), case.env.runs());
    let journal = case.env.provost(["log", &case.over, "--json"]).code(0).stdout;
    assert_eq!(runs[0]["events"], journal.lines().count());
    assert_eq!(runs[0]["event_bytes"], journal.lines().map(str::len).sum::<usize>());
    assert!(runs[0]["blob_bytes"].as_u64().unwrap() > 500 * WORD.len() as u64);
    assert_eq!((&runs[0]["content"], &runs[0]["state"]), (&json!("kept"), &json!("done")));
    let store = lines.last().unwrap();
    assert_eq!((&store["kind"], &store["format"]), (&json!("store"), &json!(3)));
    assert_eq!(store["file_bytes"], fs::metadata(case.env.store()).unwrap().len());
    assert_eq!(store["path"], case.env.store().display().to_string());
}

#[test]
fn a_run_is_deleted_whole_and_only_where_nobody_needs_it() {
    let case = Case::new();
    let spool = case.env.store().with_extension("spool").join(&case.over);
    fs::create_dir_all(spool.join("act-0")).unwrap();
    fs::write(spool.join("act-0/exit.json"), WORD).unwrap();
    let waiting = case.env.journal(&case.waiting);
    let (driver, _model, driven) = case.driven();
    let traces = || files_with(&case.env.at("state"), &case.over).len();
    assert!(traces() > 0, "the control");

    let outputs = [
        case.store(&["delete", &case.waiting]).code(2),
        case.store(&["delete", &driven, "--force"]).code(7),
        case.store(&["delete", &case.over]).code(0),
        case.store(&["delete", &case.over]).code(2),
        case.env.provost(["show", &case.over]).code(2),
    ];
    case.snapshot("delete", &outputs);
    assert!(!spool.exists());
    // Also from the log that the driver keeps open.
    assert_eq!(traces(), 0);
    assert_eq!(case.env.journal(&case.waiting), waiting);
    assert_eq!(case.env.journal(&driven)[0]["kind"], "run.created");

    // The controls: whoever drove it is gone, and the other is forced.
    let _ = driver.kill();
    let _ = case.store(&["delete", &driven]).code(2).says("is not over (running)");
    let _ = case.store(&["delete", &driven, "--force"]).code(0);
    case.assert_waiting_goes_on();
    let _ = case.store(&["delete", &case.waiting]).code(0);
    assert!(case.env.runs().is_empty());
    assert_eq!(files_with(&case.env.at("state"), WORD), Vec::<std::path::PathBuf>::new());
    case.env.assert_store_intact();
}

#[test]
fn a_sweep_deletes_what_is_over_and_old_and_says_what_it_keeps() {
    let case = Case::new();
    let over = case.store(&["size", "--json"]).code(0).json().remove(0);
    // By somebody else's calendar: the moment of the newest event, and the millisecond after it.
    let at = |ms: u64| {
        let mut date = case.env.command("date");
        date.args(["-u", "+%Y-%m-%dT%H:%M:%S.%3NZ", "-d", &format!("@{}.{:03}", ms / 1_000, ms % 1_000)]);
        finish(date).code(0).stdout.trim().to_owned()
    };
    let newest = over["newest_ms"].as_u64().unwrap();
    let (exactly, after) = (at(newest), at(newest + 1));

    let young = case.store(&["sweep", "--before", &exactly]).code(0);
    assert!(young.stdout.starts_with("deleted 0 runs"), "{young}");
    let would = case.store(&["sweep", "--before", &after, "--dry-run"]).code(0);
    assert!(would.stdout.contains(&format!("would delete {}", case.over)), "{would}");
    assert_eq!(case.env.runs().len(), 2, "nothing is deleted yet");

    let outputs = [
        case.store(&["sweep", "--before", "2999-01-01", "--dry-run"]).code(0),
        case.store(&["sweep", "--before", "2999-01-01"]).code(0),
        case.store(&["sweep", "--before", "2999-01-01"]).code(0),
        case.store(&["sweep", "--before", "yesterday"]).code(2),
        case.store(&["sweep"]).code(2),
    ];
    case.snapshot("sweep", &outputs);
    assert_eq!(case.env.runs(), [case.waiting.as_str()]);
    case.assert_waiting_goes_on();
    let _ = case.store(&["sweep", "--before", "2999-01-01T00:00:00+01:00"]).code(0);
    assert!(case.env.runs().is_empty(), "the control: it is over now");
}

#[test]
fn an_archived_run_has_no_words_and_its_numbers_and_earlier_evidence_hold() {
    let case = Case::new();
    let key = case.env.public_key().display().to_string();
    let export = |name: &str| case.env.provost(["export", &case.over, "--out", name]);
    let _ = export("bundle").code(0);
    let journal = case.env.journal(&case.over);
    let before = case.env.show(&case.over);
    // The control of the search below, and of the log.
    assert!(contains(&fs::read(case.env.store()).unwrap(), WORD.as_bytes()));
    assert!(case.env.provost(["log", &case.over]).code(0).stdout.contains(WORD));

    let archived = case.store(&["archive", &case.over]).code(0);
    let outputs = [
        archived,
        case.store(&["archive", &case.over]).code(0),
        export("again").code(8),
        case.store(&["archive", &case.waiting]).code(2),
    ];
    case.snapshot("archive", &outputs);
    assert!(!case.env.at("again").exists());

    // Its numbers and its chain are as they were.
    assert_eq!(case.env.journal(&case.over), journal);
    let mut after = case.env.show(&case.over);
    assert_eq!(after["goal"], Value::Null);
    after["goal"] = before["goal"].clone();
    assert_eq!(after, before);
    let show = case.env.provost(["show", &case.over]).code(0);
    assert!(show.stdout.contains("goal: (dropped)"), "{show}");
    let log = case.env.provost(["log", &case.over]).code(0);
    assert!(log.stdout.contains("exec true") && !log.stdout.contains(WORD), "{log}");
    let act = case.env.provost(["log", &case.over, "--act", "1"]).code(0);
    assert!(act.stdout.contains("(dropped)"), "{act}");
    let size = case.store(&["size", "--json"]).code(0).json();
    assert_eq!((&size[0]["content"], &size[0]["blobs"]), (&json!("dropped"), &json!(0)));

    // What was exported before verifies as ever.
    let clone = case.repo.clone_to("clone").path.display().to_string();
    let _ = case.env.provost(["verify", "bundle", "--key", &key, "--repo", &clone]).code(0);
    case.assert_waiting_goes_on();
}

#[test]
fn a_run_that_waits_is_archived_by_force_and_cannot_be_resumed_then() {
    let case = Case::new();
    let _ = case.store(&["archive", &case.waiting, "--force"]).code(0);
    let _ = case.env.provost(["resume", &case.waiting, "--yes"]).code(8).says("dropped");
    let _ = case.env.provost(["log", &case.waiting]).code(0);
    // Nobody but the runs' blobs had these words.
    let _ = case.store(&["archive", &case.over]).code(0);
    assert_eq!(files_with(&case.env.at("state"), WORD), Vec::<std::path::PathBuf>::new());
    assert_eq!(files_with(&case.env.at("state"), "Mend it."), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_store_is_compacted_when_nobody_drives() {
    let case = Case::new();
    let waiting = case.env.journal(&case.waiting);
    let _ = case.store(&["delete", &case.over]).code(0);
    let (driver, _model, driven) = case.driven();
    let refused = case.store(&["compact"]).code(7);
    let _ = driver.kill();
    let before = case.store(&["size", "--json"]).code(0).last();
    assert!(before["free_pages"].as_u64().unwrap() > 0);
    let compacted = case.store(&["compact"]).code(0);
    case.snapshot("compact", &[refused, compacted]);
    let after = case.store(&["size", "--json"]).code(0).last();
    assert_eq!(after["free_pages"], 0);
    assert!(after["file_bytes"].as_u64() < before["file_bytes"].as_u64());
    assert_eq!(case.env.journal(&case.waiting), waiting);
    assert_eq!(case.env.runs(), [case.waiting.clone(), driven]);
    case.env.assert_store_intact();
    case.assert_waiting_goes_on();
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let case = Case::new();
    let nowhere = case.env.at("nowhere.db");
    for args in [
        &["size"] as &[&str],
        &["delete", "r0"],
        &["sweep", "--before", "2999-01-01"],
        &["archive", "r0"],
        &["compact"],
    ] {
        let nowhere = nowhere.display().to_string();
        let args = [args, &["--store", &nowhere]].concat();
        let _ = case.store(&args).code(2).says("no store at");
    }
    assert!(!nowhere.exists());
}
