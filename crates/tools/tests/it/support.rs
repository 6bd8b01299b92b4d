//! A workspace in a temporary folder, and calls as the door makes them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use provost_core::act::Touch;
use provost_core::contract::Limits;
use provost_core::path::RelPath;
use provost_tools::command::{HostEnvironment, environment};
use provost_tools::workspace::Applied;
use provost_tools::{Context, Effect, Registry, SeenState, Workspace};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace `ws` in a temporary folder that also has an `outside`.
pub(crate) struct World {
    pub(crate) temp: TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) limits: Limits,
    pub(crate) registry: Registry,
    pub(crate) env: BTreeMap<String, String>,
    /// What the model has seen.
    pub(crate) seen: RefCell<BTreeMap<RelPath, Vec<u8>>>,
    /// Paths that policy does not let be read.
    pub(crate) unreadable: Vec<RelPath>,
}

impl World {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("ws")).unwrap();
        fs::create_dir(temp.path().join("outside")).unwrap();
        let workspace = Workspace::open(&temp.path().join("ws")).unwrap();
        let host = HostEnvironment { path: "/usr/bin:/bin".to_owned(), ..HostEnvironment::default() };
        Self {
            temp,
            workspace,
            limits: Limits::default(),
            registry: Registry::standard(),
            env: environment(&host, &BTreeMap::new()),
            seen: RefCell::default(),
            unreadable: Vec::new(),
        }
    }

    /// A workspace with one file, which the model has seen.
    pub(crate) fn with(path: &str, content: impl AsRef<[u8]>) -> Self {
        let world = Self::new();
        world.put(path, content);
        world.see(path);
        world
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join("ws").join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let full = self.path(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, content).unwrap();
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.get(path)).unwrap()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Marks a file as seen by the model as it is now.
    pub(crate) fn see(&self, path: &str) {
        self.seen.borrow_mut().insert(RelPath::parse(path).unwrap(), self.get(path));
    }

    fn with_context<T>(&self, run: impl FnOnce(&Context<'_>) -> T) -> T {
        let seen = |path: &RelPath, now: &[u8]| match self.seen.borrow().get(path) {
            None => SeenState::Unseen,
            Some(last) if last == now => SeenState::Same,
            Some(last) => SeenState::Different { last: Some(last.clone()) },
        };
        let readable = |path: &RelPath| !self.unreadable.contains(path);
        run(&Context {
            workspace: &self.workspace,
            limits: &self.limits,
            seen: &seen,
            readable: &readable,
            environment: &self.env,
            image: None,
        })
    }

    /// What a call would touch.
    pub(crate) fn touches(&self, tool: &str, args: &Value) -> Result<Vec<Touch>, String> {
        let (tool, args) = self.registry.decode(tool, &args.to_string()).map_err(|bad| bad.to_string())?;
        self.with_context(|ctx| tool.touches(&args, ctx)).map_err(|bad| bad.to_string())
    }

    /// What a call comes to, nothing being written.
    pub(crate) fn prepare(&self, tool: &str, args: &Value) -> Result<Effect, String> {
        self.touches(tool, args)?;
        let (tool, args) = self.registry.decode(tool, &args.to_string()).map_err(|bad| bad.to_string())?;
        self.with_context(|ctx| tool.prepare(&args, ctx)).map_err(|failure| failure.to_string())
    }

    /// Makes a call as the door does, and returns what the model is told.
    pub(crate) fn call(&self, tool: &str, args: &Value) -> Result<String, String> {
        self.call_applied(tool, args).map(|(text, _)| text)
    }

    pub(crate) fn call_applied(&self, tool: &str, args: &Value) -> Result<(String, Applied), String> {
        let (text, seen, applied) = match self.prepare(tool, args)? {
            Effect::Observe(observation) => (observation.text, observation.seen, Applied::default()),
            Effect::Write(set) => {
                let applied = self.workspace.apply(&set.changes).map_err(|error| error.to_string())?;
                (set.report, set.seen, applied)
            }
            other => (format!("{other:?}"), Vec::new(), Applied::default()),
        };
        self.seen.borrow_mut().extend(seen);
        Ok((text, applied))
    }

    /// The same with the temporary folder's name taken out.
    pub(crate) fn shown(&self, tool: &str, args: &Value) -> String {
        let text = match self.call(tool, args) {
            Ok(text) => text,
            Err(error) => format!("ERROR {error}"),
        };
        let root = self.temp.path().canonicalize().unwrap();
        text.replace(root.to_str().unwrap(), "/TMP")
    }
}

pub(crate) fn rel(path: &str) -> RelPath {
    RelPath::parse(path).unwrap()
}
