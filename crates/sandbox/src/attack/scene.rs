//! The host's side of one attack: what there is to be attacked, and what is to be seen of it afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::containment::Engine;
use rustix::io::FdFlags;

use super::limits::{CAPS, LAYER};
use super::raw::call;
use super::stage::{Stage, c};
use super::victim::Victim;
use super::{Attack, Judge, Needs, Place};
use crate::git::git_folder;
use crate::profile::{Changes, Profile, ProfileError};
use crate::setting::{Attacker, Git, Setting, Workspace};

/// Everything of one attack. Dropping it takes it all away.
#[derive(Debug)]
pub(crate) struct Scene {
    root: PathBuf,
    pub(crate) stage: Stage,
    /// What the attacker does not know unless it got at it.
    secret: Vec<u8>,
    attack: &'static Attack,
    setting: Setting,
    before: BTreeMap<PathBuf, String>,
    ears: Ears,
    victim: Option<Victim>,
    shared: Shared,
    /// The master's side.
    terminal: Option<File>,
    _descriptor: Option<File>,
}

impl Scene {
    /// Makes a scene below a folder.
    pub(crate) fn new(
        attack: &'static Attack,
        setting: &Setting,
        base: &Path,
        exe: &Path,
    ) -> std::io::Result<Self> {
        let token = format!("provost-attack-{}", random(8));
        let mut secret = random(16).into_bytes();
        match attack.needs {
            Needs::Environment => secret = own_variable().unwrap_or(secret),
            Needs::HostFile(path) => secret = longest_line(path).unwrap_or(secret),
            _ => {}
        }
        let root = base.join(&token);
        let folder = |path: &str| fs::create_dir_all(root.join(path));
        for path in FOLDERS {
            folder(path)?;
        }
        let shown = String::from_utf8_lossy(&secret).into_owned();
        for (path, content) in FILES {
            fs::write(root.join(path), content.replace("SECRET", &shown))?;
        }
        if matches!(attack.needs, Needs::Nothing) {
            File::create(root.join("outside/list").join(&shown))?;
        }
        fs::set_permissions(root.join("outside/program"), fs::Permissions::from_mode(0o755))?;
        let ears = if attack.judge == Judge::Heard {
            Ears::new(&root, &token, attack.needs)
        } else {
            Ears::default()
        };
        let shared = Shared::new(&token, &secret, attack.needs);
        let outside = root.join("outside");
        let victim =
            (attack.needs == Needs::Victim).then(|| Victim::start(exe, &outside, &shown)).transpose()?;
        let (terminal, path) = if attack.needs == Needs::Terminal { terminal() } else { (None, None) };
        let descriptor = (attack.needs == Needs::Descriptor)
            .then(|| inheritable(&outside.join("open.txt")))
            .transpose()?;
        let stage = Stage {
            workspace: root.join("ws"),
            work: root.join("ws/work"),
            driver: std::process::id().cast_signed(),
            tcp: ears.tcp.as_ref().and_then(|ear| ear.local_addr().ok()).map(|address| address.port()),
            tcp6: ears.tcp6.as_ref().and_then(|ear| ear.local_addr().ok()).map(|address| address.port()),
            udp: ears.udp.as_ref().and_then(|ear| ear.local_addr().ok()).map(|address| address.port()),
            descriptor: descriptor.as_ref().map(AsRawFd::as_raw_fd),
            segment: shared.segment,
            semaphore: shared.semaphore,
            queue: shared.queue,
            victim: victim.as_ref().map(|victim| victim.told.clone()),
            terminal: path,
            outside,
            token,
        };
        fs::write(root.join("ws/stage.json"), serde_json::to_vec(&stage)?)?;
        let mut scene = Self {
            root,
            stage,
            secret,
            attack,
            setting: setting.clone(),
            before: BTreeMap::new(),
            ears,
            victim,
            shared,
            terminal,
            _descriptor: descriptor,
        };
        scene.before = scene.snapshot();
        Ok(scene)
    }

