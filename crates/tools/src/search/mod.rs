//! Finding things: by content, by name, by resemblance.

mod deadline;
pub(crate) mod find;
mod globs;
pub(crate) mod grep;
pub(crate) mod near;
