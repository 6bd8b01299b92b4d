//! `provost image`: images that commands can have as their root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost::core::digest::Digest;
use provost::sandbox::image::{HostTools, Image, ImageError, ImageStore, NoImage, parse_digest, rust_image};
use serde_json::json;

use crate::args::{ImageCommand, Images};
use crate::failure::{AtPath, Failure};
use crate::render::words::{counted, grouped};
use crate::render::{JsonLines, say};
use crate::world::World;

pub(crate) fn image(world: &World, args: Images) -> Result<u8, Failure> {
    let images = ImageStore::new(world.images_path(args.images.as_deref())?);
    match args.command {
        ImageCommand::Import { source, from: Some(engine), name } => {
            let before = images.list()?;
            let image = source.to_str().ok_or_else(|| Failure::usage("an image's name there is UTF-8"))?;
            let imported = images.import_from(engine, world.variables(), image, name.as_deref())?;
            renamed(&before, &imported);
            told(&imported);
        }
        ImageCommand::Import { source, from: None, name } => {
            let (source, pin) = pinned(&source)?;
            let before = images.list()?;
            let imported = images.import(&source, pin, name.as_deref())?;
            renamed(&before, &imported);
            told(&imported);
        }
        ImageCommand::Build { name, layout, replace } => {
            build(world, &images, &name, layout, replace.into())?;
        }
        ImageCommand::List { json } => list(&images, json.into())?,
        ImageCommand::Digest { image } => {
            let digest = match images.find(&image) {
                Err(ImageError::Unknown { .. }) if Path::new(&image).exists() => {
                    images.digest(Path::new(&image))?
                }
                found => found?.digest,
            };
            say!("sha256:{digest}");
        }
        ImageCommand::Remove { image } => {
            let image = images.find(&image)?;
            images.remove(image.digest)?;
            say!("removed {}", image.label());
        }
    }
    Ok(0)
}

/// Whether a new image may take another one's name.
#[derive(Clone, Copy, PartialEq)]
enum Name {
    Free,
    Anybodys,
}

impl From<bool> for Name {
    fn from(replace: bool) -> Self {
        if replace { Self::Anybodys } else { Self::Free }
    }
}

fn build(
    world: &World,
    images: &ImageStore,
    name: &str,
    layout: Option<PathBuf>,
    which: Name,
) -> Result<(), Failure> {
    let before = images.list()?;
    if let Some(other) = before.iter().find(|image| image.name.as_deref() == Some(name))
        && which == Name::Free
    {
        return Err(Failure::usage(format!("`{name}` is the name of sha256:{} already", other.digest))
            .hint("--replace gives the name to the new image; --name NAME calls it otherwise"));
    }
    eprintln!("gathering this host's toolchain and what it is linked with: some tens of seconds");
    let path = world.var("PATH").unwrap_or_default();
    let tools = HostTools::of_path(OsStr::new(&path));
    let image = match layout {
        None => images.import_made(name, |folder| rust_image(&tools, folder, name))?,
        Some(folder) => {
            fs::create_dir_all(&folder).at(&folder)?;
            if fs::read_dir(&folder).at(&folder)?.next().is_some() {
                return Err(Failure::usage(format!("`{}` is not empty", folder.display())));
            }
            let digest = rust_image(&tools, &folder, name)?;
            images.import(&folder, Some(digest), Some(name))?
        }
    };
    renamed(&before, &image);
    told(&image);
    Ok(())
}

/// Says whose name an image took.
fn renamed(before: &[Image], image: &Image) {
    let had =
        |other: &&Image| other.name.is_some() && other.name == image.name && other.digest != image.digest;
    if let (Some(other), Some(name)) = (before.iter().find(had), &image.name) {
        eprintln!("note: the name `{name}` was sha256:{}'s until now; it has none any more", other.digest);
    }
}

/// Whether the list is for people or for programs.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Words,
    Json,
}

impl From<bool> for Form {
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Words }
    }
}

fn list(images: &ImageStore, form: Form) -> Result<(), Failure> {
    let all = images.list()?;
    if all.is_empty() && form == Form::Words {
        say!("no images in `{}`: `provost image build` makes one", images.folder().display());
    }
    for image in all {
        match form {
            Form::Json => JsonLines::say(&json!({
                "digest": format!("sha256:{}", image.digest),
                "name": image.name,
                "layers": image.layers,
                "entries": image.entries,
                "bytes": image.bytes,
                "root": image.root().display().to_string(),
            })),
            Form::Words => say!(
                "sha256:{}  {:<20}  {}, {} MiB",
                image.digest,
                image.name.as_deref().unwrap_or("-"),
                counted(image.entries, "file"),
                grouped(image.bytes >> 20)
            ),
        }
    }
    Ok(())
}

fn told(image: &Image) {
    say!("sha256:{}", image.digest);
}

/// A layout, and the digest after `@` that pins the image in it.
fn pinned(source: &Path) -> Result<(PathBuf, Option<Digest>), Failure> {
    let bytes = source.as_os_str().as_bytes();
    let at = bytes.windows(8).rposition(|window| window == b"@sha256:");
    let Some(at) = at else { return Ok((source.to_owned(), None)) };
    let digest = String::from_utf8_lossy(&bytes[at + 1..]).into_owned();
    Ok((PathBuf::from(OsStr::from_bytes(&bytes[..at])), Some(parse_digest(&digest)?)))
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::usage(error)
    }
}

impl From<NoImage> for Failure {
    fn from(error: NoImage) -> Self {
        Self::usage(error)
    }
}
