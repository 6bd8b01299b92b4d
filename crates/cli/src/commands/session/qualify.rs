//! `provost session qualify`: the whole of a governed session on this host, with what has to be accepted and what has to
//! be refused.
//!
//! The model's decisions are scripted, and come over the real wire from a local server. Everything else is the real thing:
//! this very program, started as its users start it, the sandbox, git, cargo, the signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use provost::evidence::keys::SigningKey;
use provost::evidence::ssh;
use serde_json::{Value, json};

use crate::args::Qualify;
use crate::commands::demo::{Rehearsal, git, package};
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, duration, say};

/// Longest that is waited for something to happen.
const PATIENCE: Duration = Duration::from_mins(3);

/// One thing that was tried.
struct Row {
    what: &'static str,
    wanted: &'static [i32],
    found: i32,
    /// Words that its output has to hold.
    words: &'static str,
    said: String,
}

impl Row {
    fn holds(&self) -> bool {
        self.wanted.contains(&self.found) && self.said.contains(self.words)
    }
}

struct Qualification {
    root: PathBuf,
    rows: Vec<Row>,
    json: bool,
}

pub(super) fn qualify(args: &Qualify) -> Result<u8, Failure> {
    let begun = Instant::now();
    if args.out.exists() && fs::read_dir(&args.out).at(&args.out)?.next().is_some() {
        return Err(Failure::usage(format!("`{}` is not empty", args.out.display())));
    }
    fs::create_dir_all(&args.out).at(&args.out)?;
    let root = args.out.canonicalize().at(&args.out)?;
    let mut it = Qualification { root, rows: Vec::new(), json: args.json };
    it.prepare()?;
    it.carry_out(args.scoped)?;
    it.receive(args.scoped)?;
    let failed = it.rows.iter().filter(|row| !row.holds()).count();
    let (tried, took) = (it.rows.len(), begun.elapsed().as_millis() as u64);
    if args.json {
        JsonLines::say(
            &json!({ "kind": "qualification", "tried": tried, "failed": failed, "duration_ms": took }),
        );
    } else {
        say!("");
        say!(
            "{tried} tried, {failed} not as they have to be, in {}; everything lies in `{}`",
            duration(took),
            it.root.display()
        );
    }
    Ok(if failed == 0 { 0 } else { 8 })
}

