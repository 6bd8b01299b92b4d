//! A bundle of `provost run --export`, checked by `provost verify`: what is refused, and by which claim (I7).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use provost::evidence::canonical::{sha256, to_canonical};
use provost::evidence::dsse;
use provost::evidence::keys::SigningKey;
use serde_json::{Value, json};

use crate::support::{Ran, Repo, TestEnvironment, files_beneath, finish, text};

const GATE: &str = "grep -q 'left + right' src/lib.rs";

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

fn script() -> Value {
    json!({ "steps": [
        call("read_file", &json!({ "path": "src/lib.rs" })),
        call("write_file", &json!({ "path": ".cargo/config.toml", "content": "[build]\n" })),
        call("edit_file", &json!({ "path": "src/lib.rs", "old": "left - right", "new": "left + right" })),
        call("write_file", &json!({ "path": "docs/why.md", "content": "It subtracted.\n" })),
        call("submit", &json!({ "summary": "mended" })),
    ] })
}

/// A run that is over, its bundle, and a recipient's clone of the repository it began with.
struct Evidence {
    env: TestEnvironment,
    repo: Repo,
    recipient: Repo,
    bundle: PathBuf,
    key: PathBuf,
    run: String,
}

impl Evidence {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let files = [
            ("package/src/lib.rs", "pub fn add(left: i64, right: i64) -> i64 {\n    left - right\n}\n"),
            ("README.md", "One library, in `package/`.\n"),
        ];
        let repo = env.repository("repository", &files);
        let recipient = repo.clone_to("recipient");
        let model = env.rehearse(&script());
        let bundle = env.at("bundle");
        let more = ["--verify", GATE, "--export", &bundle.display().to_string()];
        let run = env.run(&repo.path.join("package"), &model, &more).code(0).run();
        let key = env.public_key();
        Self { env, repo, recipient, bundle, key, run }
    }

    /// `provost verify` of `bundle` with the runner's key; `more` says what to hold it against.
    fn verify_with(&self, bundle: &Path, more: &[&str]) -> Ran {
        let (bundle, key) = (bundle.display().to_string(), self.key.display().to_string());
        let mut args = vec!["verify", &bundle, "--key", &key, "--json"];
        args.extend(more);
        self.env.provost(args)
    }

    /// Against the recipient's own repository.
    fn verify(&self, bundle: &Path) -> Ran {
        let repo = self.recipient.path.display().to_string();
        self.verify_with(bundle, &["--repo", &repo])
    }

    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.env.at(name);
        for file in files_beneath(&self.bundle) {
            let target = copy.join(file.strip_prefix(&self.bundle).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(file, target).unwrap();
        }
        copy
    }

    /// The runner's private key: what a dishonest runner has.
    fn signing_key(&self) -> SigningKey {
        SigningKey::read(&self.env.at("config/provost/runner.pem")).unwrap()
    }

    /// The signed statement.
    fn statement(&self) -> Value {
        let envelope = fs::read(self.bundle.join("result.dsse.json")).unwrap();
        let payload = dsse::verify(&envelope, &[self.signing_key().verifying_key()]).unwrap().payload;
        serde_json::from_slice(&payload).unwrap()
    }
}

/// What each claim came to: its name, and the reason where it does not hold.
fn findings(ran: &Ran) -> BTreeMap<String, Value> {
    let claims = ran.json().into_iter().filter(|line| line["kind"] == "claim");
    claims.map(|line| (text(&line["claim"]["id"]), line["claim"]["finding"].clone())).collect()
}

/// Fails the test unless the bundle is refused by exactly one claim; gives it and its reason.
#[track_caller]
fn refusal(ran: Ran) -> (String, String) {
    let ran = ran.code(8);
    assert_eq!(ran.last()["verified"], false, "{ran}");
    let failed: Vec<(String, String)> = findings(&ran)
        .into_iter()
        .filter(|(_, finding)| finding["is"] == "failed")
        .map(|(id, finding)| (id, text(&finding["why"])))
        .collect();
    assert_eq!(failed.len(), 1, "{ran}");
    failed.into_iter().next().unwrap()
}

