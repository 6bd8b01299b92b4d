//! What tools do to real folders, and what a model reads of it.

mod calls;
mod cases;
mod edit;
mod files;
mod patch;
mod scan;
mod search;
mod support;
