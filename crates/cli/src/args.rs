//! What was typed.

mod agent_runtime;
mod brief;
mod containment;
mod image;
mod routing;
mod session;
mod undo;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use provost::core::agents::{AgentLimits, MOST_AGENTS};
use provost::core::containment::{Engine, Guarantee};
use provost::core::id::RunId;
use provost::core::session::Danger;
use provost::tools::Registry;

pub(crate) use agent_runtime::{AgentRuntime, Verb};
pub(crate) use brief::BriefArgs;
pub(crate) use containment::{Doctor, Extra, Sandbox, SandboxCommand, Selftest};
pub(crate) use image::{ImageCommand, Images};
pub(crate) use routing::{ModelSpec, RoutingArgs, UnknownOutcome};
pub(crate) use session::{
    Accept, AskArgs, Authorize, KeyArgs, Prepare, Qualify, Revoke, Session, SessionCommand, SessionInit,
    SessionName, SessionProfile, SessionResult, SessionRun, SessionStatus, SessionsArg, TrustArg,
};
pub(crate) use undo::{Diff, Fork, Rewind};

/// Runs coding agents under orders, and proves what they did.
#[derive(Debug, Parser)]
#[command(name = "provost", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Repair a small library under orders, offline, and prove it: the whole of Provost in one run.
    Demo(Demo),
    /// Run an agent on a repository.
    Run(Run),
    /// Go on with a run that paused or whose driver died.
    Resume(Resume),
    /// Put a run into the queue; a worker drives it.
    Enqueue(Enqueue),
    /// Drive runs from the queue, oldest first.
    #[command(after_long_help = WORKER)]
    Worker(Worker),
    /// Say how a run stands, or all runs that are not over.
    Status(Status),
    /// Print how runs stand, whenever something has changed.
    Watch(Watch),
    /// Follow a run that another process drives, and answer its questions.
    #[command(after_long_help = ATTACH)]
    Attach(Attach),
    /// End a run without its work, or hold it (--resumable).
    Cancel(Cancel),
    /// Say what became of an act that nobody else can tell about, and go on with its run.
    Settle(Settle),
    /// Governed sessions: a signed order in, a patch with proof out.
    Session(Session),
    /// Check a bundle with a key that you trust and your own repository.
    Verify(Verify),
    /// Write a run's evidence as a bundle.
    Export(Export),
    /// Print what happened in a run, event by event.
    Log(Log),
    /// Show a run: contract, state, changes, cost.
    Show(Show),
    /// List the runs in the store.
    #[command(visible_alias = "list")]
    Runs(Runs),
    /// Say what runs came to: calls, tokens, money, by model, day, provider or agent.
    #[command(after_long_help = COST)]
    Cost(Cost),
    /// Print what a run, or one of its steps, changed: a patch that `git apply` takes.
    Diff(Diff),
    /// Put files back to what they were at a step of a run, whoever changed them.
    Rewind(Rewind),
    /// Make a new run, in a folder of its own, from the state that a run had at one of its steps.
    Fork(Fork),
    /// Look after the store: what it takes up, and what may go. Nothing goes by itself.
    Store(Store),
    /// Images whose files commands have as their root, instead of the host's (`run --image`). No daemon is asked.
    Image(Images),
    /// Serve a script of decisions on the real wires of model vendors.
    Rehearse(Rehearse),
    /// List the vendors and local runtimes that `run --provider` knows, and whether a key is set for each.
    Providers(Providers),
    /// List what a provider can run, with windows and prices: asks it where a key is set, and the table otherwise.
    Models(Models),
    /// Explain what a policy decides, and why.
    Policy(Policy),
    /// Say what this host can enforce, what is missing, and how to mend it.
    Doctor(Doctor),
    /// Look after containment.
    Sandbox(Sandbox),
    /// Print this runner's public key; makes the key pair if there is none.
    Key(Key),
    /// The command line of rust-agent-runtime, for its users and their scripts.
    AgentRuntime(AgentRuntime),
}