fn write_lines(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().fold(String::new(), |text, line| text + line + "\n")).unwrap();
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_runs_bundle_verifies_and_is_the_same_however_often_it_is_written() {
    let evidence = Evidence::new();
    let ran = evidence.verify(&evidence.bundle).code(0);
    assert_eq!(ran.last()["verified"], true);
    let findings = findings(&ran);
    assert_eq!(findings.len(), 13);
    assert!(findings.values().all(|finding| finding["is"] == "held"), "{findings:?}");

    let again = evidence.env.at("again");
    let _ = evidence.env.provost(["export", &evidence.run, "--out", "again"]).code(0);
    let content = |root: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        let files = files_beneath(root);
        files
            .into_iter()
            .map(|file| (file.strip_prefix(root).unwrap().to_owned(), fs::read(&file).unwrap()))
            .collect()
    };
    assert_eq!(content(&again), content(&evidence.bundle));
}

/// Places in every file of the bundle, ends included; `provost-evidence` tries every one.
#[test]
fn i7_one_byte_changed_anywhere_is_refused() {
    let evidence = Evidence::new();
    let copy = evidence.copy("copy");
    let _ = evidence.verify(&copy).code(0);
    let mut tried = 0;
    for file in files_beneath(&copy) {
        let whole = fs::read(&file).unwrap();
        let name = file.strip_prefix(&copy).unwrap().display().to_string();
        let claim = match name.as_str() {
            "result.dsse.json" => "signature",
            "changes.patch" | "journal.jsonl" => "files",
            _ => "blobs",
        };
        for part in 0..=8 {
            let at = (whole.len() - 1) * part / 8;
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&file, &changed).unwrap();
            let (failed, why) = refusal(evidence.verify(&copy));
            assert_eq!(failed, claim, "byte {at} of {name}: {why}");
            tried += 1;
        }
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(tried, 9 * 6, "patch, journal, statement, and blobs before and after");
    let _ = evidence.verify(&copy).code(0);
}

type Tampering = fn(&Path);

#[test]
fn i7_each_change_from_outside_has_its_own_reason() {
    let evidence = Evidence::new();
    let cases: &[(&str, Tampering, &str)] = &[
        (
            "files",
            |b| {
                let mut all = lines(&b.join("journal.jsonl"));
                all.pop();
                write_lines(&b.join("journal.jsonl"), &all);
            },
            "`journal.jsonl` has the SHA-256",
        ),
        (
            "files",
            |b| {
                let mut all = lines(&b.join("journal.jsonl"));
                all.swap(3, 4);
                write_lines(&b.join("journal.jsonl"), &all);
            },
            "`journal.jsonl` has the SHA-256",
        ),
        (
            "files",
            |b| {
                let patch = fs::read_to_string(b.join("changes.patch")).unwrap();
                fs::write(b.join("changes.patch"), patch.replace("left + right", "left * right")).unwrap();
            },
            "`changes.patch` has the SHA-256",
        ),
        ("files", |b| fs::write(b.join("README"), "trust me\n").unwrap(), "`README` does not belong"),
        ("files", |b| fs::remove_file(b.join("changes.patch")).unwrap(), "`changes.patch` is missing"),
        (
            "blobs",
            |b| {
                let one = files_beneath(&b.join("blobs")).remove(0);
                fs::remove_file(one).unwrap();
            },
            "is missing",
        ),
        (
            "blobs",
            |b| fs::write(b.join("blobs").join("0".repeat(64)), "more\n").unwrap(),
            "does not belong in the bundle",
        ),
        ("signature", |b| fs::remove_file(b.join("result.dsse.json")).unwrap(), "is missing"),
    ];
    let mut reasons = BTreeSet::new();
    for (number, (claim, tamper, words)) in cases.iter().enumerate() {
        let copy = evidence.copy(&format!("copy-{number}"));
        let _ = evidence.verify(&copy).code(0);
        tamper(&copy);
        let (failed, why) = refusal(evidence.verify(&copy));
        assert_eq!(failed, *claim, "{why}");
        assert!(why.contains(words), "{why}");
        reasons.insert(why);
    }
    assert_eq!(reasons.len(), cases.len(), "{reasons:#?}");
}

