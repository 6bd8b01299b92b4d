//! What targets need besides bytes: a small workspace, a folder, a key. Made once a thread.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use provost_core::contract::Limits;
use provost_core::path::RelPath;
use provost_evidence::keys::SigningKey;
use provost_tools::command::{HostEnvironment, environment};
use provost_tools::{Context, Registry, SeenState, Workspace};
use tempfile::TempDir;

/// A temporary folder with a workspace in it. Targets only read it.
pub(crate) struct World {
    temp: TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) registry: Registry,
    limits: Limits,
    environment: BTreeMap<String, String>,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a folder");
        let root = temp.path().join("workspace");
        fs::create_dir_all(root.join("src")).expect("a folder");
        let put = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).expect("a file");
        put("src/lib.rs", b"pub fn add(a: u32, b: u32) -> u32 {\n    a - b\n}\n");
        put("one.txt", b"one\ntwo\nthree\ntwo\n");
        put("crlf.txt", b"one\r\ntwo\r\n");
        put("no-end.txt", b"one\ntwo");
        put("binary", b"\x00\x01\xff\xfe");
        put("empty", b"");
        std::os::unix::fs::symlink("one.txt", root.join("link")).expect("a link");
        std::os::unix::fs::symlink("/etc", root.join("out")).expect("a link");
        let host = HostEnvironment { path: "/usr/bin:/bin".to_owned(), ..HostEnvironment::default() };
        Self {
            workspace: Workspace::open(&root).expect("a workspace"),
            registry: Registry::standard(),
            limits: Limits::default(),
            environment: environment(&host, &BTreeMap::new()),
            temp,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn in_context<R>(&self, run: impl FnOnce(&Context<'_>) -> R) -> R {
        run(&Context {
            workspace: &self.workspace,
            limits: &self.limits,
            seen: &|_: &RelPath, _: &[u8]| SeenState::Same,
            readable: &|_: &RelPath| true,
            environment: &self.environment,
            image: None,
        })
    }
}

thread_local! {
    static WORLD: World = World::new();
}

pub(crate) fn world<R>(run: impl FnOnce(&World) -> R) -> R {
    WORLD.with(run)
}

/// The key that signed the envelopes among the seeds.
pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}
