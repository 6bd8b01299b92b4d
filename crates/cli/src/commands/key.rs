//! `provost key`.

use super::setup::signing_key;
use crate::args::Key;
use crate::failure::Failure;
use crate::render::say;
use crate::world::World;

pub(crate) fn key(world: &World, args: &Key) -> Result<u8, Failure> {
    let path = world.key_path()?;
    let key = signing_key(&path)?;
    eprintln!("key id {}", key.verifying_key().key_id());
    if args.path {
        say!("{}", path.display());
    } else {
        say!("{}", key.verifying_key().to_pem().map_err(Failure::internal)?.trim_end());
    }
    Ok(0)
}
