//! `provost image`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use provost::sandbox::image::Engine;

#[derive(Debug, clap::Args)]
pub(crate) struct Images {
    /// Folder of unpacked images [default: images beside the user's store].
    #[arg(long, value_name = "DIR", env = "PROVOST_IMAGES", global = true)]
    pub(crate) images: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Unpack the image of an OCI layout: a folder, or a tar archive of one (`podman save --format oci-archive`, `docker
    /// save`). Prints its digest.
    Import {
        /// The layout. With `@sha256:…` after it, that image and no other. With `--from`, what the engine calls it.
        source: PathBuf,
        /// Take it from the store of this container engine of the host's, podman or docker. It is asked to save it and
        /// runs nothing.
        #[arg(long, value_name = "ENGINE")]
        from: Option<Engine>,
        /// What to call it [default: the layout's own word].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Make a Rust image from this host's toolchain and the libraries it needs, and unpack it. Prints its digest.
    Build {
        /// What to call it.
        #[arg(long, value_name = "NAME", default_value = "rust")]
        name: String,
        /// Keep the layout in this folder, which must not exist or be empty, for other machines to import.
        #[arg(long, value_name = "DIR")]
        layout: Option<PathBuf>,
        /// Take the name from the image that has it, which keeps its digest.
        #[arg(long)]
        replace: bool,
    },
    /// List the images that there are.
    List {
        /// One JSON object per image on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Print the digest of an image that there is, or of the one in a layout.
    Digest {
        /// A name, a digest, the beginning of one, or a layout.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        image: String,
    },
    /// Remove an image.
    Remove {
        /// A name, a digest, or the beginning of one.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        image: String,
    },
}
