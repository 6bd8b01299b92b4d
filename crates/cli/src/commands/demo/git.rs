//! The few git commands of the demonstration, by fixed arguments and without anybody's configuration.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// Runs git in `dir` and gives its standard output.
pub(crate) fn git(dir: &Path, args: &[&str]) -> Result<String, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "advice.detachedHead=false",
        ])
        .args(args)
        .env_clear()
        .env("PATH", path)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "Demo")
        .env("GIT_AUTHOR_EMAIL", "demo@localhost")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_NAME", "Demo")
        .env("GIT_COMMITTER_EMAIL", "demo@localhost")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        .output()
        .map_err(|error| Failure::usage(format!("git cannot be run: {error}")).hint("install git"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::internal(format!("git {}: {}", args.join(" "), words.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
