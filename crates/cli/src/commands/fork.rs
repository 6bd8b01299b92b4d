//! `provost fork`.

use provost::agent::{ForkOrder, ForkPlace, Undo};
use provost::core::text::{Lines, visible};
use provost::journal::Store;
use serde_json::json;

use super::setup::{Place, keep_outside};
use crate::args::Fork;
use crate::failure::Failure;
use crate::render::{JsonLines, counted, say};
use crate::world::World;

pub(crate) async fn fork(world: &World, args: Fork) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let parent = place.store.find(&args.run).await?;
    keep_outside("the store", &world.store_path(args.store.store.as_deref())?, &args.to)?;
    let kind = if args.no_worktree { ForkPlace::Folder } else { ForkPlace::Worktree };
    let order = ForkOrder { step: args.step, to: args.to, id: args.id, place: kind };
    let forked = Undo::new(place.store.clone()).fork(&parent, &order).await?;
    if args.json {
        JsonLines::say(&json!({
            "kind": "forked",
            "run": forked.run.as_str(),
            "from": parent.as_str(),
            "step": args.step,
            "root": forked.root.display().to_string(),
            "files": forked.files,
            "worktree": forked.place == ForkPlace::Worktree,
        }));
        return Ok(0);
    }
    say!("run {}, forked from {parent} at step {}", forked.run, args.step);
    let what = match forked.place {
        ForkPlace::Worktree => "a git work tree",
        ForkPlace::Folder => "a plain folder",
    };
    say!(
        "workspace: {}, {what} with {}; what git ignores was left behind",
        visible(&forked.root.display().to_string(), Lines::Escape),
        counted(forked.files, "file")
    );
    say!("`provost resume {}` goes on from there", place.named(&forked.run));
    Ok(0)
}
