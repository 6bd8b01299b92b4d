//! The wires against programs that somebody else wrote: a mock server of all five, the vendors' own clients, and a small
//! model that really answers. Here our rehearsal server cannot agree with us about a mistake of our own.

mod aimock;
mod http;
mod mock;
mod sdks;
