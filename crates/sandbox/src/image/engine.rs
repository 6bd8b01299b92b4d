//! Images out of the store of a container engine that somebody named: it is asked for an archive, which is then imported
//! like any other. Nothing is run by way of it, and nothing is fetched.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::time::Duration;

use provost_core::containment::Engine;
use provost_core::digest::Digest;

use super::ImageError;
use super::host::{MissingTool, NoImage};
use super::store::{Image, ImageStore, checked_name};
use crate::engine::Client;

/// How long an engine may take to write a whole image.
const SAVED: Duration = Duration::from_secs(30 * 60);

/// Saves an image of its store as an archive, and gives the digest that it knows the image by.
fn save(client: &Client, image: &str, to: &Path) -> Result<Option<Digest>, NoImage> {
    let ask = |arguments: &[&OsStr]| {
        client.ask(arguments, SAVED).map_err(|said| MissingTool::Silent {
            program: client.program.path().display().to_string(),
            asked: format!("save {image}"),
            said,
        })
    };
    let words =
        |words: &[&'static str]| -> Vec<&'static OsStr> { words.iter().copied().map(OsStr::new).collect() };
    // Whatever it is called, it is no option.
    let named = [OsStr::new("--"), OsStr::new(image)];
    let id = ask(&[words(&["image", "inspect", "--format", "{{.Id}}"]), named.into()].concat())?;
    let format: &[&str] = match client.engine {
        Engine::Podman => &["--format", "oci-archive"],
        // From version 25 on; older ones save no OCI layout.
        Engine::Docker => &[],
    };
    let to = [OsStr::new("--output"), to.as_os_str()];
    ask(&[words(&["save"]), words(format), to.into(), named.into()].concat())?;
    Ok(id.strip_prefix("sha256:").unwrap_or(&id).parse().ok())
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
        let unfinished = self.unfinished()?;
        let archive = unfinished.0.join("saved.tar");
        let id = save(&Client::find(engine, environment)?, image, &archive)?;
        let name = name.or_else(|| checked_name(image).is_ok().then_some(image));
        let mut imported = self.import(&archive, None, name)?;
        if let Some(id) = id {
            imported = self.also_known_as(imported, id)?;
        }
        fs::remove_file(&archive).map_err(ImageError::io(&archive))?;
        Ok(imported)
    }
}
