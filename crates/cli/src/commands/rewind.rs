//! `provost rewind`.

use provost::agent::{Rewound, Target, Undo};
use provost::core::act::Change;
use provost::core::id::RunId;
use provost::core::path::RelPath;
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use serde_json::json;

use super::diff::{object, patch};
use super::setup::Place;
use crate::args::Rewind;
use crate::failure::Failure;
use crate::render::{JsonLines, counted, put_patch, say};
use crate::world::World;

/// By whose word, as the journal has it.
const BY: &str = "rewind";

pub(crate) async fn rewind(world: &World, args: Rewind) -> Result<u8, Failure> {
    let mut target = Target { step: args.step, paths: Vec::new() };
    for text in &args.paths {
        let path = RelPath::parse(text.trim_end_matches('/'))
            .map_err(|error| Failure::usage(format!("--path `{text}`: {error}")))?;
        target.paths.push(path);
    }
    let place = Place::existing(world, args.store.store.as_deref())?;
    let (run, created, state) = place.load(&args.run).await?;
    let undo = Undo::new(place.store.clone());
    let rewound = if args.dry_run {
        undo.plan_rewind(&run, &target).await?
    } else {
        undo.rewind(&run, &target, BY).await?
    };
    if args.json {
        for change in rewound.carried.iter().chain(&rewound.changes) {
            JsonLines::say(&object(change));
        }
        JsonLines::say(&json!({
            "kind": if args.dry_run { "would_rewind" } else { "rewound" },
            "run": run.as_str(),
            "step": args.step,
            "files": rewound.changes.len(),
            "carried": rewound.carried.len(),
            "left_alone": rewound.others,
        }));
    } else if args.dry_run {
        put_patch(&patch(&place, &run, &created, &rewound.changes).await?);
        if rewound.changes.is_empty() {
            eprintln!("nothing to put back");
        }
        for path in &rewound.others {
            eprintln!(
                "note: `{}` was changed since by somebody else: left alone",
                visible(path.as_str(), Lines::Escape)
            );
        }
        if !rewound.carried.is_empty() {
            eprintln!(
                "note: an earlier rewind was interrupted; {} of it would be put back first",
                counted(rewound.carried.len() as u64, "file")
            );
        }
    } else {
        for line in account(&place, &run, &state, &rewound, args.step) {
            say!("{line}");
        }
    }
    Ok(0)
}

fn account(place: &Place, run: &RunId, state: &RunState, rewound: &Rewound, step: u32) -> Vec<String> {
    let mut out = Vec::new();
    if !rewound.carried.is_empty() {
        out.push("an earlier rewind was interrupted; it was carried to its end:".to_owned());
        out.extend(rewound.carried.iter().map(line));
    }
    let when = match step {
        0 => "as at the start of the run".to_owned(),
        step => format!("as after step {step}"),
    };
    let others = rewound.others.iter().map(|path| visible(path.as_str(), Lines::Escape));
    let others: Vec<String> =
        others.map(|path| format!("  left alone  {path} (changed since, by somebody else)")).collect();
    if rewound.changes.is_empty() {
        out.push(match others.len() {
            0 => format!("nothing to put back: all is {when}"),
            _ => format!("nothing to put back: the run left all {when}"),
        });
        out.extend(others);
        return out;
    }
    out.push(format!("{} {when}:", counted(rewound.changes.len() as u64, "file")));
    out.extend(rewound.changes.iter().map(line));
    out.extend(others);
    out.push(match state.outcome() {
        None => format!("`provost resume {}` goes on from here, and tells the model", place.named(run)),
        Some(_) => "the run is over: what it came to, and its evidence, stay as they were".to_owned(),
    });
    out
}

fn line(change: &Change) -> String {
    let word = if change.after.is_some() { "put back" } else { "removed" };
    format!("  {word:<8}  {}", visible(change.path.as_str(), Lines::Escape))
}
