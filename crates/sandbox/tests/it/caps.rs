//! Caps: what the processes of a command may take, and what is said of one that was reached. Each command also runs without
//! the cap, where it does what it is then kept from.

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_sandbox::Ended;

use crate::support::{Host, Ran, probe, sandbox};

/// Whether the kernel bounds the tree here, by a control group of its own.
fn is_grouped(rung: Rung) -> bool {
    rung >= Rung::R2 && probe().facts.iter().any(|fact| fact.name == "control-group" && fact.holds)
}

const TREES: [Rung; 3] = [Rung::R3, Rung::R2, Rung::R1];

fn run(rung: Rung, caps: Caps, script: &str) -> Ran {
    let host = Host::new();
    let mut profile = host.profile();
    profile.limits = caps;
    host.run_with(rung, profile, &host.command(&["/usr/bin/python3", "-c", script]))
}

/// The hit that ended the command, or that its record notes.
#[track_caller]
fn hit(ran: &Ran, cap: Cap) -> CapHit {
    let noted = ran.record.caps.iter().copied();
    let all = noted.chain(match ran.record.ended {
        Ended::Capped(hit) => Some(hit),
        _ => None,
    });
    let found = all.into_iter().find(|hit| hit.cap == cap);
    found.unwrap_or_else(|| panic!("{:?} {:?}: {}", ran.record.ended, ran.record.caps, ran.text))
}

#[track_caller]
fn uncapped(rung: Rung, script: &str) {
    let ran = run(rung, Caps::none(), script);
    ran.assert_ok();
    assert!(ran.record.caps.is_empty(), "{:?}", ran.record.caps);
}

/// Each process alone is within the cap; together they are not.
const HOGS: &str = "import os, sys, time\n\
    for i in range(4):\n    \
        if os.fork() == 0:\n        \
            held = bytearray(60 << 20)\n        \
            time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 1.2)\n        \
            os._exit(0)\n\
    for i in range(4): os.wait()";

#[test]
fn memory_is_the_sum_of_the_tree() {
    let caps = Caps { memory_bytes: Some(150 << 20), ..Caps::none() };
    for rung in TREES {
        let long = HOGS.replace("else 1.2", "else 60");
        let ran = run(rung, caps, &long);
        let hit = hit(&ran, Cap::Memory);
        assert_eq!(ran.record.ended, Ended::Capped(hit), "{rung}");
        assert!(hit.limit == 150 << 20 && hit.reached >= hit.limit, "{rung}: {hit}");
        assert_eq!(ran.record.survivors, 0, "{rung}");
        uncapped(rung, HOGS);
    }
}

#[test]
fn one_process_cannot_outrun_the_next_look() {
    let caps = Caps { memory_bytes: Some(100 << 20), ..Caps::none() };
    let script = "held = bytearray(700 << 20)\nprint(len(held))";
    for rung in TREES {
        let ran = run(rung, caps, script);
        assert!(!ran.text.contains("734003200"), "{rung}: {}", ran.text);
        uncapped(rung, script);
    }
}

#[test]
fn memory_that_processes_share_counts_once() {
    let caps = Caps { memory_bytes: Some(150 << 20), ..Caps::none() };
    let script = "import os, time\n\
        held = bytearray(60 << 20)\n\
        for i in range(6):\n    \
            if os.fork() == 0:\n        \
                time.sleep(1.2)\n        \
                os._exit(0)\n\
        for i in range(6): os.wait()";
    for rung in TREES {
        run(rung, caps, script).assert_ok();
    }
}

/// The kernel's own limit, which a process alone runs into before anybody looks. (It sends the signal itself here: a limit
/// in whole seconds would have to be waited for.)
#[test]
fn the_kernels_signal_at_the_end_of_processor_time_names_the_cap() {
    let script = "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)";
    for rung in TREES {
        for (cpu_ms, named) in [(Some(5000), true), (None, false)] {
            let ran = run(rung, Caps { cpu_ms, ..Caps::none() }, script);
            assert_eq!(
                ran.record.caps.iter().any(|hit| hit.cap == Cap::Cpu),
                named,
                "{rung}: {:?}",
                ran.record.caps
            );
        }
    }
}

#[test]
fn processor_time_is_the_sum_of_the_tree() {
    let caps = Caps { cpu_ms: Some(700), ..Caps::none() };
    let script = "import os, time\n\
        for i in range(3):\n    \
            if os.fork() == 0:\n        \
                while time.process_time() < LIMIT: pass\n        \
                os._exit(0)\n\
        for i in range(3): os.wait()";
    for rung in TREES {
        let ran = run(rung, caps, &script.replace("LIMIT", "60"));
        let hit = hit(&ran, Cap::Cpu);
        assert!(hit.limit == 700 && hit.reached > 700, "{rung}: {hit}");
        assert!(!matches!(ran.record.ended, Ended::Exited(0) | Ended::TimedOut { .. }), "{rung}");
        uncapped(rung, &script.replace("LIMIT", "0.4"));
    }
}

