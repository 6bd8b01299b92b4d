//! Output of any size and shape.

use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Ended};

use crate::support::{CONTAINED, Host, sandbox};

#[test]
fn a_flood_is_bounded_in_time_and_memory() {
    for rung in CONTAINED {
        let host = Host::new();
        let mut command = host.command(&["yes"]);
        command.wall = Duration::from_millis(700);
        (command.keep_head, command.keep_tail) = (1000, 500);
        let began = Instant::now();
        let record = host.try_run(rung, host.profile(), &command).unwrap();
        assert_eq!(record.ended, Ended::TimedOut { limit_ms: 700 });
        assert!(began.elapsed() < Duration::from_secs(4));
        assert_eq!(record.output.head, "y\n".repeat(500).as_bytes());
        assert_eq!(record.output.tail.len(), 500);
        assert!(record.output.total > 1_000_000, "{}", record.output.total);
        assert_eq!(record.output.dropped(), record.output.total - 1500);
        let size = std::fs::metadata(command.record_dir.join("exit.json")).unwrap().len();
        assert!(size < 8000, "{size}");
    }
}

#[test]
fn one_line_of_160_megabytes() {
    let host = Host::new();
    let mut command = host.command(&["sh", "-c", "head -c 160000000 /dev/zero | tr '\\0' x; echo end"]);
    (command.keep_head, command.keep_tail) = (10, 8);
    let record = host.try_run(Rung::R3, host.profile(), &command).unwrap();
    assert_eq!(record.ended, Ended::Exited(0));
    assert_eq!(record.output.head, b"xxxxxxxxxx");
    assert_eq!(record.output.tail, b"xxxxend\n");
    assert_eq!(record.output.total, 160_000_004);
}

#[test]
fn the_last_words_of_a_fast_command_arrive() {
    let host = Host::new();
    let contained = sandbox(Rung::R3, host.profile());
    for _ in 0..20 {
        let command = host.command(&["sh", "-c", "head -c 200000 /dev/zero"]);
        let record = contained.run(&command, &Cancel::new().unwrap()).unwrap();
        assert_eq!(record.output.total, 200_000);
    }
}

#[test]
fn bytes_that_are_no_text_arrive() {
    let host = Host::new();
    let ran = host.sh(Rung::R3, "printf '\\377\\000\\200'");
    assert_eq!(ran.record.output.head, b"\xff\x00\x80");
    assert_eq!(ran.record.output.sha256.len(), 64);
}
