//! Commands that run on while their driver does other things.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Captured, Chunk, Command, Ended, ExitRecord, Publish, RunError, Running};

use crate::support::{CONTAINED, Host, Ran, eventually, read, sandbox};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Started {
    running: Running,
    woken: Receiver<()>,
}

impl Started {
    fn new(host: &Host, rung: Rung, command: &Command) -> Result<Self, RunError> {
        let (wake, woken) = channel();
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        sandbox(rung, host.profile()).start(command, None, wake).map(|running| Self { running, woken })
    }

    fn sh(host: &Host, rung: Rung, script: &str) -> Self {
        Self::new(host, rung, &host.command(&["sh", "-c", script])).unwrap()
    }

    fn until<T>(&self, mut found: impl FnMut(&Running) -> Option<T>) -> T {
        loop {
            if let Some(found) = found(&self.running) {
                return found;
            }
            self.woken.recv_timeout(PATIENCE).expect("nothing happens to the command");
        }
    }

    fn part(&self) -> Chunk {
        self.running.ask_for_output();
        self.until(Running::output).unwrap()
    }

    fn next_part(&self) -> Chunk {
        self.running.ask_for_notice();
        self.until(|running| running.has_written().then_some(()));
        self.part()
    }

    fn end(&self) -> ExitRecord {
        self.until(Running::ended).unwrap()
    }
}

#[test]
fn output_is_taken_part_by_part_and_the_record_has_the_rest() {
    for rung in CONTAINED {
        let host = Host::new();
        let wait = |name: &str| format!("while [ ! -e {name} ]; do sleep 0.01; done");
        let script = format!("echo one; {}; echo two; {}; echo three", wait("go"), wait("on"));
        let started = Started::sh(&host, rung, &script);
        let first = started.next_part();
        assert_eq!((first.from, first.to, first.head.as_slice()), (0, 4, b"one\n".as_slice()), "{rung}");
        let nothing = started.part();
        assert_eq!((nothing.from, nothing.to), (4, 4));
        std::fs::write(host.ws().join("go"), "").unwrap();
        let second = started.next_part();
        assert_eq!((second.from, second.to, second.head.as_slice()), (4, 8, b"two\n".as_slice()));
        assert!(started.running.ended().is_none());
        std::fs::write(host.ws().join("on"), "").unwrap();
        let ExitRecord { ended, output, survivors, .. } = started.end();
        let Captured { head, from, total, .. } = output;
        assert_eq!((ended, survivors), (Ended::Exited(0), 0));
        assert_eq!((head.as_slice(), from, total), (b"three\n".as_slice(), 8, 14));
    }
}

/// What is spoken with has the channel as standard input and output and nothing else of it; errors are its output. Its end
/// is heard on the channel, and the channel's end by it.
#[test]
fn a_command_is_spoken_with_over_a_channel() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;
    let script = "echo trouble >&2; while read -r line; do echo \"you said $line\"; done; echo bye; ls /proc/self/fd | wc -l >&2";
    for rung in CONTAINED {
        let host = Host::new();
        let (wake, woken) = channel();
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        let command = host.command(&["sh", "-c", script]);
        let (running, ours) = sandbox(rung, host.profile()).serve(&command, wake).unwrap();
        let started = Started { running, woken };
        let mut ours = UnixStream::from(ours);
        let mut lines = BufReader::new(ours.try_clone().unwrap());
        for word in ["one", "two"] {
            writeln!(ours, "{word}").unwrap();
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, format!("you said {word}\n"), "{rung}");
        }
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "bye\n");
        let ExitRecord { ended, output, survivors, .. } = started.end();
        assert_eq!((ended, survivors), (Ended::Exited(0), 0), "{rung}");
        // Three, and the one that `ls` reads the folder with.
        assert_eq!(String::from_utf8_lossy(&output.head), "trouble\n4\n", "{rung}");
    }
}

/// It ends with its tree when it is killed, and the channel says so.
#[test]
fn a_command_that_is_spoken_with_is_killed_with_its_tree() {
    use std::io::Read;
    for rung in CONTAINED {
        let host = Host::new();
        let (wake, woken) = channel();
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        let command = host.command(&["sh", "-c", "setsid sleep 600 & sleep 600"]);
        let (running, ours) = sandbox(rung, host.profile()).serve(&command, wake).unwrap();
        let started = Started { running, woken };
        started.running.kill();
        let mut said = Vec::new();
        // Either end of the stream is an end.
        let _ = std::os::unix::net::UnixStream::from(ours).read_to_end(&mut said);
        let record = started.end();
        assert_eq!((record.ended, record.survivors), (Ended::Cancelled, 0), "{rung}");
    }
}