const WORKER: &str = "\
Runs in one folder go one after the other, each on what the one before left there; give each its own work tree \
(`git worktree add`) if it is to begin with a commit.

A run whose worker died goes on with the next. It is held, which `provost status` explains, where it cannot begin, or \
where three drivers in a row died under it; `provost resume RUN` goes on with it. A model that cannot be asked is tried \
again after 30 seconds, then twice as long each time, up to half an hour.

Ctrl-C and SIGTERM leave the runs to the next worker. With --until-empty the exit code is the highest of the runs' own, \
as the README lists them; it says that one ended so, not that another was better.";

const ATTACH: &str = "\
At a terminal it asks what the run asks, as the run itself would; --approve and --deny answer and leave. The first answer \
counts, wherever it was given: exit code 7 says that another was first. Otherwise the exit code is the run's. \
Ctrl-C leaves the run as it is.";

const REHEARSE: &str = r#"A script, in short:

{ "steps": [
    { "say": "I look at it.", "call": { "name": "read_file", "arguments": { "path": "a.txt" } } },
    { "calls": [ { "name": "exec", "arguments": { "argv": ["true"] } } ], "repeat": 3,
      "usage": { "input": 1200, "output": 30 } },
    { "call": { "name": "submit", "arguments": { "summary": "done" } },
      "fault": { "status": 429, "times": 1, "headers": { "retry-after": "1" } } } ],
  "final": "said when the steps are over" }

The tools that a step can call, each with its arguments (`?`: may be left out):

TOOLS

A "fault" has "times" (1) and one or more of: "status" with "headers", "type", "message" or "body"; "drop_after" or
"error_after" (events of the stream, from 0); "stall_ms", "latency_ms", "bad_json", "endless".

Each request is answered by the step that is due, counted by the calls in the request, so the server keeps no state.
For agents that the first one starts: "dialogues": [ { "when": "words of the child's goal", "steps": [ … ], "final": "…" } ]
beside "steps". The first whose "when" stands in the goal is played instead; without one a child plays the parent's steps.
OpenAI's chat completions and Responses are served at the printed address; Anthropic messages, Gemini and Ollama at the
same without `/v1`."#;

const COST: &str = "\
A call is priced as its run was: the price that was frozen into the contract at its start, which `provost show` shows. \
--today prices it by the table of the program and your file of prices as they are now. Where no price is known the cost is \
unknown, and its calls are counted: `$1.25+?` is what is known of a sum of which some is not.";

