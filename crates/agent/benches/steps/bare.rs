//! What the same machine asks for the same things without Provost, measured between the steps.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use provost_sandbox::{
    Cancel, Command, HOME, Probe, Profile, RungChoice, Sandbox, git_reads, toolchain_reads,
};

/// What a bare append writes: two pages of SQLite, which is what an append of the journal comes to.
const APPEND: usize = 8192;

/// Costs, one measurement a step.
pub(crate) struct Bare {
    file: File,
    records: PathBuf,
    count: u64,
    workspace: PathBuf,
    cancel: Cancel,
    sandboxes: Vec<(Rung, Sandbox)>,
    pub(crate) appends: Vec<Duration>,
    pub(crate) plain: Vec<Duration>,
    pub(crate) contained: Vec<(Rung, Vec<Duration>)>,
}

impl Bare {
    /// Appends to a file in `dir`, and nothing else.
    pub(crate) fn appends(dir: &Path, workspace: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(dir.join("bare")).expect("a file");
        let records = dir.join("records");
        fs::create_dir(&records).expect("a folder");
        Self {
            file,
            records,
            count: 0,
            workspace: workspace.to_owned(),
            cancel: Cancel::new().expect("a handle"),
            sandboxes: Vec::new(),
            appends: Vec::new(),
            plain: Vec::new(),
            contained: Vec::new(),
        }
    }

    /// Spawns too: plain, and contained as a run contains its commands.
    pub(crate) fn and_spawns(mut self, probe: &Probe, path: &str) -> Self {
        for rung in [Rung::R2, Rung::R3] {
            let mut profile = Profile::for_workspace(&self.workspace).expect("a profile");
            profile.readable.extend(toolchain_reads(path.as_ref(), None));
            profile.readable.extend(git_reads(&self.workspace));
            profile.protected.push(self.workspace.join(".git"));
            if let Ok(sandbox) = Sandbox::new(probe, profile, RungChoice::Exactly(rung)) {
                self.sandboxes.push((rung, sandbox));
                self.contained.push((rung, Vec::new()));
            }
        }
        self
    }

    /// One of each.
    pub(crate) fn measure(&mut self) {
        self.count += 1;
        let page = [0x5a; APPEND];
        let begun = Instant::now();
        self.file.write_all(&page).and_then(|()| self.file.sync_data()).expect("an append");
        self.appends.push(begun.elapsed());
        if self.sandboxes.is_empty() {
            return;
        }
        let begun = Instant::now();
        let status = std::process::Command::new("/bin/true").env_clear().status().expect("it starts");
        self.plain.push(begun.elapsed());
        assert!(status.success());
        for ((_, sandbox), (rung, times)) in self.sandboxes.iter().zip(&mut self.contained) {
            let record_dir = self.records.join(format!("{rung}-{}", self.count));
            fs::create_dir(&record_dir).expect("a folder");
            let command = Command {
                program: None,
                argv: vec!["/bin/true".into()],
                cwd: self.workspace.clone(),
                env: [("HOME".into(), HOME.into())].into(),
                wall: Duration::from_secs(10),
                keep_head: 1000,
                keep_tail: 1000,
                egress: None,
                reaches: Vec::new(),
                record_dir: record_dir.clone(),
            };
            let begun = Instant::now();
            sandbox.run(&command, &self.cancel).expect("it runs");
            times.push(begun.elapsed());
            fs::remove_dir_all(&record_dir).expect("it is removed");
        }
    }
}
