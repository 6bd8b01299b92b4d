//! Archives of docker's own form, as `docker save` before version 25 and `podman save` write them: a `manifest.json` that
//! names configurations and layers by where they lie in the archive. Such an archive is made into a layout where it was
//! unpacked, and then read as any other.
//!
//! Format: the Docker image specification 1.2 ("Combined Image JSON + Filesystem Changeset Format"). It has no manifest whose
//! digest could pin the image, so that the layout's is made of what is there: the same archive always gives the same one.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use provost_core::digest::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ImageError;
use super::blob::{self, Hashing};
use super::layout::{LARGEST_DOCUMENT, open_file};

const MANIFEST: &str = "manifest.json";

/// One image of an archive.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: PathBuf,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<PathBuf>,
}

/// Whether an unpacked archive is of docker's form and no layout.
pub(super) fn is(folder: &Path) -> bool {
    !folder.join("oci-layout").exists() && folder.join(MANIFEST).exists()
}

/// Makes a layout of it, in the same folder. `named` is what the user named, for messages.
pub(super) fn make_layout(folder: &Path, named: &Path) -> Result<(), ImageError> {
    let archive = Archive { folder, named, blobs: folder.join("blobs/sha256") };
    let text = archive.document(Path::new(MANIFEST))?;
    let saved: Vec<Saved> =
        serde_json::from_slice(&text).map_err(|error| archive.wrong(format!("`{MANIFEST}`: {error}")))?;
    fs::create_dir_all(&archive.blobs).map_err(ImageError::io(&archive.blobs))?;
    let manifests = saved.iter().map(|image| archive.image(image)).collect::<Result<Vec<_>, _>>()?;
    let write = |name: &str, document: Value| {
        let path = folder.join(name);
        fs::write(&path, document.to_string()).map_err(ImageError::io(&path))
    };
    write("index.json", json!({"schemaVersion": 2, "manifests": manifests}))?;
    write("oci-layout", json!({"imageLayoutVersion": "1.0.0"}))
}

struct Archive<'a> {
    folder: &'a Path,
    named: &'a Path,
    blobs: PathBuf,
}

impl Archive<'_> {
    /// The index's entry of one image, whose blobs are then there.
    fn image(&self, image: &Saved) -> Result<Value, ImageError> {
        let text = self.document(&image.config)?;
        let config = self.keep(&text)?;
        // It is called by its digest, which is the image's id.
        let id = image.config.file_stem().and_then(|stem| stem.to_str()?.parse::<Digest>().ok());
        if let Some(expected) = id.filter(|id| *id != config) {
            let what = format!("`{}`", image.config.display());
            return Err(ImageError::Digest { what, expected, found: config });
        }
        let layers = image.layers.iter().map(|path| self.layer(path)).collect::<Result<Vec<_>, _>>()?;
        let manifest = json!({
            "schemaVersion": 2,
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": format!("sha256:{config}"),
                "size": text.len(),
            },
            "layers": layers,
        })
        .to_string();
        let mut entry = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{}", self.keep(manifest.as_bytes())?),
            "size": manifest.len(),
        });
        if let Some(name) = image.repo_tags.as_ref().and_then(|names| names.first()) {
            entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        }
        Ok(entry)
    }

    /// The manifest's entry of one layer.
    fn layer(&self, path: &Path) -> Result<Value, ImageError> {
        let at = self.place(path)?;
        let open = || self.open(&at, path);
        let mut magic = [0; 2];
        let packed = open()?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
        let mut content = Hashing::new(open()?);
        io::copy(&mut content, &mut io::sink()).map_err(ImageError::io(&at))?;
        let size = content.size;
        let (digest, _) = content.finish().map_err(ImageError::io(&at))?;
        match fs::hard_link(&at, self.blobs.join(digest.to_string())) {
            // The same layer in another image, or twice in one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(ImageError::io(&at))?,
        }
        let packing = if packed { "tar+gzip" } else { "tar" };
        Ok(json!({
            "mediaType": format!("application/vnd.oci.image.layer.v1.{packing}"),
            "digest": format!("sha256:{digest}"),
            "size": size,
        }))
    }

    fn keep(&self, document: &[u8]) -> Result<Digest, ImageError> {
        let digest = blob::digest(document);
        let path = self.blobs.join(digest.to_string());
        fs::write(&path, document).map_err(ImageError::io(&path))?;
        Ok(digest)
    }

    fn document(&self, path: &Path) -> Result<Vec<u8>, ImageError> {
        let at = self.place(path)?;
        let mut text = Vec::new();
        self.open(&at, path)?
            .take(LARGEST_DOCUMENT + 1)
            .read_to_end(&mut text)
            .map_err(ImageError::io(&at))?;
        if text.len() as u64 > LARGEST_DOCUMENT {
            return Err(self.wrong(format!("`{}` is too large for what it should be", path.display())));
        }
        Ok(text)
    }

    /// Where a path of the archive lies. There are no links on the way: none is made when an archive is unpacked.
    fn place(&self, path: &Path) -> Result<PathBuf, ImageError> {
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if is_plain && path.components().next().is_some() {
            return Ok(self.folder.join(path));
        }
        Err(self.wrong(format!("it names `{}`, which is no path in an archive", path.display())))
    }

    fn open(&self, at: &Path, path: &Path) -> Result<fs::File, ImageError> {
        open_file(at).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                self.wrong(format!("it has no `{}`", path.display()))
            }
            _ => ImageError::io(at)(error),
        })
    }

    fn wrong(&self, why: String) -> ImageError {
        ImageError::NotALayout { path: self.named.to_owned(), why }
    }
}
