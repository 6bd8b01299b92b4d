//! What comes in bundles: envelopes, statements, journals, keys.

use std::fs;
use std::path::PathBuf;

use provost_core::event::{Draft, Event};
use provost_core::state::RunState;
use provost_evidence::canonical::{sha256, to_canonical};
use provost_evidence::chain::{Head, seal};
use provost_evidence::dsse;
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::replay::read_journal;
use provost_evidence::statement::Statement;
use provost_evidence::verify::{Report, Require, verify};

use crate::world::{key, world};

/// An envelope: only the key that it names as its own verifies it, and with one signature it is the one spelling of
/// what it signs.
pub fn dsse(data: &[u8]) {
    let stranger = SigningKey::from_seed([9; 32]).verifying_key();
    let Ok(verified) = dsse::verify(data, &[stranger.clone(), key().verifying_key()]) else { return };
    assert!(dsse::verify(data, &[stranger]).is_err());
    assert!(dsse::verify(data, &[]).is_err());
    assert_eq!(verified.by, key().verifying_key().key_id());
    if data.windows(5).filter(|window| window == b"keyid").count() == 1 {
        // Ed25519 signatures are deterministic (RFC 8032).
        let again = dsse::sign(dsse::IN_TOTO, &verified.payload, &[&key()]).expect("an envelope");
        assert_eq!(again, data);
    }
}

/// A statement has one spelling.
pub fn statement(data: &[u8]) {
    let Ok(statement) = Statement::from_json(data) else { return };
    assert_eq!(statement.to_json().expect("it came from JSON"), data);
}

/// Gives each line that is an event its place in a chain: so that inputs with changed bodies come past the hashes.
fn sealed(data: &[u8]) -> (Vec<Event>, Vec<u8>) {
    let (mut head, mut journal, mut events) = (Head::empty(), Vec::new(), Vec::new());
    let mut stream = None;
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(event) = Event::from_json(line) else { continue };
        let stream = stream.get_or_insert(event.stream);
        let draft = Draft { at_ms: event.at_ms, agent: event.agent, body: event.body };
        let Ok(event) = seal(stream, &mut head, draft) else { continue };
        journal.extend(to_canonical(&event).expect("it was sealed"));
        journal.push(b'\n');
        events.push(event);
    }
    (events, journal)
}

/// A journal: what is accepted is spelled as we would; what we seal is accepted; folding never panics and is the same
/// twice.
pub fn journal(data: &[u8]) {
    let ours = sealed(data);
    if !ours.0.is_empty() {
        let (events, head) = read_journal(&ours.1).expect("what was sealed is read");
        assert_eq!(events, ours.0);
        let stream = &events[0].stream;
        let fold = || RunState::fold(stream.clone(), &events).ok();
        assert!(fold() == fold());
        assert_eq!(head.next, events.len() as u64);
    }
    let Ok((events, head)) = read_journal(data) else { return };
    let mut written = Vec::new();
    for event in &events {
        written.extend(to_canonical(event).expect("it was canonical"));
        written.push(b'\n');
    }
    assert_eq!(written, data);
    assert_eq!(Some(head.hash), events.last().map(|event| event.hash));
}

/// A bundle that was good, with one file replaced: its name in the first line, its content behind it. It verifies
/// exactly when nothing changed. With the name `sealed` the content is a journal that the signer himself put in place
/// of his own: then nothing is claimed but that the verifier survives it.
pub fn bundle(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (name, content) = (&data[..cut], data.get(cut + 1..).unwrap_or_default());
    world(|world| {
        let dir = world.path().join("bundle");
        if !dir.exists() {
            copy_fixture(&dir.join("blobs"));
        }
        let check = || -> Report { verify(&dir, &[key().verifying_key()], None, Require::Bundle) };
        let file = |name: &str| dir.join(name);
        if name == b"sealed" {
            let (events, journal) = sealed(content);
            let Some(last) = events.last() else { return };
            let envelope = fs::read(file("result.dsse.json")).expect("the fixture");
            let verified = dsse::verify(&envelope, &[key().verifying_key()]).expect("the fixture");
            let mut statement = Statement::from_json(&verified.payload).expect("the fixture");
            statement.journal = sha256(&journal);
            (statement.result.head, statement.result.events) = (last.hash, last.seq + 1);
            let Ok(payload) = statement.to_json() else { return };
            let forged = dsse::sign(dsse::IN_TOTO, &payload, &[&key()]).expect("an envelope");
            let honest = fs::read(file("journal.jsonl")).expect("the fixture");
            fs::write(file("journal.jsonl"), &journal).expect("a file");
            fs::write(file("result.dsse.json"), forged).expect("a file");
            let report = check();
            fs::write(file("journal.jsonl"), honest).expect("a file");
            fs::write(file("result.dsse.json"), envelope).expect("a file");
            assert_eq!(report.ok(), report.first_failure().is_none());
            return;
        }
        let Some(path) = std::str::from_utf8(name).ok().map(file).filter(|path| path.is_file()) else {
            return;
        };
        let inside =
            path.canonicalize().expect("it exists").starts_with(dir.canonicalize().expect("it exists"));
        if !inside {
            return;
        }
        let honest = fs::read(&path).expect("the fixture");
        fs::write(&path, content).expect("a file");
        let report = check();
        fs::write(&path, &honest).expect("a file");
        assert_eq!(report.ok(), content == honest, "{:?}", report.first_failure());
    });
}

/// Copies `fixtures/bundle`; `to` is the folder for its blobs.
fn copy_fixture(to: &std::path::Path) {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle");
    fs::create_dir_all(to).expect("a folder");
    for (from, to) in [(fixture.join("blobs"), to), (fixture, to.parent().expect("the bundle"))] {
        for entry in fs::read_dir(from).expect("the fixture") {
            let entry = entry.expect("the fixture");
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("a file");
            }
        }
    }
}

/// Keys in PEM: a public key that is read is written and read again as the same; a private key signs what its public
/// half verifies.
pub fn keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(key) = VerifyingKey::from_pem(text) {
        let pem = key.to_pem().expect("a key has a PEM");
        assert_eq!(VerifyingKey::from_pem(&pem).expect("what was written is read"), key);
        assert!(!key.verifies(b"x", &[0; 64]));
    }
    if let Ok(key) = SigningKey::from_pem(text) {
        assert!(key.verifying_key().verifies(b"x", &key.sign(b"x")));
        assert!(!format!("{key:?}").contains("BEGIN"));
    }
}