#[test]
fn what_is_dropped_of_a_part_is_counted() {
    let host = Host::new();
    let script = "head -c 5000 /dev/zero; while [ ! -e go ]; do sleep 0.01; done; echo end";
    let command = Command { keep_head: 10, keep_tail: 20, ..host.command(&["sh", "-c", script]) };
    let started = Started::new(&host, Rung::R3, &command).unwrap();
    let mut seen = 0;
    while seen < 5000 {
        let part = started.next_part();
        assert_eq!(part.from, seen, "nothing is lost between two parts");
        assert!(part.head.len() <= 10 && part.tail.len() <= 20);
        seen = part.to;
    }
    std::fs::write(host.ws().join("go"), "").unwrap();
    assert_eq!(started.end().output.total, 5004);
}

/// The control is that the same tree beats on until it is killed.
#[test]
fn its_tree_is_killed_whole_by_order_and_when_it_is_dropped() {
    for rung in CONTAINED {
        let host = Host::new();
        let script = "(setsid sh -c 'while :; do echo . >> beat; sleep 0.005; done') & sleep 50";
        let beats = || read(&host.ws().join("beat")).len();
        let started = Started::sh(&host, rung, script);
        eventually("it runs", || beats() > 4);
        started.running.kill();
        let record = started.end();
        assert_eq!((record.ended, record.survivors), (Ended::Cancelled, 0), "{rung}");
        let after = beats();
        let second = Started::sh(&host, rung, script);
        eventually("it runs again", || beats() > after + 4);
        let Started { running, woken } = second;
        drop(running);
        // The thread that attends to it is done when the other end of this is gone.
        while woken.recv_timeout(PATIENCE).is_ok() {}
        let after = beats();
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(beats(), after, "{rung}");
    }
}

/// Answers each connection with two words.
const SERVER: &str = "import socket\n\
    server = socket.create_server(('127.0.0.1', PORT))\n\
    open('listens', 'w').close()\n\
    while True:\n    \
        client, _ = server.accept()\n    \
        client.sendall(b'from within')\n    \
        client.close()";

#[test]
fn a_later_command_reaches_a_published_port_and_no_other() {
    const CLIENT: &str = "import socket\n\
        for i in range(40): print(socket.create_connection(('127.0.0.1', PORT)).recv(100))";
    let host = Host::new();
    let publish = Publish::bind(0).unwrap();
    let port = publish.report().port;
    let python =
        |script: &str| host.command(&["/usr/bin/python3", "-c", &script.replace("PORT", &port.to_string())]);
    let sandbox = sandbox(Rung::R3, host.profile());
    let run = |command: &Command| Ran::of(sandbox.run(command, &Cancel::new().unwrap()).unwrap());
    let running = sandbox.start(&python(SERVER), Some(publish.clone()), Box::new(|| {})).unwrap();
    eventually("it listens", || host.ws().join("listens").exists());
    let reaches = vec![publish.clone()];

    // The control: nothing leads there, as nobody asked for it.
    let alone = run(&python(CLIENT));
    assert!(alone.assert_refused().text.contains("Connection refused"), "{}", alone.text);
    let reached = run(&Command { reaches: reaches.clone(), ..python(CLIENT) });
    assert_eq!(reached.assert_ok().text, "b'from within'\n".repeat(40));
    assert_eq!(publish.report().connections, 40);

    // It is taken, as it is on the host; without it a command has it for itself.
    let bind = "import socket; socket.create_server(('127.0.0.1', PORT)); print('mine')";
    let taken = run(&Command { reaches: reaches.clone(), ..python(bind) });
    assert!(taken.assert_refused().text.contains("Address already in use"), "{}", taken.text);
    assert_eq!(run(&python(bind)).assert_ok().text, "mine\n");

    running.kill();
    eventually("it ends", || running.ended().is_some());
    let gone = run(&Command { reaches, ..python(CLIENT) });
    assert!(!gone.text.contains("from within"), "{}", gone.text);
}

#[test]
fn what_cannot_start_has_not_run() {
    let host = Host::new();
    let error = Started::new(&host, Rung::R3, &host.command(&["no-such-program"])).err();
    assert!(matches!(error, Some(RunError::NotStarted(failure)) if failure.step == "exec"));
}