impl Args {
    /// Reads what was typed. A program that is started under the name of another takes that one's arguments.
    pub(crate) fn typed(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::command().mut_subcommand("rehearse", |rehearse| {
            rehearse.after_long_help(REHEARSE.replace("TOOLS", tools().trim_end()))
        });
        let words = agent_runtime::translated(words.into_iter().collect());
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}

/// The tools and their arguments, a line each, as the tools themselves have them.
fn tools() -> String {
    let mut out = String::new();
    for spec in Registry::standard().specs() {
        let required = spec.schema["required"].as_array().cloned().unwrap_or_default();
        let names = spec.schema["properties"].as_object().into_iter().flat_map(serde_json::Map::keys);
        let names = names.map(|name| {
            let needed = required.iter().any(|required| required == name);
            if needed { name.clone() } else { format!("{name}?") }
        });
        let _ = writeln!(out, "    {} {{ {} }}", spec.name, names.collect::<Vec<_>>().join(", "));
    }
    out
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Folder for everything it makes; it must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// One JSON object per event on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreArg {
    /// The store of runs [default: provost/provost.db in the user's state folder].
    #[arg(long, value_name = "FILE", env = "PROVOST_STORE")]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    /// OpenAI chat completions, and everything compatible with it.
    Openai,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Google Gemini's own.
    Gemini,
    /// Ollama's own.
    Ollama,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ModelArgs {
    /// Model name, as the vendor has it.
    #[arg(long, value_name = "NAME", env = "PROVOST_MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
}

/// Where a model is asked.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct EndpointArgs {
    /// Vendor or local runtime, as `provost providers` lists them: says base URL, wire and key variable.
    #[arg(long, value_name = "NAME", env = "PROVOST_PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Base URL of the API [default: the provider's].
    #[arg(long, value_name = "URL", env = "PROVOST_BASE_URL")]
    pub(crate) base_url: Option<String>,
    /// The wire it speaks [default: the provider's, or openai].
    #[arg(long, value_enum, env = "PROVOST_WIRE")]
    pub(crate) wire: Option<Wire>,
    /// Environment variable that holds the key [default: the provider's, such as OPENAI_API_KEY].
    #[arg(long, value_name = "VAR")]
    pub(crate) key_env: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CassetteArgs {
    /// Record what is asked of the model and what it answers on this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Take the answers from a recorded file and ask nobody: no key is needed, and nothing is sent.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PaceArgs {
    /// Where the vendor says that nothing is left of what it grants, wait until there is, but no longer than this, as in
    /// `5m`. Without it the model is asked all the same, and asked again when it refuses.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) pace: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    /// A policy file, or a preset: workspace, read-only, strict, full-access.
    #[arg(long, value_name = "FILE|PRESET", default_value = "workspace")]
    pub(crate) policy: String,
    /// Allow what a rule says, as in `exec cargo test*`.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Deny what a rule says.
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// Whether what commands change is in the workspace at once, or looked at first [default: as the policy says].
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) workspace_mode: Option<Mode>,
}

/// What becomes of commands' changes to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// They are there at once, and what the policy guards is undone.
    Direct,
    /// They gather in a layer, and what the policy guards never comes into the workspace.
    Staged,
    /// As `staged`, and of a command that was cut short, or made what cannot stand, nothing does.
    AllOrNothing,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) cassette: CassetteArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// Write the evidence bundle here when the run is done.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per event on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is ordered, now or for later.
#[derive(Debug, clap::Args)]
pub(crate) struct OrderArgs {
    /// What is to be done.
    pub(crate) goal: String,
    /// The workspace: a folder in a git repository.
    #[arg(short = 'C', long = "dir", value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Run in a folder that is in no git repository.
    #[arg(long)]
    pub(crate) no_repo: bool,
    /// Ignored file or folder of the workspace that the verification needs beside the tree, such as `node_modules`: it
    /// is copied into the fresh checkout that --verify runs in. Repeatable.
    #[arg(long, value_name = "PATH", requires = "verify")]
    pub(crate) verify_with: Vec<String>,
    #[command(flatten)]
    pub(crate) brief: BriefArgs,
    #[command(flatten)]
    pub(crate) servers: ServerArgs,
    /// Answer every question of the policy with yes; commands are contained all the same.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
}

