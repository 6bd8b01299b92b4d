//! What was typed about containment.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use provost::core::containment::{Engine, Rung};

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Try everything now, whatever an earlier process found.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sandbox {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Attack the sandbox of this host, and hold what comes of it against what it promises. Some seconds long; ends with
    /// 9 where a promise is broken, and that rung is then not taken any more.
    Selftest(Selftest),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Selftest {
    /// The rung to attack [default: the strongest that this host has].
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) rung: Option<RungName>,
    /// Attack with this image as the root (rung R4); see `provost image`.
    #[arg(long, value_name = "IMAGE", conflicts_with = "rung")]
    pub(crate) image: Option<String>,
    /// Attack containers of this engine, podman or docker, in that image. One to three minutes long; where a promise is
    /// broken no run takes the engine any more.
    #[arg(long, value_name = "ENGINE", requires = "image")]
    pub(crate) engine: Option<Engine>,
    /// Folder of unpacked images [default: images beside the user's store].
    #[arg(long, value_name = "DIR", requires = "image")]
    pub(crate) images: Option<PathBuf>,
    /// What there is beside the rung, to be attacked too.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) with: Vec<Extra>,
    /// Print every attack, not only those that say something of this host.
    #[arg(long)]
    pub(crate) all: bool,
    /// One JSON object per attack on standard output, and one for the whole.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be asked for beside a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extra {
    /// A workspace whose changes are staged.
    Staged,
    /// A network that leads to an allowed host.
    Hosts,
    /// A git folder that is open for commits.
    GitCommit,
}

/// A rung that commands can be contained by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RungName {
    /// Limits only.
    #[value(name = "R1")]
    R1,
    /// Landlock and seccomp.
    #[value(name = "R2")]
    R2,
    /// Namespaces as well.
    #[value(name = "R3")]
    R3,
}

impl From<RungName> for Rung {
    fn from(name: RungName) -> Self {
        match name {
            RungName::R1 => Self::R1,
            RungName::R2 => Self::R2,
            RungName::R3 => Self::R3,
        }
    }
}
