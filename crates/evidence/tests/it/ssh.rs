//! OpenSSH's formats, against OpenSSH.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use proptest::prelude::*;

use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::signer::{SignError, Signer};
use provost_evidence::ssh::agent::{Agent, AgentError};
use provost_evidence::ssh::private::{self, PrivateKeyError, ReadKeyError};
use provost_evidence::ssh::public::{self, Fingerprint, PublicKeyError};
use provost_evidence::ssh::sig::{self, SshSigError};

const NAMESPACE: &str = "provost-authorization";

/// Runs one of OpenSSH's programs with this as its input.
pub(crate) fn openssh(dir: &Path, program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}: install OpenSSH's client or run `./test`"));
    // A program that fails before it reads closes its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub(crate) fn keygen(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    openssh(dir, "ssh-keygen", args, input)
}

/// A key that ssh-keygen makes in `dir`, with this passphrase.
pub(crate) fn made(dir: &Path, name: &str, passphrase: &str, more: &[&str]) -> PathBuf {
    let args = [&["-q", "-t", "ed25519", "-N", passphrase, "-C", "a comment", "-f", name], more].concat();
    let output = keygen(dir, &args, b"");
    assert!(output.status.success(), "{output:?}");
    dir.join(name)
}

pub(crate) fn public_of(key: &Path) -> VerifyingKey {
    public::read(&fs::read_to_string(key.with_extension("pub")).unwrap()).unwrap()
}

#[test]
fn keys_of_ssh_keygen_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let plain = made(dir.path(), "plain", "", &[]);
    let key = private::read_file(&plain, None).unwrap();
    assert_eq!(key.verifying_key(), public_of(&plain));
    let text = fs::read_to_string(plain.with_extension("pub")).unwrap();
    assert_eq!(format!("{} a comment\n", public::line(&key.verifying_key())), text);

    let output = keygen(dir.path(), &["-l", "-f", "plain.pub"], b"");
    let shown = String::from_utf8(output.stdout).unwrap();
    let fingerprint = Fingerprint::of(&key.verifying_key());
    assert_eq!(shown.split(' ').nth(1).unwrap(), fingerprint.to_string());
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
}

#[test]
fn a_passphrase_is_asked_for_and_has_to_be_the_one() {
    let dir = tempfile::tempdir().unwrap();
    let locked = made(dir.path(), "locked", "correct horse", &["-a", "2"]);
    let read = |passphrase| private::read_file(&locked, passphrase);
    assert_eq!(read(Some("correct horse")).unwrap().verifying_key(), public_of(&locked));
    assert!(matches!(read(None), Err(ReadKeyError::Ssh(PrivateKeyError::Encrypted))));
    assert!(matches!(read(Some("")), Err(ReadKeyError::Ssh(PrivateKeyError::Encrypted))));
    let wrong = read(Some("battery staple"));
    assert!(matches!(wrong, Err(ReadKeyError::Ssh(PrivateKeyError::WrongPassphrase))), "{wrong:?}");
    assert!(!format!("{wrong:?}").contains("battery"));
}

#[test]
fn what_is_not_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let other = made(dir.path(), "gcm", "secret", &["-a", "1", "-Z", "aes256-gcm@openssh.com"]);
    let read = private::read_file(&other, Some("secret"));
    assert!(
        matches!(&read, Err(ReadKeyError::Ssh(PrivateKeyError::Cipher(name))) if name == "aes256-gcm@openssh.com"),
        "{read:?}"
    );
    let output = keygen(dir.path(), &["-q", "-t", "ecdsa", "-N", "", "-f", "ecdsa"], b"");
    assert!(output.status.success(), "{output:?}");
    let read = private::read_file(&dir.path().join("ecdsa"), None);
    assert!(matches!(read, Err(ReadKeyError::Ssh(PrivateKeyError::Kind))), "{read:?}");
    let line = fs::read_to_string(dir.path().join("ecdsa.pub")).unwrap();
    let read = public::read(&line);
    assert!(matches!(&read, Err(PublicKeyError::Kind(kind)) if kind == "ecdsa-sha2-nistp256"), "{read:?}");
    assert!(matches!(public::read("ssh-ed25519"), Err(PublicKeyError::Shape)));
    assert!(matches!(public::read("ssh-ed25519 AAAA"), Err(PublicKeyError::Shape)));
    let read = private::read_file(&dir.path().join("none"), None);
    assert!(read.unwrap_err().to_string().contains("none"));

    let pem = dir.path().join("pem");
    let key = SigningKey::from_seed([3; 32]);
    key.write_private(&pem).unwrap();
    assert_eq!(private::read_file(&pem, None).unwrap().verifying_key(), key.verifying_key());
}