    /// The arguments that make this binary carry the attack out.
    pub(crate) fn arguments(&self) -> [std::ffi::OsString; 4] {
        let stage = self.stage.workspace.join("stage.json");
        [super::MARK.into(), "perform".into(), self.attack.name.into(), stage.into()]
    }

    /// What a command of a workspace like this one gets: one folder protected, one file hidden, caps on everything.
    pub(crate) fn profile(&self, attacker: &Attacker) -> Result<Profile, ProfileError> {
        let workspace = &self.stage.workspace;
        let mut profile = Profile::for_workspace(workspace)?;
        profile.protected = vec![workspace.join(".git"), workspace.join("sub/.cargo/config.toml")];
        profile.hidden = vec![workspace.join("secrets/.env")];
        profile.readable.extend(attacker.reads.iter().cloned());
        profile.limits = CAPS;
        profile.image = self.setting.image.clone();
        if self.setting.workspace == Workspace::Staged {
            // What is seen of an attack is seen in its work folder, at once.
            profile.changes = Changes::Staged { direct: vec![self.stage.work.clone()], copy: None };
            profile.limits.disk_bytes = Some(LAYER);
        }
        if self.setting.git == Git::Commit {
            profile.git = git_folder(workspace);
        }
        Ok(profile)
    }

    /// A folder of the host for other things of this attack.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The container engine that runs the attack where it is contained, if one does.
    pub(super) fn engine(&self) -> Option<Engine> {
        Some(self.setting.image.as_ref()?.by.as_ref()?.engine())
    }

    /// The process that is attacked, which is none of the attackers.
    pub(super) fn victim_pid(&self) -> Option<i32> {
        self.victim.as_ref().map(|victim| victim.told.pid)
    }