/// A statement and its journal, in the hands of whoever holds the runner's key.
struct Forgery {
    statement: Value,
    journal: Vec<Value>,
    patch: Vec<u8>,
}

impl Forgery {
    /// Hashes the chain anew, so that it is unbroken whatever was done to the events.
    fn chain(&mut self) {
        let mut prev = json!("0".repeat(64));
        for (seq, event) in self.journal.iter_mut().enumerate() {
            event["seq"] = json!(seq);
            event["prev"] = prev;
            let fields = event.as_object_mut().unwrap();
            fields.remove("hash");
            let hash = sha256(&to_canonical(&*fields).unwrap()).to_string();
            fields.insert("hash".to_owned(), json!(hash));
            prev = json!(hash);
        }
        self.head();
    }

    /// Says in the statement where the journal ends.
    fn head(&mut self) {
        let hash = self.journal.last().unwrap()["hash"].clone();
        self.statement["predicate"]["events"] = json!(self.journal.len());
        self.statement["predicate"]["head"] = hash.clone();
        subject(&mut self.statement, "journal-head")["sha256"] = hash;
    }

    fn first(&mut self, kind: &str, is: impl Fn(&Value) -> bool) -> &mut Value {
        self.journal.iter_mut().find(|event| event["kind"] == kind && is(&event["body"])).unwrap()
    }

    /// Writes it over the bundle, with digests that fit, signed.
    fn write(mut self, bundle: &Path, key: &SigningKey) {
        let mut journal = Vec::new();
        for event in &self.journal {
            journal.extend(to_canonical(event).unwrap());
            journal.push(b'\n');
        }
        for (name, bytes) in [("journal.jsonl", &journal), ("changes.patch", &self.patch)] {
            subject(&mut self.statement, name)["sha256"] = json!(sha256(bytes).to_string());
            fs::write(bundle.join(name), bytes).unwrap();
        }
        let payload = to_canonical(&self.statement).unwrap();
        fs::write(bundle.join("result.dsse.json"), dsse::sign(dsse::IN_TOTO, &payload, &[key]).unwrap())
            .unwrap();
    }
}

fn subject<'a>(statement: &'a mut Value, name: &str) -> &'a mut Value {
    let subjects = statement["subject"].as_array_mut().unwrap();
    &mut subjects.iter_mut().find(|subject| subject["name"] == name).unwrap()["digest"]
}

type Lie = fn(&mut Forgery);

