//! `provost run`.

use std::path::Path;
use std::sync::Arc;

use provost::agent::{Ending, Observer, Order, export};
use provost::core::budget::{Budget, Price};
use provost::core::contract::{Contract, Gate, Source};
use provost::core::event::Event;
use provost::core::id::RunId;
use provost::core::path::RelPath;
use provost::core::state::RunState;
use provost::evidence::git::{GitError, ObjectFormat, Repository};
use provost::journal::Store;
use serde_json::json;

use super::setup::{ModelChoice, Place, approver, interrupt, policy, runtime, signing_key};
use crate::args::{ModelArgs, Run, Wire};
use crate::failure::{AtPath, Failure};
use crate::render::{Console, JsonLines, act_lines, cost, duration, ending_line, tokens};
use crate::world::World;

pub(crate) async fn run(world: &World, args: Run) -> Result<u8, Failure> {
    let contract = contract(&args)?;
    let order = order(&args, contract)?;
    if let Some(dir) = &args.export {
        check_free(dir)?;
    }
    let model = choose_model(&args.model)?;
    let place = Place::open(world, args.store.store.as_deref())?;
    let output = Output::new(args.json);
    if let Output::People(console) = &output {
        console.expect_tree(committed_tree(&order)?);
    }
    let runtime = runtime(world, &place, &model, output.observer(), approver(args.yes.into()))?;
    let (run, ending) = runtime.start(order, interrupt()?).await?;
    output.ending(&place, &run, &ending).await?;
    export_if_over(world, &place, &run, &ending, args.export.as_deref(), &output).await?;
    Ok(ending.exit_code())
}

/// Refuses a folder for a bundle that holds something: better now than when the work is done.
pub(crate) fn check_free(dir: &Path) -> Result<(), Failure> {
    let taken = dir.exists() && (!dir.is_dir() || std::fs::read_dir(dir).at(dir)?.next().is_some());
    if taken {
        return Err(Failure::usage(format!("--export `{}`: it is there and not empty", dir.display())));
    }
    Ok(())
}

/// Writes the bundle that was asked for, if the run is over.
pub(crate) async fn export_if_over(
    world: &World,
    place: &Place,
    run: &RunId,
    ending: &Ending,
    dir: Option<&Path>,
    output: &Output,
) -> Result<(), Failure> {
    let Some(dir) = dir else { return Ok(()) };
    if matches!(ending, Ending::Paused(_)) {
        output.note(&format!(
            "no bundle yet: the run is not over. Give `--export {}` to `resume`",
            dir.display()
        ));
        return Ok(());
    }
    let key = signing_key(&world.key_path()?)?;
    let exported = export(place.store.as_ref(), run, &key, dir).await?;
    output.note(&format!("evidence in `{}`, signed by key {}", exported.dir.display(), exported.key_id));
    Ok(())
}

fn contract(args: &Run) -> Result<Contract, Failure> {
    let mut contract = Contract::new(args.goal.clone()).policy(policy(&args.policy)?).budget(Budget {
        steps: Some(args.max_steps),
        tokens: args.max_tokens,
        cost_micros: args.max_cost,
        time_ms: args.timeout.map(|limit| limit.as_millis() as u64),
    });
    if let Some((input, output)) = args.price {
        contract = contract.price(Price::flat(input, output));
    }
    if let Some(line) = &args.verify {
        let argv = shlex::split(line)
            .filter(|argv| !argv.is_empty())
            .ok_or_else(|| Failure::usage(format!("--verify `{line}`: not a command (is a quote open?)")))?;
        if let Some(word) = shell_word(line, &argv) {
            return Err(Failure::usage(format!(
                "--verify `{line}`: no shell reads it, so `{word}` would be an argument"
            ))
            .hint(format!("write --verify \"sh -c '{line}'\"")));
        }
        let mut gate = Gate::command(argv);
        for text in &args.verify_with {
            let path = RelPath::parse(text)
                .map_err(|error| Failure::usage(format!("--verify-with `{text}`: {error}")))?;
            gate.with.push(path);
        }
        contract = contract.gate(gate);
    }
    Ok(contract)
}