impl Qualification {
    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    /// This program, with everything of its own beneath the folder.
    fn command(&self, args: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe().map_err(Failure::internal)?);
        command
            .args(args)
            .env("PROVOST_SESSIONS", self.at("sessions"))
            .env("PROVOST_TRUST", self.at("trust"))
            .env("PROVOST_STORE", self.at("store/provost.db"))
            .env("PROVOST_RUNNER", "qualification")
            .env_remove("PROVOST_BASE_URL")
            .env_remove("PROVOST_MODEL")
            .env_remove("PROVOST_PROVIDER")
            .current_dir(&self.root)
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Has something tried, and holds its end against what it has to be.
    fn row(
        &mut self,
        what: &'static str,
        wanted: &'static [i32],
        words: &'static str,
        args: &[&str],
    ) -> Result<String, Failure> {
        let output = self.command(args)?.output().map_err(Failure::internal)?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        self.noted(Row { what, wanted, found: output.status.code().unwrap_or(-1), words, said });
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn noted(&mut self, row: Row) {
        let verdict = if row.holds() { "ok" } else { "NOT AS IT HAS TO BE" };
        if self.json {
            JsonLines::say(&json!({
                "kind": "qualification.row", "what": row.what, "wanted": row.wanted, "exit_code": row.found,
                "holds": row.holds(),
            }));
        } else {
            let kind = if row.wanted == [0] { "accept" } else { "refuse" };
            say!("{kind}  {:<58} exit {:<3} {verdict}", row.what, row.found);
            if !row.holds() {
                for line in row.said.lines().take(12) {
                    say!("        | {line}");
                }
            }
        }
        self.rows.push(row);
    }

    fn prepare(&self) -> Result<(), Failure> {
        let repository = self.at("repository");
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
        git(&self.root, &["clone", "-q", "--no-hardlinks", &self.text("repository"), "recipient"])?;
        for (name, value) in [("user.name", "Recipient"), ("user.email", "recipient@localhost")] {
            git(&self.at("recipient"), &["config", name, value])?;
        }
        for folder in ["keys", "trust", "strangers", "store"] {
            let folder = self.at(folder);
            fs::create_dir_all(&folder).at(&folder)?;
        }
        for (name, trust) in [("authority", "trust"), ("stranger", "strangers")] {
            let key = SigningKey::generate().map_err(Failure::internal)?;
            key.write_private(&self.at(&format!("keys/{name}.pem"))).map_err(Failure::internal)?;
            let line = ssh::public::line(&key.verifying_key());
            let path = self.at(trust).join("allowed_signers");
            fs::write(&path, format!("{name} namespaces=\"provost-authorization\" {line}\n")).at(&path)?;
        }
        fs::write(self.at("issue.md"), format!("{}\n", package::GOAL)).at(&self.at("issue.md"))?;
        fs::write(self.at("other.md"), "Do something else.\n").at(&self.at("other.md"))
    }

    /// Author, authority and runner; the runner is killed in the middle, and goes on.
    fn carry_out(&mut self, scoped: bool) -> Result<(), Failure> {
        let script = self.at("script.json");
        fs::write(&script, slowed(package::SCRIPT, scoped)?).at(&script)?;
        let model = Rehearsal::start(&script, &self.at("requests.ndjson"))?;
        let (repository, task, request) =
            (self.text("repository"), self.text("issue.md"), self.text("s.request"));
        let gate = if scoped {
            "cargo test --offline"
        } else {
            "cargo test --offline --manifest-path package/Cargo.toml"
        };
        let asked = self.row(
            "the author asks",
            &[0],
            "",
            &[
                "session",
                "init",
                "--repo",
                &repository,
                "--scope",
                scope(scoped),
                "--task",
                &task,
                "--verify",
                gate,
                "--model",
                "rehearsal",
                "--base-url",
                &model.base_url,
                "-o",
                &request,
                "--json",
            ],
        )?;
        let session = field(&asked, "session")?;
        self.row("run before anybody has signed", &[3], "not authorized yet", &["session", "run", &session])?;
        let (good, strange, late) =
            (self.text("authorization.json"), self.text("strange.json"), self.text("late.json"));
        let (key, stranger) = (self.text("keys/authority.pem"), self.text("keys/stranger.pem"));
        let sign = |key: &str, out: &str, more: &[&str]| {
            let mut args = vec!["session", "authorize", &request, "--key", key, "-o", out, "--yes"];
            args.extend(more);
            args.into_iter().map(str::to_owned).collect::<Vec<String>>()
        };
        let words = |args: &[String]| args.iter().map(String::clone).collect::<Vec<_>>();
        for (what, args) in [
            ("the authority signs", sign(&key, &good, &["--expires", "1h"])),
            ("a stranger signs", sign(&stranger, &strange, &[])),
            ("the authority signs for one millisecond", sign(&key, &late, &["--expires", "1ms"])),
        ] {
            let args = words(&args);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.row(what, &[0], "", &args)?;
        }
        let prepare =
            |file: &str| ["session", "prepare", &session, "--authorization", file].map(str::to_owned);
        for (what, code, said, file) in [
            ("prepare by a stranger's signature", &[3], "needed authorities signed", &strange),
            ("prepare when the authorization has expired", &[3], "expired", &late),
        ] {
            let args = prepare(file);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.row(what, code, said, &args)?;
        }
        let args = prepare(&good);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.row("prepare by the authority's signature", &[0], "and prepared", &args)?;
        self.kill_in_the_middle(&session)?;
        self.row("run, again after the runner was killed", &[0], "", &["session", "run", &session])?;
        let asked = self.requests();
        self.row(
            "run a session that is closed",
            &[0],
            "nobody is asked again",
            &["session", "run", &session],
        )?;
        let more = i32::from(self.requests() != asked);
        self.noted(Row {
            what: "no request is made for a session that is closed",
            wanted: &[0],
            found: more,
            words: "",
            said: String::new(),
        });
        let (bundle, again) = (self.text("bundle"), self.text("bundle-again"));
        self.row("the result as a bundle", &[0], "", &["session", "result", &session, "-o", &bundle])?;
        self.row("the result once more", &[0], "", &["session", "result", &session, "-o", &again])?;
        let same = same_bytes(&self.at("bundle"), &self.at("bundle-again"))?;
        self.noted(Row {
            what: "both bundles are the same bytes",
            wanted: &[0],
            found: i32::from(!same),
            words: "",
            said: String::new(),
        });
        fs::remove_dir_all(self.at("bundle-again")).at(&self.at("bundle-again"))?;
        self.revoked(&repository, &task, &model)
    }

    /// A second session, which is revoked before it is carried out.
    fn revoked(&mut self, repository: &str, task: &str, model: &Rehearsal) -> Result<(), Failure> {
        let (request, signed) = (self.text("revoked.request"), self.text("revoked.json"));
        let key = self.text("keys/authority.pem");
        let asked = self.row(
            "the author asks for another session",
            &[0],
            "",
            &[
                "session",
                "init",
                "--repo",
                repository,
                "--task",
                task,
                "--model",
                "rehearsal",
                "--base-url",
                &model.base_url,
                "-o",
                &request,
                "--json",
            ],
        )?;
        let session = field(&asked, "session")?;
        self.row(
            "the authority signs it",
            &[0],
            "",
            &["session", "authorize", &request, "--key", &key, "-o", &signed, "--yes"],
        )?;
        self.row(
            "the first session's authorization for it",
            &[3],
            "is for another request",
            &["session", "prepare", &session, "--authorization", &self.text("authorization.json")],
        )?;
        self.row("prepare it", &[0], "", &["session", "prepare", &session, "--authorization", &signed])?;
        self.row("revoke it", &[0], "is revoked", &["session", "revoke", &session, "--why", "by mistake"])?;
        self.row("run what is revoked", &[3], "by mistake", &["session", "run", &session])?;
        Ok(())
    }

    fn requests(&self) -> usize {
        fs::read_to_string(self.at("requests.ndjson")).unwrap_or_default().lines().count()
    }

    /// Starts the runner and kills it while the model answers its third request.
    fn kill_in_the_middle(&mut self, session: &str) -> Result<(), Failure> {
        let mut child = self
            .command(&["session", "run", session])?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Failure::internal)?;
        let until = Instant::now() + PATIENCE;
        while self.requests() < 3 && Instant::now() < until {
            if child.try_wait().map_err(Failure::internal)?.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let status = child.wait().map_err(Failure::internal)?;
        self.noted(Row {
            what: "the runner is killed in the middle",
            wanted: &[-1],
            found: status.code().unwrap_or(-1),
            words: "",
            said: "it ended by itself before it was killed".to_owned(),
        });
        Ok(())
    }

    /// What a recipient accepts, and what it has to refuse.
    fn receive(&mut self, scoped: bool) -> Result<(), Failure> {
        let commit = git(&self.at("recipient"), &["rev-parse", "HEAD"])?.trim().to_owned();
        let other = {
            git(&self.at("recipient"), &["commit", "-q", "--allow-empty", "-m", "Another"])?;
            git(&self.at("recipient"), &["rev-parse", "HEAD"])?.trim().to_owned()
        };
        let (bundle, repo, task) = (self.text("bundle"), self.text("recipient"), self.text("issue.md"));
        let (trust, strangers, other_task) =
            (self.text("trust"), self.text("strangers"), self.text("other.md"));
        let wide = if scoped { "." } else { "package" };
        let verify = |bundle: &str, rev: &str, scope: &str, task: &str, trust: &str| {
            [
                "verify", bundle, "--repo", &repo, "--rev", rev, "--scope", scope, "--task", task, "--trust",
                trust, "--json",
            ]
            .map(str::to_owned)
            .to_vec()
        };
        let scope = scope(scoped);
        let dropped = self.copy("dropped")?;
        let journal = dropped.join("journal.jsonl");
        let text = fs::read_to_string(&journal).at(&journal)?;
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.remove(lines.len() / 2);
        fs::write(&journal, lines.concat()).at(&journal)?;
        let cut = self.copy("cut")?;
        let journal = cut.join("journal.jsonl");
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.pop();
        fs::write(&journal, lines.concat()).at(&journal)?;
        let patched = self.copy("patched")?;
        let patch = patched.join("changes.patch");
        let text = fs::read_to_string(&patch).at(&patch)?;
        fs::write(&patch, text.replace("left + right", "left * right")).at(&patch)?;
        let (dropped, cut, patched) =
            (dropped.display().to_string(), cut.display().to_string(), patched.display().to_string());
        let mut again = verify(&bundle, &commit, scope, &task, &trust);
        again.extend(["--replay", "--test"].map(str::to_owned));
        for (what, wanted, words, args) in [
            ("the recipient verifies", &[0][..], "", verify(&bundle, &commit, scope, &task, &trust)),
            ("and does it all again, and tries it", &[0], "", again),
            (
                "with a stranger's key",
                &[8],
                "\"code\":11",
                verify(&bundle, &commit, scope, &task, &strangers),
            ),
            ("against another commit", &[8], "\"code\":13", verify(&bundle, &other, scope, &task, &trust)),
            ("with another scope", &[8], "\"code\":13", verify(&bundle, &commit, wide, &task, &trust)),
            ("for another task", &[8], "\"code\":13", verify(&bundle, &commit, scope, &other_task, &trust)),
            ("with an event dropped", &[8], "\"code\":14", verify(&dropped, &commit, scope, &task, &trust)),
            ("with the last event cut off", &[8], "\"code\":14", verify(&cut, &commit, scope, &task, &trust)),
            ("with another patch", &[8], "\"code\":1", verify(&patched, &commit, scope, &task, &trust)),
            (
                "trusting what the bundle brings along",
                &[2],
                "",
                verify(&bundle, &commit, scope, &task, &bundle),
            ),
        ] {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.row(what, wanted, words, &args)?;
        }
        self.row(
            "the recipient accepts it onto a branch",
            &[0],
            "",
            &["session", "accept", &bundle, "--repo", &repo, "--branch", "accepted", "--trust", &trust],
        )?;
        let status = git(&self.at("recipient"), &["status", "--porcelain"])?;
        self.noted(Row {
            what: "and its work tree is as it was",
            wanted: &[0],
            found: i32::from(!status.trim().is_empty()),
            words: "",
            said: status,
        });
        Ok(())
    }

    fn copy(&self, name: &str) -> Result<PathBuf, Failure> {
        let to = self.at(name);
        copy_all(&self.at("bundle"), &to)?;
        Ok(to)
    }
}

fn scope(scoped: bool) -> &'static str {
    if scoped { "package" } else { "." }
}

