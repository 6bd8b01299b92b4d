//! `provost export`, and the bundle that a run leaves.

use std::path::{Path, PathBuf};

use provost::agent::{Ending, Exported, export as write_bundle};
use provost::core::id::RunId;
use provost::evidence::keys::SigningKey;
use provost::journal::Store;

use super::setup::{Place, keep_outside, signing_key};
use crate::args::Export;
use crate::failure::{AtPath, Failure};
use crate::render::say;
use crate::world::World;

pub(crate) async fn export(world: &World, args: Export) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
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

/// A bundle that is wanted of a run.
pub(crate) struct Wanted {
    dir: PathBuf,
    key: SigningKey,
}

/// What became of it.
pub(crate) enum Made {
    /// None was wanted.
    Nothing,
    /// The run is not over: there is nothing to sign yet.
    NotYet(PathBuf),
    /// It was written.
    Bundle(Exported),
    /// It could not be made.
    Failed(Failure),
}

impl Wanted {
    /// Refuses a folder that holds something or lies in the workspace, and a key that cannot be used: better now than when the work is done.
    pub(crate) fn check(world: &World, dir: &Path, workspace: &Path) -> Result<Self, Failure> {
        keep_outside("--export", dir, workspace)?;
        let taken = dir.exists() && (!dir.is_dir() || std::fs::read_dir(dir).at(dir)?.next().is_some());
        if taken {
            return Err(Failure::usage(format!("--export `{}`: it is there and not empty", dir.display())));
        }
        Ok(Self { dir: dir.to_owned(), key: signing_key(&world.key_path()?)? })
    }

    /// Writes it, if the run is over.
    pub(crate) async fn make(self, place: &Place, run: &RunId, ending: &Ending) -> Made {
        if matches!(ending, Ending::Paused(_)) {
            return Made::NotYet(self.dir);
        }
        match write_bundle(place.store.as_ref(), run, &self.key, &self.dir).await {
            Ok(exported) => Made::Bundle(exported),
            Err(error) => Made::Failed(Failure::from(error).of_work_done()),
        }
    }
}
