//! OCI images as the file system of commands, without a daemon: read from a layout or an archive of one, pinned by
//! digest, unpacked once, and from then on the read-only lower layer of rung R4.
//!
//! Format: the OCI image specification 1.1 (layout, index, manifest, configuration, layers with whiteouts), read with
//! the types of `oci-spec`. Every blob is checked against the digest that names it, from the manifest's down to each
//! layer's content.
//!
//! Where to start reading: `store.rs` (import, find, list), `layout.rs` (what is read), `unpack.rs` (what is made of a
//! layer). `saved.rs` makes a layout of an archive of docker's own form, `make.rs` writes one, `host.rs` gathers the host's Rust toolchain for one, and
//! `engine.rs` asks podman or docker for one.

mod blob;
mod engine;
mod host;
mod layout;
mod make;
mod saved;
mod store;
mod unpack;

use std::io;
use std::path::PathBuf;

use provost_core::digest::Digest;

pub use host::{HostTools, MissingTool, NoImage, rust_image};
pub use provost_core::containment::Engine;
pub use store::{Image, ImageStore};

/// Why an image cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A file or folder cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was named is not an image layout, or not a whole one.
    #[error("`{}` is not an OCI image layout: {why}", path.display())]
    NotALayout {
        /// What was named.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// Content is not what its digest says.
    #[error("{what} has the digest sha256:{found}, and sha256:{expected} was expected: nothing was imported")]
    Digest {
        /// Which content.
        what: String,
        /// The digest that names it.
        expected: Digest,
        /// The digest that it has.
        found: Digest,
    },
    /// The layout holds no image for this machine, or more than one.
    #[error("`{}` holds no single image for {wanted}: it has {}", path.display(), have.join(", "))]
    Choice {
        /// What was named.
        path: PathBuf,
        /// What is wanted.
        wanted: String,
        /// What there is.
        have: Vec<String>,
    },
    /// A layer holds what is not unpacked.
    #[error("layer {layer} of the image holds `{entry}`, {why}: nothing was imported")]
    Entry {
        /// Number of the layer, from 1.
        layer: usize,
        /// The entry's path in the layer.
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    /// No image goes by this name or digest.
    #[error("there is no image `{wanted}` in `{}`; `provost image list` shows what there is", folder.display())]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// More than one image begins like this.
    #[error("`{wanted}` may be any of {}", names.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// What it may be.
        names: Vec<String>,
    },
    /// Not a name or digest at all.
    #[error(
        "`{0}` is not a name of an image (letters, digits and `._/:-`) or a digest (sha256: and 64 hex digits)"
    )]
    Reference(String),
}

impl ImageError {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Reads `sha256:` and 64 hex digits.
///
/// # Errors
///
/// [`ImageError::Reference`] for anything else.
pub fn parse_digest(text: &str) -> Result<Digest, ImageError> {
    text.strip_prefix("sha256:")
        .and_then(|hex| hex.parse().ok())
        .ok_or_else(|| ImageError::Reference(text.to_owned()))
}
