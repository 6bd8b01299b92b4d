//! Sessions whose driver is killed: anywhere in the run, and at each step of the closing. And many drivers at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Governed, call};
use crate::support::{Ran, Running, bodies, eventually, files_beneath, finish};

/// Commands that take their time, reads and writes between them.
fn script() -> Value {
    let command = |n: u32| {
        call("exec", &json!({ "argv": ["sh", "-c", format!("sleep 0.1; echo {n} >> count.txt; sleep 0.1")] }))
    };
    json!({ "steps": [
        command(1),
        call("read_file", &json!({ "path": "src/lib.rs" })),
        call("edit_file", &json!({ "path": "src/lib.rs", "old": "left - right", "new": "left + right" })),
        command(2),
        call("write_file", &json!({ "path": "notes.txt", "content": "mended\n" })),
        command(3),
        call("submit", &json!({ "summary": "mended" })),
    ] })
}

/// The files of a folder, by their names in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let named = |file: PathBuf| (file.strip_prefix(folder).unwrap().to_owned(), fs::read(&file).unwrap());
    files_beneath(folder).into_iter().map(named).collect()
}

/// How many events the store holds, read beside the driver.
fn events(it: &Governed) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let count = rusqlite::Connection::open_with_flags(it.env.store(), flags)
        .and_then(|store| store.query_row("SELECT count(*) FROM event", [], |row| row.get(0)));
    count.unwrap_or(0)
}

#[test]
fn killed_anywhere_a_session_comes_to_an_end_that_its_recipient_accepts() {
    let it = Governed::playing(&script());
    let _ = it.trust();
    let session = it.prepared(&[]);
    let mut before = Vec::<Value>::new();
    let mut kills = 0;
    while kills < 8 {
        let mut running = it.env.start(["session", "run", &session]);
        // Further than a driver needs to find out where the one before it died.
        let wanted = events(&it) + 5;
        eventually("it goes on", || events(&it) >= wanted || running.is_over());
        if running.is_over() {
            break;
        }
        running.signal(Signal::KILL);
        let _ = running.wait();
        kills += 1;
        let now = it.env.journal(&session);
        assert_eq!(now[..before.len()], before, "what was on record stays");
        before = now;
    }
    let _ = it.session("run", &[&session]).code(0);
    assert!(kills > 3, "{kills}");
    let journal = it.env.journal(&session);
    assert_eq!(journal[..before.len()], before);
    // Each request is answered, or charged as one whose answer was lost.
    let accounted = bodies(&journal, "model.answered").len() + bodies(&journal, "model.failed").len();
    assert!(it.requests() <= accounted, "{} requests, {accounted} on record", it.requests());
    let bundle = it.env.at("bundle");
    let _ = it.session("result", &[&session, "-o", &bundle.display().to_string()]).code(0);
    let commit = it.package.repo.head();
    let _ = it.verify(&bundle, &commit, &["--replay", "--test"]).code(0);
    let counted = fs::read_to_string(it.folder(&session).join("workspace/count.txt")).unwrap_or_default();
    for n in ["1", "2", "3"] {
        assert!(counted.lines().filter(|line| *line == n).count() <= 1, "{counted}");
    }
}

/// A session whose run is over and whose result is not signed yet.
fn over() -> (Governed, String) {
    let mut script = super::script();
    script["steps"][1]["fault"] = json!({ "status": 401 });
    let it = Governed::playing(&script);
    let _ = it.trust();
    let session = it.prepared(&[]);
    let _ = it.session("run", &[&session]).code(6);
    // Under its run's name it comes to its end, and is closed by nobody.
    let _ = it.env.provost(["resume", &session]).code(0);
    assert_eq!(it.standing(&session), "over");
    (it, session)
}

/// What changes a name, or syncs.
const CALLS: [&str; 9] =
    ["rename", "renameat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "fsync", "fdatasync"];

/// `session run` that is killed as one of its threads makes a call for the so-manieth time.
fn killed_at(it: &Governed, session: &str, call: &str, time: usize) -> Ran {
    let run = it.env.provost_command(["session", "run", session]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=KILL:when={time}")]);
    command.arg(run.get_program()).args(run.get_args()).env_clear();
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    if let Some(folder) = run.get_current_dir() {
        command.current_dir(folder);
    }
    finish(command)
}

#[test]
fn killed_at_any_step_of_its_closing_a_session_has_one_result_and_no_key() {
    let (it, session) = over();
    let (state, kept) = (it.env.at("state"), it.env.at("kept"));
    let copy = |from: &Path, to: &Path| {
        let _ = fs::remove_dir_all(to);
        let mut command = Command::new("cp");
        command.arg("-a").args([from, to]);
        let _ = finish(command).code(0);
    };
    copy(&state, &kept);
    let _ = it.session("run", &[&session]).code(0);
    let folder = it.folder(&session);
    let result = files(&folder.join("result"));
    assert!(result.contains_key(Path::new("changes.patch")));
    let asked = it.requests();
    let mut kills = Vec::new();
    for call in CALLS {
        for time in 1.. {
            copy(&kept, &state);
            let ran = killed_at(&it, &session, call, time);
            if ran.code == 0 {
                break;
            }
            let at = format!("killed at {call} {time}");
            assert_eq!(ran.code, 137, "{at}: {ran}");
            // Whatever there is of a result is all of it, and without it the key is there to sign it.
            assert!(
                folder.join("session.key").exists() || files(&folder.join("result")) == result,
                "{at}\n{ran}"
            );
            let _ = it.session("run", &[&session]).code(0);
            assert_eq!(files(&folder.join("result")), result, "{at}");
            assert!(!folder.join("session.key").exists(), "{at}");
            assert!(!folder.join("result.new").exists(), "{at}");
            kills.push(at);
        }
    }
    assert!(kills.len() > 10, "{kills:?}");
    assert_eq!(it.requests(), asked, "nobody is asked to close it");
}

#[test]
fn of_many_drivers_of_a_session_one_carries_it_out() {
    let it = Governed::playing(&script());
    let _ = it.trust();
    let session = it.prepared(&[]);
    let drivers: Vec<Running> = (0..12).map(|_| it.env.start(["session", "run", &session])).collect();
    let codes: Vec<i32> = drivers.into_iter().map(|driver| driver.wait().code).collect();
    // Whoever came too late is told, or found it closed.
    assert!(codes.contains(&0) && codes.iter().all(|code| [0, 7].contains(code)), "{codes:?}");
    assert_eq!(it.requests(), 7, "each step is asked for once");
    assert_eq!(it.standing(&session), "closed");
    let journal = it.env.journal(&session);
    assert_eq!(bodies(&journal, "run.finished").len(), 1);
    let bundle = it.env.at("bundle");
    let _ = it.session("result", &[&session, "-o", &bundle.display().to_string()]).code(0);
    let _ = it.verify(&bundle, &it.package.repo.head(), &[]).code(0);
}