    /// What is to be seen after the end: how it shows that the attack worked.
    pub(crate) fn traces(&mut self, output: &[u8]) -> Option<String> {
        match self.attack.judge {
            Judge::Outside | Judge::Protected | Judge::Workspace => {
                let after = self.snapshot();
                let all = self.before.keys().chain(after.keys());
                let changed = all.into_iter().find(|path| self.before.get(*path) != after.get(*path))?;
                Some(format!(
                    "`{}` is not what it was",
                    changed.strip_prefix(&self.root).unwrap_or(changed).display()
                ))
            }
            Judge::Secret => contains(output, &self.secret).then(|| "it printed the secret".to_owned()),
            Judge::Heard => self.ears.heard(self.stage.token.as_bytes()).map(|ear| format!("{ear} heard it")),
            Judge::Victim => self.victim.as_mut()?.harm(),
            Judge::Ipc => self.shared.harm(&self.secret),
            Judge::Appears(place) => {
                let folder = match place {
                    Place::Tmp => "/tmp",
                    Place::Shm => "/dev/shm",
                };
                let path = Path::new(folder).join(&self.stage.token);
                path.exists().then(|| format!("`{}` is there", path.display()))
            }
            Judge::Special => special(&self.stage.work),
            Judge::Key => {
                let keys = fs::read_to_string("/proc/keys").unwrap_or_default();
                keys.lines()
                    .any(|line| line.ends_with(&format!("{}: 1", self.stage.token)))
                    .then(|| "the key is there".to_owned())
            }
            Judge::Terminal => {
                let mut typed = [0u8; 16];
                let count = self.terminal.as_mut()?.read(&mut typed).ok().filter(|count| *count > 0)?;
                Some(format!("{count} bytes were typed"))
            }
            Judge::Kept => (output.len() >= 16 << 20).then(|| format!("{} bytes were kept", output.len())),
            Judge::Answer => contains(output, b"\ntried: done\n")
                .then(|| "it was not refused for want of rights".to_owned()),
            _ => None,
        }
    }

    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        match self.attack.judge {
            Judge::Outside => note(&self.stage.outside, &mut found),
            Judge::Protected => {
                note(&self.stage.workspace.join("sub"), &mut found);
                let git = self.stage.workspace.join(".git");
                match self.setting.git {
                    Git::Closed => note(&git, &mut found),
                    Git::Commit => {
                        GIT_FOLDERS.iter().for_each(|folder| orders(&git.join(folder), &mut found));
                    }
                }
            }
            Judge::Workspace => {
                for entry in fs::read_dir(&self.stage.workspace).into_iter().flatten().flatten() {
                    if entry.path() != self.stage.work {
                        note(&entry.path(), &mut found);
                    }
                }
            }
            _ => {}
        }
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let token = &self.stage.token;
        for folder in ["/tmp", "/dev/shm"] {
            let _ = fs::remove_file(Path::new(folder).join(token));
        }
        for number in 0..4 {
            let _ = fs::remove_file(Path::new("/dev/shm").join(format!("{token}-{number}")));
        }
        let _ = fs::remove_file(format!("/run/{token}.sock"));
        if self.attack.judge == Judge::Key
            && let Ok(name) = c(token)
            && let Ok(key) = call(
                libc::SYS_keyctl,
                [10.into(), USER_KEYRING.into(), c"user".into(), name.as_c_str().into(), 0.into()],
            )
        {
            unlink_key(key);
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Git folders below `.git`, itself among them.
const GIT_FOLDERS: [&str; 3] = ["", "modules/lib", "worktrees/other"];

const FOLDERS: [&str; 21] = [
    "ws/work/mnt",
    "ws/folder",
    "ws/.git/hooks",
    "ws/.git/info",
    "ws/.git/logs",
    "ws/.git/objects/info",
    "ws/.git/objects/pack",
    "ws/.git/refs/heads",
    "ws/.git/modules/lib/hooks",
    "ws/.git/modules/lib/objects",
    "ws/.git/modules/lib/refs",
    "ws/.git/worktrees/other",
    "ws/sub/.cargo",
    "ws/secrets",
    "records",
    "tmp",
    "outside/empty",
    "outside/list",
    "outside/home/.ssh",
    "outside/home/.cargo/registry",
    "control",
];

const FILES: [(&str, &str); 19] = [
    ("ws/folder/file", "untouched\n"),
    ("ws/.git/modules/lib/config", "[core]\n"),
    ("ws/.git/modules/lib/HEAD", "ref: refs/heads/main\n"),
    ("ws/.git/worktrees/other/HEAD", "ref: refs/heads/other\n"),
    ("ws/.git/worktrees/other/commondir", "../..\n"),
    ("ws/.git/worktrees/other/gitdir", "/nowhere/.git\n"),
    ("ws/.git/config", "[core]\n"),
    ("ws/.git/HEAD", "ref: refs/heads/main\n"),
    ("ws/sub/.cargo/config.toml", "[build]\n"),
    ("ws/secrets/.env", "KEY=SECRET\n"),
    ("outside/victim.txt", "untouched\n"),
    ("outside/remove.txt", "untouched\n"),
    ("outside/fd.txt", "untouched\n"),
    ("outside/open.txt", "SECRET\n"),
    ("outside/home/.ssh/id_ed25519", "SECRET\n"),
    ("outside/home/.cargo/credentials.toml", "token = \"SECRET\"\n"),
    ("outside/home/.bashrc", "# start\n"),
    ("outside/home/.bash_history", "login SECRET\n"),
    ("outside/program", "#!/bin/sh\necho SECRET\n"),
];

const USER_KEYRING: i32 = -4;

fn random(bytes: usize) -> String {
    use std::fmt::Write;
    let mut random = [0u8; 16];
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    random[..bytes.min(16)].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}

/// The longest variable of this process that nobody hands to a command.
fn own_variable() -> Option<Vec<u8>> {
    let environ = fs::read("/proc/self/environ").ok()?;
    let handed = |line: &[u8]| {
        [b"PATH=".as_slice(), b"HOME=", b"LANG=", b"TMPDIR="].iter().any(|name| line.starts_with(name))
    };
    let all = environ.split(|byte| *byte == 0).filter(|line| line.len() >= 12 && !handed(line));
    all.max_by_key(|line| line.len()).map(<[u8]>::to_vec)
}

fn longest_line(path: &str) -> Option<Vec<u8>> {
    let text = fs::read(path).ok()?;
    text.split(|byte| *byte == b'\n').max_by_key(|line| line.len()).map(<[u8]>::to_vec)
}

/// Notes what a path and everything below it is: kind, mode, times, attributes, content.
fn note(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(seen) = path.symlink_metadata() else { return };
    let content = if seen.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let mut names = [0u8; 256];
    let attributes = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let times = (seen.mtime(), seen.mtime_nsec());
    found.insert(path.to_owned(), format!("{:o} {times:?} {attributes} {content:?}", seen.mode()));
    if seen.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
            note(&entry.path(), found);
        }
    }
}

