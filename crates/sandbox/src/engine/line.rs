//! The arguments that make a container as narrow as a sandbox of our own, as far as an engine can.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use provost_core::caps::{Cap, Caps};
use provost_core::containment::Engine;
use rustix::process::{Resource, getgid, getrlimit, getuid};

use crate::profile::{Changes, Profile, WorkspaceAccess, relative_to};
use crate::system::SYSTEM;
use crate::view::HOME;

/// Variables by which Docker hands on the proxies of its user's configuration, which may hold a password.
const PROXIES: [&str; 10] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "FTP_PROXY",
    "ftp_proxy",
    "NO_PROXY",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Whether a mount may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    Allowed,
    Refused,
}

/// Something of the host's that the container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    /// A file or folder, at `to`.
    Bind { from: PathBuf, to: PathBuf, writing: Writing },
    /// Nothing, in the place of a folder.
    Empty { to: PathBuf },
}

impl Mount {
    fn same(path: &Path, writing: Writing) -> Self {
        Self::Bind { from: path.to_owned(), to: path.to_owned(), writing }
    }

    /// Where it is.
    pub(crate) fn to(&self) -> &Path {
        match self {
            Self::Bind { to, .. } | Self::Empty { to } => to,
        }
    }

    /// As the argument of `--mount`.
    fn argument(&self, engine: Engine) -> OsString {
        let field = |name: &str, path: &Path| field(name, path.as_os_str());
        let fields = match self {
            Self::Bind { from, to, writing } => {
                let mut fields = vec![b"type=bind".to_vec(), field("source", from), field("destination", to)];
                if *writing == Writing::Refused {
                    fields.push(b"readonly".to_vec());
                }
                fields
            }
            Self::Empty { to } => {
                let size = b"tmpfs-size=4096".to_vec();
                let closed = [b"tmpfs-mode=0000".to_vec(), b"ro".to_vec()];
                let mut fields = vec![b"type=tmpfs".to_vec(), field("destination", to), size];
                fields.extend(closed);
                if engine == Engine::Podman {
                    // It would fill it with what it is to cover.
                    fields.push(b"notmpcopyup".to_vec());
                }
                fields
            }
        };
        OsString::from_vec(fields.join(&b','))
    }
}

/// A field of a comma-separated record, in quotes where it has to be.
fn field(name: &str, value: &OsStr) -> Vec<u8> {
    let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
    if !text.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return text;
    }
    let doubled = text.iter().flat_map(|byte| if *byte == b'"' { vec![b'"'; 2] } else { vec![*byte] });
    [b'"'].into_iter().chain(doubled).chain([b'"']).collect()
}

/// What of the host's the container has, in no particular order: engines mount what lies in something after it.
pub(crate) fn mounts(profile: &Profile, workspace: &Path) -> Vec<Mount> {
    let writing = match profile.workspace_access {
        WorkspaceAccess::Writable => Writing::Allowed,
        WorkspaceAccess::ReadOnly => Writing::Refused,
    };
    let copy = profile.changes.copy();
    let from = copy.unwrap_or(workspace).to_owned();
    let mut all = vec![Mount::Bind { from, to: workspace.to_owned(), writing }];
    let real = |path: &PathBuf| path.canonicalize().ok();
    let shown = profile.readable.iter().chain(&profile.private).filter_map(real);
    let of_system = |path: &PathBuf| SYSTEM.iter().any(|system| path.starts_with(system));
    let is_own = |path: &PathBuf| ["/", "/tmp", "/dev/shm"].iter().any(|own| path == Path::new(own));
    all.extend(
        shown
            .filter(|path| !of_system(path) && !is_own(path))
            .map(|path| Mount::same(&path, Writing::Refused)),
    );
    let git = profile.git.as_ref().map(|git| &git.folder).filter(|folder| !folder.starts_with(workspace));
    all.extend(git.and_then(real).map(|path| Mount::same(&path, Writing::Refused)));
    let writable: Vec<PathBuf> =
        profile.writable.iter().filter_map(real).filter(|path| !is_own(path)).collect();
    all.retain(|mount| !writable.iter().any(|path| path == mount.to()));
    all.extend(writable.iter().map(|path| Mount::same(path, Writing::Allowed)));

    let inside = |path: &PathBuf| {
        let relative = relative_to(path, &profile.workspace).or_else(|| relative_to(path, workspace))?;
        Some(workspace.join(relative)).filter(|path| path.symlink_metadata().is_ok())
    };
    let protected = profile.protected.iter().filter_map(inside);
    if let Changes::Staged { direct, .. } = &profile.changes {
        // What may not be changed is left out when it has ended. The history is not in the copy.
        let is_history =
            |path: &PathBuf| path.file_name().is_some_and(|name| name == ".git") && path.is_dir();
        all.extend(protected.filter(is_history).map(|path| Mount::same(&path, Writing::Refused)));
        let is_real = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real == *path);
        all.extend(direct.iter().filter_map(inside).filter(is_real).map(|path| Mount::same(&path, writing)));
    } else {
        let hidden: Vec<PathBuf> = profile.hidden.iter().filter_map(inside).collect();
        for path in protected.filter(|path| !hidden.iter().any(|hidden| path.starts_with(hidden))) {
            // With each folder above it, so that none can be moved away with what is in it.
            let above = path.ancestors().skip(1).take_while(|above| *above != workspace);
            all.extend(above.map(|above| Mount::same(above, writing)));
            all.push(Mount::same(&path, Writing::Refused));
        }
        for path in hidden {
            all.push(if path.is_dir() {
                Mount::Empty { to: path }
            } else {
                Mount::Bind { from: "/dev/null".into(), to: path, writing: Writing::Refused }
            });
        }
    }
    let mut unique: Vec<Mount> = Vec::with_capacity(all.len());
    for mount in all {
        let known = unique.iter().position(|other| other.to() == mount.to());
        match (known, &mount) {
            (None, _) => unique.push(mount),
            // A wider one never takes the place of a narrower one.
            (Some(_), Mount::Bind { writing: Writing::Allowed, .. }) => {}
            (Some(at), _) => unique[at] = mount,
        }
    }
    unique
}

