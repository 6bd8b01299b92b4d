//! Images out of the store of a container engine that somebody named: it is asked for an archive, which is then imported
//! like any other. Nothing is run by way of it, and nothing is fetched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

use super::ImageError;
use super::host::{HostTools, MissingTool, NoImage};
use super::store::{Image, ImageStore, checked_name};

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Podman.
    Podman,
    /// Docker, from version 25 on: older ones save no OCI layout.
    Docker,
}

/// What an engine gets of the environment: where its store or its daemon is, and no key of anybody's.
const ENVIRONMENT: [&str; 14] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "STORAGE_DRIVER",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
];
/// How much of what it complains of is repeated.
const COMPLAINT: usize = 2000;

impl Engine {
    /// What its program is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Saves an image of its store as an archive.
    fn save(
        self,
        tools: &HostTools,
        environment: &BTreeMap<OsString, OsString>,
        image: &str,
        to: &Path,
    ) -> Result<(), NoImage> {
        let program = tools.find(self.name())?;
        let format: &[&str] = match self {
            Self::Podman => &["--format", "oci-archive"],
            Self::Docker => &[],
        };
        let silent = |said: String| MissingTool::Silent {
            program: program.display().to_string(),
            asked: format!("save {image}"),
            said,
        };
        let passed = |name: &&OsString| ENVIRONMENT.iter().any(|passed| name.as_os_str() == *passed);
        let output = Command::new(&program)
            .arg("save")
            .args(format)
            .arg("--output")
            .arg(to)
            // Whatever it is called, it is no option.
            .args(["--", image])
            .env_clear()
            .envs(environment.iter().filter(|(name, _)| passed(name)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| silent(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let from = said.char_indices().rev().nth(COMPLAINT).map_or(0, |(at, _)| at);
        Err(silent(said[from..].trim().to_owned()).into())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Podman, Self::Docker];
        let found = all.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| format!("`{name}` is no container engine: expected podman or docker"))
    }
}

impl ImageStore {
    /// Unpacks an image that a container engine of this host has. Without a `name` it is called as it is there, where that
    /// can be a name here.
    ///
    /// # Errors
    ///
    /// [`NoImage::Tool`] where there is no such program or it does not save the image, [`NoImage::Image`] where what it
    /// saved cannot be imported; the store is then as it was.
    pub fn import_from(
        &self,
        engine: Engine,
        environment: &BTreeMap<OsString, OsString>,
        image: &str,
        name: Option<&str>,
    ) -> Result<Image, NoImage> {
        let path = environment.get(&OsString::from("PATH")).cloned().unwrap_or_default();
        let unfinished = self.unfinished()?;
        let archive = unfinished.0.join("saved.tar");
        engine.save(&HostTools::of_path(&path), environment, image, &archive)?;
        let imported =
            self.import(&archive, None, name.or_else(|| checked_name(image).is_ok().then_some(image)))?;
        fs::remove_file(&archive).map_err(ImageError::io(&archive))?;
        Ok(imported)
    }
}
