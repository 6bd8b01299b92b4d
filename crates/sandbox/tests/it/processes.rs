//! Other processes, and the whole of one's own.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_sandbox::Ended;

use crate::support::{CONTAINED, Host, eventually, read};

/// A process of the same user outside of every sandbox, with a secret in its environment.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        let mut command = std::process::Command::new("sleep");
        command.arg("60").env("VICTIM_SECRET", "canary-env").stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_process_environment_cannot_be_read() {
    let (host, victim) = (Host::new(), Victim::new());
    let script = format!("cat /proc/{}/environ", victim.0.id());
    for rung in CONTAINED {
        let ran = host.sh(rung, &script);
        assert!(!ran.assert_refused().text.contains("canary-env"), "{rung}");
    }
    assert!(host.sh(Rung::R0, &script).assert_ok().text.contains("canary-env"));
}

#[test]
fn no_environment_of_the_driver_is_anywhere() {
    let host = Host::new();
    // The supervisor and process 1 are copies of this program; their environment must be empty too.
    let script = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u";
    let ran = host.sh(Rung::R3, script);
    for line in ran.text.lines() {
        assert!(
            line.starts_with("PATH=")
                || line.starts_with("HOME=/tmp/home")
                || line.starts_with("LANG=")
                || line.starts_with("PWD="),
            "{line}"
        );
    }
}

#[test]
fn another_process_cannot_be_signalled() {
    let host = Host::new();
    for rung in CONTAINED {
        let mut victim = Victim::new();
        host.sh(rung, &format!("kill -9 {}", victim.0.id())).assert_refused();
        assert!(victim.0.try_wait().unwrap().is_none(), "{rung}");
    }
    let mut victim = Victim::new();
    host.sh(Rung::R0, &format!("kill -9 {}", victim.0.id())).assert_ok();
    eventually("the victim is dead", || victim.0.try_wait().unwrap().is_some());
}

#[test]
fn another_process_cannot_be_traced_or_read() {
    let (host, victim) = (Host::new(), Victim::new());
    let pid = victim.0.id();
    let trace =
        format!("import ctypes, sys\nsys.exit(0 if ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0 else 1)");
    let memory = format!("open('/proc/{pid}/mem', 'rb')");
    for attempt in [trace, memory] {
        for rung in CONTAINED {
            host.py(rung, &attempt).assert_refused();
        }
        host.py(Rung::R0, &attempt).assert_ok();
    }
}

#[test]
fn the_supervisor_cannot_be_reached() {
    let host = Host::new();
    host.sh(Rung::R3, "kill -9 1; cat /proc/1/environ && exit 0; exit 3").assert_refused();
    // Under R2 it is the parent, and can be seen.
    for attempt in
        ["kill -9 $PPID", "cat /proc/$PPID/environ", "cat /proc/$PPID/maps", "readlink /proc/$PPID/fd/1"]
    {
        host.sh(Rung::R2, attempt).assert_refused();
    }
}

#[test]
fn only_own_processes_are_seen() {
    let host = Host::new();
    let script = "import os\nprint([n for n in os.listdir('/proc') if n.isdigit()])";
    assert_eq!(host.py(Rung::R3, script).assert_ok().text, "['1', '2']\n");
}

/// Starts a daemon that appends to a file for ever, and waits until it does.
const DAEMON: &str = "import os, sys, time\n\
    if os.fork() == 0:\n    \
        os.setsid()\n    \
        if os.fork() > 0: os._exit(0)\n    \
        fd = os.open('beat', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n    \
        while True:\n        \
            os.write(fd, b'.')\n        \
            time.sleep(0.002)\n\
    while not os.path.exists('beat') or os.path.getsize('beat') < 3: time.sleep(0.001)\n\
    print('gone', flush=True)";

#[test]
fn a_daemon_dies_with_its_command_and_its_pipe_delays_nothing() {
    for rung in [Rung::R3, Rung::R2, Rung::R1] {
        let host = Host::new();
        let began = Instant::now();
        let ran = host.py(rung, DAEMON);
        ran.assert_ok();
        assert_eq!((ran.text.as_str(), ran.record.survivors), ("gone\n", 0), "{rung}");
        assert!(began.elapsed() < Duration::from_secs(5), "{rung}: {:?}", began.elapsed());
        let size = || std::fs::metadata(host.ws().join("beat")).unwrap().len();
        let after = size();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(size(), after, "{rung}: it still writes");
    }
}

#[test]
fn without_containment_a_daemon_lives_on_and_still_delays_nothing() {
    let host = Host::new();
    let script = DAEMON.replace("fd = os.open", "open('pid', 'w').write(str(os.getpid()))\n    fd = os.open");
    host.py(Rung::R0, &script).assert_ok();
    let size = || std::fs::metadata(host.ws().join("beat")).unwrap().len();
    let after = size();
    eventually("the daemon writes", || size() > after);
    let pid = rustix::process::Pid::from_raw(read(&host.ws().join("pid")).parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn grandchildren_that_ignore_term_die_at_the_limit() {
    for rung in [Rung::R3, Rung::R2, Rung::R1] {
        let host = Host::new();
        let mut command = host.command(&["sh", "-c", "trap '' TERM INT HUP; (trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do echo . >> beat; sleep 0.01; done') & (trap '' TERM; sleep 50) & while :; do sleep 1; done"]);
        command.wall = Duration::from_secs(1);
        let began = Instant::now();
        let ran = host.run_with(rung, host.profile(), &command);
        assert_eq!(ran.record.ended, Ended::TimedOut { limit_ms: 1000 }, "{rung}");
        assert_eq!(ran.record.survivors, 0, "{rung}");
        assert!(ran.record.duration_ms >= 1000);
        assert!(began.elapsed() < Duration::from_secs(4), "{rung}: {:?}", began.elapsed());
        let size = || std::fs::metadata(host.ws().join("beat")).unwrap().len();
        let after = size();
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(size(), after, "{rung}");
    }
}

#[test]
fn a_tree_that_forks_for_its_life_dies() {
    let script = "import os, time\n\
        for i in range(2):\n    \
            if os.fork() == 0:\n        \
                while True:\n            \
                    if os.fork() > 0: os._exit(0)\n            \
                    os.setsid()\n            \
                    time.sleep(0.0005)\n\
        time.sleep(0.1)";
    let host = Host::new();
    for rung in [Rung::R3, Rung::R2] {
        let ran = host.py(rung, script);
        assert_eq!(ran.record.ended, Ended::Exited(0), "{rung}");
        assert_eq!(ran.record.survivors, 0, "{rung}");
    }
}

#[test]
fn process_1_collects_orphans() {
    let host = Host::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do (true &); done\n\
        for i in $(seq 500); do cat /proc/[0-9]*/stat 2>/dev/null | grep -q ') Z' || exit 0; sleep 0.01; done\n\
        cat /proc/[0-9]*/stat; exit 1";
    host.sh(Rung::R3, script).assert_ok();
}
