//! A layout on disk: which image it holds, and its blobs, each checked against the digest that names it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use oci_spec::image::{
    Arch, Descriptor, DigestAlgorithm, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout,
    Os,
};
use provost_core::digest::Digest;

use super::ImageError;
use super::blob::Hashing;

/// No index, manifest or configuration is larger; a larger one is an attempt to fill the memory.
pub(super) const LARGEST_DOCUMENT: u64 = 8 << 20;
/// Indexes in indexes, at most.
const DEEPEST: usize = 4;

/// Opens a file of a layout, which whoever made it may have put anything for: a pipe would be waited for.
pub(super) fn open_file(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no ordinary file"))
}

/// How a layer's tar stream is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// One layer, not yet read.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) file: PathBuf,
    pub(super) packing: Packing,
    /// Of the blob as it lies there.
    pub(super) digest: Digest,
    /// Of the tar stream.
    pub(super) content: Digest,
}

/// An image of a layout: everything about it but its files.
#[derive(Debug)]
pub(super) struct Found {
    /// The manifest's digest, which pins the image.
    pub(super) digest: Digest,
    /// The name that the layout has for it.
    pub(super) name: Option<String>,
    pub(super) config: ImageConfiguration,
    /// The configuration's digest.
    pub(super) config_digest: Digest,
    pub(super) layers: Vec<Layer>,
}

/// A layout's folder.
pub(super) struct Layout<'a> {
    folder: &'a Path,
    /// What the user named, for messages: the folder, or the archive that it was taken from.
    named: &'a Path,
}

impl<'a> Layout<'a> {
    pub(super) fn open(folder: &'a Path, named: &'a Path) -> Result<Self, ImageError> {
        let layout = Self { folder, named };
        let text = layout.document(&folder.join("oci-layout"))?;
        let version = OciLayout::from_reader(text.as_slice()).map_err(|error| layout.wrong(&error))?;
        if version.image_layout_version().split('.').next() != Some("1") {
            return Err(layout.wrong(&format!("its version is {}", version.image_layout_version())));
        }
        Ok(layout)
    }

    /// The image for this machine: the one that is pinned, or else the only one.
    pub(super) fn image(&self, pin: Option<Digest>) -> Result<Found, ImageError> {
        let text = self.document(&self.folder.join("index.json"))?;
        let index = ImageIndex::from_reader(text.as_slice()).map_err(|error| self.wrong(&error))?;
        let mut all = Vec::new();
        self.gather(&index, None, 0, &mut all)?;
        let mut fitting: Vec<&Entry> = match pin {
            // Pinned by the digest of a manifest, or of an index that has one for this machine.
            Some(pin) => all
                .iter()
                .filter(|entry| entry.digest == pin || (entry.within.contains(&pin) && entry.fits))
                .collect(),
            None => all.iter().filter(|entry| entry.fits).collect(),
        };
        fitting.sort_by_key(|entry| entry.digest);
        fitting.dedup_by_key(|entry| entry.digest);
        let [entry] = fitting.as_slice() else {
            return Err(ImageError::Choice {
                path: self.named.to_owned(),
                wanted: pin
                    .map_or_else(|| format!("linux/{}", Arch::default()), |pin| format!("sha256:{pin}")),
                have: if all.is_empty() {
                    vec!["none at all".to_owned()]
                } else {
                    all.iter().map(Entry::describe).collect()
                },
            });
        };
        self.read(entry)
    }

    fn gather(
        &self,
        index: &ImageIndex,
        within: Option<&Entry>,
        depth: usize,
        all: &mut Vec<Entry>,
    ) -> Result<(), ImageError> {
        for descriptor in index.manifests() {
            let mut entry = Entry::of(descriptor)
                .ok_or_else(|| self.wrong(&format!("`{}` is not a sha256 digest", descriptor.digest())))?;
            if let Some(above) = within {
                entry.within = above.within.iter().copied().chain([above.digest]).collect();
                entry.name = entry.name.or_else(|| above.name.clone());
            }
            match descriptor.media_type() {
                MediaType::ImageIndex => self.gather_in(&entry, depth, all)?,
                MediaType::Other(kind) if kind.ends_with("manifest.list.v2+json") => {
                    self.gather_in(&entry, depth, all)?;
                }
                MediaType::ImageManifest => all.push(entry),
                MediaType::Other(kind) if kind.ends_with("distribution.manifest.v2+json") => all.push(entry),
                // Signatures, attestations and other artifacts beside the image.
                _ => {}
            }
        }
        Ok(())
    }

    fn gather_in(&self, entry: &Entry, depth: usize, all: &mut Vec<Entry>) -> Result<(), ImageError> {
        if depth == DEEPEST {
            return Err(self.wrong("its indexes lie too deep in each other"));
        }
        let text = self.blob(entry.digest)?;
        let index = ImageIndex::from_reader(text.as_slice()).map_err(|error| self.wrong(&error))?;
        self.gather(&index, Some(entry), depth + 1, all)
    }

