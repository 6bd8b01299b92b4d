//! Writing a layout: one layer, the same bytes for the same files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use serde_json::json;

use super::ImageError;
use super::blob::{self, Hashing};

/// One entry of an image that is being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    /// A file of the host, with its permissions.
    File(PathBuf),
    Link(PathBuf),
    Text(&'static str),
}

/// What an image is made of: paths without the leading `/`.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<PathBuf, Node>);

impl Tree {
    /// Puts an entry there, and the folders above it. What is there already stays.
    pub(super) fn put(&mut self, path: &Path, node: Node) {
        let path = path.strip_prefix("/").unwrap_or(path);
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            self.0.entry(above.to_owned()).or_insert(Node::Folder);
        }
        self.0.entry(path.to_owned()).or_insert(node);
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.values().filter_map(|node| match node {
            Node::File(source) => Some(source.as_path()),
            _ => None,
        })
    }
}

/// Writes the tree as a layout with one image into an empty folder; its digest.
pub(super) fn layout(folder: &Path, tree: &Tree, env: &[String], name: &str) -> Result<Digest, ImageError> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(ImageError::io(&blobs))?;
    let unnamed = blobs.join("layer");
    let file = File::create(&unnamed).map_err(ImageError::io(&unnamed))?;
    write(tree, io::BufWriter::with_capacity(256 * 1024, file))?;
    let file = File::open(&unnamed).map_err(ImageError::io(&unnamed))?;
    let (layer, layer_size) = Hashing::new(file).finish().map_err(ImageError::io(&unnamed))?;
    fs::rename(&unnamed, blobs.join(layer.to_string())).map_err(ImageError::io(&unnamed))?;

    let keep = |document: &serde_json::Value| -> Result<(Digest, u64), ImageError> {
        let text = document.to_string();
        let digest = blob::digest(text.as_bytes());
        let path = blobs.join(digest.to_string());
        fs::write(&path, &text).map_err(ImageError::io(&path))?;
        Ok((digest, text.len() as u64))
    };
    let architecture = oci_spec::image::Arch::default().to_string();
    // Without a time: the same files make the same image.
    let (config, config_size) = keep(&json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": env, "User": "65534:65534"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
    }))?;
    let (manifest, manifest_size) = keep(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": format!("sha256:{config}"),
            "size": config_size,
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": format!("sha256:{layer}"),
            "size": layer_size,
        }],
    }))?;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{manifest}"),
            "size": manifest_size,
            "platform": {"architecture": architecture, "os": "linux"},
            "annotations": {"org.opencontainers.image.ref.name": name},
        }],
    });
    for (file, document) in [("index.json", index), ("oci-layout", json!({"imageLayoutVersion": "1.0.0"}))] {
        let path = folder.join(file);
        fs::write(&path, document.to_string()).map_err(ImageError::io(&path))?;
    }
    Ok(manifest)
}

fn write(tree: &Tree, to: impl Write) -> Result<(), ImageError> {
    let mut archive = tar::Builder::new(to);
    for (path, node) in &tree.0 {
        let mut header = tar::Header::new_gnu();
        // One second after the epoch: some programs take a time of zero for none.
        header.set_mtime(1);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        let from = match node {
            Node::File(source) => source.as_path(),
            _ => path,
        };
        let written = match node {
            Node::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(0o755);
                archive.append_data(&mut header, path, io::empty())
            }
            Node::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                archive.append_link(&mut header, path, target)
            }
            Node::Text(text) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_mode(0o644);
                header.set_size(text.len() as u64);
                archive.append_data(&mut header, path, text.as_bytes())
            }
            Node::File(source) => file(&mut archive, &mut header, path, source),
        };
        written.map_err(ImageError::io(from))?;
    }
    archive.into_inner().and_then(|mut to| to.flush()).map_err(ImageError::io("the layer"))
}

fn file(
    archive: &mut tar::Builder<impl Write>,
    header: &mut tar::Header,
    path: &Path,
    source: &Path,
) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let file = File::open(source)?;
    let about = file.metadata()?;
    let executable = about.permissions().mode() & 0o111 != 0;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_size(about.len());
    // As many bytes as the header says: a file that grows meanwhile must not break the archive.
    archive.append_data(header, path, io::Read::take(file, about.len()))
}