/// The terms of an order: who is asked, what may be touched and spent, what decides that it is done.
#[derive(Debug, clap::Args)]
pub(crate) struct TermsArgs {
    /// Command that decides whether the work is done, as in `cargo test`. No shell reads it: for `a && b` write
    /// `sh -c 'a && b'`.
    #[arg(long, value_name = "CMD")]
    pub(crate) verify: Option<String>,
    /// Count the tests that --verify runs, once on the files at the start and then each time: it does not pass where fewer
    /// pass than ran at the start. Of cargo, pytest, node, go, jest and vitest.
    #[arg(long, requires = "verify")]
    pub(crate) count_tests: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) routing: RoutingArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Guarantees of containment that have to be enforced, as in `net,kill-tree`; the run does not start where one is not.
    /// Adds to what the policy requires. Repeatable.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) require: Vec<Guarantee>,
    /// Image whose files commands have as their root: a name, a digest, or the beginning of one. The run is bound to its
    /// digest.
    #[arg(long, value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,
    /// Container engine that runs commands in that image, podman or docker, with what it has of a sandbox; the receipt
    /// says what was seen to hold. Slower: some tenths of a second for each command.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<Engine>,
    /// Most answers of the model.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: u32,
    /// Most agents that the model may have do a part of the work, all together; with 0 it works alone. They draw on the same
    /// budget, and may do nothing that it may not.
    #[arg(
        long,
        value_name = "N",
        default_value_t = AgentLimits::STANDARD.total,
        value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_AGENTS))
    )]
    pub(crate) max_agents: u32,
    /// Most tokens, input and output together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 50))]
    pub(crate) max_tokens: Option<u64>,
    /// Most money, in US dollars; needs a price that is known.
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    pub(crate) max_cost: Option<u64>,
    #[command(flatten)]
    pub(crate) price: PriceArgs,
    /// Longest the run may take, as in `90s`, `15m`, `2h`.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Your file of servers whose tools the model is offered, by the Model Context Protocol [default: mcp.toml in the
    /// user's config folder]. Never one in the workspace.
    #[arg(long, value_name = "FILE", env = "PROVOST_MCP")]
    pub(crate) mcp: Option<PathBuf>,
    /// Start none of them.
    #[arg(long, conflicts_with = "mcp")]
    pub(crate) no_mcp: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PriceArgs {
    /// What the model costs in US dollars per million tokens, input and output, as in `3/15` [default: as `provost models`
    /// shows it].
    #[arg(long, value_name = "IN/OUT", value_parser = parse_price)]
    pub(crate) price: Option<(u64, u64)>,
    /// Your file of prices and windows, which goes before the table of the program [default: prices.toml in the user's
    /// config folder].
    #[arg(long, value_name = "FILE", env = "PROVOST_PRICES")]
    pub(crate) prices: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Enqueue {
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    /// The run's name, of 4 to 64 characters a-z, 0-9 and `-`. The same name with the same contract is queued once,
    /// however often this is said.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<RunId>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// How many runs it drives at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// End when nothing is left to do, instead of waiting for more.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Write the evidence bundle of each run that is over to a folder of its name in here.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per run that it takes or leaves on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The run, or the beginning of its name; without one all that are not over.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per run on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) status: Status,
    /// How often it looks, as in `1s`.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = parse_duration)]
    pub(crate) every: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Approve an act that waits, by its number, and leave.
    #[arg(long, value_name = "ACT", conflicts_with = "deny")]
    pub(crate) approve: Option<u32>,
    /// Refuse an act that waits, by its number, and leave.
    #[arg(long, value_name = "ACT")]
    pub(crate) deny: Option<u32>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per event on standard output; asks nothing.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Have its driver leave it, and no worker take it: `resume` goes on with it.
    #[arg(long)]
    pub(crate) resumable: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("how").required(true))]
pub(crate) struct Settle {
    /// The act, by its number.
    #[arg(long, value_name = "ACT")]
    pub(crate) act: u32,
    /// It happened: go on without what it printed.
    #[arg(long, group = "how")]
    pub(crate) happened: bool,
    /// It did not happen.
    #[arg(long, group = "how")]
    pub(crate) did_not: bool,
    /// Carry it out again, whatever happened.
    #[arg(long, group = "how")]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) going_on: GoingOn,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) going_on: GoingOn,
    /// Approve an act that waits, by its number.
    #[arg(long, value_name = "ACT")]
    pub(crate) approve: Vec<u32>,
    /// Refuse an act that waits, by its number.
    #[arg(long, value_name = "ACT")]
    pub(crate) deny: Vec<u32>,
}