    fn read(&self, entry: &Entry) -> Result<Found, ImageError> {
        let text = self.blob(entry.digest)?;
        let manifest = ImageManifest::from_reader(text.as_slice()).map_err(|error| self.wrong(&error))?;
        let config = Entry::of(manifest.config())
            .ok_or_else(|| self.wrong("its configuration is not named by a sha256 digest"))?;
        let config_digest = config.digest;
        let text = self.blob(config_digest)?;
        let config = ImageConfiguration::from_reader(text.as_slice()).map_err(|error| self.wrong(&error))?;
        if *config.os() != Os::Linux || *config.architecture() != Arch::default() {
            return Err(ImageError::Choice {
                path: self.named.to_owned(),
                wanted: format!("linux/{}", Arch::default()),
                have: vec![format!("{}/{}", config.os(), config.architecture())],
            });
        }
        let contents = config.rootfs().diff_ids();
        if contents.len() != manifest.layers().len() {
            return Err(self.wrong(&format!(
                "it has {} layers, and its configuration names {}",
                manifest.layers().len(),
                contents.len()
            )));
        }
        let layers = manifest.layers().iter().zip(contents).map(|(layer, content)| {
            let digest =
                sha256(layer).ok_or_else(|| self.wrong("a layer is not named by a sha256 digest"))?;
            let content = super::parse_digest(content)
                .map_err(|_| self.wrong(&format!("`{content}` is not a sha256 digest")))?;
            let packing = packing(layer.media_type()).ok_or_else(|| {
                self.wrong(&format!("layers of type `{}` are not read", layer.media_type()))
            })?;
            Ok(Layer { file: self.path(digest), packing, digest, content })
        });
        let layers = layers.collect::<Result<_, ImageError>>()?;
        Ok(Found { digest: entry.digest, name: entry.name.clone(), config, config_digest, layers })
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join("blobs/sha256").join(digest.to_string())
    }

    /// A document among the blobs, whole, when it is what its name says.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, ImageError> {
        let path = self.path(digest);
        let text = self.document(&path)?;
        let found = super::blob::digest(&text);
        if found == digest {
            Ok(text)
        } else {
            Err(ImageError::Digest { what: format!("`{}`", path.display()), expected: digest, found })
        }
    }

    fn document(&self, path: &Path) -> Result<Vec<u8>, ImageError> {
        let file = open_file(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                let inside = path.strip_prefix(self.folder).unwrap_or(path);
                self.wrong(&format!("it has no `{}`", inside.display()))
            }
            _ => ImageError::io(path)(error),
        })?;
        let mut text = Vec::new();
        file.take(LARGEST_DOCUMENT + 1).read_to_end(&mut text).map_err(ImageError::io(path))?;
        if text.len() as u64 > LARGEST_DOCUMENT {
            return Err(self.wrong(&format!("`{}` is too large for what it should be", path.display())));
        }
        Ok(text)
    }

    fn wrong(&self, why: &(impl ToString + ?Sized)) -> ImageError {
        ImageError::NotALayout { path: self.named.to_owned(), why: why.to_string() }
    }
}

/// One manifest that an index names.
#[derive(Debug)]
struct Entry {
    digest: Digest,
    name: Option<String>,
    platform: Option<String>,
    /// Whether it is for this machine, or does not say for which.
    fits: bool,
    /// The indexes that it was found in.
    within: Vec<Digest>,
}

impl Entry {
    fn of(descriptor: &Descriptor) -> Option<Self> {
        let annotation = |name: &str| descriptor.annotations().as_ref()?.get(name).cloned();
        let platform = descriptor.platform().as_ref();
        Some(Self {
            digest: sha256(descriptor)?,
            // Engines keep the whole name apart from the tag.
            name: annotation("io.containerd.image.name")
                .or_else(|| annotation("org.opencontainers.image.ref.name")),
            platform: platform.map(|platform| format!("{}/{}", platform.os(), platform.architecture())),
            fits: platform.is_none_or(|platform| {
                *platform.os() == Os::Linux && *platform.architecture() == Arch::default()
            }),
            within: Vec::new(),
        })
    }

    fn describe(&self) -> String {
        let name = self.name.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
        let platform =
            self.platform.as_deref().map_or_else(String::new, |platform| format!(" for {platform}"));
        format!("sha256:{}{name}{platform}", self.digest)
    }
}

fn sha256(descriptor: &Descriptor) -> Option<Digest> {
    let digest = descriptor.digest();
    (*digest.algorithm() == DigestAlgorithm::Sha256).then(|| digest.digest().parse().ok())?
}

fn packing(kind: &MediaType) -> Option<Packing> {
    Some(match kind {
        MediaType::ImageLayer => Packing::Plain,
        MediaType::ImageLayerGzip => Packing::Gzip,
        MediaType::ImageLayerZstd => Packing::Zstd,
        MediaType::Other(kind) if kind == "application/vnd.docker.image.rootfs.diff.tar.gzip" => {
            Packing::Gzip
        }
        MediaType::Other(kind) if kind == "application/vnd.docker.image.rootfs.diff.tar" => Packing::Plain,
        _ => return None,
    })
}

impl Layer {
    /// The digest of the blob as it lies there, against its name.
    pub(super) fn check(&self) -> Result<(), ImageError> {
        let file = open_file(&self.file).map_err(ImageError::io(&self.file))?;
        let (found, _) = Hashing::new(file).finish().map_err(ImageError::io(&self.file))?;
        if found == self.digest {
            return Ok(());
        }
        let what = format!("`{}`", self.file.display());
        Err(ImageError::Digest { what, expected: self.digest, found })
    }
}