/// The tree that the commit has where the workspace lies; `None` where there is nothing to compare with.
fn committed_tree(order: &Order) -> Result<Option<String>, Failure> {
    let (Some(root), Some(commit)) = (&order.repository, order.source.commit()) else { return Ok(None) };
    let repository = Repository::discover(root).map_err(Failure::usage)?;
    match repository.commit_entries(commit, order.source.scope()) {
        Ok(tree) if repository.format() == ObjectFormat::Sha1 => Ok(Some(tree.tree)),
        // The folder is not in the commit at all: nothing in it is committed.
        Err(GitError::NoFolder { .. }) => Ok(Some(String::new())),
        Ok(_) => Ok(None),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// A word that only a shell would understand. Taken as an argument it would make a gate pass that never ran whole.
fn shell_word<'a>(line: &str, argv: &'a [String]) -> Option<&'a str> {
    const OPERATORS: [&str; 10] = ["&&", "||", ";", "|", "&", ">", ">>", "<", "2>&1", "2>"];
    let quoted = |word: &str| line.contains(&format!("'{word}'")) || line.contains(&format!("\"{word}\""));
    argv.iter().map(String::as_str).find(|word| {
        let operator = OPERATORS.contains(word) || word.ends_with(';') || word.starts_with("$(");
        operator && !quoted(word)
    })
}

fn order(args: &Run, contract: Contract) -> Result<Order, Failure> {
    let dir = Path::new(&args.dir);
    if !dir.exists() {
        return Err(Failure::usage(format!("`{}` does not exist", dir.display())));
    }
    if !dir.is_dir() {
        return Err(Failure::usage(format!("`{}` is a file; the workspace is a folder", dir.display())));
    }
    let workspace = dir.canonicalize().at(dir)?;
    if args.no_repo {
        let source = Source::Directory { commit: None, scope: RelPath::root() };
        return Ok(Order { contract, workspace, source, repository: None });
    }
    let repository = Repository::discover(&workspace).map_err(|error| match error {
        GitError::NotARepository(_) => {
            Failure::usage(format!("`{}` is not in a git repository", workspace.display())).hint(
                "run `git init` there, or give --no-repo: evidence can then not be held against a commit",
            )
        }
        other => Failure::usage(other),
    })?;
    let commit = repository.head().map_err(Failure::usage)?;
    let scope = repository.prefix(&workspace).map_err(Failure::usage)?;
    let root = repository.root().to_owned();
    Ok(Order { contract, workspace, source: Source::Directory { commit, scope }, repository: Some(root) })
}

fn choose_model(args: &ModelArgs) -> Result<ModelChoice, Failure> {
    let wire = args.wire.unwrap_or(Wire::Openai);
    let Some(name) = args.model.clone() else {
        return Err(Failure::usage("no model is named").hint("give --model NAME, or set PROVOST_MODEL"));
    };
    let base_url = args.base_url.clone().unwrap_or_else(|| wire.usual_url().to_owned());
    Ok(ModelChoice { wire, name, base_url, key_env: args.key_env.clone() })
}

/// Lines for people, or for programs.
pub(crate) enum Output {
    People(Arc<Console>),
    Programs,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        if json { Self::Programs } else { Self::People(Arc::new(Console::new())) }
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        match self {
            Self::People(console) => console.clone(),
            Self::Programs => Arc::new(JsonLines),
        }
    }

    /// Says something to people; programs have the events.
    pub(crate) fn note(&self, text: &str) {
        if let Self::People(console) = self {
            console.line(text);
        }
    }

    /// Tells of acts that were decided before this process began.
    pub(crate) fn recall(&self, events: &[Event]) {
        if let Self::People(console) = self {
            console.recall(events);
        }
    }

    /// Says how the run ended; for programs this is the last line.
    pub(crate) async fn ending(&self, place: &Place, run: &RunId, ending: &Ending) -> Result<(), Failure> {
        let events = place.store.events(run, 0).await?;
        let state = RunState::fold(run.clone(), &events).map_err(Failure::internal)?;
        let ledger = state.ledger();
        match self {
            Self::Programs => JsonLines::say(&json!({
                "kind": "outcome",
                "run": run.as_str(),
                "outcome": ending.word(),
                "exit_code": ending.exit_code(),
                "verified": matches!(ending, Ending::Over(finished) if finished.verified),
                "waiting_act": match ending {
                    Ending::Paused(detached) => detached.act.map(|act| act.0),
                    Ending::Over(_) => None,
                },
                "steps": ledger.steps,
                "tokens": ledger.usage.total(),
                "cost_micros": ledger.price.map(|_| ledger.cost_micros),
            })),
            Self::People(console) => {
                console.line(&format!(
                    "{} steps, {}, {}, {}",
                    ledger.steps,
                    tokens(ledger),
                    cost(ledger),
                    duration(ledger.time_ms)
                ));
                if let Ending::Paused(detached) = ending
                    && let Some((id, act)) = detached.act.and_then(|id| state.open_acts().get_key_value(&id))
                {
                    for line in act_lines(*id, act) {
                        console.line(&line);
                    }
                    console.line(&format!("  `provost log {run} --act {id}` shows its arguments whole"));
                }
                console.line(&ending_line(run.as_str(), ending, &state));
            }
        }
        Ok(())
    }
}
