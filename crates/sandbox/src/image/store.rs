//! The folder of unpacked images: one folder an image, named by its digest, whole or not there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::layout::{Found, Layout};
use super::saved;
use super::unpack::{self, Bounds, Counted};
use super::{ImageError, NoImage, parse_digest};

/// The unpacked file system, in an image's folder.
const ROOT: &str = "root";
/// What is known of it, in an image's folder.
const ABOUT: &str = "image.json";
/// Begins the names of folders that are being filled.
const UNFINISHED: &str = ".new-";
/// Held while such a folder is being filled.
const LOCK: &str = "lock";
/// Fewer digits of a digest are not taken for one.
const FEWEST_DIGITS: usize = 6;

/// What one image may take up.
const BOUNDS: Bounds = Bounds { bytes: 64 << 30, entries: 4_000_000 };

/// An image, unpacked and ready to be the root of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Digest of its manifest.
    pub digest: Digest,
    /// What it is called here; a name belongs to the image that got it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Digests that a container engine may know it by: of its configuration, of its manifest, and what the engine said
    /// that it was imported from. None for one that an earlier version imported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_as: Vec<Digest>,
    /// The environment that it wants, each `NAME=value`.
    pub env: Vec<String>,
    /// How many layers it was unpacked from.
    pub layers: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Its folder in the store.
    #[serde(skip)]
    folder: PathBuf,
}

impl Image {
    /// The folder that is its root. Nothing is ever written there.
    pub fn root(&self) -> PathBuf {
        self.folder.join(ROOT)
    }

    /// The value of a variable that it wants.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.iter().find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
    }

    /// Its name, or what its digest begins with.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("sha256:{}", self.digest.short()))
    }
}

/// Images in one folder, which belongs to the person who imports.
#[derive(Debug, Clone)]
pub struct ImageStore {
    folder: PathBuf,
}

impl ImageStore {
    /// The store in this folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Has a layout made, and imports it. It is gone afterwards.
    ///
    /// # Errors
    ///
    /// What `make` fails with, and what [`ImageStore::import`] does.
    pub fn import_made(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<Digest, NoImage>,
    ) -> Result<Image, NoImage> {
        let unfinished = self.unfinished()?;
        let folder = unfinished.0.join("made");
        fs::create_dir(&folder).map_err(ImageError::io(&folder))?;
        let digest = make(&folder)?;
        Ok(self.import(&folder, Some(digest), Some(name))?)
    }

    /// The digest of the image in a layout, without importing it.
    ///
    /// # Errors
    ///
    /// [`ImageError`] when there is no single image for this machine.
    pub fn digest(&self, source: &Path) -> Result<Digest, ImageError> {
        let unfinished = self.unfinished()?;
        let opened = opened(source, &unfinished.0)?;
        Ok(Layout::open(&opened, source)?.image(None)?.digest)
    }

    /// Unpacks the image of an OCI layout: a folder, or a tar archive of one; or an archive as
    /// `docker save` writes it. With a `pin` it is that image or none.
    ///
    /// # Errors
    ///
    /// [`ImageError`]; the store is then as it was.
    pub fn import(
        &self,
        source: &Path,
        pin: Option<Digest>,
        name: Option<&str>,
    ) -> Result<Image, ImageError> {
        let name = name.map(checked_name).transpose()?;
        let unfinished = self.unfinished()?;
        let opened = opened(source, &unfinished.0)?;
        let found = Layout::open(&opened, source)?.image(pin)?;
        // The layout's own word for it is a stranger's: taken when it is one that could be typed.
        let name = name.or_else(|| found.name.as_deref().and_then(|name| checked_name(name).ok()));
        let place = self.folder.join(found.digest.to_string());
        if !place.join(ABOUT).exists() {
            self.unpack(&unfinished.0, &found, &place)?;
        }
        self.name(found.digest, name)?;
        self.open(found.digest)
    }

