//! Governed sessions by the command line: from what is asked for to a branch that holds the result.

mod accept;
mod crash;
mod gates;
mod inside;
mod lapsed;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::{Package, Ran, Rehearsal, TestEnvironment, files_beneath, finish, text};

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

/// Tries what is not allowed, mends the library, has the tests run.
fn script() -> Value {
    json!({ "steps": [
        call("read_file", &json!({ "path": "src/lib.rs" })),
        call("write_file", &json!({ "path": "build.rs", "content": "fn main() {}\n" })),
        call("edit_file", &json!({ "path": "src/lib.rs", "old": "left - right", "new": "left + right" })),
        call("exec", &json!({ "argv": ["sh", "-c", "echo mended > notes.txt"] })),
        call("submit", &json!({ "summary": "mended" })),
    ] })
}

/// An author's repository, an authority's key, a runner's trust.
pub(crate) struct Governed {
    pub(crate) env: TestEnvironment,
    pub(crate) package: Package,
    pub(crate) model: Rehearsal,
    pub(crate) key: PathBuf,
    pub(crate) task: PathBuf,
    /// The verification that a session is asked for with.
    gate: &'static str,
}

impl Governed {
    pub(crate) fn new() -> Self {
        Self::playing(&script())
    }

    pub(crate) fn playing(script: &Value) -> Self {
        Self::rooted(|_| script.clone())
    }

    /// The same with a script that knows where this world lies.
    fn rooted(script: impl FnOnce(&Path) -> Value) -> Self {
        let env = TestEnvironment::new();
        let package = env.package();
        let model = env.rehearse(&script(env.root()));
        let key = env.at("authority");
        keygen(&env, &key);
        let task = env.at("issue.md");
        fs::write(&task, "The tests of this library fail. Mend the source.\n").unwrap();
        Self { env, package, model, key, task, gate: "grep -q 'left + right' src/lib.rs" }
    }

    fn judged_by(self, gate: &'static str) -> Self {
        Self { gate, ..self }
    }

