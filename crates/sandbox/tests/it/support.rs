//! A scratch host: a workspace, things outside of it, and a way to run a command in it under a rung.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{
    Cancel, Command, Ended, ExitRecord, HOME, Probe, Profile, RunError, RungChoice, Sandbox,
};

pub(crate) const CONTAINED: [Rung; 2] = [Rung::R3, Rung::R2];

/// One probe for all tests of this process.
pub(crate) fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(Probe::run)
}

/// Folders of one test: `ws` is the workspace, `outside` is not, `records` holds record folders.
pub(crate) struct Host {
    pub(crate) dir: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sandbox-it-").tempdir().unwrap();
        for name in ["ws", "outside", "records"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile::for_workspace(self.ws()).unwrap()
    }

    pub(crate) fn record_dir(&self) -> PathBuf {
        tempfile::Builder::new().tempdir_in(self.dir.path().join("records")).unwrap().keep()
    }

    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", HOME), ("LANG", "C.UTF-8")];
        Command {
            program: None,
            argv: argv.iter().map(OsString::from).collect(),
            cwd: self.ws(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect::<BTreeMap<_, _>>(),
            wall: Duration::from_secs(20),
            keep_head: 64 * 1024,
            keep_tail: 64 * 1024,
            egress: None,
            reaches: Vec::new(),
            record_dir: self.record_dir(),
        }
    }

    pub(crate) fn run(&self, rung: Rung, argv: &[&str]) -> Ran {
        self.run_with(rung, self.profile(), &self.command(argv))
    }

    /// A shell script.
    pub(crate) fn sh(&self, rung: Rung, script: &str) -> Ran {
        self.run(rung, &["sh", "-c", script])
    }

    /// A Python script; `/usr/bin/python3`, so that no toolchain is needed.
    pub(crate) fn py(&self, rung: Rung, script: &str) -> Ran {
        self.run(rung, &["/usr/bin/python3", "-c", script])
    }

    pub(crate) fn run_with(&self, rung: Rung, profile: Profile, command: &Command) -> Ran {
        Ran::of(self.try_run(rung, profile, command).unwrap_or_else(|error| panic!("{rung}: {error}")))
    }

    pub(crate) fn try_run(
        &self,
        rung: Rung,
        profile: Profile,
        command: &Command,
    ) -> Result<ExitRecord, RunError> {
        sandbox(rung, profile).run(command, &Cancel::new().unwrap())
    }
}

pub(crate) fn sandbox(rung: Rung, profile: Profile) -> Sandbox {
    let sandbox = Sandbox::new(probe(), profile, RungChoice::Exactly(rung)).unwrap();
    assert_eq!(sandbox.rung(), rung);
    sandbox
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) record: ExitRecord,
    pub(crate) text: String,
}

impl Ran {
    pub(crate) fn of(record: ExitRecord) -> Self {
        let bytes = [record.output.head.as_slice(), &record.output.tail].concat();
        Self { text: String::from_utf8_lossy(&bytes).into_owned(), record }
    }

    #[track_caller]
    pub(crate) fn assert_ok(&self) -> &Self {
        assert_eq!(self.record.ended, Ended::Exited(0), "{}", self.text);
        self
    }

    /// The command ran and its attempt was refused.
    #[track_caller]
    pub(crate) fn assert_refused(&self) -> &Self {
        assert!(
            matches!(self.record.ended, Ended::Exited(code) if code != 0),
            "{:?}: {}",
            self.record.ended,
            self.text
        );
        self
    }
}

/// Waits until something is true, at most ten seconds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !check() {
        assert!(std::time::Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