#[test]
fn i7_what_the_runner_itself_signs_must_still_fit_together() {
    let evidence = Evidence::new();
    let cases: &[(&str, Lie, &str)] = &[
        // The last event dropped: hidden from the statement, or said in it.
        ("head", |f| drop(f.journal.pop()), "events; signed are"),
        (
            "state",
            |f| {
                f.journal.pop();
                f.head();
            },
            "ends before the run is over",
        ),
        ("chain", |f| f.journal.swap(3, 4), "journal.jsonl"),
        ("chain", |f| f.journal[2]["at_ms"] = json!(1), "journal.jsonl"),
        (
            "policy",
            |f| {
                f.first("act.decided", |body| body["decision"]["effect"] == "deny")["body"]["decision"]["effect"] =
                    json!("allow");
                f.chain();
            },
            "journal.jsonl",
        ),
        (
            "state",
            |f| {
                f.first("model.answered", |_| true)["body"]["usage"]["output"] = json!(1);
                f.chain();
            },
            "usage",
        ),
        ("state", |f| f.statement["predicate"]["refusals"] = json!(0), "refusals"),
        ("patch", |f| f.patch.extend_from_slice(b"\n"), "`changes.patch` differs"),
        (
            "state",
            |f| subject(&mut f.statement, "tree")["gitTree"] = json!("0".repeat(40)),
            "the statement's subject `tree`",
        ),
        ("statement", |f| f.statement["predicateType"] = json!("urn:other:v1"), "urn:other:v1"),
        ("statement", |f| f.statement["predicate"]["and"] = json!("more"), "and"),
    ];
    let forge = |name: &str, lie: Lie| {
        let copy = evidence.copy(name);
        let journal = lines(&copy.join("journal.jsonl"));
        let mut forgery = Forgery {
            statement: evidence.statement(),
            journal: journal.iter().map(|line| serde_json::from_str(line).unwrap()).collect(),
            patch: fs::read(copy.join("changes.patch")).unwrap(),
        };
        lie(&mut forgery);
        forgery.write(&copy, &evidence.signing_key());
        copy
    };
    // Controls: signed again as it is, and with the chain hashed anew, it is what it was.
    for (name, same) in [("same", (|_| ()) as Lie), ("chained", Forgery::chain)] {
        let copy = forge(name, same);
        let _ = evidence.verify(&copy).code(0);
        let envelope = |bundle: &Path| fs::read(bundle.join("result.dsse.json")).unwrap();
        assert_eq!(envelope(&copy), envelope(&evidence.bundle));
    }
    let mut reasons = BTreeSet::new();
    for (number, (claim, lie, words)) in cases.iter().enumerate() {
        let copy = forge(&format!("lie-{number}"), *lie);
        let (failed, why) = refusal(evidence.verify(&copy));
        assert_eq!(failed, *claim, "lie {number}: {why}");
        assert!(why.contains(words), "lie {number}: {why}");
        reasons.insert(why);
    }
    assert_eq!(reasons.len(), cases.len(), "{reasons:#?}");
}

#[test]
fn only_a_key_that_the_recipient_trusts_counts() {
    let evidence = Evidence::new();
    let other = SigningKey::from_seed([9; 32]);
    let pem = evidence.env.at("other.pem");
    fs::write(&pem, other.verifying_key().to_pem().unwrap()).unwrap();
    let repo = evidence.recipient.path.display().to_string();
    let verify = |bundle: &Path, keys: &[&Path]| {
        let mut args = vec!["verify".to_owned(), bundle.display().to_string(), "--json".to_owned()];
        args.extend(["--repo".to_owned(), repo.clone()]);
        args.extend(keys.iter().flat_map(|key| ["--key".to_owned(), key.display().to_string()]));
        evidence.env.provost(args)
    };
    let (claim, why) = refusal(verify(&evidence.bundle, &[&pem]));
    assert_eq!(claim, "signature");
    let id = evidence.signing_key().verifying_key().key_id().to_string();
    assert!(why.contains(&id) && why.contains(&other.verifying_key().key_id().to_string()), "{why}");
    let ran = verify(&evidence.bundle, &[&pem, &evidence.key]).code(0);
    assert_eq!(ran.last()["signed_by"], id.as_str());

    // Signed again with another key, and again under the name of the trusted one.
    let copy = evidence.copy("resigned");
    let payload = to_canonical(&evidence.statement()).unwrap();
    let envelope = dsse::sign(dsse::IN_TOTO, &payload, &[&other]).unwrap();
    fs::write(copy.join("result.dsse.json"), &envelope).unwrap();
    let (claim, stranger) = refusal(verify(&copy, &[&evidence.key]));
    assert_eq!(claim, "signature");
    let mut named: Value = serde_json::from_slice(&envelope).unwrap();
    named["signatures"][0]["keyid"] = json!(id);
    fs::write(copy.join("result.dsse.json"), to_canonical(&named).unwrap()).unwrap();
    let (claim, impostor) = refusal(verify(&copy, &[&evidence.key]));
    assert_eq!(claim, "signature");
    assert_ne!(stranger, impostor);
    // Control: who trusts the other key accepts what it signed.
    fs::write(copy.join("result.dsse.json"), &envelope).unwrap();
    let _ = verify(&copy, &[&pem]).code(0);

    // What is no public key is no refusal but wrong use.
    let private = evidence.env.at("config/provost/runner.pem");
    let _ = verify(&evidence.bundle, &[&private]).code(2).says("runner.pem");
    let _ = verify(&evidence.bundle, &[&evidence.env.at("none.pem")]).code(2).says("none.pem");
    let _ = evidence.env.provost(["verify", "bundle", "--no-repo"]).code(2).says("--key");
}