/// What every command takes that goes on with a run.
#[derive(Debug, clap::Args)]
pub(crate) struct GoingOn {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Answer every question of the policy with yes.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Take the tools of the run's servers as they are now, where they are not what they were when it began.
    #[arg(long)]
    pub(crate) accept_drift: bool,
    /// Write the evidence bundle here when the run is done.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    /// Vendor or local runtime, where the base URL does not tell which it is.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Base URL, where the endpoint has moved.
    #[arg(long, value_name = "URL", env = "PROVOST_BASE_URL")]
    pub(crate) base_url: Option<String>,
    /// Where an answer was lost on its way and the base URL is another now: `go-on` asks there, though the vendor before may
    /// have charged for it.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = UnknownOutcome::AskAgain)]
    pub(crate) unknown_outcome: UnknownOutcome,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "VAR")]
    pub(crate) key_env: Option<String>,
    /// The cassette of a run that is replayed.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per event on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_long_help = VERIFY)]
pub(crate) struct Verify {
    /// The bundle's folder.
    pub(crate) bundle: PathBuf,
    /// Public key that you trust (PEM), obtained elsewhere than from the bundle; several may be given.
    #[arg(long = "key", value_name = "PEM", required_unless_present = "trust")]
    pub(crate) keys: Vec<PathBuf>,
    /// Of a governed session: your folder that says whom you trust to authorize. Never one from the bundle.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keys", "no_repo"], requires_all = ["commit", "scope"])]
    pub(crate) trust: Option<PathBuf>,
    /// Your own repository that has the commit.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// The commit that the run must have begun with, by its full id.
    #[arg(long, visible_alias = "rev", value_name = "SHA", value_parser = parse_commit)]
    pub(crate) commit: Option<String>,
    /// The folder of the commit that the run must have been given.
    #[arg(long, value_name = "PATH")]
    pub(crate) scope: Option<String>,
    /// Of a session: the file that says what was to be done.
    #[arg(long, value_name = "FILE", requires = "trust")]
    pub(crate) task: Option<PathBuf>,
    /// Of a session: the runner that it was meant for.
    #[arg(long, value_name = "NAME", requires = "trust")]
    pub(crate) runner: Option<String>,
    /// Of a session: kind of dangerous change that you take although the authorization does not allow it. Repeatable.
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "trust")]
    pub(crate) allow: Vec<Danger>,
    /// Of a session: do its commands again in your own sandbox, and compare the files after each.
    #[arg(long, requires = "trust")]
    pub(crate) replay: bool,
    /// Of a session: run the verification's command in your own sandbox, on your commit with the change.
    #[arg(long, requires = "trust")]
    pub(crate) test: bool,
    /// Check without a repository: what depends on the commit is then not checked, and said so.
    #[arg(long, conflicts_with = "repo")]
    pub(crate) no_repo: bool,
    /// Accept only a run whose verification gate passed on the tree that it ended with: exit code 8 for any other.
    #[arg(long)]
    pub(crate) require_gate: bool,
    /// One JSON object per claim on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

const VERIFY: &str = "\
Of a run: `--key PEM`. Of a governed session: `--trust DIR --rev FULLSHA --scope PATH --task FILE`. What does not verify ends \
with exit code 8; with --json the last object names the first claim that failed by a code: 10 malformed, 11 untrusted or wrong \
key, 12 expired, not yet valid or revoked, 13 another task, commit, scope or runner, 14 inconsistent log, 15 out of scope or \
protected, 16 patch and tree do not fit, 17 not accepted, 18 replay came out otherwise, 20 dangerous change, 30 cannot be \
checked.";

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Folder to write; it must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// The events exactly as they are stored.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print one act whole, by its number: its arguments, and what the model was told.
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub(crate) act: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cost {
    /// The run, or the beginning of its name; without one all in the store.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: Option<String>,
    /// Only calls from then on: `2026-01-31` (its beginning, in UTC) or `2026-01-31T09:05:00+01:00`.
    #[arg(long, value_name = "DATE", value_parser = crate::commands::parse_date)]
    pub(crate) since: Option<u64>,
    /// What the sums are of [default: model].
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) by: Vec<By>,
    /// At the prices of now, and not at those of the runs.
    #[arg(long)]
    pub(crate) today: bool,
    /// At the prices of now, this file's before the table's.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per sum on standard output, the last of all.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What costs are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The run.
    Run,
    /// The model that was asked for.
    Model,
    /// Vendor or local runtime; the base URL where it is none that is known.
    Provider,
    /// The agent of the run's tree, by its number.
    Agent,
    /// The day, in UTC.
    Day,
}