/// What git takes orders from in a git folder that is open for commits, and what kind of thing its folders are. The rest of
/// it may change.
fn orders(git: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for name in ["config", "config.worktree", "commondir", "gitdir", "info", "hooks", "objects/info"] {
        note(&git.join(name), found);
    }
    for name in ["", "objects", "refs"] {
        let path = git.join(name);
        let kind = path.symlink_metadata().map(|seen| seen.file_type());
        found.insert(path, format!("{kind:?}"));
    }
}

/// A file below a folder that gives rights, or a device.
fn special(folder: &Path) -> Option<String> {
    for entry in fs::read_dir(folder).ok()?.filter_map(Result::ok) {
        let Ok(seen) = entry.metadata() else { continue };
        let kind = seen.file_type();
        let mut value = [0u8; 64];
        let capability = rustix::fs::lgetxattr(entry.path(), "security.capability", &mut value).is_ok();
        if (seen.is_file() && seen.mode() & 0o6000 != 0)
            || kind.is_block_device()
            || kind.is_char_device()
            || capability
        {
            return Some(format!("`{}` has mode {:o}", entry.file_name().to_string_lossy(), seen.mode()));
        }
    }
    None
}

/// A file that programs started meanwhile inherit.
fn inheritable(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

/// A new terminal: its master, and the path of its other side.
fn terminal() -> (Option<File>, Option<PathBuf>) {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
    let Ok(master) = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/ptmx") else {
        return (None, None);
    };
    let mut number = [0u8; 4];
    let unlock = call(
        libc::SYS_ioctl,
        [master.as_raw_fd().into(), (libc::TIOCSPTLCK as i64).into(), [0u8; 4].as_slice().into()],
    );
    let named = call(
        libc::SYS_ioctl,
        [master.as_raw_fd().into(), (libc::TIOCGPTN as i64).into(), number.as_mut_slice().into()],
    );
    if unlock.is_err() || named.is_err() {
        return (None, None);
    }
    (Some(master), Some(format!("/dev/pts/{}", u32::from_ne_bytes(number)).into()))
}

/// Sockets of the host that an attacker may reach.
#[derive(Debug, Default)]
struct Ears {
    tcp: Option<TcpListener>,
    tcp6: Option<TcpListener>,
    udp: Option<UdpSocket>,
    streams: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
    packets: Option<OwnedFd>,
}

