//! `provost session authorize`: an authority signs exactly what was asked for.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost::core::session::{Authorization, Request};
use provost::evidence::authorization;
use provost::evidence::canonical::sha256;
use provost::evidence::cosign;
use provost::evidence::keys::SigningKey;
use provost::evidence::signer::Signer;
use provost::evidence::ssh;
use provost::evidence::trust::Role;
use provost::govern::SignedFile;

use super::summary::summary;
use super::{now_ms, sessions};
use crate::args::{Authorize, KeyArgs};
use crate::failure::{AtPath, Failure};
use crate::render::{duration, say};
use crate::world::World;

/// Longest that is waited for an ssh-agent, which may ask its owner.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) fn authorize(world: &World, args: &Authorize) -> Result<u8, Failure> {
    let path = Path::new(&args.request);
    let bytes = if path.is_file() {
        provost::govern::read(path)?
    } else {
        sessions(world, &args.sessions)?.find(&args.request)?.request_bytes()?
    };
    let (authorization, signed) = match serde_json::from_slice::<Request>(&bytes) {
        Ok(request) => {
            let not_before_ms = now_ms().saturating_add(args.not_before.as_millis() as u64);
            let expires_ms = not_before_ms.saturating_add(args.expires.as_millis() as u64);
            (Authorization { request, not_before_ms, expires_ms }, None)
        }
        Err(not_a_request) => {
            let signed = SignedFile::read(path)?;
            let stated = cosign::unverified(&signed.bytes).map_err(|error| {
                Failure::usage(format!(
                    "`{}` is neither a request ({not_a_request}) nor an authorization ({error})",
                    args.request
                ))
            })?;
            (stated, Some(signed))
        }
    };
    let task = args.task.as_ref().map(|task| provost::govern::read(task)).transpose()?;
    if let Some(task) = &task
        && sha256(task) != authorization.request.task
    {
        return Err(Failure::coded(
            3,
            format!(
                "the task in that file has the SHA-256 {}; asked for is {}",
                sha256(task),
                authorization.request.task
            ),
        ));
    }
    if args.out.exists() && args.out != path {
        return Err(Failure::usage(format!("`{}` is there already", args.out.display()))
            .hint("name another file with --out; to add a signature to an authorization, give it twice: as the file and as --out"));
    }
    for line in summary(&authorization.request, task.as_deref()) {
        eprintln!("{line}");
    }
    eprintln!("  holds    for {} from {}", lasts(&authorization), begins(&authorization));
    let payload = authorization::payload(&authorization).map_err(Failure::internal)?;
    if args.unsigned {
        std::fs::write(&args.out, &payload).at(&args.out)?;
        say!("wrote `{}`, unsigned. To sign it:", args.out.display());
        say!("  ssh-keygen -Y sign -n {} -f KEY {}", Role::Authority.namespace(), args.out.display());
        return Ok(0);
    }
    let signers = signers(world, &args.keys)?;
    confirm(args.yes, "sign this?")?;
    let signed = sign(&authorization, signed, &signers)?;
    signed.write(&args.out)?;
    say!(
        "wrote `{}` (and SSH signatures beside it, `.sig`), signed by {}",
        args.out.display(),
        names(&signers).join(", ")
    );
    Ok(0)
}

fn lasts(authorization: &Authorization) -> String {
    duration(authorization.expires_ms.saturating_sub(authorization.not_before_ms))
}

fn begins(authorization: &Authorization) -> String {
    let from = authorization.not_before_ms;
    if from <= now_ms() { "now on".to_owned() } else { format!("{} from now on", duration(from - now_ms())) }
}

/// Signs an authorization; signatures that are there stay.
pub(super) fn sign(
    authorization: &Authorization,
    before: Option<SignedFile>,
    signers: &[Box<dyn Signer>],
) -> Result<SignedFile, Failure> {
    let signers: Vec<&dyn Signer> = signers.iter().map(AsRef::as_ref).collect();
    let made = match &before {
        None => authorization::sign(authorization, &signers).map_err(Failure::usage)?,
        Some(before) => cosign::sign_too(&before.bytes, &signers).map_err(Failure::usage)?,
    };
    let mut signatures = before.map(|before| before.signatures).unwrap_or_default();
    signatures.extend(made.ssh);
    Ok(SignedFile { bytes: made.envelope, signatures })
}

/// Whoever signs: key files, keys of the ssh-agent, and where none is named the person's own.
pub(super) fn signers(world: &World, args: &KeyArgs) -> Result<Vec<Box<dyn Signer>>, Failure> {
    let mut signers: Vec<Box<dyn Signer>> = Vec::new();
    for path in &args.key {
        signers.push(Box::new(key(path)?));
    }
    for path in &args.agent_key {
        let text = std::fs::read_to_string(path).at(path)?;
        let public = ssh::public::read(text.trim())
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
        let socket = world.var("SSH_AUTH_SOCK").ok_or_else(|| {
            Failure::usage("SSH_AUTH_SOCK is not set: no ssh-agent is to be found")
                .hint("`eval \"$(ssh-agent)\"`, then `ssh-add`")
        })?;
        let agent = ssh::agent::Agent::at(Path::new(&socket), PATIENCE);
        signers.push(Box::new(agent.signer(&public).map_err(Failure::usage)?));
    }
    if signers.is_empty() {
        let path = own_key(world)?;
        signers.push(Box::new(key(&path)?));
    }
    Ok(signers)
}

/// The person's own key: OpenSSH's usual one.
fn own_key(world: &World) -> Result<PathBuf, Failure> {
    let usual = world.home().map(|home| home.join(".ssh/id_ed25519"));
    usual.filter(|path| path.is_file()).ok_or_else(|| {
        Failure::usage("no key to sign with: there is no `~/.ssh/id_ed25519`")
            .hint("name one with --key FILE or --agent-key PUB, or make one with `ssh-keygen -t ed25519`")
    })
}

fn key(path: &Path) -> Result<SigningKey, Failure> {
    let text = std::fs::read_to_string(path).at(path)?;
    if !ssh::private::is_private(&text) {
        return SigningKey::read(path).map_err(Failure::usage);
    }
    ssh::private::read_file(path, None).map_err(|error| {
        Failure::usage(error).hint(format!(
            "a key with a passphrase is used by the ssh-agent: `ssh-add {0}`, then --agent-key {0}.pub",
            path.display()
        ))
    })
}

/// Fingerprints, as ssh-keygen prints them.
pub(super) fn names(signers: &[Box<dyn Signer>]) -> Vec<String> {
    signers.iter().map(|signer| ssh::public::Fingerprint::of(&signer.public()).to_string()).collect()
}

/// Asks the person; where nobody can answer, it takes `--yes`.
pub(super) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !World::can_ask() {
        return Err(Failure::coded(5, "nobody is here to be asked").hint("--yes says that it is meant"));
    }
    eprint!("{question} [y]es / [n]o: ");
    let _ = std::io::stderr().flush();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(Failure::internal)?;
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::coded(3, "not signed")),
    }
}