#[test]
fn a_key_of_small_order_is_refused_in_this_format_too() {
    let good = public::line(&SigningKey::from_seed([3; 32]).verifying_key());
    let blob = "AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(blob.len(), good.len() - "ssh-ed25519 ".len());
    assert!(matches!(public::read(&format!("ssh-ed25519 {blob}")), Err(PublicKeyError::Key(_))));
}

#[test]
fn ssh_keygen_verifies_what_we_sign_and_we_what_it_signs() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path(), "key", "", &[]);
    let key = private::read_file(&path, None).unwrap();
    let message = b"{\"a\":1}";
    fs::write(dir.path().join("allowed"), format!("me {}\n", public::line(&key.verifying_key()))).unwrap();

    fs::write(dir.path().join("ours.sig"), sig::sign(NAMESPACE, message, &key).unwrap()).unwrap();
    let verify = |message: &[u8], namespace| {
        let args = ["-Y", "verify", "-f", "allowed", "-I", "me", "-n", namespace, "-s", "ours.sig"];
        keygen(dir.path(), &args, message).status.success()
    };
    assert!(verify(message, NAMESPACE));
    assert!(!verify(message, "file"));
    assert!(!verify(b"{\"a\":2}", NAMESPACE));

    for hash in ["sha512", "sha256"] {
        let option = format!("hashalg={hash}");
        let args = ["-Y", "sign", "-f", "key", "-n", NAMESPACE, "-O", &option];
        let theirs = keygen(dir.path(), &args, message).stdout;
        assert_eq!(sig::check(&theirs, NAMESPACE, message).unwrap(), key.verifying_key());
        if hash == "sha512" {
            assert_eq!(theirs, fs::read(dir.path().join("ours.sig")).unwrap(), "byte for byte");
        }
    }
}

#[test]
fn a_signature_for_another_use_or_another_text_is_refused() {
    let key = SigningKey::from_seed([3; 32]);
    let good = sig::sign(NAMESPACE, b"text", &key).unwrap();
    assert_eq!(sig::check(good.as_bytes(), NAMESPACE, b"text").unwrap(), key.verifying_key());
    assert!(matches!(sig::check(good.as_bytes(), NAMESPACE, b"other"), Err(SshSigError::BadSignature)));
    let error = sig::check(good.as_bytes(), "provost-review", b"text").unwrap_err();
    assert!(matches!(error, SshSigError::Namespace { got, .. } if got == NAMESPACE));
    for (from, to) in [("\n", "\r\n"), ("SIGNATURE-----\n", "SIGNATURE-----\n\n"), ("\n", "\n ")] {
        let other = good.replacen(from, to, 1);
        assert!(matches!(sig::check(other.as_bytes(), NAMESPACE, b"text"), Err(SshSigError::Shape)));
    }
}

/// An agent of OpenSSH, ended when dropped.
struct RealAgent(std::process::Child, PathBuf);

impl RealAgent {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("agent");
        let mut child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("ssh-agent: {error}: install OpenSSH's client or run `./test`"));
        // It prints where it listens once it listens.
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        Self(child, socket)
    }

    fn add(&self, key: &Path) {
        let output = Command::new("ssh-add").arg(key).env("SSH_AUTH_SOCK", &self.1).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for RealAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_signs_what_its_key_would() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path(), "key", "", &[]);
    let key = private::read_file(&path, None).unwrap();
    let real = RealAgent::start(dir.path());
    let agent = Agent::at(&real.1, Duration::from_mins(1));
    let missing = agent.signer(&key.verifying_key()).unwrap_err();
    assert!(matches!(missing, AgentError::NoSuchKey(_)), "{missing}");
    real.add(&path);
    let keys = agent.keys().unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!((keys[0].key.clone(), keys[0].comment.as_str()), (key.verifying_key(), "a comment"));

    let signer = agent.signer(&key.verifying_key()).unwrap();
    assert_eq!(Signer::sign(&signer, b"message").unwrap(), key.sign(b"message"));
    assert_eq!(
        sig::sign(NAMESPACE, b"message", &signer).unwrap(),
        sig::sign(NAMESPACE, b"message", &key).unwrap()
    );
    let large = vec![0; 300_000];
    assert!(matches!(Signer::sign(&signer, &large), Err(SignError::Agent(AgentError::TooLarge { .. }))));
    let output = Command::new("ssh-add").args(["-D"]).env("SSH_AUTH_SOCK", &real.1).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(matches!(Signer::sign(&signer, b"message"), Err(SignError::Agent(AgentError::Refused))));
}

