//! `provost run`.

use std::path::Path;

use provost::agent::{Ending, Order, source_of};
use provost::core::agents::AgentLimits;
use provost::core::budget::Budget;
use provost::core::contract::{Contract, Counted, Gate, Source};
use provost::core::event::RunCreated;
use provost::core::path::RelPath;
use provost::evidence::git::{GitError, ObjectFormat, Repository};
use provost::model::cassette::Replay;

use super::brief::brief;
use super::export::Wanted;
use super::model_choice::{Cassette, choose_model};
use super::output::Output;
use super::price::{price, window};
use super::routing::{Models, apart, routing};
use super::servers::servers;
use super::setup::{Place, approver, images, interrupt, keep_outside, policy, policy_of_workspace, runtime};
use crate::args::{OrderArgs, Run, TermsArgs};
use crate::failure::{AtPath, Failure};
use crate::render::Preview;
use crate::world::World;

pub(crate) async fn run(world: &World, args: Run) -> Result<u8, Failure> {
    let (routing, mut others) = routing(&args.order.terms.routing)?;
    let contract = contract(world, &args.order)?.routing(routing);
    let mut order = order(&args.order, contract)?;
    order.contract.servers = servers(world, &args.order.servers, &order.workspace)?;
    let export = args.export.as_deref().map(|dir| Wanted::check(world, dir, &order.workspace)).transpose()?;
    let mut named = args.order.terms.model.clone();
    if let (None, Some(file)) = (&named.model, &args.cassette.replay) {
        named.model =
            Replay::first_model(file).map_err(|error| Failure::usage(format!("--replay {error}")))?;
    }
    let mut model = choose_model(&named)?;
    apart(&model, &others)?;
    if let Some(file) = &args.cassette.record {
        keep_outside("the cassette", file, &order.workspace)?;
    }
    let recorded = args.cassette.record.clone();
    model.cassette = Cassette::of(args.cassette);
    price(world, &args.order.terms.price, &order.workspace, (&mut model, &mut others), &mut order.contract)?;
    window(world, &mut model).await?;
    keep_outside("the store", &world.store_path(args.store.store.as_deref())?, &order.workspace)?;
    let place = Place::open(world, args.store.store.as_deref())?;
    let output = Output::new(args.json);
    if let Output::People(console) = &output {
        console.expect_tree(committed_tree(order.repository.as_deref(), &order.source)?);
    }
    let preview = Preview::new(&order.workspace, order.contract.limits);
    let approver = approver(args.order.yes.into(), preview);
    let models = Models { first: model, others };
    let mut runtime = runtime(world, &place, &models, &order.workspace, output.observer(), approver)?;
    runtime.pace = args.pace.pace.unwrap_or_default();
    let (run, ending) = runtime.start(order, interrupt()?).await?;
    if let (Some(file), Ending::Paused(_)) = (recorded, &ending) {
        eprintln!(
            "note: the cassette `{}` ends where the run pauses, and what a resume asks is not kept on it. For a whole one give \
             `--record` another file and a run that ends without a pause (--yes answers every question)",
            file.display()
        );
    }
    output.ended(&place, &run, &ending, export).await
}

pub(super) fn contract(world: &World, args: &OrderArgs) -> Result<Contract, Failure> {
    let mut contract = terms(world, &args.goal, &args.dir, &args.terms)?.brief(brief(&args.brief)?);
    if let Some(gate) = &mut contract.gate {
        for text in &args.verify_with {
            let path = RelPath::parse(text)
                .map_err(|error| Failure::usage(format!("--verify-with `{text}`: {error}")))?;
            gate.with.push(path);
        }
    }
    Ok(contract)
}

/// The contract that the terms make of a goal, for work in `dir`.
pub(super) fn terms(world: &World, goal: &str, dir: &Path, args: &TermsArgs) -> Result<Contract, Failure> {
    let policy = policy(&args.policy)?.requiring(args.require.iter().copied());
    let mut policy = policy_of_workspace(policy, &args.policy, dir)?;
    if let Some(image) = &args.image {
        policy.image = Some(images(world)?.find(image)?.digest);
    }
    policy.engine = args.engine.or(policy.engine);
    let mut contract = Contract::new(goal).policy(policy).budget(Budget {
        steps: Some(args.max_steps),
        tokens: args.max_tokens,
        cost_micros: args.max_cost,
        time_ms: args.timeout.map(|limit| limit.as_millis() as u64),
    });
    contract.limits.agents = match args.max_agents {
        0 => AgentLimits::NONE,
        total => AgentLimits { total, ..AgentLimits::STANDARD },
    };
    if let Some(line) = &args.verify {
        if line.trim().is_empty() {
            return Err(Failure::usage("--verify is empty: nothing would be verified")
                .hint("name the command that decides whether the work is done, or leave --verify out"));
        }
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
        if args.count_tests {
            gate.counted = Counted::AgainstBase;
        }
        contract = contract.gate(gate);
    }
    Ok(contract)
}

/// The tree that the commit has where the workspace lies; `None` where there is nothing to compare with.
pub(super) fn committed_tree(repository: Option<&Path>, source: &Source) -> Result<Option<String>, Failure> {
    let (Some(root), Some(commit)) = (repository, source.commit()) else { return Ok(None) };
    let repository = Repository::discover(root).map_err(Failure::usage)?;
    match repository.commit_entries(commit, source.scope()) {
        Ok(tree) if repository.format() == ObjectFormat::Sha1 => Ok(Some(tree.tree)),
        // The folder is not in the commit at all: nothing in it is committed.
        Err(GitError::NoFolder { .. }) => Ok(Some(String::new())),
        Ok(_) => Ok(None),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// The same of a run that exists. Where its repository is gone there is nothing to compare with.
pub(super) fn committed(created: &RunCreated) -> Option<String> {
    committed_tree(created.repository.as_deref().map(Path::new), &created.source).ok().flatten()
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

pub(super) fn order(args: &OrderArgs, contract: Contract) -> Result<Order, Failure> {
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
    let (source, root) = source_of(&workspace).map_err(|error| match error {
        GitError::NotARepository(_) => {
            Failure::usage(format!("`{}` is not in a git repository", workspace.display())).hint(
                "run `git init` there, or give --no-repo: evidence can then not be held against a commit",
            )
        }
        other => Failure::usage(other),
    })?;
    Ok(Order { contract, workspace, source, repository: Some(root) })
}
