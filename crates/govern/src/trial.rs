//! A recipient's own try of a result: files from the commit and the bundle, commands contained by this host.
//!
//! What is tried is somebody's code. It sees a folder of its own, no network, and what a session's commands may take.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_agent::{command_environment, toolchain_folders};
use provost_core::containment::Rung;
use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_evidence::git::{NewFile, Repository};
use provost_evidence::tree::Mode;
use provost_sandbox::image::ImageStore;
use provost_sandbox::{Cancel, Command, ExitRecord, ImageRoot, Probe, Profile, RungChoice, Sandbox};
use provost_tools::command::HostEnvironment;

use crate::SessionError;
use crate::folder::at;

/// How much of a command's output is kept of its start and of its end, in bytes.
const OUTPUT: usize = 256 * 1024;

/// What a try needs of this host.
#[derive(Debug)]
pub struct Bench<'a> {
    /// What this host can enforce.
    pub probe: &'a Probe,
    /// Its toolchains.
    pub host: &'a HostEnvironment,
    /// Unpacked images.
    pub images: &'a ImageStore,
    /// An empty folder of its own, for as long as the try lasts.
    pub scratch: PathBuf,
}

impl Bench<'_> {
    /// The folder that is tried in.
    pub fn folder(&self) -> PathBuf {
        self.scratch.join("tree")
    }

    /// Makes the folder: the files of a commit's subtree, by object id.
    pub fn lay_out(
        &self,
        repository: &Repository,
        commit: &str,
        scope: &RelPath,
    ) -> Result<(), SessionError> {
        repository.export(commit, scope, &self.folder())?;
        Ok(())
    }

    /// Makes files what they are to be. Nothing is written through a link.
    pub fn put(&self, files: &[(RelPath, NewFile)]) -> Result<(), SessionError> {
        let root = self.folder();
        for (path, wanted) in files {
            let name = root.join(path.to_os());
            remove(&root, path)?;
            let Some((mode, content)) = wanted else { continue };
            make_parents(&root, path)?;
            if *mode == Mode::Symlink {
                symlink(std::ffi::OsStr::from_bytes(content), &name).map_err(at(&name))?;
                continue;
            }
            let permissions = if *mode == Mode::Executable { 0o755 } else { 0o644 };
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(permissions)
                .open(&name)
                .map_err(at(&name))?;
            file.write_all(content).map_err(at(&name))?;
            file.set_permissions(fs::Permissions::from_mode(permissions)).map_err(at(&name))?;
        }
        Ok(())
    }

    /// Runs a command in the folder, contained as strongly as this host can and as the policy asks.
    pub fn run(
        &self,
        policy: &Policy,
        argv: &[String],
        cwd: &RelPath,
        limit: Duration,
    ) -> Result<ExitRecord, SessionError> {
        let folder = self.folder();
        let refused = |why: String| SessionError::Containment(why);
        let mut profile = Profile::for_workspace(&folder).map_err(|error| refused(error.to_string()))?;
        let mut environment = command_environment(self.host);
        match policy.image {
            None => profile.readable.extend(toolchain_folders(self.host, &profile.workspace)),
            Some(digest) => {
                let image = self.images.open(digest).map_err(|error| refused(error.to_string()))?;
                let path = image.var("PATH").unwrap_or_default().to_owned();
                environment.insert("PATH".to_owned(), path);
                profile.image = Some(ImageRoot { folder: image.root(), digest, by: None });
            }
        }
        profile.limits = policy.caps;
        let at_least = policy.at_least.max(Rung::R2);
        let sandbox = Sandbox::new(self.probe, profile, RungChoice::Strongest { at_least })
            .map_err(|error| refused(error.to_string()))?;
        let record_dir = self.scratch.join("record");
        DirBuilder::new().mode(0o700).create(&record_dir).map_err(at(&record_dir))?;
        let command = Command {
            program: None,
            argv: argv.iter().map(Into::into).collect(),
            cwd: folder.join(cwd.to_os()),
            env: environment
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect::<BTreeMap<_, _>>(),
            wall: limit,
            keep_head: OUTPUT,
            keep_tail: OUTPUT,
            egress: None,
            reaches: Vec::new(),
            record_dir: record_dir.clone(),
        };
        let cancel = Cancel::new().map_err(|error| SessionError::Internal(error.to_string()))?;
        let ran = sandbox.run(&command, &cancel).map_err(|error| refused(error.to_string()));
        fs::remove_dir_all(&record_dir).map_err(at(&record_dir))?;
        ran
    }
}

/// Makes the folders above a path, in the place of whatever else stands there.
fn make_parents(root: &Path, path: &RelPath) -> Result<(), SessionError> {
    let name = path.to_os();
    let mut folder = root.to_owned();
    let parent = Path::new(&name).parent();
    for part in parent.into_iter().flat_map(Path::components) {
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(meta) if meta.is_dir() => continue,
            Ok(_) => fs::remove_file(&folder).map_err(at(&folder))?,
            Err(_) => {}
        }
        fs::create_dir(&folder).map_err(at(&folder))?;
    }
    Ok(())
}

/// Takes a path away, whatever it is; a link on the way to it is not followed.
fn remove(root: &Path, path: &RelPath) -> Result<(), SessionError> {
    let name = path.to_os();
    let mut whole = root.to_owned();
    for part in Path::new(&name).components() {
        if fs::symlink_metadata(&whole).map_or(true, |meta| !meta.is_dir()) {
            return Ok(());
        }
        whole.push(part);
    }
    match fs::symlink_metadata(&whole) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&whole).map_err(at(&whole)),
        Ok(_) => fs::remove_file(&whole).map_err(at(&whole)),
        Err(_) => Ok(()),
    }
}
