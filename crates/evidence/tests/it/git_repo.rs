//! A real repository in a temp folder, driven by the real git with nothing of the machine's configuration.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Sha1,
    Sha256,
}

pub(crate) struct Repo {
    folder: tempfile::TempDir,
}

impl Repo {
    pub(crate) fn new(format: Format) -> Self {
        let repo = Self { folder: tempfile::tempdir().expect("temp folder") };
        let format = match format {
            Format::Sha1 => "--object-format=sha1",
            Format::Sha256 => "--object-format=sha256",
        };
        repo.git(&["init", "-q", "-b", "main", format]);
        repo
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.folder.path().join(name.as_ref())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A U Thor")
                .env(format!("GIT_{who}_EMAIL"), "author@example.com")
                .env(format!("GIT_{who}_DATE"), "1700000000 +0000");
        }
        command
    }

    pub(crate) fn try_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git runs");
        // A git that refuses early closes its input.
        let _ = child.stdin.take().expect("stdin").write_all(input);
        child.wait_with_output().expect("git ends")
    }

    pub(crate) fn git_with(&self, args: &[&str], input: &[u8]) -> String {
        let output = self.try_with(args, input);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_with(args, b"")
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        std::fs::write(path, content).expect("writes");
    }

    /// Commits all that lies in the work tree and answers the commit's id.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "c"]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }
}
