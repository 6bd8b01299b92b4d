//! The program that decides: where it is, where it runs, and what it sees.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost::core::event::ModelFact;
use provost::core::id::RunId;
use provost::model::agent_runtime::environment::{Asked, Settings};
use provost::model::planner::{Finishes, Planner, resolve};
use provost::model::{Provider, Secret};

use super::super::setup::{Place, keep_outside};
use crate::failure::{AtPath, Failure};
use crate::world::World;

/// What the journal says of such programs, where it names the wire of a model.
pub(crate) const WIRES: [&str; 2] = ["agy", "script"];

/// Least that is read of an answer: one with a long replacement in it is longer than a command's output need be.
const ANSWER_BYTES: usize = 1 << 20;

/// Variables that it sees, and beginnings of names of those that it sees.
const SEEN: [&str; 4] = ["PATH", "HOME", "LANG", "TERM"];
const SEEN_OF_ALL: [&str; 3] = ["AGY_", "GEMINI_", "GOOGLE_"];
const SEEN_OF_SCRIPT: &str = "FAKE_";

/// Parts of the names of variables that hold a credential.
const SECRET: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// The program of a task.
pub(super) struct Chosen<'a> {
    settings: &'a Settings,
    program: PathBuf,
    cwd: PathBuf,
}

impl<'a> Chosen<'a> {
    /// Finds it, from the folder of the caller; and the programs of the verification, since an order that cannot be carried
    /// out is better not put on record.
    pub(super) fn find(world: &World, settings: &'a Settings, workspace: &Path) -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(Failure::usage)?;
        let (variable, program) = match &settings.asked {
            Asked::Agy { program, .. } => ("AGY_BIN", program),
            Asked::Script { program } => ("AGENT_FAKE_PROVIDER", program),
        };
        let path = world.variables().get(OsStr::new("PATH")).map(OsString::as_os_str);
        for command in &settings.verify {
            let name = command.first().map(String::as_str).unwrap_or_default();
            resolve(OsStr::new(name), &cwd, path)
                .map_err(|error| Failure::usage(format!("AGENT_VERIFY: {error}")))?;
        }
        let program =
            resolve(program, &cwd, path).map_err(|error| Failure::usage(format!("{variable}: {error}")))?;
        // It runs with the rights of the caller, so no agent may write it: neither it nor a link to it.
        keep_outside(variable, &program, workspace)?;
        if let Some(folder) = program.parent() {
            keep_outside(variable, folder, workspace)?;
        }
        Ok(Self { settings, program, cwd })
    }

    /// What goes on record of it.
    pub(super) fn fact(&self) -> ModelFact {
        let [agy, script] = WIRES;
        let (wire, name) = match &self.settings.asked {
            Asked::Agy { model, .. } => (agy, model.clone()),
            Asked::Script { .. } => {
                let name = self.program.file_name().unwrap_or_default();
                (script, name.to_string_lossy().into_owned())
            }
        };
        ModelFact::new(wire, name, self.program.display().to_string())
    }

    /// The provider, and the folder that it runs in.
    pub(super) fn provider(
        &self,
        world: &World,
        place: &Place,
        run: &RunId,
    ) -> Result<(Arc<dyn Provider>, Folder), Failure> {
        let settings = self.settings;
        let folder = match &settings.work_dir {
            Some(dir) => Folder::Given(self.cwd.join(dir)),
            // No run has a dot in its name.
            None => Folder::make(place.spool.join(format!(".planner-{run}")))?,
        };
        let env = self.environment(world);
        let builder = match &settings.asked {
            Asked::Agy { model, .. } => Planner::agy(self.program.clone(), folder.path(), model.clone()),
            Asked::Script { .. } => Planner::script(self.program.clone(), folder.path()),
        };
        let secrets: Vec<Secret> = env
            .iter()
            .filter(|(name, _)| {
                name.to_str().is_some_and(|name| SECRET.iter().any(|part| name.contains(part)))
            })
            .filter_map(|(_, value)| value.to_str().map(Secret::new))
            .collect();
        let mut builder = builder
            .env(env)
            .task(settings.task.clone())
            .allowed(settings.allowed.iter().cloned())
            .verification(settings.verify.iter().cloned())
            .timeout(settings.timeout)
            .output_bytes(settings.max_output_bytes.max(ANSWER_BYTES))
            .observation_bytes(settings.max_observation_bytes)
            .finishes(Finishes::AfterAnEdit);
        for secret in secrets {
            builder = builder.secret(secret);
        }
        let planner = builder.build().map_err(Failure::usage)?;
        Ok((Arc::new(planner), folder))
    }

    fn environment(&self, world: &World) -> BTreeMap<OsString, OsString> {
        let is_script = matches!(self.settings.asked, Asked::Script { .. });
        let seen = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                SEEN.contains(&name)
                    || SEEN_OF_ALL.iter().any(|start| name.starts_with(start))
                    || (is_script && name.starts_with(SEEN_OF_SCRIPT))
            })
        };
        let all = world.variables().iter();
        all.filter(|(name, _)| seen(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// The folder that the program runs in. One of ours is gone with it.
pub(super) enum Folder {
    Given(PathBuf),
    Ours(PathBuf),
}

impl Folder {
    fn make(path: PathBuf) -> Result<Self, Failure> {
        // A driver that died may have left it.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).at(&path)?;
        Ok(Self::Ours(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) | Self::Ours(path) => path,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Self::Ours(path) = self {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
