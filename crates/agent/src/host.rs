//! What of the host its commands may have: where toolchains lie, and an environment built from nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use provost_core::policy::Policy;
use provost_core::server::Server;
use provost_sandbox::image::Image;
use provost_sandbox::{cargo_caches, toolchain_env, toolchain_reads};
use provost_tools::command::{HostEnvironment, environment};

/// Where commands have no network: tools that fetch are told not to try again. npm alone would take 70 s over it.
pub(crate) const NO_RETRIES: [(&str, &str); 7] = [
    ("BUNDLE_RETRY", "0"),
    ("CARGO_NET_RETRY", "0"),
    ("PIP_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("YARN_HTTP_RETRY", "0"),
    ("npm_config_fetch_retries", "0"),
    ("pnpm_config_fetch_retries", "0"),
];

/// Folders outside of `workspace` that commands may read, so that toolchains work: the host's, or with an image, which
/// has its own, the packages that the host has fetched. None holds credentials, and none lies in the workspace or holds
/// it: what an agent may write is no part of the host.
pub(crate) fn readable_folders(host: &HostEnvironment, policy: &Policy, workspace: &Path) -> Vec<PathBuf> {
    if policy.image.is_none() {
        return toolchain_folders(host, workspace);
    }
    let mut folders: Vec<PathBuf> = cargo_home(host)
        .into_iter()
        .flat_map(|cargo| ["registry", "git"].map(|part| cargo.join(part)))
        .collect();
    folders.retain(|folder| is_apart(folder, workspace));
    folders
}

fn cargo_home(host: &HostEnvironment) -> Option<PathBuf> {
    let usual = || host.home.as_deref().map(|home| Path::new(home).join(".cargo"));
    host.cargo_home.as_deref().map(PathBuf::from).or_else(usual)
}

/// Folders outside of `workspace` that commands may read, so that the host's toolchains work.
pub fn toolchain_folders(host: &HostEnvironment, workspace: &Path) -> Vec<PathBuf> {
    let path = outside_of(workspace, &host.path);
    let mut folders = toolchain_reads(OsStr::new(&path), host.home.as_deref().map(Path::new));
    if let Some(cargo) = &host.cargo_home {
        // Not the folder itself: it also holds the registry's token.
        let parts = ["bin", "registry", "git", "config.toml", "env"];
        folders.extend(parts.map(|part| Path::new(cargo).join(part)));
    }
    folders.extend(host.rustup_home.as_deref().map(PathBuf::from));
    folders.retain(|folder| is_apart(folder, workspace));
    folders
}

/// Caches outside of `workspace` that each command gets a layer of its own over.
pub(crate) fn private_folders(host: &HostEnvironment, workspace: &Path) -> Vec<PathBuf> {
    let mut folders = cargo_home(host).map(|cargo| cargo_caches(&cargo)).unwrap_or_default();
    folders.retain(|folder| folder.is_absolute() && is_apart(folder, workspace));
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

/// The environment of commands in an image: what the image wants, then the fixed one, then where the packages lie that
/// the host has fetched.
pub(crate) fn image_environment(host: &HostEnvironment, image: &Image) -> BTreeMap<String, String> {
    let of_image = HostEnvironment {
        path: image.var("PATH").unwrap_or_default().to_owned(),
        cargo_home: cargo_home(host).map(|path| path.to_string_lossy().into_owned()),
        ..HostEnvironment::default()
    };
    let mut all: BTreeMap<String, String> = image
        .env
        .iter()
        .filter_map(|variable| variable.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    all.extend(environment(&of_image, &BTreeMap::new()));
    all
}

/// A `PATH` without entries that are relative or lie in the workspace, links resolved: what the agent writes there is no
/// program of the host's, and must not stand for one that a rule allows by name.
pub(crate) fn outside_of(workspace: &Path, path: &str) -> String {
    let outside = |entry: &&str| Path::new(entry).is_absolute() && is_apart(Path::new(entry), workspace);
    path.split(':').filter(outside).collect::<Vec<_>>().join(":")
}

/// The same for the `PATH` of an image, whose folders the host does not have: what they lead to, they lead to within the
/// image, where nobody writes.
pub(crate) fn outside_of_by_name(workspace: &Path, path: &str) -> String {
    let outside =
        |entry: &&str| Path::new(entry).is_absolute() && is_apart_by_name(Path::new(entry), workspace);
    path.split(':').filter(outside).collect::<Vec<_>>().join(":")
}

/// Folders and files outside of `workspace` that servers of tools may read, and with them all commands: what the person
/// named by an absolute path, and of a program the folder that it was installed in. Never a home folder, or one above it.
pub(crate) fn server_reads(servers: &[Server], host: &HostEnvironment, workspace: &Path) -> Vec<PathBuf> {
    let mut reads = Vec::new();
    for server in servers {
        let words = server.argv.iter().map(Path::new).filter(|word| word.is_absolute());
        for (index, word) in words.enumerate() {
            let installed =
                word.parent().filter(|folder| folder.ends_with("bin") || folder.ends_with(".bin"));
            let is_program = index == 0 && server.argv.first().is_some_and(|first| Path::new(first) == word);
            match installed.and_then(Path::parent).filter(|_| is_program) {
                Some(prefix) => reads.push(prefix.to_owned()),
                None => reads.push(word.to_owned()),
            }
        }
    }
    let home = host.home.as_deref().map(Path::new);
    let at_home = |path: &Path| home.is_some_and(|home| home.starts_with(path));
    // `/usr` and the like are there anyway.
    reads.retain(|path| is_apart(path, workspace) && path.components().count() > 2 && !at_home(path));
    reads
}

/// Whether a path neither lies in the workspace nor holds it, by its name and by what it leads to.
fn is_apart(path: &Path, workspace: &Path) -> bool {
    is_apart_by_name(path, workspace)
        && path.canonicalize().is_ok_and(|real| is_apart_by_name(&real, workspace))
}

fn is_apart_by_name(path: &Path, workspace: &Path) -> bool {
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    !climbs && !path.starts_with(workspace) && !workspace.starts_with(path)
}
