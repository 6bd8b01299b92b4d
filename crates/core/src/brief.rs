//! What is asked of a model beside the goal: how much it is to reason, what its last answer must be, what it is shown.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::transcript::Image;

/// How much a model is to reason before it answers.
///
/// Where a vendor counts reasoning in tokens, these are 1024, 4096 and 16384, and at most half of the output limit where one
/// is named, so that something is left for the answer. Models that do not reason may refuse to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A little.
    Low,
    /// In between.
    Medium,
    /// A lot.
    High,
}

impl Effort {
    /// The word that most vendors have for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Most images beside a goal.
pub const MOST_IMAGES: usize = 16;

/// Largest image, in bytes.
pub const LARGEST_IMAGE: u64 = 5 * 1024 * 1024;

/// Largest schema, in bytes.
pub const LARGEST_SCHEMA: u64 = 64 * 1024;

/// Answers that the model may give before a run ends without one that satisfies its schema.
pub const SCHEMA_ATTEMPTS: u32 = 3;

/// What a contract asks of the model beside the goal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brief {
    /// How much it is to reason; `None` leaves it to the vendor.
    pub effort: Option<Effort>,
    /// The JSON Schema, as text, that its last answer must satisfy: what it hands to `submit` as summary, or the answer
    /// without calls that ends the run.
    pub schema: Option<String>,
    /// Images beside the goal, at most [`MOST_IMAGES`].
    pub images: Vec<Image>,
}

impl Brief {
    /// Whether it asks nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The same, as a journal has it: words and bytes lie in blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BriefFact {
    /// How much the model is to reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The schema of its last answer (blob: JSON text).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Digest>,
    /// Images beside the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageFact>,
}

/// An image beside the goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageFact {
    /// Media type, such as `image/png`.
    pub media: String,
    /// Bytes of the image.
    pub bytes: u64,
    /// The image in base64, as wires carry it (blob).
    pub data: Digest,
}
