//! A session's bundle before its recipient: the good one is taken, and each of its mutations is refused for the reason
//! that it was made for.
//!
//! Two kinds of people mutate. An outsider has the bundle and no key. A dishonest runner has the session's key, and signs
//! whatever they like to tell with it.

mod authority;
mod change;
mod good;
mod hostile;
mod log;
mod review;
mod scene;
