//! The command line of Provost.
fn main() {}