/// An agent that gives this answer to each question.
fn false_agent(dir: &Path, answer: Vec<u8>) -> PathBuf {
    let socket = dir.join("false-agent");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut length = [0; 4];
            if stream.read_exact(&mut length).is_err() {
                continue;
            }
            let mut question = vec![0; u32::from_be_bytes(length) as usize];
            if stream.read_exact(&mut question).is_ok() {
                let _ = stream.write_all(&answer);
                // Whoever waits for more waits until its own patience ends.
                let _ = stream.read(&mut length);
            }
        }
    });
    socket
}

#[test]
fn an_agent_that_answers_nonsense_or_nothing_is_an_error() {
    let ask = |answer: &[u8], patience: u64| {
        let dir = tempfile::tempdir().unwrap();
        let socket = false_agent(dir.path(), answer.to_vec());
        Agent::at(&socket, Duration::from_millis(patience)).keys()
    };
    assert_eq!(ask(b"\0\0\0\x05\x0c\0\0\0\0", 60_000).unwrap(), []);
    assert!(matches!(ask(b"\0\0\0\x01\x05", 60_000), Err(AgentError::Refused)));
    for nonsense in [
        b"\xff\xff\xff\xff".as_slice(),
        b"\0\0\0\0",
        b"\0\0\0\x01\x0c",
        b"\0\0\0\x05\x0c\0\0\0\x01",
        b"\0\0\0\x06\x0c\0\0\0\0\0",
        b"\0\0\0\x05\x0c\xff\xff\xff\xff",
        b"\0\0\0\x05\x0e\0\0\0\0",
    ] {
        let answer = ask(nonsense, 60_000);
        assert!(matches!(answer, Err(AgentError::Answer)), "{nonsense:?}: {answer:?}");
    }
    for silence in [b"".as_slice(), b"\0\0\0\x05\x0c"] {
        let answer = ask(silence, 50);
        assert!(
            matches!(&answer, Err(AgentError::Io { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut),
            "{answer:?}"
        );
    }
    let nobody = Agent::at(Path::new("/nonexistent/agent"), Duration::from_mins(1)).keys();
    assert!(nobody.unwrap_err().to_string().contains("/nonexistent/agent"));
}

#[test]
fn an_agent_that_signs_something_else_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let (key, other) = (SigningKey::from_seed([3; 32]), SigningKey::from_seed([4; 32]));
    let path = dir.path().join("key");
    key.write_private(&path).unwrap();
    // One that lists the key and signs with another one.
    let string = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let blob = |bytes: &[u8]| string(&[string(b"ssh-ed25519"), string(bytes)].concat());
    let keys = [&[12, 0, 0, 0, 1][..], &blob(&key.verifying_key().to_bytes()), &string(b"mine")].concat();
    let signature = [&[14][..], &blob(&other.sign(b"message"))].concat();
    let socket = dir.path().join("lying-agent");
    let listener = UnixListener::bind(&socket).unwrap();
    let lying = std::thread::spawn(move || {
        for answer in [keys, signature] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut question = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&string(&answer)).unwrap();
        }
    });
    let signer = Agent::at(&socket, Duration::from_mins(1)).signer(&key.verifying_key()).unwrap();
    let signed = Signer::sign(&signer, b"message");
    assert!(matches!(signed, Err(SignError::NotItsOwn(id)) if id == key.verifying_key().key_id()));
    lying.join().unwrap();
}

proptest! {
    #[test]
    fn no_edit_of_a_signature_verifies(at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>()) {
        let good = sig::sign(NAMESPACE, b"text", &SigningKey::from_seed([3; 32])).unwrap().into_bytes();
        let mut edited = good.clone();
        let at = at.index(good.len());
        if insert { edited.insert(at, byte) } else { edited[at] = byte }
        prop_assume!(edited != good);
        prop_assert!(sig::check(&edited, NAMESPACE, b"text").is_err());
    }
}