#[test]
fn without_a_repository_it_says_what_it_did_not_check() {
    let evidence = Evidence::new();
    let ran = evidence.verify_with(&evidence.bundle, &["--no-repo"]).code(0);
    let found = findings(&ran);
    for (id, finding) in &found {
        let expected = if ["base", "tree"].contains(&id.as_str()) { "not_checked" } else { "held" };
        assert_eq!(finding["is"], expected, "{id}: {finding}");
    }
    // It does not check less of the rest.
    let copy = evidence.copy("copy");
    let patch = fs::read_to_string(copy.join("changes.patch")).unwrap();
    fs::write(copy.join("changes.patch"), patch.replace('+', "-")).unwrap();
    assert_eq!(refusal(evidence.verify_with(&copy, &["--no-repo"])).0, "files");
    // Outside of any repository it must be asked for.
    let _ = evidence.verify_with(&evidence.bundle, &[]).code(2).says("--no-repo");
}

#[test]
fn it_is_held_against_the_commit_and_not_the_checkout() {
    let evidence = Evidence::new();
    let commit = evidence.repo.head();
    // A recipient who went on, with other files in the work tree and in the newest commit.
    let repo = &evidence.recipient;
    repo.write("package/src/lib.rs", "pub fn add() {}\n");
    let newer = repo.commit();
    assert_ne!(newer, commit);
    repo.write("package/src/lib.rs", "dirty\n");
    let _ = evidence.verify(&evidence.bundle).code(0);

    // The same files under another commit: another history is not the one that the run began with.
    let other = evidence.env.repository(
        "other",
        &[
            ("package/src/lib.rs", "pub fn add(left: i64, right: i64) -> i64 {\n    left - right\n}\n"),
            ("README.md", "Another.\n"),
        ],
    );
    let against =
        |path: &Path| evidence.verify_with(&evidence.bundle, &["--repo", &path.display().to_string()]);
    let (claim, why) = refusal(against(&other.path));
    assert_eq!(claim, "base");
    assert!(why.contains(&commit), "{why}");
    fs::create_dir(evidence.env.at("plain")).unwrap();
    let _ = against(&evidence.env.at("plain")).code(2).says("git repository");
    let _ = against(&evidence.env.at("nowhere")).code(2).says("nowhere");
}

#[test]
fn a_run_on_uncommitted_files_is_not_held_to_be_one_on_the_commit() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "committed\n")]);
    let recipient = repo.clone_to("recipient").path.display().to_string();
    repo.write("b.txt", "not committed\n");
    let model = env.rehearse(&json!({ "steps": [
        call("write_file", &json!({ "path": "c.txt", "content": "new\n" })),
        call("submit", &json!({ "summary": "written" })),
    ] }));
    let _ = env.run(&repo.path, &model, &["--export", "bundle"]).code(0);
    let key = env.public_key().display().to_string();
    let verify = ["verify", "bundle", "--key", &key, "--json"];
    let (claim, why) = refusal(env.provost(verify.iter().copied().chain(["--repo", &recipient])));
    assert_eq!(claim, "base");
    assert!(why.contains("uncommitted"), "{why}");
    let _ = env.provost(verify.iter().copied().chain(["--no-repo"])).code(0);
}

