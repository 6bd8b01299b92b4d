//! An emulated machine whose first process is a test of this binary.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::guest::GUEST;

/// Starts a kernel with a test of this binary as its first process; what the console shows until it ends.
pub(super) fn boot(kernel: &Path, test: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    fs::write(&files, archive()).unwrap();
    // No KVM: within another virtual machine it may start and never get anywhere.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "200", "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-cpu", "max"])
        .args([
            "-smp",
            "2",
            "-m",
            "1536",
            "-nodefaults",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
        ])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(&files)
        .arg("-append")
        .arg(format!("console=ttyS0 quiet panic=-1 rdinit=/it {GUEST}=1 -- --exact {test} --nocapture"))
        .output()
        .expect("`timeout` and `qemu-system-x86_64` (Debian package qemu-system-x86)");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// This program and its libraries as `/it` and where they are, as a cpio archive in the format `newc`.
fn archive() -> Vec<u8> {
    let exe = std::env::current_exe().unwrap();
    let mut files = vec![(PathBuf::from("it"), fs::read(&exe).unwrap())];
    let found = Command::new("ldd").arg(&exe).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    for library in found.split_whitespace().filter(|word| word.starts_with('/')) {
        files.push((Path::new(library).strip_prefix("/").unwrap().to_owned(), fs::read(library).unwrap()));
    }
    files.push(("etc/passwd".into(), b"root:x:0:0::/:/it\n".to_vec()));
    let folders = ["proc", "sys", "dev", "tmp", "root", "usr", "new"].map(PathBuf::from);
    let above = files.iter().flat_map(|(path, _)| path.ancestors().skip(1).map(Path::to_owned));
    let folders: BTreeSet<PathBuf> = above.chain(folders).filter(|path| path.as_os_str() != "").collect();

    let mut archive = Vec::new();
    let entries = folders.into_iter().map(|path| (path, 0o40755, Vec::new()));
    let entries = entries.chain(files.into_iter().map(|(path, bytes)| (path, 0o100_755, bytes)));
    for (number, (path, mode, bytes)) in (1..).zip(entries.chain([("TRAILER!!!".into(), 0, Vec::new())])) {
        let name = path.to_str().unwrap();
        let fields = [number, mode, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        archive.extend_from_slice(b"070701");
        fields.iter().for_each(|field| write!(archive, "{field:08X}").unwrap());
        for part in [[name.as_bytes(), b"\0"].concat(), bytes] {
            archive.extend_from_slice(&part);
            archive.resize(archive.len().next_multiple_of(4), 0);
        }
    }
    archive
}
