//! Changes that a command made in a layer over the workspace, before they are put there.

use serde::{Deserialize, Serialize};

use crate::act::{Change, CommandFact, ExitFact};
use crate::caps::CapHit;
use crate::id::ActId;
use crate::path::RelPath;

/// A command has ended, and this is what its layer says of the workspace. Durable before the first file is touched: a
/// crash while they are touched is settled from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActStaged {
    /// The act that ran the command.
    pub act: ActId,
    /// What is about to be put into the workspace: all of it, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapplied: Vec<Unapplied>,
    /// How many files and folders are put there beside these that are no part of a run: what git ignores, and folders.
    /// A crash can lose them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that a command changed in its layer, and that did not come into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unapplied {
    /// Which path.
    pub path: RelPath,
    /// Why not.
    pub why: WhyUnapplied,
}

/// Why a change did not come into the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyUnapplied {
    /// The policy guards the path: it denies writing there, or asks a person about it.
    Guarded,
    /// Somebody else changed the file while the command ran.
    Conflict,
    /// It is no file, folder or link, or would give rights to whoever runs it.
    Special,
    /// Another change of the same command is in conflict, and a part of what it did is not what it did.
    HeldBack,
    /// The file system refused it.
    Failed,
    /// The driver died, and its content with it.
    Lost,
    /// With its holes and links written out, what the command changed is more than the cap on disk.
    Cap,
    /// It is a link that leads out of the workspace.
    LeadsOut,
    /// Its name is another's, but for upper and lower case or the form of its Unicode.
    Collides,
    /// It was given another owner.
    Owner,
    /// It was rolled back with all that its command did.
    RolledBack,
}

impl WhyUnapplied {
    /// In words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::Guarded => "the policy guards it",
            Self::Conflict => "somebody else changed it while the command ran",
            Self::Special => "it is no ordinary file, or has a set-user-id or set-group-id bit",
            Self::HeldBack => "held back because of a conflict",
            Self::Failed => "it could not be put there",
            Self::Lost => "its content was lost when the driver died",
            Self::Cap => "written out, what the command changed is more than the cap on disk",
            Self::LeadsOut => "it is a link that leads out of the workspace",
            Self::Collides => "another name there is the same but for upper and lower case or Unicode form",
            Self::Owner => "it was given another owner",
            Self::RolledBack => "rolled back with the rest",
        }
    }

    /// Whether it is the command's own making: then all that the command did goes with it, where nothing is kept of a
    /// command that did what cannot stand.
    fn is_its_own(self) -> bool {
        match self {
            Self::Guarded | Self::Special | Self::Cap | Self::LeadsOut | Self::Collides | Self::Owner => true,
            Self::Conflict | Self::HeldBack | Self::Failed | Self::Lost | Self::RolledBack => false,
        }
    }
}

/// Why nothing is kept of what a command changed, in a workspace that keeps all of it or nothing. That it exited with
/// something else than 0 is no reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// It did not come to its own end.
    CutShort(ExitFact),
    /// It reached a cap.
    Reached(CapHit),
    /// It made something that does not come into the workspace.
    Made(WhyUnapplied),
}

impl Unclean {
    /// Why nothing of a command is kept that ended so and of which this was left out; `None` where all is.
    pub fn of(exit: ExitFact, caps: &[CapHit], unapplied: &[Unapplied]) -> Option<Self> {
        match exit {
            ExitFact::Exited { .. } => {}
            cut => return Some(Self::CutShort(cut)),
        }
        caps.first().map(|hit| Self::Reached(*hit)).or_else(|| Self::made(unapplied))
    }

    /// The same of a command of which it may not be known how it ended.
    pub fn of_command(command: Option<&CommandFact>, unapplied: &[Unapplied]) -> Option<Self> {
        match command {
            Some(command) => Self::of(command.exit, &command.caps, unapplied),
            None => Self::made(unapplied),
        }
    }

    /// The same, by what was left out alone.
    pub fn made(unapplied: &[Unapplied]) -> Option<Self> {
        unapplied.iter().find(|left| left.why.is_its_own()).map(|left| Self::Made(left.why))
    }

    /// Whether it is held against the run: not where a person, or the loss of the driver, cut the command short, nor where it
    /// never ran.
    pub fn counts(self) -> bool {
        !matches!(self, Self::CutShort(ExitFact::Cancelled | ExitFact::DriverLost | ExitFact::NotStarted))
    }

    /// In one sentence, for whoever ran the command.
    pub fn words(self) -> String {
        let why = match self {
            Self::CutShort(ExitFact::TimedOut { .. }) => "it ran into its time limit".to_owned(),
            Self::CutShort(ExitFact::Capped { hit }) | Self::Reached(hit) => {
                format!("it reached a cap ({hit})")
            }
            Self::CutShort(ExitFact::Signalled { signal }) => format!("signal {signal} ended it"),
            Self::CutShort(ExitFact::NotStarted) => "it did not start".to_owned(),
            Self::CutShort(_) => "it was cut short".to_owned(),
            Self::Made(_) => "it made something that cannot stand".to_owned(),
        };
        format!(
            "Nothing that this command changed was kept, because {why}: the workspace is as it was before it."
        )
    }
}