/// The script with its third answer slow, so that there is a middle to be killed in; for the whole repository, with
/// paths from its root.
fn slowed(script: &str, scoped: bool) -> Result<String, Failure> {
    let mut script: Value = serde_json::from_str(script).map_err(Failure::internal)?;
    script["steps"][2]["fault"] = json!({ "latency_ms": 1500, "times": 1 });
    let text = script.to_string();
    Ok(if scoped {
        text
    } else {
        text.replace("src/lib.rs", "package/src/lib.rs").replace(
            "[\"cargo\",\"test\",\"--offline\"]",
            "[\"cargo\",\"test\",\"--offline\",\"--manifest-path\",\"package/Cargo.toml\"]",
        )
    })
}

fn field(lines: &str, name: &str) -> Result<String, Failure> {
    let last = lines.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(last).map_err(Failure::internal)?;
    value[name]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::internal(format!("no `{name}` in `{last}`")))
}

fn same_bytes(one: &Path, two: &Path) -> Result<bool, Failure> {
    let (one, two) = (files(one)?, files(two)?);
    Ok(one == two)
}

/// Names and contents of all files beneath a folder.
fn files(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).at(&next)? {
            let path = entry.at(&next)?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                found.push((name, fs::read(&path).at(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy_all(from: &Path, to: &Path) -> Result<(), Failure> {
    for (name, bytes) in files(from)? {
        let path = to.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).at(folder)?;
        }
        fs::write(&path, bytes).at(&path)?;
    }
    Ok(())
}
