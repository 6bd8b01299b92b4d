//! What was typed behind `provost session`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use provost::core::session::Danger;

use super::{PaceArgs, StoreArg, TermsArgs, parse_duration};

/// Governed sessions.
#[derive(Debug, Args)]
#[command(after_long_help = SESSIONS)]
pub(crate) struct Session {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

const SESSIONS: &str = "\
For one person: `session run --rev HEAD --scope package --task issue.md --verify 'cargo test'`, then `session show` and \
`session accept`. For separated duties: `session init` (author), `session authorize` (authority), `session prepare`, \
`session run SESSION` and `session result` (runner), `provost verify` (recipient).

Whom you trust to authorize stands in a folder of your own (`--trust`): OpenSSH's `allowed_signers`, PEM keys, `revoked_keys`, \
`revoked`, `trust.toml` (threshold = 2).";

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Carry a session out: one that is prepared, or a new one of your own, which you sign. The same again after any crash.
    Run(Box<SessionRun>),
    /// Ask for a session: writes an unsigned request, and the session's own key.
    Init(Box<SessionInit>),
    /// Sign a request, or add a signature to an authorization.
    Authorize(Authorize),
    /// Check what was signed, and make the session's workspace from the commit.
    Prepare(Prepare),
    /// Write the bundle of a closed session; the same bytes each time.
    Result(SessionResult),
    /// Show what a session did: its terms, its change, what it cost.
    Show(SessionName),
    /// Say how sessions stand.
    Status(SessionStatus),
    /// Print what happened in a session, event by event.
    Log(SessionName),
    /// Verify a session's result, try it, and put it on a new branch; your work tree is not touched.
    Accept(Accept),
    /// Have a session, or an authorization by its digest, not be carried out any further on this machine.
    Revoke(Revoke),
    /// Print what sessions are carried out with on this host: the toolchain by its digest, containment and caps.
    Profile(SessionProfile),
    /// Go through the whole of a session on this host, with what has to be accepted and what has to be refused.
    Qualify(Qualify),
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArg {
    /// Folder of sessions [default: sessions in the user's state folder].
    #[arg(long, value_name = "DIR", env = "PROVOST_SESSIONS")]
    pub(crate) sessions: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArg {
    /// Folder that says whom you trust to authorize [default: trust in the user's config folder].
    #[arg(long, value_name = "DIR", env = "PROVOST_TRUST")]
    pub(crate) trust: Option<PathBuf>,
    /// The name that this runner goes by [default: the host's name].
    #[arg(long, value_name = "NAME", env = "PROVOST_RUNNER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) runner: Option<String>,
}

/// What is asked for.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The commit that the work begins with.
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    pub(crate) rev: String,
    /// The folder of the commit that is worked on, and the only one that may change.
    #[arg(long, value_name = "PATH", default_value = ".")]
    pub(crate) scope: String,
    /// The repository.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// Glob of paths that may not be changed, beside those that test runners take for tests. Repeatable.
    #[arg(long, value_name = "GLOB")]
    pub(crate) protect: Vec<String>,
    /// One of the globs that are protected, as `session show` names them, that may be changed all the same. Repeatable.
    #[arg(long, value_name = "GLOB")]
    pub(crate) open: Vec<String>,
    /// Kind of dangerous file that may be changed, as in `manifests` or `build-scripts`. Repeatable.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) allow_dangerous: Vec<Danger>,
    /// How many commands may have to be rolled back before the session is stopped.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) max_rollbacks: u32,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionInit {
    /// File that says what is to be done.
    #[arg(long, value_name = "FILE")]
    pub(crate) task: PathBuf,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    /// Write the request here, for the authority [default: it is read from the session's folder].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The runner that is to carry it out [default: this one].
    #[arg(long, value_name = "NAME", env = "PROVOST_RUNNER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) runner: Option<String>,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Private key to sign with: OpenSSH's format or PEM, Ed25519. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// Sign by the ssh-agent with this public key file. Repeatable.
    #[arg(long, value_name = "PUB")]
    pub(crate) agent_key: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Authorize {
    /// The request's file, or a session's name; an authorization to add a signature to.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) request: String,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How long it holds from now on, as in `2h`.
    #[arg(long, value_name = "D", value_parser = parse_duration, default_value = "8h")]
    pub(crate) expires: Duration,
    /// From when on it holds, counted from now, as in `30m`.
    #[arg(long, value_name = "D", value_parser = parse_duration, default_value = "0s")]
    pub(crate) not_before: Duration,
    /// The task's file, to be shown and held against the request.
    #[arg(long, value_name = "FILE")]
    pub(crate) task: Option<PathBuf>,
    /// Write the authorization here.
    #[arg(short, long, value_name = "FILE", default_value = "authorization.json")]
    pub(crate) out: PathBuf,
    /// Sign nothing: write what is to be signed, for `ssh-keygen -Y sign -n provost-authorization -f KEY FILE`.
    #[arg(long, conflicts_with_all = ["key", "agent_key"])]
    pub(crate) unsigned: bool,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
}

#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// The session, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: String,
    /// What an authority signed; signatures of ssh-keygen's are looked for beside it (`FILE.sig`, `FILE.2.sig`).
    #[arg(long, value_name = "FILE")]
    pub(crate) authorization: PathBuf,
    #[command(flatten)]
    pub(crate) trust: TrustArg,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
}

#[derive(Debug, Args)]
pub(crate) struct SessionRun {
    /// The session, or the beginning of its name; without one a new session is asked for, signed and carried out.
    #[arg(required_unless_present = "task", conflicts_with = "task")]
    pub(crate) session: Option<String>,
    /// File that says what is to be done.
    #[arg(long, value_name = "FILE")]
    pub(crate) task: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// How long a new session's authorization holds, as in `2h`.
    #[arg(long, value_name = "D", value_parser = parse_duration, default_value = "8h")]
    pub(crate) expires: Duration,
    /// Do not ask before signing.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Write the bundle here too when the session is closed.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: TrustArg,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// One JSON object per event on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionResult {
    /// The session, or the beginning of its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: String,
    /// Folder to write; it must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
}

#[derive(Debug, Args)]
pub(crate) struct SessionName {
    /// The session, or the beginning of its name [default: the newest].
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
}

#[derive(Debug, Args)]
pub(crate) struct SessionStatus {
    /// The session, or the beginning of its name [default: all].
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
    /// One JSON object a session on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Accept {
    /// The session, or the beginning of its name [default: the newest]; or a bundle's folder.
    pub(crate) session: Option<String>,
    /// The branch to make [default: provost/SESSION].
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Your own repository that has the commit.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// Kind of dangerous file that you take although the authorization does not allow it. Repeatable.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) allow: Vec<Danger>,
    /// Do not run the gate's command again here.
    #[arg(long)]
    pub(crate) no_test: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArg,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
    /// One JSON object per claim on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The session, the beginning of its name, or the digest of an authorization.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) what: String,
    /// Why.
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) sessions: SessionsArg,
}

#[derive(Debug, Args)]
pub(crate) struct SessionProfile {
    /// Image that commands are to have as their root, instead of the host's toolchain.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// List each file of the toolchain with its digest.
    #[arg(long)]
    pub(crate) files: bool,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Qualify {
    /// Folder to write everything to; it must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Work on a folder of the repository, and not on all of it.
    #[arg(long)]
    pub(crate) scoped: bool,
    /// One JSON object per try on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
