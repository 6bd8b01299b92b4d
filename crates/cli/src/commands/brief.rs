//! What is asked of a model beside the goal: from what was typed, and for people.

use std::path::Path;

use provost::core::brief::{Brief, BriefFact, LARGEST_IMAGE, LARGEST_SCHEMA};

use super::files::read_bounded;
use crate::args::BriefArgs;
use crate::failure::Failure;
use crate::render::{counted, words::grouped};

/// The brief that was typed. The files are read now, and never again.
pub(super) fn brief(args: &BriefArgs) -> Result<Brief, Failure> {
    let named = |option: &str, path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage(format!("{option} {}: {error}", path.display()))
    };
    let schema = args.schema.as_deref().map(|path| {
        let bytes = read_bounded(path, LARGEST_SCHEMA).map_err(|error| named("--schema", path, &error))?;
        String::from_utf8(bytes).map_err(|_| named("--schema", path, &"it is no text"))
    });
    let images = args.show_image.iter().map(|path| {
        let bytes = read_bounded(path, LARGEST_IMAGE).map_err(|error| named("--show-image", path, &error))?;
        provost::agent::image(&bytes).map_err(|error| named("--show-image", path, &error))
    });
    Ok(Brief {
        effort: args.effort.map(Into::into),
        schema: schema.transpose()?,
        images: images.collect::<Result<_, _>>()?,
    })
}

/// It, for people; `None` where nothing is asked.
pub(super) fn brief_words(brief: Option<&BriefFact>) -> Option<String> {
    let brief = brief?;
    let mut parts = Vec::new();
    parts.extend(brief.effort.map(|effort| format!("effort {}", effort.word())));
    parts.extend(brief.schema.map(|_| "an answer after a JSON Schema".to_owned()));
    if !brief.images.is_empty() {
        let bytes: u64 = brief.images.iter().map(|image| image.bytes).sum();
        let images = counted(brief.images.len() as u64, "image");
        parts.push(format!("{images} shown ({} bytes)", grouped(bytes)));
    }
    Some(parts.join("; "))
}
