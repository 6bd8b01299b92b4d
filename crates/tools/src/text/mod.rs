//! Text as a model has to see it: lines and their endings, differences, what is near a name.

pub(crate) mod diff;
pub(crate) mod lines;
pub(crate) mod near;
pub(crate) mod show;
