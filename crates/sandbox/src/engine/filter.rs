//! The filter of system calls that a container gets in the place of its engine's own, which leaves commands user namespaces,
//! setuid bits, keyrings and any kind of socket: what `seccomp.rs` refuses, in the form that engines read.
//!
//! Engines read an allow-list best: calls newer than all that it names are then answered as by a kernel without them.
//! Masks are of the low 32 bits, which are all that the kernel looks at.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::seccomp::{CREATES, NAMESPACES, NEW_TIME, SUID};

/// Calls that are allowed whatever their arguments: all that Linux has on the machines we run on, without those that the
/// program in `seccomp.rs` refuses or looks into, and without some that only rights lead to. `ioctl` is among them: a
/// container has no terminal of the caller's that could be typed into.
const ALLOWED: &str = include_str!("calls.txt");
/// Answered as by a kernel without them, so that callers fall back.
const NOT_THERE: [&str; 5] = ["clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register"];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "SCMP_ARCH_AARCH64";

/// Writes the filter as a new file, and gives the argument that names it. An engine's program reads it before it makes the
/// container; it may do that as another user of a namespace, to whom no descriptor of ours is of any use.
pub(crate) fn write(path: &Path) -> io::Result<OsString> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(profile().to_string().as_bytes())?;
    let mut argument = OsString::from("--security-opt=seccomp=");
    argument.push(path);
    Ok(argument)
}

fn profile() -> Value {
    let allowed: Vec<&str> = ALLOWED.split_whitespace().collect();
    let none_of = |name: &str, index: u32, bits: u32| allow(name, json!([without(index, bits)]));
    let mut calls = vec![
        json!({"names": allowed, "action": "SCMP_ACT_ALLOW"}),
        json!({"names": NOT_THERE, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}),
        none_of("unshare", 0, NAMESPACES | NEW_TIME),
        none_of("clone", 0, NAMESPACES),
    ];
    let modes = [
        ("chmod", 1),
        ("creat", 1),
        ("mkdir", 1),
        ("mknod", 1),
        ("fchmod", 1),
        ("fchmodat", 2),
        ("fchmodat2", 2),
        ("mkdirat", 2),
        ("mknodat", 2),
    ];
    calls.extend(modes.map(|(name, index)| none_of(name, index, SUID)));
    // Any one of the rules for a call is enough.
    for (name, flags) in [("open", 1), ("openat", 2)] {
        calls.extend([none_of(name, flags, CREATES), none_of(name, flags + 1, SUID)]);
    }
    calls.extend(
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]
            .map(|family| allow("socket", json!([equal(0, family)]))),
    );
    calls.push(allow("socket", json!([equal(0, libc::AF_NETLINK), equal(2, libc::NETLINK_ROUTE)])));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::EPERM,
        "architectures": [ARCHITECTURE],
        "syscalls": calls,
    })
}

fn allow(name: &str, arguments: Value) -> Value {
    json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": arguments})
}

fn without(index: u32, bits: u32) -> Value {
    json!({"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})
}

fn equal(index: u32, value: i32) -> Value {
    json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is allowed outright that is looked into or refused elsewhere.
    #[test]
    fn the_allow_list_names_nothing_that_has_a_rule() {
        let all: Vec<&str> = ALLOWED.split_whitespace().collect();
        assert!(all.contains(&"read") && all.contains(&"execve") && all.is_sorted());
        let profile = profile();
        let rules = profile["syscalls"].as_array().unwrap();
        let ruled = rules[1..].iter().flat_map(|rule| rule["names"].as_array().unwrap());
        for name in ruled.filter_map(Value::as_str).chain(["mount", "setns", "keyctl", "bpf", "add_key"]) {
            assert!(!all.contains(&name), "{name}");
        }
    }
}