    /// The words that ask for a session.
    fn asking(&self) -> Vec<String> {
        [
            "--repo",
            &self.package.repo.path.display().to_string(),
            "--scope",
            "package/",
            "--task",
            &self.task.display().to_string(),
            "--verify",
            self.gate,
            "--model",
            "rehearsal",
            "--base-url",
            &self.model.base_url,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    pub(crate) fn session(&self, verb: &str, more: &[&str]) -> Ran {
        let more = more.iter().map(|word| (*word).to_owned());
        self.env.provost(["session".to_owned(), verb.to_owned()].into_iter().chain(more))
    }

    /// A session of one's own, run to its end.
    pub(crate) fn own(&self, more: &[&str]) -> Ran {
        let mut args = self.asking();
        args.extend(["--key", &self.key.display().to_string(), "--yes"].map(str::to_owned));
        args.extend(more.iter().map(|word| (*word).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.session("run", &args)
    }

    /// A request that nobody has signed; its session's name, and its file.
    pub(crate) fn ask(&self, more: &[&str]) -> (String, PathBuf) {
        let request = self.env.at("s.request");
        let mut args = self.asking();
        args.extend(["--json", "-o", &request.display().to_string()].map(str::to_owned));
        args.extend(more.iter().map(|word| (*word).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let asked = self.session("init", &args).code(0).last();
        (text(&asked["session"]), request)
    }

    /// The request, signed by the authority.
    pub(crate) fn authorize(&self, request: &Path, more: &[&str]) -> PathBuf {
        let out = self.env.at("authorization.json");
        let (request, out_words, key) =
            (request.display().to_string(), out.display().to_string(), self.key.display().to_string());
        let mut args = vec![request.as_str(), "--key", &key, "-o", &out_words, "--yes"];
        args.extend(more);
        let _ = self.session("authorize", &args).code(0);
        out
    }

    /// Trusts the authority from here on.
    pub(crate) fn trust(&self) -> PathBuf {
        let trust = self.env.at("config/provost/trust");
        fs::create_dir_all(&trust).unwrap();
        let public = fs::read_to_string(self.key.with_extension("pub")).unwrap();
        fs::write(
            trust.join("allowed_signers"),
            format!("authority namespaces=\"provost-authorization\" {public}"),
        )
        .unwrap();
        trust
    }

    pub(crate) fn folder(&self, session: &str) -> PathBuf {
        self.env.at("state/provost/sessions").join(session)
    }

    pub(crate) fn only(&self) -> String {
        let rows = self.session("status", &["--json"]).code(0).json();
        assert_eq!(rows.len(), 1, "{rows:?}");
        text(&rows[0]["session"])
    }

    pub(crate) fn standing(&self, session: &str) -> String {
        text(&self.session("status", &[session, "--json"]).code(0).last()["standing"])
    }

    fn requests(&self) -> usize {
        fs::read_to_string(self.model.log()).unwrap_or_default().lines().count()
    }
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

pub(crate) fn keygen(env: &TestEnvironment, key: &Path) {
    let mut command = env.command("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(key);
    let _ = finish(command).code(0);
}

#[test]
fn one_person_runs_a_session_and_its_result_comes_onto_a_branch_and_nowhere_else() {
    let it = Governed::new();
    it.package.repo.write("package/src/secret.txt", "dirty-canary");
    let head = it.package.repo.head();
    let ran = it.own(&[]).code(0);
    assert!(ran.stderr.contains("REFUSED") || ran.stdout.contains("REFUSED"), "build.rs is refused\n{ran}");
    let session = it.only();
    assert_eq!(it.standing(&session), "closed");
    let folder = it.folder(&session);
    assert!(!folder.join("session.key").exists(), "the session's key is destroyed");
    let patch = fs::read_to_string(folder.join("result/changes.patch")).unwrap();
    assert!(patch.contains("+    left + right") && patch.contains("notes.txt"), "{patch}");
    assert!(!patch.contains("build.rs"), "{patch}");
    for file in files_beneath(&folder) {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(12).any(|window| window == b"dirty-canary"), "{}", file.display());
    }
    let repo = it.package.repo.path.display().to_string();
    let accept = [session.as_str(), "--repo", &repo, "--branch", "mended"];
    let _ = it.session("accept", &accept).code(2).says("does not know your name");
    it.package.repo.git(&["config", "user.name", "Recipient"]);
    it.package.repo.git(&["config", "user.email", "recipient@example.com"]);
    let _ = it.session("accept", &accept).code(0);
    assert_eq!(it.package.repo.head(), head, "HEAD stays");
    let shown = it.package.repo.git(&["show", "mended:package/src/lib.rs"]);
    assert!(shown.contains("left + right"));
    assert_eq!(it.package.repo.git(&["status", "--porcelain"]).trim(), "?? package/src/secret.txt");
    let _ = it
        .session("accept", &[&session, "--repo", &repo, "--branch", "mended"])
        .code(2)
        .says("is there already");
}

#[test]
fn duties_are_separated_and_a_closed_session_asks_nobody_again() {
    let it = Governed::new();
    let (session, request) = it.ask(&[]);
    let _ = it.session("run", &[&session]).code(3).says("is not authorized yet");
    let authorization = it.authorize(&request, &["--expires", "1h"]);
    let authorization = authorization.display().to_string();
    let _ =
        it.session("prepare", &[&session, "--authorization", &authorization]).code(2).says("allowed_signers");
    let _ = it.trust();
    let _ = it.session("prepare", &[&session, "--authorization", &authorization]).code(0);
    let _ = it.session("run", &[&session]).code(0);
    let asked = it.requests();
    assert!(asked > 0);
    let (one, two) = (it.env.at("one"), it.env.at("two"));
    let _ = it.session("result", &[&session, "-o", &one.display().to_string()]).code(0);
    let _ = it.session("run", &[&session]).code(0).says("nobody is asked again");
    let _ = it.session("result", &[&session, "-o", &two.display().to_string()]).code(0);
    assert_eq!(it.requests(), asked, "no request is made for a session that is closed");
    let bytes = |folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        files_beneath(folder)
            .into_iter()
            .map(|file| (file.strip_prefix(folder).unwrap().to_owned(), fs::read(&file).unwrap()))
            .collect()
    };
    assert_eq!(bytes(&one), bytes(&two));
}

#[test]
fn what_was_signed_is_held_against_session_runner_time_and_trust() {
    let it = Governed::new();
    let trust = it.trust();
    let (session, request) = it.ask(&[]);
    let good = it.authorize(&request, &[]);
    let prepare = |authorization: &Path, more: &[&str]| {
        let file = authorization.display().to_string();
        let mut args = vec![session.as_str(), "--authorization", &file];
        args.extend(more);
        it.session("prepare", &args)
    };
    // Another session's.
    let (other, _) = it.ask(&[]);
    let file = good.display().to_string();
    let _ = it.session("prepare", &[&other, "--authorization", &file]).code(3).says("`");
    // Another runner's.
    let _ = prepare(&good, &["--runner", "elsewhere"]).code(3).says("this one is `elsewhere`");
    // A byte of it changed.
    let mut bytes = fs::read(&good).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let tampered = it.env.at("tampered.json");
    fs::write(&tampered, bytes).unwrap();
    let _ = prepare(&tampered, &[]).code(3);
    // Signed by somebody who is not trusted.
    let stranger = it.env.at("stranger");
    keygen(&it.env, &stranger);
    let out = it.env.at("stranger.json");
    let _ = it
        .session(
            "authorize",
            &[
                &request.display().to_string(),
                "--key",
                &stranger.display().to_string(),
                "-o",
                &out.display().to_string(),
                "--yes",
            ],
        )
        .code(0);
    let _ = prepare(&out, &[]).code(3).says("0 of 1 needed");
    // Revoked by the trust folder.
    fs::write(trust.join("revoked"), format!("{session}\n")).unwrap();
    let _ = prepare(&good, &[]).code(3).says("revoked");
    fs::remove_file(trust.join("revoked")).unwrap();
    assert_eq!(it.standing(&session), "asked", "nothing has changed by all of it");
    // The accept that all of these are mutations of.
    let _ = prepare(&good, &[]).code(0);
    assert_eq!(it.standing(&session), "prepared");
}

#[test]
fn a_session_that_is_revoked_on_this_machine_is_not_carried_out() {
    let it = Governed::new();
    let _ = it.trust();
    let (session, request) = it.ask(&[]);
    let authorization = it.authorize(&request, &[]);
    let _ =
        it.session("prepare", &[&session, "--authorization", &authorization.display().to_string()]).code(0);
    let _ = it.session("revoke", &[&session, "--why", "the wrong commit"]).code(0);
    let _ = it.session("run", &[&session]).code(3).says("the wrong commit");
    assert_eq!(it.requests(), 0, "nobody was asked");
    assert_eq!(it.standing(&session), "revoked");
}

#[test]
fn the_qualification_accepts_what_it_has_to_and_refuses_the_rest() {
    let env = TestEnvironment::new();
    let out = env.at("evidence");
    let ran =
        env.provost(["session", "qualify", "--scoped", "--json", "-o", &out.display().to_string()]).code(0);
    let rows = ran.json();
    let rows: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "qualification.row").collect();
    assert!(rows.len() > 30, "{}", rows.len());
    assert!(rows.iter().all(|row| row["holds"] == true));
    assert!(rows.iter().any(|row| row["wanted"] == json!([8])));
    assert!(out.join("bundle/session/provenance.dsse.json").is_file());
}

#[test]
fn an_authorization_is_written_under_a_bare_name_and_never_over_something_else() {
    let it = Governed::new();
    let (_, request) = it.ask(&[]);
    let (request, key) = (request.display().to_string(), it.key.display().to_string());
    let sign = |out: &str, more: &[&str]| {
        let mut args = vec![request.as_str(), "--key", &key, "--yes", "-o", out];
        args.extend(more);
        it.session("authorize", &args)
    };
    let _ = sign("a.json", &[]).code(0);
    assert!(it.env.at("a.json").is_file() && it.env.at("a.json.sig").is_file());
    fs::write(it.env.at("precious"), "mine").unwrap();
    let _ = sign("precious", &[]).code(2).says("is there already");
    assert_eq!(fs::read_to_string(it.env.at("precious")).unwrap(), "mine");
    // A second authority signs the same bytes.
    let second = it.env.at("second");
    keygen(&it.env, &second);
    let second = second.display().to_string();
    let _ = it.session("authorize", &["a.json", "--key", &second, "--yes", "-o", "a.json"]).code(0);
    assert!(it.env.at("a.json.2.sig").is_file());
    let envelope: Value = serde_json::from_slice(&fs::read(it.env.at("a.json")).unwrap()).unwrap();
    assert_eq!(envelope["signatures"].as_array().unwrap().len(), 2);
}

/// Builds, writes the same file twice, leaves behind what git ignores above the scope.
fn untidy() -> Value {
    json!({ "steps": [
        call("write_file", &json!({ "path": "notes.txt", "content": "one\n" })),
        call("exec", &json!({ "argv": ["sh", "-c", "mkdir -p target/debug && echo o > target/debug/x.o && echo l > run.log"] })),
        call("read_file", &json!({ "path": "notes.txt" })),
        call("edit_file", &json!({ "path": "notes.txt", "old": "one", "new": "two" })),
        call("exec", &json!({ "argv": ["sh", "-c", "echo three >> notes.txt"] })),
        call("read_file", &json!({ "path": "src/lib.rs" })),
        call("edit_file", &json!({ "path": "src/lib.rs", "old": "left - right", "new": "left + right" })),
        call("submit", &json!({ "summary": "mended" })),
    ] })
}

#[test]
fn what_is_ignored_above_the_scope_and_what_builds_leave_is_no_part_and_each_step_is_done_again() {
    let it = Governed::playing(&untidy());
    let repo = &it.package.repo;
    fs::remove_file(repo.path.join("package/.gitignore")).unwrap();
    repo.write(".gitignore", "*.log\n");
    // A file that the rules leave out and the commit holds is part of it all the same.
    repo.write("package/kept.log", "kept\n");
    repo.git(&["add", "-f", "package/kept.log"]);
    let commit = repo.commit();
    let bundle = it.env.at("bundle");
    let _ = it.own(&["-o", &bundle.display().to_string()]).code(0);
    let patch = fs::read_to_string(bundle.join("changes.patch")).unwrap();
    assert!(
        patch.contains("notes.txt") && !patch.contains("run.log") && !patch.contains("target"),
        "{patch}"
    );
    let trust = it.env.at("config/provost/trust").display().to_string();
    let (dir, path) = (bundle.display().to_string(), repo.path.display().to_string());
    let task = it.task.display().to_string();
    let verify = |more: &[&str]| {
        let mut args = vec![
            "verify", &dir, "--repo", &path, "--rev", &commit, "--scope", "package/", "--task", &task,
            "--trust", &trust,
        ];
        args.extend(more);
        it.env.provost(args)
    };
    let again = verify(&["--replay", "--test"]).code(0);
    assert!(again.stdout.contains("2 commands left the same files, 0 others"), "{again}");
    // A recipient's key alone is no trust in who ordered it.
    let key = it.env.public_key().display().to_string();
    let _ = it.env.provost(["verify", &dir, "--key", &key, "--repo", &path]).code(2).says("--trust");
    // What a step left is looked at like everything else.
    let blob = fs::read_dir(bundle.join("blobs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&blob, "other").unwrap();
    let refused = verify(&["--json"]).code(8).last();
    assert_eq!(refused["code"], 16, "{refused}");
}
