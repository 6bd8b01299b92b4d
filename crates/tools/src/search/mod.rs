//! Finding things: by content, by name, by resemblance.

pub(crate) mod find;
mod globs;
pub(crate) mod grep;
pub(crate) mod near;
