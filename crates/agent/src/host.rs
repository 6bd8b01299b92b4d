//! What of the host its commands may have: where toolchains lie, and an environment built from nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use provost_sandbox::{toolchain_env, toolchain_reads};
use provost_tools::command::{HostEnvironment, environment};

/// Folders outside of the workspace that commands may read, so that the host's toolchains work. None holds credentials.
pub fn toolchain_folders(host: &HostEnvironment) -> Vec<PathBuf> {
    let mut folders = toolchain_reads(OsStr::new(&host.path), host.home.as_deref().map(Path::new));
    if let Some(cargo) = &host.cargo_home {
        // Not the folder itself: it also holds the registry's token.
        let parts = ["bin", "registry", "git", "config.toml", "env"];
        folders.extend(parts.map(|part| Path::new(cargo).join(part)));
    }
    folders.extend(host.rustup_home.as_deref().map(PathBuf::from));
    folders
}

/// The environment of commands: the fixed one, and where the host's toolchains lie.
pub fn command_environment(host: &HostEnvironment) -> BTreeMap<String, String> {
    let roots = host.home.as_deref().map(|home| toolchain_env(Path::new(home))).unwrap_or_default();
    let text = |value: OsString| value.into_string().ok();
    let mut roots: BTreeMap<String, String> =
        roots.into_iter().filter_map(|(name, root)| Some((text(name)?, text(root)?))).collect();
    // These two the host may have set otherwise.
    roots.remove("CARGO_HOME");
    roots.remove("RUSTUP_HOME");
    environment(host, &roots)
}