#[test]
fn plain_git_makes_of_the_patch_the_tree_that_is_signed() {
    let evidence = Evidence::new();
    let clone = evidence.repo.clone_to("fresh");
    let statement = evidence.statement();
    let subjects = statement["subject"].as_array().unwrap();
    let signed = &subjects.iter().find(|subject| subject["name"] == "tree").unwrap()["digest"]["gitTree"];
    let scope = || {
        let tree = clone.git(&["write-tree"]).trim().to_owned();
        clone.git(&["rev-parse", &format!("{tree}:package")]).trim().to_owned()
    };
    assert_ne!(*signed, scope());
    let patch = evidence.bundle.join("changes.patch").display().to_string();
    clone.git(&["apply", "--index", &patch]);
    assert_eq!(*signed, scope());
    // And takes back what it gave.
    clone.git(&["apply", "--index", "--reverse", &patch]);
    assert_eq!(clone.git(&["status", "--porcelain"]), "");
}

#[test]
fn securesystemslib_reads_a_runs_attestation() {
    let python = std::env::var_os("PROVOST_TEST_PYTHON").expect(
        "PROVOST_TEST_PYTHON names no interpreter: run the tests by `./test`, which prepares one with securesystemslib",
    );
    let evidence = Evidence::new();
    let pem = evidence.env.at("other.pem");
    fs::write(&pem, SigningKey::from_seed([9; 32]).verifying_key().to_pem().unwrap()).unwrap();
    let check = |key: &Path| {
        let mut command = evidence.env.command(&python);
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/python/verify_dsse.py");
        command.arg(program).args([&evidence.bundle, key]);
        finish(command)
    };
    let id = evidence.signing_key().verifying_key().key_id().to_string();
    assert_eq!(check(&evidence.key).code(0).stdout.trim(), id);
    let _ = check(&pem).code(1).says("refused:");
}

#[test]
fn what_is_over_and_failed_can_be_proven_too() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "a\n")]);
    let model = env.rehearse(&json!({ "final": "I cannot." }));
    let more = ["--verify", "false", "--export", "bundle"];
    let ran = env.run(&repo.path, &model, &more).code(1);
    assert_eq!(ran.last()["verified"], false);
    let key = env.public_key().display().to_string();
    let repo = repo.path.display().to_string();
    let ran = env.provost(["verify", "bundle", "--key", &key, "--repo", &repo, "--json"]).code(0);
    // The evidence verifies; what it is evidence of is a run whose gate did not pass.
    assert_eq!(findings(&ran)["gate"]["is"], "not_checked");
    assert_eq!(ran.last()["result"]["verified"], false);
}

#[test]
fn what_somebody_else_changed_meanwhile_is_told_apart() {
    for (elsewhere, is) in [(None, "held"), (Some("b.txt"), "not_checked")] {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "a\n")]);
        repo.commit();
        let model = env.rehearse(&json!({ "steps": [
            call("write_file", &json!({ "path": "c.txt", "content": "c\n" })),
            call("submit", &json!({ "summary": "done" })),
        ] }));
        let run = env.run(&repo.path, &model, &["--policy", "strict"]).code(5).run();
        if let Some(name) = elsewhere {
            repo.write(name, "mine\n");
        }
        let _ = env.provost(["resume", &run, "--base-url", &model.base_url, "--approve", "0"]).code(0);
        let _ = env.provost(["export", &run, "--out", "bundle"]).code(0);
        let key = env.public_key().display().to_string();
        let at = repo.path.display().to_string();
        let ran = env.provost(["verify", "bundle", "--key", &key, "--repo", &at, "--json"]).code(0);
        assert_eq!(findings(&ran)["acts"]["is"], is, "{ran}");
        let shown = env.provost(["verify", "bundle", "--key", &key, "--repo", &at]).code(0);
        assert!(
            shown.stdout.contains("did: 1 write, 0 commands; 0 refused, 1 approved by resume"),
            "{shown}"
        );
        assert_eq!(shown.stdout.contains("`b.txt` also changed by no act of the run"), elsewhere.is_some());
    }
}
