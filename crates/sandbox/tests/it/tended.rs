//! Programs outside of every sandbox, whose tree is killed all the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use provost_sandbox::{Ended, Ends, Failure, Gone, Program, Tended};
use rustix::event::{PollFd, PollFlags, poll};

use crate::support::Host;

/// Starts a shell that runs `script`; its output comes out of the file.
fn start(host: &Host, script: &str) -> (Tended, File) {
    let program = Program {
        path: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: host.ws(),
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
    };
    tend(&program)
}

fn tend(program: &Program) -> (Tended, File) {
    let (output, stdout) = std::io::pipe().unwrap();
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
    let ends = Ends { stdin: null(), stdout: stdout.into(), stderr: null() };
    (Tended::start(program, ends).unwrap(), File::from(OwnedFd::from(output)))
}

/// Waits as whoever holds it does: by its descriptor.
fn wait(tended: &Tended) -> Result<Gone, Failure> {
    loop {
        poll(&mut [PollFd::new(tended, PollFlags::IN)], None).unwrap();
        if let Some(ended) = tended.ended() {
            return ended;
        }
    }
}

fn all(mut output: File) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn its_end_and_its_output_are_its_own() {
    let host = Host::new();
    let (tended, output) = start(&host, "pwd; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=; exit 3");
    assert_eq!(wait(&tended), Ok(Gone { ended: Ended::Exited(3), survivors: 0 }));
    assert_eq!(all(output), format!("{}\nPATH=/usr/bin:/bin\n", host.ws().canonicalize().unwrap().display()));
    let (tended, _output) = start(&host, "kill -9 $$");
    assert_eq!(wait(&tended).map(|gone| gone.ended), Ok(Ended::Signalled(9)));
}

#[test]
fn what_it_leaves_behind_is_gone_before_its_end_is_told() {
    let host = Host::new();
    // The sleeper has a session of its own, in which no signal to the group reaches it, and holds the pipe.
    let script = "setsid sh -c 'echo $$ >new; mv new pid; exec sleep 60' & while [ ! -e pid ]; do :; done";
    let (tended, output) = start(&host, script);
    assert_eq!(wait(&tended), Ok(Gone { ended: Ended::Exited(0), survivors: 0 }));
    // All ends of the pipe are closed, the sleeper's too: this reads to the end at once.
    assert_eq!(all(output), "");
    let pid = std::fs::read_to_string(host.ws().join("pid")).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "{pid}");
}

#[test]
fn dropping_it_kills() {
    let host = Host::new();
    let (tended, mut output) = start(&host, "setsid sh -c 'echo $$; exec sleep 60' & sleep 60");
    let mut pid = [0; 16];
    let length = output.read(&mut pid).unwrap();
    let pid = std::str::from_utf8(&pid[..length]).unwrap().trim().to_owned();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "the control: it runs");
    drop(tended);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(all(output), "");
}

#[test]
fn what_did_not_run_is_named() {
    let host = Host::new();
    let program = |path: &str, cwd: &str| Program {
        path: path.into(),
        args: Vec::new(),
        cwd: cwd.into(),
        env: BTreeMap::new(),
    };
    for (path, cwd, step) in [("/none", "/", "exec"), ("/bin/true", "/none", "chdir")] {
        let (tended, _output) = tend(&program(path, cwd));
        assert_eq!(wait(&tended).unwrap_err().step, step);
    }
    let (output, stdout) = std::io::pipe().unwrap();
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let ends = Ends { stdin: null(), stdout: stdout.into(), stderr: null() };
    assert_eq!(Tended::start(&program("true", "/"), ends).unwrap_err().step, "exec");
    drop((output, host));
}
