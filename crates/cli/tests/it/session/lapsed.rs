//! Authorizations that no longer hold: revoked, expired, signed by whom nobody trusts any more; while a driver is there and
//! while none is. Each beside the session that goes on because they do.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Governed, call, script};
use crate::support::{Ran, bodies, eventually, finish, text};

/// A session whose run has stopped in its middle, for want of an answer of the model. Nobody drives it.
fn stopped(expires: &str) -> (Governed, String) {
    let mut script = script();
    script["steps"][1]["fault"] = json!({ "status": 401, "times": 100 });
    let it = Governed::playing(&script);
    let _ = it.trust();
    let session = it.prepared(&["--expires", expires]);
    let _ = it.session("run", &[&session]).code(6);
    assert!(it.folder(&session).join("session.key").exists());
    (it, session)
}

/// It is closed, by `why`, without anybody having been asked anything: signed, and its key gone.
fn assert_closed(it: &Governed, session: &str, asked: usize, why: &str) {
    assert_eq!(it.requests(), asked, "nobody is asked for it");
    assert_eq!(it.standing(session), "closed");
    let folder = it.folder(session);
    assert!(!folder.join("session.key").exists(), "its key is gone");
    assert!(folder.join("result/session/provenance.dsse.json").is_file(), "its end is signed");
    let journal = it.env.journal(session);
    let cancelled = bodies(&journal, "run.cancelled");
    assert_eq!(cancelled.len(), 1);
    assert_eq!(text(&cancelled[0]["unauthorized"]), why, "{cancelled:?}");
    let finished = bodies(&journal, "run.finished");
    assert_eq!(finished[0]["outcome"], json!({ "is": "unauthorized", "why": why }));
    let again = it.session("run", &[session]).code(3).says("is closed");
    assert_eq!(it.requests(), asked, "{again}");
}

#[test]
fn one_that_was_revoked_while_nobody_drove_it_is_taken_up_once_to_be_closed() {
    let (it, session) = stopped("1h");
    // The control: it may go on, and gets no farther.
    let _ = it.session("run", &[&session]).code(6);
    let _ = it.session("revoke", &[&session, "--why", "no longer wanted"]).code(0);
    let asked = it.requests();
    let ran = it.session("run", &[&session]).code(3);
    assert!(ran.stdout.contains("no longer wanted"), "{ran}");
    assert_closed(&it, &session, asked, "revoked");
}

#[test]
fn so_is_one_that_is_taken_up_by_its_runs_name() {
    let (it, session) = stopped("1h");
    // The control.
    let _ = it.env.provost(["resume", &session]).code(6);
    let _ = it.session("revoke", &[&session, "--why", "no longer wanted"]).code(0);
    let asked = it.requests();
    let ran = it.env.provost(["resume", &session]).code(3);
    assert!(ran.stdout.contains("no longer wanted"), "{ran}");
    assert_eq!(it.standing(&session), "over");
    let _ = it.session("run", &[&session]).code(3);
    assert_closed(&it, &session, asked, "revoked");
}

#[test]
fn so_is_one_whose_trust_folder_revokes_the_key_that_signed_it() {
    let (it, session) = stopped("1h");
    let revoked = it.env.at("config/provost/trust/revoked_keys");
    fs::copy(it.key.with_extension("pub"), revoked).unwrap();
    let asked = it.requests();
    let ran = it.session("run", &[&session]).code(3);
    assert!(ran.stdout.contains("(`revoked_keys`)"), "{ran}");
    assert_closed(&it, &session, asked, "revoked");
}

#[test]
fn so_is_one_whose_time_ran_out_while_nobody_drove_it() {
    let (it, session) = stopped("15s");
    let asked = it.requests();
    let until = it.authorized_until();
    eventually("its time is over", || super::now_ms() > until);
    let ran = it.session("run", &[&session]).code(3);
    assert!(ran.stdout.contains("expired"), "{ran}");
    assert_closed(&it, &session, asked, "expired");
}

#[test]
fn who_is_not_trusted_here_is_no_reason_to_end_it() {
    let (it, session) = stopped("1h");
    let allowed = it.env.at("config/provost/trust/allowed_signers");
    let trusted = fs::read(&allowed).unwrap();
    let asked = it.requests();
    fs::write(&allowed, "").unwrap();
    let _ = it.session("run", &[&session]).code(3).says("0 of 1 needed");
    assert_eq!((it.standing(&session).as_str(), it.requests()), ("begun", asked));
    // With whom it was begun it goes on.
    fs::write(&allowed, trusted).unwrap();
    let _ = it.session("run", &[&session]).code(6);
    assert!(it.requests() > asked);
}

