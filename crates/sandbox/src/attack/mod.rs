//! Attacks on a sandbox: each a small thing with a name, what it tries, the guarantee that it would break, and how
//! somebody outside sees whether it worked.
//!
//! They are carried out by this same binary, started again (`entry.rs`) as the contained command itself, and without
//! containment as the control: an attack that does not work there proves nothing. Whether one worked is read off the things
//! that it was after (`scene.rs`, `watch.rs`), not off its own word; the few exceptions are [`Judge::Answer`].
//!
//! The attacks are about one's own files, processes and sockets, made for the purpose; nothing of the host is changed.

mod broker;
mod control;
mod files;
mod git;
mod ipc;
mod kernel;
mod limits;
mod network;
mod processes;
mod promise;
mod raw;
mod reads;
mod scene;
mod stage;
mod staged;
mod victim;
mod watch;

use std::io;

use provost_core::containment::{Guarantee, Receipt};

pub(crate) use promise::{Promise, Promised};
pub(crate) use scene::Scene;
pub(crate) use stage::{HELD, MARK, Stage, main};
pub(crate) use watch::Sighting;

/// What an attack says of itself: the refusal that it met. Printed for people, and never what decides.
type Tried = io::Result<()>;

/// One attack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// What it tries, in words that follow "it".
    pub(crate) tries: &'static str,
    /// The guarantee that it would break.
    pub(crate) breaks: Guarantee,
    pub(crate) judge: Judge,
    /// What makes it fail under R3 and R2.
    r3: Promise,
    /// Under R0 and R1.
    r1: Promise,
    r2: Promise,
    /// In a container of an engine's, where that is another thing than under R3.
    engine: Option<Promise>,
    /// Whether it needs a process outside to attack.
    pub(crate) needs: Needs,
    pub(crate) control: Control,
    perform: fn(&Stage) -> Tried,
}

/// What an attack finds beside files, sockets and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A process outside of the sandbox, of the same user.
    Victim,
    /// A terminal.
    Terminal,
    /// System V objects, a POSIX queue and a file in `/dev/shm`.
    Ipc,
    /// Keys in the user's keyring.
    Keys,
    /// A file that the caller has open without closing it on exec.
    Descriptor,
    /// A variable in the caller's own environment, which is its secret then.
    Environment,
    /// A socket in `/run`.
    RunSocket,
    /// A host that the policy allows, where its containment can give it a network.
    Hosts,
    /// A workspace whose changes are staged: where they are not there is nothing to get past.
    Staged,
    /// A file of the host, whose longest line is the secret.
    HostFile(&'static str),
}

/// How the control is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// With everything killed at its end.
    Tended,
    /// As a plain child with the environment and the descriptors of the caller.
    Plain,
    /// Not at all: it would do harm. What is contained is then judged alone.
    Harmful(&'static str),
}

/// How somebody outside sees that an attack worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// Anything in the folder outside is not what it was.
    Outside,
    /// Anything that is protected in the workspace is not what it was.
    Protected,
    /// Anything in the workspace is not what it was, but for the folder where everything is allowed.
    Workspace,
    /// Its output holds what only the thing attacked knew.
    Secret,
    /// A socket of the host heard from it.
    Heard,
    /// The process outside is not what it was.
    Victim,
    /// System V objects of the host are not what they were.
    Ipc,
    /// A file of this kind is in a folder of the host.
    Appears(Place),
    /// The workspace holds a setuid file or a device.
    Special,
    /// The host's user keyring holds a key of its.
    Key,
    /// The terminal was typed into.
    Terminal,
    /// A process of its is alive after the call returned.
    Lives,
    /// Its whole output was kept.
    Kept,
    /// It holds a descriptor whose link in `/proc` begins so.
    Holds(&'static str),
    /// It has this file open for writing.
    Opened(&'static str),
    /// It holds a socket of this protocol.
    Socket(&'static str),
    /// Processes of its are in different namespaces.
    Namespaces,
    /// One of its processes has a mount that it made, or lacks one that it removed.
    Mounts,
    /// One of its processes has another root folder.
    Root,
    /// The host can connect to it.
    Serves,
    /// It could get more rights: it has capabilities, or programs could give it some.
    Rights,
    /// It took more than a cap allows and goes on.
    Takes(Amount),
    /// It runs on after its limit of time.
    Overruns,
    /// By its own word, where the real thing would bring the host down: the kernel did not refuse it for want of rights.
    Answer,
}

/// Where a file of the host would appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Tmp,
    Shm,
}

/// What an attack takes too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Processes,
    Memory,
    Descriptors,
    Cpu,
    /// Bytes of one file in the workspace.
    File,
    /// Bytes below the workspace.
    Workspace,
    /// Bytes in the layer over the workspace.
    Layer,
    /// Bytes in the private temp folder or in `/dev/shm`.
    Tmp,
    /// Files in the private temp folder.
    Inodes,
}

impl Judge {
    /// Whether it has to be looked at while it runs.
    pub(crate) fn is_live(self) -> bool {
        matches!(
            self,
            Self::Holds(_)
                | Self::Opened(_)
                | Self::Socket(_)
                | Self::Namespaces
                | Self::Mounts
                | Self::Root
                | Self::Serves
                | Self::Rights
                | Self::Takes(_)
                | Self::Overruns
        )
    }
}

impl Attack {
    /// Tries nothing.
    pub(crate) const NOTHING: Self =
        Self::new("nothing", Guarantee::FsWrite, Judge::Outside, "does nothing", |_| Ok(()));

    const fn new(
        name: &'static str,
        breaks: Guarantee,
        judge: Judge,
        tries: &'static str,
        perform: fn(&Stage) -> Tried,
    ) -> Self {
        Self {
            name,
            tries,
            breaks,
            judge,
            r3: Promise::Receipt,
            r1: Promise::Receipt,
            r2: Promise::Receipt,
            engine: None,
            needs: Needs::Nothing,
            control: Control::Tended,
            perform,
        }
    }

    const fn on_r2(mut self, promise: Promise) -> Self {
        self.r2 = promise;
        self
    }

    const fn on_r1(mut self, promise: Promise) -> Self {
        self.r1 = promise;
        self
    }

    const fn on_r3(mut self, promise: Promise) -> Self {
        self.r3 = promise;
        self
    }

    const fn by_engine(mut self, promise: Promise) -> Self {
        self.engine = Some(promise);
        self
    }

    const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    const fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Whether there is something for it to attack.
    pub(crate) fn applies(&self, receipt: &Receipt) -> bool {
        self.needs != Needs::Staged || receipt.staged.is_some()
    }

    /// Whether it loads the machine so much that only one such attack is run at a time.
    pub(crate) fn is_heavy(&self) -> bool {
        matches!(self.judge, Judge::Takes(_) | Judge::Overruns | Judge::Kept)
    }
}

/// All attacks, in report order.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    [
        files::ATTACKS,
        reads::ATTACKS,
        control::ATTACKS,
        git::ATTACKS,
        staged::ATTACKS,
        processes::ATTACKS,
        ipc::ATTACKS,
        network::ATTACKS,
        broker::ATTACKS,
        kernel::ATTACKS,
        limits::ATTACKS,
    ]
    .into_iter()
    .flatten()
}
