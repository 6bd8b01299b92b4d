//! The variables as a contract.

use std::path::Path;

use provost::agent::{Queued, source_of};
use provost::core::act::Access;
use provost::core::budget::Budget;
use provost::core::containment::Rung;
use provost::core::contract::{Contract, Gate, Limits};
use provost::core::event::{ModelFact, Questions};
use provost::core::policy::{Default as ByDefault, Effect, Layer, Policy, Preset};
use provost::evidence::git::{GitError, Repository};
use provost::model::agent_runtime::environment::Settings;

use crate::failure::Failure;

/// What the variables order for `workspace`.
pub(super) fn queued(settings: &Settings, workspace: &Path, model: ModelFact) -> Result<Queued, Failure> {
    let timeout_ms = settings.timeout.as_millis() as u64;
    let file_bytes = Limits::default().file_bytes.max(settings.max_observation_bytes as u64);
    let gate = gate(&settings.verify)?;
    let contract = Contract::new(settings.task.clone())
        .policy(policy(settings, &gate)?)
        .budget(Budget { steps: Some(settings.max_steps), ..Budget::default() })
        .gate(Gate {
            limit_ms: timeout_ms.saturating_mul(settings.verify.len() as u64),
            // The limit of steps ends it: a submission that is not accepted is one step.
            attempts: settings.max_steps.saturating_add(1),
            ..Gate::command(gate)
        })
        .limits(Limits {
            command_ms: timeout_ms,
            output_bytes: settings.max_output_bytes as u64,
            file_bytes,
            ..Limits::default()
        });
    Ok(Queued {
        contract,
        workspace: workspace.to_owned(),
        repository: repository(workspace)?,
        model,
        key_env: None,
        questions: Questions::Wait,
    })
}

/// The repository whose files these are. A folder of which it tracks nothing (a scratch copy that it ignores) is a folder
/// like any other.
fn repository(workspace: &Path) -> Result<Option<std::path::PathBuf>, Failure> {
    let tracked = |repository: &Repository| repository.tracked(workspace).map(|paths| !paths.is_empty());
    match Repository::discover(workspace).and_then(|found| tracked(&found)) {
        Ok(true) => Ok(Some(source_of(workspace).map_err(Failure::usage)?.1)),
        Ok(false) | Err(GitError::NotARepository(_) | GitError::Bare(_)) => Ok(None),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// One command as it is; several as one that stops at the first that fails.
fn gate(verify: &[Vec<String>]) -> Result<Vec<String>, Failure> {
    if let [only] = verify {
        return Ok(only.clone());
    }
    let join = |argv: &Vec<String>| shlex::try_join(argv.iter().map(String::as_str));
    let all: Result<Vec<String>, _> = verify.iter().map(join).collect();
    let all = all.map_err(|error| Failure::usage(format!("AGENT_VERIFY: {error}")))?;
    Ok(["sh", "-c", &all.join(" && ")].map(str::to_owned).into())
}

/// The workspace is the agent's but for its control files, of programs the allowed ones run, nothing else happens; and
/// nobody is asked, since nobody is there.
fn policy(settings: &Settings, gate: &[String]) -> Result<Policy, Failure> {
    let mut layer = Layer::named("AGENT_ALLOWED");
    layer.defaults = [Access::Exec, Access::Net, Access::Call, Access::Spawn]
        .map(|access| (access, ByDefault::Deny))
        .into();
    for program in &settings.allowed {
        // The name is all that is asked there: what the program starts in turn is its own affair.
        layer = layer
            .rule(Effect::Allow, &rule(std::slice::from_ref(program), " **")?)
            .map_err(Failure::usage)?;
    }
    if settings.verify.len() > 1 {
        layer = layer.rule(Effect::Allow, &rule(gate, "")?).map_err(Failure::usage)?;
    }
    // What is allowed by name would run without containment too.
    let preset = Policy::preset(Preset::Workspace);
    Ok(Policy { at_least: Rung::R2, ..preset }.with(layer))
}

/// A rule on exactly these words, and on what may follow.
fn rule(words: &[String], more: &str) -> Result<String, Failure> {
    let literal = |word: &String| -> String {
        let special = |c: char| "*?[]{}\\!,".contains(c);
        word.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
    };
    let words: Vec<String> = words.iter().map(literal).collect();
    let joined = shlex::try_join(words.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format!("AGENT_ALLOWED: {error}")))?;
    Ok(format!("exec {joined}{more}"))
}
