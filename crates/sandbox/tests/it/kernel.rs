//! Privileges and the kernel's wider surface.

use provost_core::containment::Rung;

use crate::support::{CONTAINED, Host};

/// Exits 0 when the call worked, 1 when it was refused.
fn call(number: i64, arguments: &str) -> String {
    format!(
        "import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         r = libc.syscall({number}{arguments})\nprint(r, os.strerror(ctypes.get_errno()))\nsys.exit(0 if r >= 0 else 1)"
    )
}

fn works_only_uncontained(script: &str) {
    let host = Host::new();
    for rung in CONTAINED {
        host.py(rung, script).assert_refused();
    }
    host.py(Rung::R0, script).assert_ok();
}

#[test]
fn no_setuid_bit_by_chmod() {
    works_only_uncontained("import os\nopen('f', 'w')\nos.chmod('f', 0o4755)");
    works_only_uncontained("import os\nf = open('g', 'w')\nos.fchmod(f.fileno(), 0o2755)");
}

#[test]
fn no_setuid_bit_by_open() {
    works_only_uncontained(
        "import os, sys\nos.umask(0)\nos.close(os.open(f'f{os.getpid()}', os.O_CREAT | os.O_WRONLY, 0o4755))",
    );
}

#[test]
fn no_new_namespaces() {
    works_only_uncontained(&call(libc::SYS_unshare, ", 0x10000000"));
}

#[test]
fn no_mounts() {
    let host = Host::new();
    let script = "unshare -Urm mount -t tmpfs none /mnt";
    for rung in CONTAINED {
        host.sh(rung, script).assert_refused();
        host.sh(rung, "mount -t tmpfs none /mnt").assert_refused();
        host.sh(rung, "umount /tmp").assert_refused();
    }
    host.sh(Rung::R0, script).assert_ok();
}

#[test]
fn no_io_uring() {
    works_only_uncontained(
        "import ctypes, sys\nlibc = ctypes.CDLL(None)\nb = ctypes.create_string_buffer(120)\n\
         sys.exit(0 if libc.syscall(425, 1, b) >= 0 else 1)",
    );
}

#[test]
fn no_keyrings_no_bpf_no_userfaultfd() {
    // KEYCTL_GET_KEYRING_ID of the user keyring, made when absent.
    works_only_uncontained(&call(libc::SYS_keyctl, ", 0, ctypes.c_int(-4), 1"));
    works_only_uncontained(&call(libc::SYS_userfaultfd, ", 1"));
}

#[test]
fn no_odd_sockets() {
    works_only_uncontained("import socket\nsocket.socket(40, socket.SOCK_STREAM)");
}

#[test]
fn no_capability_and_no_way_to_one() {
    let host = Host::new();
    let script = "grep -E '^(Cap(Eff|Prm|Bnd|Inh|Amb)|NoNewPrivs|Seccomp):' /proc/self/status";
    for rung in CONTAINED {
        let text = host.sh(rung, script).assert_ok().text.clone();
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!(field("CapEff:"), "0000000000000000", "{rung}");
        assert_eq!(field("CapPrm:"), "0000000000000000", "{rung}");
        assert_eq!(field("NoNewPrivs:"), "1");
        assert_eq!(field("Seccomp:"), "2");
        if rung == Rung::R3 || rustix::process::getuid().is_root() {
            assert_eq!(field("CapBnd:"), "0000000000000000", "{rung}");
        }
    }
}

#[test]
fn the_kernels_own_switches_are_out_of_reach() {
    let host = Host::new();
    // As uid 0 without capabilities, owning these files would be enough to write them.
    for rung in CONTAINED {
        for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"]
        {
            host.sh(rung, &format!("exec 3>> {path}")).assert_refused();
        }
    }
    if rustix::process::getuid().is_root() {
        host.sh(Rung::R0, "exec 3>> /proc/sys/kernel/core_pattern").assert_ok();
    }
}

#[test]
fn only_standard_descriptors_are_inherited() {
    use std::os::fd::AsRawFd;
    let host = Host::new();
    let leak = std::fs::File::open("/etc/hosts").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    assert!(leak.as_raw_fd() > 2);
    for rung in [Rung::R3, Rung::R2, Rung::R1, Rung::R0] {
        let ran = host.py(rung, "import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])\nprint(os.readlink('/proc/self/fd/0'))");
        assert_eq!(ran.assert_ok().text, "[0, 1, 2]\n/dev/null\n", "{rung}");
    }
}

#[test]
fn no_terminal() {
    let host = Host::new();
    for rung in CONTAINED {
        host.py(rung, "open('/dev/tty')").assert_refused();
        host.py(rung, "import os\nassert os.getsid(0) == os.getpid()").assert_ok();
    }
}