    fn unpack(&self, unfinished: &Path, found: &Found, place: &Path) -> Result<(), ImageError> {
        let whole = unfinished.join("image");
        let root = whole.join(ROOT);
        fs::create_dir_all(&root).map_err(ImageError::io(&root))?;
        let mut counted = Counted::default();
        for (index, layer) in found.layers.iter().enumerate() {
            unpack::layer(&root, layer, index + 1, BOUNDS, &mut counted)?;
        }
        let config = found.config.config().as_ref();
        let about = Image {
            digest: found.digest,
            name: None,
            known_as: vec![found.config_digest, found.digest],
            env: config.and_then(|config| config.env().clone()).unwrap_or_default(),
            layers: found.layers.len(),
            bytes: counted.bytes,
            entries: counted.entries,
            folder: PathBuf::new(),
        };
        write_about(&whole, &about)?;
        // A folder of this name has a whole image in it, after a loss of power too.
        let opened = File::open(&whole).map_err(ImageError::io(&whole))?;
        rustix::fs::syncfs(&opened).map_err(|errno| ImageError::io(&whole)(errno.into()))?;
        match fs::rename(&whole, place) {
            // Somebody imported the same image meanwhile.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other.map_err(ImageError::io(place)),
        }
    }

    /// All images, by name and digest.
    ///
    /// # Errors
    ///
    /// [`ImageError::Io`] when the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Image>, ImageError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(ImageError::io(&self.folder))?,
        };
        let mut images = Vec::new();
        for entry in entries {
            let entry = entry.map_err(ImageError::io(&self.folder))?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok());
            if let Some(digest) = digest {
                images.push(self.open(digest)?);
            }
        }
        images.sort_by(|a, b| (&a.name, a.digest).cmp(&(&b.name, b.digest)));
        Ok(images)
    }

    /// The image with this digest.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unknown`] when it is not here.
    pub fn open(&self, digest: Digest) -> Result<Image, ImageError> {
        let folder = self.folder.join(digest.to_string());
        let about = folder.join(ABOUT);
        let text = match fs::read(&about) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.unknown(&format!("sha256:{digest}")));
            }
            other => other.map_err(ImageError::io(&about))?,
        };
        let image: Image =
            serde_json::from_slice(&text).map_err(|error| ImageError::io(&about)(error.into()))?;
        Ok(Image { digest, folder, ..image })
    }

    /// The image that goes by a name, a digest, or the beginning of one.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unknown`], or [`ImageError::Ambiguous`].
    pub fn find(&self, wanted: &str) -> Result<Image, ImageError> {
        let images = self.list()?;
        if let Some(image) = images.iter().find(|image| image.name.as_deref() == Some(wanted)) {
            return Ok(image.clone());
        }
        let digits = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let begins =
            |image: &&Image| digits.len() >= FEWEST_DIGITS && image.digest.to_string().starts_with(digits);
        match images.iter().filter(begins).collect::<Vec<_>>().as_slice() {
            [] => Err(self.unknown(wanted)),
            [image] => Ok((*image).clone()),
            several => Err(ImageError::Ambiguous {
                wanted: wanted.to_owned(),
                names: several.iter().map(|image| format!("sha256:{}", image.digest)).collect(),
            }),
        }
    }

    /// Removes an image. Commands that run in it keep what they see.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unknown`] when it is not here, [`ImageError::Io`] when it cannot be removed.
    pub fn remove(&self, digest: Digest) -> Result<(), ImageError> {
        let image = self.open(digest)?;
        let unfinished = self.unfinished()?;
        // Out of the way first: it is whole, or not there.
        let gone = unfinished.0.join("image");
        fs::rename(&image.folder, &gone).map_err(ImageError::io(&image.folder))?;
        unfinished.remove()
    }

    fn unknown(&self, wanted: &str) -> ImageError {
        ImageError::Unknown { wanted: wanted.to_owned(), folder: self.folder.clone() }
    }

    /// Gives an image a name, and takes it from the one that had it.
    fn name(&self, digest: Digest, name: Option<String>) -> Result<(), ImageError> {
        let Some(name) = name else { return Ok(()) };
        // One at a time: each takes the name from all others.
        let turn = File::open(&self.folder).map_err(ImageError::io(&self.folder))?;
        flock(&turn, FlockOperation::LockExclusive)
            .map_err(|errno| ImageError::io(&self.folder)(errno.into()))?;
        for mut image in self.list()? {
            let named = if image.digest == digest { Some(name.clone()) } else { None };
            let changes = image.name != named && (named.is_some() || image.name.as_ref() == Some(&name));
            if changes {
                image.name = named;
                write_about(&image.folder, &image)?;
            }
        }
        Ok(())
    }

    /// Notes one more digest that an engine knows an image by.
    pub(super) fn also_known_as(&self, mut image: Image, id: Digest) -> Result<Image, ImageError> {
        if !image.known_as.contains(&id) {
            image.known_as.insert(0, id);
            write_about(&image.folder, &image)?;
        }
        Ok(image)
    }

    /// A fresh folder to fill. What others left unfinished, and nobody fills any more, goes.
    pub(super) fn unfinished(&self) -> Result<Unfinished, ImageError> {
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&self.folder).map_err(ImageError::io(&self.folder))?;
        for entry in fs::read_dir(&self.folder).map_err(ImageError::io(&self.folder))? {
            let entry = entry.map_err(ImageError::io(&self.folder))?;
            let path = entry.path();
            let abandoned = entry.file_name().to_string_lossy().starts_with(UNFINISHED)
                && File::open(path.join(LOCK))
                    .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
            if abandoned {
                fs::remove_dir_all(&path).map_err(ImageError::io(&path))?;
            }
        }
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| ImageError::io(&self.folder)(errno.into()))?;
        let path = self.folder.join(format!("{UNFINISHED}{:016x}", u64::from_ne_bytes(random)));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(ImageError::io(&path))?;
        let lock = File::create(path.join(LOCK)).map_err(ImageError::io(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| ImageError::io(&path)(errno.into()))?;
        Ok(Unfinished(path, lock))
    }
}