impl Ears {
    fn new(root: &Path, token: &str, needs: Needs) -> Self {
        let named = |name: &str| SocketAddr::from_abstract_name(name);
        let mut streams = vec![
            named(token).and_then(|name| UnixListener::bind_addr(&name)),
            UnixListener::bind(root.join("outside/docker.sock")),
            UnixListener::bind(root.join("ws/work/stranger.sock")),
        ];
        if needs == Needs::RunSocket {
            streams.push(UnixListener::bind(format!("/run/{token}.sock")));
        }
        let datagrams = [
            named(&format!("{token}-d")).and_then(|name| UnixDatagram::bind_addr(&name)),
            UnixDatagram::bind(root.join("outside/log.sock")),
        ];
        let ears = Self {
            tcp: TcpListener::bind("127.0.0.1:0").ok(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").ok(),
            streams: streams.into_iter().filter_map(Result::ok).collect(),
            datagrams: datagrams.into_iter().filter_map(Result::ok).collect(),
            packets: packets(&root.join("outside/packet.sock")).ok(),
        };
        let _ = ears.tcp.iter().chain(&ears.tcp6).try_for_each(|ear| ear.set_nonblocking(true));
        let _ = ears.udp.iter().try_for_each(|ear| ear.set_nonblocking(true));
        let _ = ears.streams.iter().try_for_each(|ear| ear.set_nonblocking(true));
        let _ = ears.datagrams.iter().try_for_each(|ear| ear.set_nonblocking(true));
        ears
    }

    /// The kind of socket that a token arrived at.
    fn heard(&self, token: &[u8]) -> Option<&'static str> {
        let mut buffer = [0u8; 256];
        let limit = Some(Duration::from_millis(300));
        let mut by = |stream: &mut dyn Read| {
            stream.read(&mut buffer).is_ok_and(|count| contains(&buffer[..count], token))
        };
        for ear in self.tcp.iter().chain(&self.tcp6) {
            while let Ok((mut stream, _)) = ear.accept() {
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(limit);
                if by(&mut stream) {
                    return Some("a TCP listener");
                }
            }
        }
        for ear in &self.streams {
            while let Ok((mut stream, _)) = ear.accept() {
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(limit);
                if by(&mut stream) {
                    return Some("a unix listener");
                }
            }
        }
        if let Some(ear) = &self.packets
            && let Ok(stream) = rustix::net::accept(ear)
        {
            let mut stream = File::from(stream);
            if by(&mut stream) {
                return Some("a packet listener");
            }
        }
        if let Some(ear) = &self.udp {
            while let Ok(count) = ear.recv(&mut buffer) {
                if contains(&buffer[..count], token) {
                    return Some("a UDP socket");
                }
            }
        }
        for ear in &self.datagrams {
            while let Ok(count) = ear.recv(&mut buffer) {
                if contains(&buffer[..count], token) {
                    return Some("a unix datagram socket");
                }
            }
        }
        None
    }
}

/// A listening packet socket at a path.
fn packets(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 4)?;
    Ok(socket)
}

/// Objects of the host that processes share.
#[derive(Debug, Default)]
struct Shared {
    segment: Option<i32>,
    semaphore: Option<i32>,
    queue: Option<i32>,
    posix_queue: Option<String>,
    file: Option<PathBuf>,
    keys: Vec<i64>,
}

impl Shared {
    fn new(token: &str, secret: &[u8], needs: Needs) -> Self {
        match needs {
            Needs::Ipc => Self::ipc(token, secret),
            Needs::Keys => {
                let mut shared = Self::default();
                shared.keys = keys(token, secret);
                shared
            }
            _ => Self::default(),
        }
    }

    fn ipc(token: &str, secret: &[u8]) -> Self {
        let number = |result: std::io::Result<i64>| result.ok().and_then(|number| i32::try_from(number).ok());
        let segment = number(call(libc::SYS_shmget, [0.into(), 4096.into(), 0o1600.into()]));
        if let Some(segment) = segment {
            let _ = with_segment(segment, |memory| memory[..secret.len()].copy_from_slice(secret));
        }
        let semaphore = number(call(libc::SYS_semget, [0.into(), 1.into(), 0o1600.into()]));
        let queue = number(call(libc::SYS_msgget, [0.into(), 0o1600.into()]));
        if let Some(queue) = queue {
            let message = [1i64.to_ne_bytes().as_slice(), secret].concat();
            let length = secret.len() as i64;
            let _ =
                call(libc::SYS_msgsnd, [queue.into(), message.as_slice().into(), length.into(), 0.into()]);
        }
        let mut posix_queue = None;
        if let Ok(name) = c(token) {
            // mq_flags, mq_maxmsg, mq_msgsize, mq_curmsgs and room.
            let attributes: [u8; 64] = super::raw::structure(&[(8, 1, 8), (16, 8192, 8)]);
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
            let arguments =
                [name.as_c_str().into(), flags.into(), 0o600.into(), attributes.as_slice().into()];
            if let Ok(open) = call(libc::SYS_mq_open, arguments) {
                let until = [0u8; 16];
                let arguments = [
                    open.into(),
                    secret.into(),
                    (secret.len() as i64).into(),
                    0.into(),
                    until.as_slice().into(),
                ];
                let _ = call(libc::SYS_mq_timedsend, arguments);
                let _ = call(libc::SYS_close, [open.into()]);
                posix_queue = Some(token.to_owned());
            }
        }
        let file = PathBuf::from(format!("/dev/shm/{token}-secret"));
        let file = fs::write(&file, secret).is_ok().then_some(file);
        Self { segment, semaphore, queue, posix_queue, file, keys: Vec::new() }
    }

