//! `provost session`: a signed order in, a patch with proof out.

mod accept;
mod ask;
mod carry;
mod look;
mod qualify;
mod sign;
mod summary;
mod verify;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use provost::evidence::trust::Trust;
use provost::govern::{Folder, SessionError, Sessions, Toolchain, toolchain};
use provost::journal::Owner;

pub(super) use self::carry::mandate;
pub(super) use self::verify::verify;
use super::setup::host;
use crate::args::{Session, SessionCommand, SessionsArg, TrustArg};
use crate::failure::Failure;
use crate::world::World;

pub(crate) async fn session(world: &World, args: Session) -> Result<u8, Failure> {
    match args.command {
        SessionCommand::Run(args) => carry::run(world, *args).await,
        SessionCommand::Init(args) => ask::init(world, *args).await,
        SessionCommand::Authorize(args) => sign::authorize(world, &args),
        SessionCommand::Prepare(args) => carry::prepare(world, &args),
        SessionCommand::Result(args) => look::result(world, &args),
        SessionCommand::Show(args) => look::show(world, args).await,
        SessionCommand::Status(args) => look::status(world, args).await,
        SessionCommand::Log(args) => look::log(world, args).await,
        SessionCommand::Accept(args) => accept::accept(world, &args),
        SessionCommand::Revoke(args) => look::revoke(world, &args),
        SessionCommand::Profile(args) => look::profile(world, &args),
        SessionCommand::Qualify(args) => qualify::qualify(&args),
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let hint = match &error {
            SessionError::Unauthorized(session) => Some(format!(
                "have the request signed (`provost session authorize {session}`), then `provost session prepare {session} \
                 --authorization FILE`"
            )),
            SessionError::Expired(_) => Some(
                "have it signed again (`provost session authorize SESSION -o FILE`; --expires says for how long), then \
                 `provost session prepare SESSION --authorization FILE`"
                    .to_owned(),
            ),
            SessionError::NoSession { .. } => Some("`provost session status` lists them".to_owned()),
            SessionError::NotOver(session) => {
                Some(format!("`provost session run {session}` goes on with it"))
            }
            _ => None,
        };
        let failure = Self::coded(error.exit_code(), error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

fn sessions(world: &World, args: &SessionsArg) -> Result<Sessions, Failure> {
    Ok(Sessions::at(world.sessions_path(args.sessions.as_deref())?))
}

/// The session that is named, or the newest.
fn named(sessions: &Sessions, name: Option<&str>) -> Result<Folder, Failure> {
    match name {
        Some(name) => Ok(sessions.find(name)?),
        None => match sessions.all()?.last() {
            Some(newest) => Ok(sessions.open(newest)?),
            None => Err(Failure::usage("there is no session here")
                .hint("`provost session run --task FILE` makes one")),
        },
    }
}

/// Whom the user trusts to authorize.
fn trust(world: &World, args: &TrustArg) -> Result<Trust, Failure> {
    let path = world.trust_path(args.trust.as_deref())?;
    read_trust(&path)
}

fn read_trust(path: &Path) -> Result<Trust, Failure> {
    if !path.is_dir() {
        return Err(Failure::usage(format!("`{}` is not a folder", path.display())).hint(
            "make it, and put the public keys of whom you trust to authorize into its file `allowed_signers` (a line of \
             ssh-keygen's: `NAME namespaces=\"provost-authorization\" ssh-ed25519 AAAA…`)",
        ));
    }
    Trust::read(path).map_err(Failure::usage)
}

/// The name that this runner goes by: what was given, or the host's.
fn runner_name(given: Option<&str>) -> Result<String, Failure> {
    match given {
        Some(name) => Ok(name.to_owned()),
        None => Ok(Owner::this_process().map_err(Failure::internal)?.host),
    }
}

/// The toolchain of this host, as its user finds it.
fn host_toolchain(world: &World, gate: Option<&str>) -> Result<Toolchain, Failure> {
    let host = host(world);
    let usual = || Some(Path::new(host.home.as_deref()?).join(".rustup"));
    let rustup = host.rustup_home.as_deref().map(|path| Path::new(path).to_owned()).or_else(usual);
    Ok(toolchain(&host.path, gate, rustup.as_deref())?)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