/// A session whose model thinks long about its second answer, and what becomes of it when `meanwhile` is done then.
fn thinking(meanwhile: impl FnOnce(&Governed, &str)) -> (Governed, String, Ran) {
    let marker = call("write_file", &json!({ "path": "late.txt", "content": "late\n" }));
    let first = call("read_file", &json!({ "path": "src/lib.rs" }));
    let mut second = marker;
    second["fault"] = json!({ "latency_ms": 4000 });
    let it = Governed::playing(&json!({ "steps": [first, second] }));
    let _ = it.trust();
    let session = it.prepared(&[]);
    let running = it.env.start(["session", "run", &session]);
    eventually("it is asked for its second step", || it.requests() == 2);
    meanwhile(&it, &session);
    let ran = running.wait();
    (it, session, ran)
}

fn assert_ended_by(it: &Governed, session: &str, ran: Ran) {
    let _ = ran.code(3);
    assert_closed(it, session, 2, "revoked");
    let patch = fs::read_to_string(it.folder(session).join("result/changes.patch")).unwrap();
    assert_eq!(patch, "", "what was answered afterwards is not done");
}

#[test]
fn a_session_that_is_revoked_while_it_is_driven_does_nothing_more() {
    let (it, session, ran) = thinking(|it, session| {
        let _ = it.session("revoke", &[session, "--why", "stop"]).code(0);
    });
    assert_ended_by(&it, &session, ran);
}

#[test]
fn nor_does_one_whose_authority_is_struck_off_while_it_is_driven() {
    let (it, session, ran) = thinking(|it, _| {
        fs::write(it.env.at("config/provost/trust/allowed_signers"), "").unwrap();
    });
    assert_ended_by(&it, &session, ran);
}

#[test]
fn the_same_with_nobody_meanwhile_does_what_was_answered() {
    let (it, session, ran) = thinking(|_, _| ());
    drop(ran);
    assert!(it.env.journal(&session).iter().any(|event| {
        let text = event.to_string();
        text.contains("late.txt") && text.contains("act.finished")
    }));
}

#[test]
fn a_command_that_runs_when_its_session_is_revoked_is_ended_and_rolled_back() {
    // Named after this world, so that it is found among the processes.
    let it = Governed::rooted(|root| {
        let line = format!("echo begun > begun.txt; MARK='{}' exec sleep 941", root.display());
        json!({ "steps": [call("exec", &json!({ "argv": ["sh", "-c", line] }))] })
    });
    let _ = it.trust();
    let session = it.prepared(&[]);
    let running = it.env.start(["session", "run", &session]);
    // The control: it runs, and nobody ends it by itself.
    eventually("its command runs", || it.env.processes().iter().any(|line| line == "sleep 941"));
    let _ = it.session("revoke", &[&session, "--why", "stop"]).code(0);
    let _ = running.wait().code(3);
    assert_closed(&it, &session, 1, "revoked");
    let journal = it.env.journal(&session);
    let ended = bodies(&journal, "act.finished");
    assert_eq!(ended.last().unwrap()["command"]["exit"]["how"], "cancelled", "{ended:?}");
    assert_eq!(fs::read_to_string(it.folder(&session).join("result/changes.patch")).unwrap(), "");
    it.env.assert_no_processes_but(&it.model);
}

impl Governed {
    /// A session that is authorized and prepared.
    pub(super) fn prepared(&self, authorize: &[&str]) -> String {
        let (session, request) = self.ask(&[]);
        let authorization = self.authorize(&request, authorize).display().to_string();
        let _ = self.session("prepare", &[&session, "--authorization", &authorization]).code(0);
        session
    }

    /// When the time of the authorization is over, in milliseconds since the Unix epoch.
    fn authorized_until(&self) -> u64 {
        let file: PathBuf = self.env.at("authorization.json");
        let mut python = self.env.command("python3");
        let script = "import base64,json,sys; print(json.loads(base64.b64decode(json.load(open(sys.argv[1]))['payload']))\
                      ['predicate']['expires_ms'])";
        python.args(["-c", script]).arg(file);
        let told: Value = finish(python).code(0).stdout.trim().parse().unwrap();
        told.as_u64().unwrap()
    }
}
