//! `provost sandbox selftest`.

use provost::core::containment::Rung;
use provost::sandbox::image::ImageStore;
use provost::sandbox::{
    Attempt, ByEngine, Freshness, Git, ImageRoot, Network, Probe, ProbeCache, SelfTest, SelfTestError,
    Setting, Verdict, Workspace,
};
use serde_json::json;

use crate::args::{Extra, Sandbox, SandboxCommand, Selftest};
use crate::failure::Failure;
use crate::render::{counted, say};
use crate::world::World;

/// Exit code of a rung that is not what it says it is, or is not to be had.
const NOT_CONTAINED: u8 = 9;

pub(crate) fn sandbox(world: &World, args: &Sandbox) -> Result<u8, Failure> {
    let SandboxCommand::Selftest(args) = &args.command;
    let cache = world.cache_folder().map(ProbeCache::new);
    let probe = cache.as_ref().map_or_else(Probe::run, |cache| cache.probe(Freshness::Fresh).0);
    // Rungs that an earlier one disabled are looked at too.
    let strongest = || probe.clone().with_disabled(Vec::new()).strongest;
    let setting = setting(world, args, strongest)?;
    let test = SelfTest::run(&probe, setting).map_err(|error| match error {
        SelfTestError::Unavailable(error) => Failure::coded(NOT_CONTAINED, error)
            .hint("`provost doctor` says what is missing and how to mend it"),
        error => Failure::internal(error),
    })?;
    let found = test.disabled();
    let broken = found.is_some();
    // One that attacked something beside the rung may have missed why the rung was disabled: it takes none back.
    let says = broken || test.extras.is_empty();
    // Kept before anything is printed: a reader that goes away changes nothing.
    let kept = cache.filter(|_| says).map(|cache| cache.judge(&probe, test.rung, test.receipt.engine, found));
    let by = test.receipt.contained_by();
    if args.json {
        for attempt in &test.attempts {
            say!("{}", with_kind(attempt)?);
        }
        let counts = test.counts();
        say!(
            "{}",
            json!({
                "kind": "selftest", "rung": format!("{:?}", test.rung), "extras": test.extras, "counts": counts,
                "engine": test.receipt.engine,
                "took_ms": test.took_ms, "receipt": test.receipt, "disabled": broken,
            })
        );
    } else {
        show(&test, args.all);
    }
    match kept {
        Some(Err(error)) if broken => {
            Err(Failure::coded(NOT_CONTAINED, format!("{by} is not what it says, and that cannot be kept: {error}"))
                .hint("a later run would take it: name a weaker or stronger one with `at_least`, or mend the cache folder"))
        }
        None if broken => {
            Err(Failure::coded(NOT_CONTAINED, format!("{by} is not what it says, and there is nowhere to keep that"))
                .hint("set HOME or XDG_CACHE_HOME"))
        }
        _ if broken => Err(Failure::coded(
            NOT_CONTAINED,
            format!("{by} does not hold what it promises here; no run takes it any more"),
        )
        .hint("`provost doctor` says what is left")),
        _ => Ok(0),
    }
}

/// What is to be attacked.
fn setting(world: &World, args: &Selftest, strongest: impl Fn() -> Rung) -> Result<Setting, Failure> {
    let image = match &args.image {
        Some(name) => {
            let image = ImageStore::new(world.images_path(args.images.as_deref())?).find(name)?;
            let by =
                args.engine.map(|engine| ByEngine::new(engine, world.variables(), image.known_as.clone()));
            Some(ImageRoot { folder: image.root(), digest: image.digest, by })
        }
        None => None,
    };
    let rung = match &image {
        Some(_) => Rung::R4,
        None => args.rung.map_or_else(strongest, Rung::from),
    };
    let with = |extra| args.with.contains(&extra);
    Ok(Setting {
        rung,
        image,
        workspace: if with(Extra::Staged) { Workspace::Staged } else { Workspace::Direct },
        network: if with(Extra::Hosts) { Network::Hosts } else { Network::None },
        git: if with(Extra::GitCommit) { Git::Commit } else { Git::Closed },
    })
}

fn with_kind(attempt: &Attempt) -> Result<serde_json::Value, Failure> {
    let mut value = serde_json::to_value(attempt).map_err(Failure::internal)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".to_owned(), "attack".into());
    }
    Ok(value)
}

fn show(test: &SelfTest, all: bool) {
    let what = [&[test.receipt.contained_by().as_str()], test.extras.as_slice()].concat().join(", ");
    say!("{what} under attack; each attack also without containment, as the control");
    say!("");
    for attempt in &test.attempts {
        let (word, text) = match &attempt.verdict {
            Verdict::Held { by, said } => ("held", format!("{by} ({said})")),
            Verdict::Broken { by, seen } => ("BROKEN", format!("{seen}; {by} was to prevent it")),
            Verdict::NotPromised { why, seen: Some(seen) } => ("not promised", format!("{seen}: {why}")),
            Verdict::NotPromised { why, seen: None } => {
                ("not promised", format!("failed all the same: {why}"))
            }
            Verdict::NotExpressible { why } => {
                ("no control", format!("fails without containment too: {why}"))
            }
            Verdict::Failed { why } => ("NOT TRIED", why.clone()),
        };
        if all || !matches!(attempt.verdict, Verdict::Held { .. } | Verdict::NotExpressible { .. }) {
            say!("  {word:<13} {:<28} {}: {text}", attempt.name, attempt.tries);
        }
    }
    say!("");
    let seconds = test.took_ms as f64 / 1000.0;
    say!("{} in {seconds:.1} s: {}", counted(test.attempts.len() as u64, "attack"), test.counts());
    if !all {
        say!("--all prints those that held, and those that say nothing here");
    }
}