#[test]
fn processes_are_counted_for_the_tree() {
    let caps = Caps { processes: Some(20), ..Caps::none() };
    let script = "import os, sys, time\n\
        for i in range(40):\n    \
            try:\n        \
                if os.fork() == 0:\n            \
                    time.sleep(LIMIT)\n            \
                    os._exit(0)\n    \
            except BlockingIOError:\n        \
                print('refused at', i, flush=True)\n        \
                time.sleep(1)\n        \
                sys.exit(3)\n\
        time.sleep(LIMIT)";
    for rung in TREES {
        let ran = run(rung, caps, &script.replace("LIMIT", "60"));
        let hit = hit(&ran, Cap::Processes);
        assert!(hit.limit == 20 && hit.reached >= 20, "{rung}: {hit}");
        if is_grouped(rung) || (rung == Rung::R3 && !rustix::process::getuid().is_root()) {
            assert_eq!(ran.record.ended, Ended::Exited(3), "the kernel refuses: {}", ran.text);
        } else {
            assert_eq!(ran.record.ended, Ended::Capped(hit), "{rung}");
        }
        assert_eq!(ran.record.survivors, 0, "{rung}");
        uncapped(rung, &script.replace("LIMIT", "1"));
    }
}

#[test]
fn threads_count_as_processes() {
    let caps = Caps { processes: Some(20), ..Caps::none() };
    let script = "import threading, time\n\
        try:\n    \
            for i in range(40): threading.Thread(target=time.sleep, args=(LIMIT,), daemon=True).start()\n\
        finally: time.sleep(LIMIT)";
    for rung in TREES {
        let ran = run(rung, caps, &script.replace("LIMIT", "2"));
        assert!(hit(&ran, Cap::Processes).reached >= 20, "{rung}");
        uncapped(rung, &script.replace("LIMIT", "0.7"));
    }
}

#[test]
fn a_file_has_a_size() {
    let caps = Caps { file_bytes: Some(100_000), ..Caps::none() };
    let host = Host::new();
    let mut profile = host.profile();
    profile.limits = caps;
    for rung in TREES {
        let command = host.command(&["sh", "-c", "head -c 200000 /dev/zero > file"]);
        let ran = host.run_with(rung, profile.clone(), &command);
        assert_eq!(hit(&ran, Cap::FileSize), CapHit { cap: Cap::FileSize, limit: 100_000, reached: 100_000 });
        assert_eq!(std::fs::metadata(host.ws().join("file")).unwrap().len(), 100_000, "{rung}");
        host.sh(rung, "head -c 200000 /dev/zero > file").assert_ok();
    }
}

#[test]
fn the_private_tmp_has_a_size() {
    let caps = Caps { tmp_bytes: Some(1 << 20), ..Caps::none() };
    let script = "open('/tmp/f', 'wb').write(bytes(2 << 20))";
    let ran = run(Rung::R3, caps, script);
    ran.assert_refused();
    assert_eq!(hit(&ran, Cap::Tmp), CapHit { cap: Cap::Tmp, limit: 1 << 20, reached: 1 << 20 });
    assert!(ran.text.contains("No space left"), "{}", ran.text);
    uncapped(Rung::R3, script);
}

#[test]
fn descriptors_have_a_number() {
    let caps = Caps { open_files: Some(20), ..Caps::none() };
    let script = "held = [open('/dev/null') for i in range(30)]";
    for rung in TREES {
        let ran = run(rung, caps, script);
        ran.assert_refused();
        assert!(ran.text.contains("Too many open files"), "{}", ran.text);
        uncapped(rung, script);
    }
}

#[test]
fn the_receipt_says_how_each_cap_is_held() {
    use Strength::{Absent, Enforced, Sampled};
    let host = Host::new();
    let all = Caps {
        cpu_ms: Some(60_000),
        memory_bytes: Some(1 << 30),
        processes: Some(100),
        file_bytes: Some(1 << 20),
        open_files: Some(100),
        tmp_bytes: None,
        disk_bytes: None,
    };
    let summed = if is_grouped(Rung::R2) { Enforced } else { Sampled };
    let counted = if rustix::process::getuid().is_root() { summed } else { Enforced };
    for (rung, processes, tmp) in [(Rung::R3, counted, Enforced), (Rung::R2, summed, Absent)] {
        let held = |caps: Caps| {
            let mut profile = host.profile();
            profile.limits = caps;
            let receipt = sandbox(rung, profile).receipt().clone();
            move |guarantee: Guarantee| receipt.guarantees.get(&guarantee).copied()
        };
        let capped = held(all);
        assert_eq!(capped(Guarantee::CapCpu), Some(Sampled));
        assert_eq!(capped(Guarantee::CapMemory), Some(summed), "{rung}");
        assert_eq!(capped(Guarantee::CapProcesses), Some(processes), "{rung}");
        assert_eq!(capped(Guarantee::CapFileSize), Some(Enforced));
        assert_eq!(capped(Guarantee::CapOpenFiles), Some(Enforced));
        assert_eq!(capped(Guarantee::CapTmp), Some(tmp), "{rung}");
        // What was not asked for is neither held nor broken.
        assert_eq!(held(Caps::none())(Guarantee::CapMemory), None);
    }
}
