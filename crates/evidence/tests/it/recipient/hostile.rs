//! Attack 49: a bundle that is made to harm whoever reads it.

use std::os::unix::fs::symlink;
use std::path::Path;

use provost_evidence::dsse;
use provost_evidence::verify::{ClaimId, Code, SessionReport};

use super::scene::{Scene, assert_refused, assert_taken};
use crate::session::key;

fn with(scene: &Scene, tamper: impl FnOnce(&Path)) -> SessionReport {
    let dir = scene.bundle();
    tamper(&dir);
    scene.verify(&dir)
}

#[test]
fn a_folder_that_is_no_bundle_is_refused_unopened() {
    let scene = Scene::new();
    let malformed = |claim, words: &str, tamper: &dyn Fn(&Path)| {
        assert_refused(&with(&scene, tamper), Code::Malformed, claim, words);
    };
    let order = ClaimId::Authorization;
    malformed(order, "`session` is missing", &|dir| std::fs::remove_dir_all(dir.join("session")).unwrap());
    malformed(order, "`session` is a regular file", &|dir| {
        std::fs::remove_dir_all(dir.join("session")).unwrap();
        std::fs::write(dir.join("session"), "").unwrap();
    });
    malformed(order, "`session` is a symbolic link", &|dir| {
        std::fs::rename(dir.join("session"), dir.join("../aside")).unwrap();
        symlink("../aside", dir.join("session")).unwrap();
    });
    malformed(order, "`session/extra` does not belong", &|dir| {
        std::fs::write(dir.join("session/extra"), "").unwrap();
    });
    malformed(order, "`session/authorization.json.3.sig` does not belong", &|dir| {
        std::fs::write(dir.join("session/authorization.json.3.sig"), "").unwrap();
    });
    for name in ["authorization.json", "task.md", "checkpoint", "provenance.dsse.json"] {
        let path = format!("session/{name}");
        malformed(order, &format!("`{path}` is missing"), &|dir| {
            std::fs::remove_file(dir.join(&path)).unwrap();
        });
        malformed(order, &format!("`{path}` is a named pipe"), &|dir| {
            std::fs::remove_file(dir.join(&path)).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, dir.join(&path), rustix::fs::Mode::RWXU).unwrap();
        });
        malformed(order, &format!("`{path}` is a symbolic link"), &|dir| {
            std::fs::remove_file(dir.join(&path)).unwrap();
            symlink("/dev/zero", dir.join(&path)).unwrap();
        });
        malformed(order, &format!("`{path}` is larger than"), &|dir| {
            // Sparse: it costs no disk.
            std::fs::File::create(dir.join(&path)).unwrap().set_len(1 << 40).unwrap();
        });
    }
    malformed(ClaimId::Files, "`extra` does not belong", &|dir| {
        std::fs::write(dir.join("extra"), "").unwrap();
    });
    assert_taken(&with(&scene, |_| ()));
}

#[test]
fn what_is_no_authorization_is_refused_as_such() {
    let scene = Scene::new();
    let deep = [b"[".repeat(200_000), b"]".repeat(200_000)].concat();
    let good = scene.signed.envelope.clone();
    let doubled = {
        let text = String::from_utf8(good.clone()).unwrap();
        text.replacen('{', "{\"payloadType\":\"x\",", 1).into_bytes()
    };
    for bad in [deep, doubled, b"{}".to_vec(), b"null".to_vec(), Vec::new(), good[..good.len() - 1].to_vec()]
    {
        let report =
            with(&scene, |dir| std::fs::write(dir.join("session/authorization.json"), &bad).unwrap());
        assert_refused(&report, Code::Malformed, ClaimId::Authorization, "");
    }
    let report =
        with(&scene, |dir| std::fs::write(dir.join("session/authorization.json.sig"), "junk").unwrap());
    assert_refused(&report, Code::Malformed, ClaimId::Authorization, "SSH signature 1");
    let report = with(&scene, |dir| std::fs::write(dir.join("session/checkpoint"), "junk").unwrap());
    assert_refused(&report, Code::Log, ClaimId::Log, "`session/checkpoint`");
    let report =
        with(&scene, |dir| std::fs::write(dir.join("session/provenance.dsse.json"), "junk").unwrap());
    assert_refused(&report, Code::Log, ClaimId::Provenance, "`session/provenance.dsse.json`");
}

/// Each byte of each file of the session's own folder, by an outsider.
#[test]
fn i7_any_changed_byte_of_a_session_is_found() {
    let scene = Scene::new();
    let dir = scene.bundle();
    for name in crate::run::files_of(&dir.join("session")) {
        let path = dir.join("session").join(&name);
        let good = std::fs::read(&path).unwrap();
        // A signature that names nobody the recipient trusts is not looked at; the SSH signature is the authority's too.
        let unsigned = b"\"signatures\":";
        let end = match name.to_str() {
            Some("authorization.json") => {
                good.windows(unsigned.len()).rposition(|window| window == unsigned).unwrap()
            }
            _ => good.len(),
        };
        for at in (0..end).step_by(1 + good.len() / 60) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 7);
            std::fs::write(&path, &bad).unwrap();
            assert!(!scene.verify(&dir).ok(), "{} byte {at}", name.display());
        }
        std::fs::write(&path, &good).unwrap();
    }
    assert_taken(&scene.verify(&dir));
}

/// A bundle carries nothing that nobody looks at: no signature beside the session's on what its key alone signs.
#[test]
fn a_signature_beside_the_sessions_is_refused() {
    let scene = Scene::new();
    for (name, claim) in [
        ("result.dsse.json", ClaimId::Signature),
        ("session/provenance.dsse.json", ClaimId::Provenance),
        ("session/test-result.dsse.json", ClaimId::TestResult),
    ] {
        let report = with(&scene, |dir| {
            let file = dir.join(name);
            let payload = dsse::open(&std::fs::read(&file).unwrap(), &[]).unwrap().payload;
            let both = dsse::sign(dsse::IN_TOTO, &payload, &[&scene.run.key, &key(99)]).unwrap();
            std::fs::write(&file, both).unwrap();
        });
        let (found, why) = report.report.first_failure().unwrap();
        assert_eq!(found, claim, "{name}: {why}");
        assert!(why.contains("beside the session's"), "{name}: {why}");
    }
    assert_taken(&with(&scene, |_| ()));
}