/// Who the command is in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The engine's own user is root in there: whoever started it outside.
    Root,
    /// Whoever starts it, by number.
    Caller,
}

/// Everything between `run` and the image that is the same for all commands of a sandbox.
pub(crate) fn flags(engine: Engine, user: User, limits: &Caps, mounts: &[Mount]) -> Vec<OsString> {
    let tmp = limits.limit(Cap::Tmp).unwrap_or_default();
    let user = match user {
        User::Root => "0:0".to_owned(),
        User::Caller => format!("{}:{}", getuid().as_raw(), getgid().as_raw()),
    };
    let copies = if engine == Engine::Podman { ",notmpcopyup" } else { "" };
    let mut flags: Vec<OsString> = [
        "--pull=never".to_owned(),
        "--network=none".to_owned(),
        "--ipc=private".to_owned(),
        "--read-only".to_owned(),
        "--cap-drop=all".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        "--log-driver=none".to_owned(),
        format!("--user={user}"),
        format!("--tmpfs=/tmp:rw,noexec,nosuid,nodev,mode=1777,size={tmp}{copies}"),
        format!("--tmpfs={HOME}:rw,noexec,nosuid,nodev,mode=1777,size={tmp}{copies}"),
        format!("--shm-size={}", tmp / 2),
    ]
    .into_iter()
    .map(OsString::from)
    .collect();
    // An engine's own default may be more than this process may give, and so may its own hard limit be less.
    let hard = |resource, most: u64| getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    match engine {
        Engine::Podman => flags.extend(
            [
                "--read-only-tmpfs=false".to_owned(),
                "--image-volume=ignore".to_owned(),
                "--http-proxy=false".to_owned(),
                "--pid=private".to_owned(),
                "--uts=private".to_owned(),
                format!("--ulimit=nproc={0}:{0}", hard(Resource::Nproc, limits.processes.unwrap_or(4096))),
                format!(
                    "--ulimit=nofile={0}:{0}",
                    hard(Resource::Nofile, limits.open_files.unwrap_or(1 << 16))
                ),
            ]
            .map(OsString::from),
        ),
        Engine::Docker => {
            flags.extend(PROXIES.map(|name| format!("--env={name}=").into()));
            flags.extend(limits.open_files.map(|most| format!("--ulimit=nofile={most}:{most}").into()));
        }
    }
    flags.extend(limits.file_bytes.map(|most| format!("--ulimit=fsize={most}:{most}").into()));
    flags.extend(limits.processes.map(|most| format!("--pids-limit={most}").into()));
    if let Some(most) = limits.memory_bytes {
        // The second is memory and swap together.
        flags.extend([format!("--memory={most}b"), format!("--memory-swap={most}b")].map(OsString::from));
    }
    for mount in mounts {
        flags.extend(["--mount".into(), mount.argument(engine)]);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_comma_or_a_quote_is_one_field() {
        let mount = |path: &str| Mount::same(Path::new(path), Writing::Refused).argument(Engine::Podman);
        assert_eq!(mount("/a b"), "type=bind,source=/a b,destination=/a b,readonly");
        assert_eq!(
            mount("/a,readonly=false\"x"),
            "type=bind,\"source=/a,readonly=false\"\"x\",\"destination=/a,readonly=false\"\"x\",readonly"
        );
    }
}