    fn harm(&self, secret: &[u8]) -> Option<String> {
        // IPC_STAT of the number alone would do for a removed one; its content is looked at anyway.
        let content =
            self.segment.map(|segment| with_segment(segment, |memory| memory[..secret.len()].to_vec()));
        match content {
            Some(Ok(content)) if content != secret => return Some("the segment's content".to_owned()),
            Some(Err(error)) => return Some(format!("the segment: {error}")),
            _ => {}
        }
        // GETVAL
        let value = call(libc::SYS_semctl, [self.semaphore?.into(), 0.into(), 12.into(), 0.into()]);
        (value.ok() != Some(0)).then(|| "the semaphore's value".to_owned())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(segment) = self.segment {
            let _ = call(libc::SYS_shmctl, [segment.into(), libc::IPC_RMID.into(), 0.into()]);
        }
        if let Some(semaphore) = self.semaphore {
            let _ = call(libc::SYS_semctl, [semaphore.into(), 0.into(), libc::IPC_RMID.into(), 0.into()]);
        }
        if let Some(queue) = self.queue {
            let _ = call(libc::SYS_msgctl, [queue.into(), libc::IPC_RMID.into(), 0.into()]);
        }
        if let Some(name) = self.posix_queue.as_ref().and_then(|name| c(name).ok()) {
            let _ = call(libc::SYS_mq_unlink, [name.as_c_str().into()]);
        }
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
        for key in &self.keys {
            unlink_key(*key);
        }
    }
}

fn with_segment<T>(segment: i32, work: impl FnOnce(&mut [u8]) -> T) -> std::io::Result<T> {
    let address = call(libc::SYS_shmat, [segment.into(), 0.into(), 0.into()])?;
    // SAFETY: the kernel has just mapped a page of memory there, readable and writable; it is unmapped after the borrow.
    let done = work(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 4096) });
    let _ = call(libc::SYS_shmdt, [address.into()]);
    Ok(done)
}

/// Two keys in the user's keyring: one that holds the secret, one that is called by it.
fn keys(token: &str, secret: &[u8]) -> Vec<i64> {
    let named = |name: &[u8], content: &[u8]| {
        let name = std::ffi::CString::new(name).ok()?;
        let length = content.len() as i64;
        let arguments =
            [c"user".into(), name.as_c_str().into(), content.into(), length.into(), USER_KEYRING.into()];
        let key = call(libc::SYS_add_key, arguments).ok()?;
        // KEYCTL_SETPERM: whoever is the user may do everything, linked into the session or not.
        let _ = call(libc::SYS_keyctl, [5.into(), key.into(), 0x3f3f_0000.into()]);
        Some(key)
    };
    [named(format!("{token}-secret").as_bytes(), secret), named(secret, b"x")].into_iter().flatten().collect()
}

fn unlink_key(key: i64) {
    // KEYCTL_UNLINK
    let _ = call(libc::SYS_keyctl, [9.into(), key.into(), USER_KEYRING.into()]);
}