/// A folder that is being filled; removed with this.
pub(super) struct Unfinished(
    pub(super) PathBuf,
    #[expect(dead_code, reason = "the lock is held for as long as it is open")] File,
);

impl Unfinished {
    fn remove(self) -> Result<(), ImageError> {
        fs::remove_dir_all(&self.0).map_err(ImageError::io(&self.0))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next import.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder of a layout: the one named, or the one that an archive is unpacked to.
fn opened(source: &Path, unfinished: &Path) -> Result<PathBuf, ImageError> {
    let found = fs::metadata(source).map_err(ImageError::io(source))?;
    if found.is_dir() {
        return Ok(source.to_owned());
    }
    let folder = unfinished.join("layout");
    fs::create_dir(&folder).map_err(ImageError::io(&folder))?;
    unpack::archive(&folder, source, BOUNDS)?;
    if saved::is(&folder) {
        saved::make_layout(&folder, source)?;
    }
    Ok(folder)
}

fn write_about(folder: &Path, about: &Image) -> Result<(), ImageError> {
    let text = serde_json::to_vec_pretty(about).map_err(|error| ImageError::io(folder)(error.into()))?;
    let temporary = folder.join(format!("{ABOUT}.tmp"));
    fs::write(&temporary, text).map_err(ImageError::io(&temporary))?;
    fs::rename(&temporary, folder.join(ABOUT)).map_err(ImageError::io(&temporary))
}

/// A name that can be typed, and that no digest can be taken for.
pub(super) fn checked_name(name: &str) -> Result<String, ImageError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:-".contains(&byte);
    let is_digest = parse_digest(name).is_ok();
    if name.is_empty() || name.len() > 255 || !name.bytes().all(good) || name.starts_with('-') || is_digest {
        return Err(ImageError::Reference(name.to_owned()));
    }
    Ok(name.to_owned())
}
