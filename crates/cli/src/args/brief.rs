//! What was typed about what is asked of the model beside the goal.

use std::path::PathBuf;

use clap::ValueEnum;
use provost::core::brief::Effort;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BriefArgs {
    /// How much the model is to reason [default: as its vendor has it]. Models that do not reason may refuse.
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) effort: Option<HowMuch>,
    /// JSON Schema (a file) that the answer must satisfy: the summary that is handed in has to be such JSON. A wrong one is
    /// told what is wrong; the third ends the run with exit code 10.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Image to show beside the goal: PNG, JPEG, GIF or WebP, at most 5 MiB. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) show_image: Vec<PathBuf>,
}

/// How much a model is to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowMuch {
    Low,
    Medium,
    High,
}

impl From<HowMuch> for Effort {
    fn from(how: HowMuch) -> Self {
        match how {
            HowMuch::Low => Self::Low,
            HowMuch::Medium => Self::Medium,
            HowMuch::High => Self::High,
        }
    }
}