impl By {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Agent => "agent",
            Self::Day => "day",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Runs {
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per run on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print what the store and each run in it take up.
    Size {
        #[command(flatten)]
        store: StoreArg,
        /// One JSON object per run on standard output, and one for the store.
        #[arg(long)]
        json: bool,
    },
    /// Delete a run, all of it.
    Delete(OneRun),
    /// Delete the runs that are over and whose newest event is older than a date.
    Sweep {
        /// The date: `2026-01-31` (its beginning, in UTC) or `2026-01-31T09:05:00+01:00`.
        #[arg(long, value_name = "DATE", value_parser = crate::commands::parse_date)]
        before: u64,
        /// Say what would go, and delete nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Drop a run's words: what was said, read and written. Its numbers and its chain of events stay.
    Archive(OneRun),
    /// Give free space back to the disk. Needs as much space again while it works.
    Compact {
        #[command(flatten)]
        store: StoreArg,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneRun {
    /// The run, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) run: String,
    /// Also where the run is not over. It cannot be resumed afterwards.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rehearse {
    /// The script (JSON).
    pub(crate) script: PathBuf,
    /// Loopback address to listen on; port 0 takes a free one and prints it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Append each request to this file, credentials left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Providers {
    /// One JSON object per provider on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Models {
    /// Only models whose name has this in it.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) only: Option<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Your file of prices and windows, which goes before the table of the program [default: prices.toml in the user's
    /// config folder].
    #[arg(long, value_name = "FILE", env = "PROVOST_PRICES")]
    pub(crate) prices: Option<PathBuf>,
    /// One JSON object per model on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print what is decided on one access, and by which rule.
    Explain {
        #[command(flatten)]
        policy: PolicyArgs,
        /// read, write, exec, shell, net, call, spawn or publish.
        access: String,
        /// What is accessed: a path, a command's words, a line for a shell (as one word), HOST:PORT, a name, a port. Options of this command come before it.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        target: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Key {
    /// Print where the private key lies instead.
    #[arg(long)]
    pub(crate) path: bool,
}

/// A full object id: 40 hexadecimal digits, or 64 in a repository of the SHA-256 format.
fn parse_commit(text: &str) -> Result<String, String> {
    if matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("expected a full commit id of 40 or 64 hexadecimal digits (`git rev-parse COMMIT` prints it)"
        .to_owned())
}

/// Dollars as millionths.
fn parse_usd(text: &str) -> Result<u64, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || fraction.len() > 6
    {
        return Err("expected dollars, as in 2 or 0.25".to_owned());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| "too large".to_owned())? };
    let micros: u64 = format!("{fraction:0<6}").parse().map_err(|_| "too large".to_owned())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|whole| whole.checked_add(micros))
        .filter(|sum| *sum < 1 << 50)
        .ok_or_else(|| "too large".to_owned())
}

fn parse_price(text: &str) -> Result<(u64, u64), String> {
    let (input, output) = text
        .split_once('/')
        .ok_or_else(|| "expected IN/OUT in dollars per million tokens, as in 3/15".to_owned())?;
    Ok((parse_usd(input)?, parse_usd(output)?))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 =
        text[..split].parse().map_err(|_| "expected a duration, as in 90s, 15m or 2h".to_owned())?;
    let scale = match &text[split..] {
        "ms" => return Ok(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        unit => return Err(format!("`{unit}` is not a unit: use ms, s, m or h")),
    };
    number
        .checked_mul(scale)
        .filter(|seconds| *seconds <= 366 * 24 * 3600)
        .map(Duration::from_secs)
        .ok_or_else(|| "longer than a year".to_owned())
}
