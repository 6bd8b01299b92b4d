//! OpenSSH's formats, Ed25519 only: keys in its files, signatures as `ssh-keygen -Y` makes and checks them, and signing by
//! an ssh-agent.

pub mod agent;
pub mod private;
pub mod public;
pub mod revoked;
pub mod sig;
mod wire;

/// The name of the one kind of key, and of its signatures (RFC 8709).
pub const ED25519: &str = "ssh-ed25519";
