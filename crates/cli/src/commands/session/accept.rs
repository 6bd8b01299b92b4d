//! `provost session accept`.

use crate::args::Accept;
use crate::failure::Failure;
use crate::world::World;

pub(crate) fn accept(_world: &World, _args: Accept) -> Result<u8, Failure> {
    Err(Failure::internal("pending"))
}
