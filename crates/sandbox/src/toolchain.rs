//! Which folders of a person's home make up toolchains, and never a credential among them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::system::SYSTEM;

/// Toolchain roots below a home folder. Of `~/.cargo`, only the parts without `credentials.toml`.
const ROOTS: [&str; 24] = [
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/config.toml",
    ".cargo/config",
    ".cargo/env",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".fnm",
    ".asdf",
    ".volta",
    ".bun",
    ".deno/bin",
    ".rbenv",
    ".sdkman/candidates",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pnpm",
    ".local/lib",
    "go/bin",
    "go/pkg",
];

/// Names that hold credentials or sessions: nothing below them is ever returned.
const SECRET: [&str; 18] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".netrc",
    ".config",
    ".docker",
    ".kube",
    ".azure",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".claude",
    ".codex",
    "keyrings",
    "credentials",
];

/// Where tools look for their own roots when `HOME` is not the person's: variable, and folder below home.
const VARIABLES: [(&str, &str); 8] = [
    ("RUSTUP_HOME", ".rustup"),
    ("CARGO_HOME", ".cargo"),
    ("PYENV_ROOT", ".pyenv"),
    ("NVM_DIR", ".nvm"),
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("RBENV_ROOT", ".rbenv"),
    ("GOPATH", "go"),
];

/// What to add to [`crate::Profile::readable`] so that the tools on a `PATH` work: the folders on it, the install
/// roots that links in them lead to, and the known toolchain roots below `home`.
///
/// Never a home folder itself, a folder above it, or anything below a name that holds credentials.
pub fn toolchain_reads(path_var: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
    let home = home.filter(|home| home.is_absolute());
    let real_home = home.and_then(|home| home.canonicalize().ok());
    let mut found = BTreeSet::new();
    let mut add = |path: PathBuf| {
        let homes = [home, real_home.as_deref()];
        let above_home = homes.into_iter().flatten().any(|home| home.starts_with(&path));
        let secret = path.components().any(|part| SECRET.iter().any(|name| part.as_os_str() == *name));
        if path.is_absolute()
            && path.parent().is_some()
            && !above_home
            && !secret
            && !in_system(&path)
            && path.exists()
        {
            found.insert(path);
        }
    };
    for folder in std::env::split_paths(path_var).filter(|folder| folder.is_absolute()) {
        if !in_system(&folder) || folder.starts_with("/usr/local") {
            for root in linked_roots(&folder) {
                add(root);
            }
        }
        // pyenv, rbenv and asdf keep there what starts the real program of theirs, beside the folder.
        if folder.file_name().is_some_and(|name| name == "shims")
            && let Some(root) = folder.parent()
        {
            add(root.to_owned());
        }
        add(folder);
    }
    if let Some(home) = home {
        for root in ROOTS {
            add(home.join(root));
        }
    }
    // A path below another returned one says nothing new.
    let all: Vec<PathBuf> = found.into_iter().collect();
    all.iter()
        .filter(|path| !all.iter().any(|other| other != *path && path.starts_with(other)))
        .cloned()
        .collect()
}

/// Variables that point tools at their roots below `home`, for those that exist. They hold no secrets, and are needed
/// because `HOME` inside is [`crate::HOME`].
pub fn toolchain_env(home: &Path) -> BTreeMap<OsString, OsString> {
    VARIABLES
        .iter()
        .map(|(name, folder)| (OsString::from(name), home.join(folder)))
        .filter(|(_, folder)| folder.is_dir())
        .map(|(name, folder)| (name, folder.into_os_string()))
        .collect()
}

/// What cargo unpacks into below its home (`CARGO_HOME`): its index, its packages and its git checkouts. To be added to
/// [`crate::Profile::private`], so that a build without network finds what was downloaded and unpacks it, and the host's
/// own cache stays as it is. Credentials lie elsewhere in that folder.
pub fn cargo_caches(cargo_home: &Path) -> Vec<PathBuf> {
    ["registry", "git"].map(|name| cargo_home.join(name)).into_iter().filter(|path| path.is_dir()).collect()
}

/// The git folders outside of `workspace` that its `.git` file names (a linked worktree or a submodule): the git
/// folder and the common one. To be added to [`crate::Profile::readable`].
pub fn git_reads(workspace: &Path) -> Vec<PathBuf> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let named = |base: &Path, text: &str| {
        let text = text.trim();
        (!text.is_empty()).then(|| base.join(text)).and_then(|path| path.canonicalize().ok())
    };
    let pointer = read(workspace.join(".git"));
    let Some(folder) = pointer.strip_prefix("gitdir:").and_then(|text| named(workspace, text)) else {
        return Vec::new();
    };
    // A `.git` file is the workspace's own content, so that it must not be able to name just any folder: the folder
    // must name this workspace in turn, as git writes it for a linked worktree.
    let back = named(&folder, &read(folder.join("gitdir")));
    if back.is_none() || back != workspace.join(".git").canonicalize().ok() {
        return Vec::new();
    }
    let is_git = |folder: &Path| folder.join("HEAD").is_file();
    let common = named(&folder, &read(folder.join("commondir")));
    [Some(folder), common].into_iter().flatten().filter(|folder| is_git(folder)).collect()
}

fn in_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// What links in `folder` lead to: the install root of a toolchain, such as `~/.pyenv/versions/3.12.1` for a virtual
/// environment's `python`, or else the one file. A link into somebody's project shows no more than what it names.
fn linked_roots(folder: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .filter_map(|entry| entry.path().canonicalize().ok())
        .filter(|target| !target.starts_with(folder))
        .map(|target| install_root(&target).unwrap_or(target))
        .collect()
}

/// The root of the installation that has this program in its `bin`: it has a `lib` beside that.
fn install_root(program: &Path) -> Option<PathBuf> {
    let bin = program.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "bin"))?;
    let root = bin.parent().filter(|root| root.components().count() > 3)?;
    let installed = ["lib", "lib64", "libexec"].iter().any(|name| root.join(name).is_dir());
    let project =
        [".git", "Cargo.toml", "package.json", "pyproject.toml"].iter().any(|name| root.join(name).exists());
    (installed && !project).then(|| root.to_owned())
}
