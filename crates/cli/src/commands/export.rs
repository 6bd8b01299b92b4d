//! `provost export`.

use provost::agent::export as write_bundle;
use provost::journal::Store;

use super::setup::{Place, signing_key};
use crate::args::Export;
use crate::failure::Failure;
use crate::render::say;
use crate::world::World;

pub(crate) async fn export(world: &World, args: Export) -> Result<u8, Failure> {
    let place = Place::open(world, args.store.store.as_deref())?;
    let run = place.store.find(&args.run).await?;
    let key_path = world.key_path()?;
    let key = signing_key(&key_path)?;
    let exported = write_bundle(place.store.as_ref(), &run, &key, &args.out).await?;
    say!(
        "wrote `{}`: patch of {} bytes, signed by key {}",
        exported.dir.display(),
        exported.patch_bytes,
        exported.key_id
    );
    say!("give the recipient `{}` by another way", key_path.with_extension("pub.pem").display());
    Ok(0)
}
