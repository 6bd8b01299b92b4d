//! What can be read and written.

use std::os::unix::fs::symlink;

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Changes, Ended, Profile, RunError, WorkspaceAccess};

use crate::support::{CONTAINED, Host, Ran, read, sandbox};

#[test]
fn the_workspace_can_be_changed_and_keeps_its_owner() {
    use std::os::unix::fs::MetadataExt;
    let host = Host::new();
    for rung in CONTAINED {
        host.sh(
            rung,
            "mkdir -p d && echo x > d/f && mv d/f d/g && ln -s g d/l && rm d/l && touch top && rm top",
        )
        .assert_ok();
        let file = host.ws().join("d/g");
        assert_eq!(read(&file), "x\n");
        assert_eq!(file.metadata().unwrap().uid(), rustix::process::getuid().as_raw());
        std::fs::remove_dir_all(host.ws().join("d")).unwrap();
    }
}

#[test]
fn writes_outside_are_refused() {
    let host = Host::new();
    let outside = host.outside();
    let file = outside.join("file");
    symlink(&outside, host.ws().join("link")).unwrap();
    let attempts = [
        format!("echo bad > {}", file.display()),
        "echo bad > link/file".to_owned(),
        format!("ln {} hard && echo bad > hard", file.display()),
        format!("rm {}", file.display()),
        format!("mv {} {}/moved", file.display(), outside.display()),
    ];
    for attempt in attempts {
        for rung in CONTAINED {
            std::fs::write(&file, "good").unwrap();
            host.sh(rung, &attempt).assert_refused();
            assert_eq!(read(&file), "good", "{rung}: {attempt}");
            let _ = std::fs::remove_file(host.ws().join("hard"));
        }
        host.sh(Rung::R0, &attempt).assert_ok();
        assert_ne!(read(&file), "good", "the attempt does nothing: {attempt}");
        let _ = std::fs::remove_file(host.ws().join("hard"));
    }
}

#[test]
fn secrets_outside_cannot_be_read() {
    let host = Host::new();
    let secret = host.outside().join(".ssh/id_ed25519");
    std::fs::create_dir(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "canary-key").unwrap();
    symlink(&secret, host.ws().join("key")).unwrap();
    for attempt in [format!("cat {}", secret.display()), "cat key".to_owned()] {
        for rung in CONTAINED {
            let ran = host.sh(rung, &attempt);
            ran.assert_refused();
            assert!(!ran.text.contains("canary-key"), "{rung}");
        }
        assert!(host.sh(Rung::R0, &attempt).assert_ok().text.contains("canary-key"));
    }
}

#[test]
fn system_credentials_are_masked() {
    let host = Host::new();
    for rung in CONTAINED {
        host.sh(rung, "cat /etc/shadow").assert_refused();
        host.sh(rung, "cat /etc/passwd > /dev/null && test -r /etc/hosts").assert_ok();
        host.sh(rung, "ls /etc/ssh").assert_refused();
    }
    if rustix::process::getuid().is_root() {
        host.sh(Rung::R0, "cat /etc/shadow").assert_ok();
    }
}

#[test]
fn a_hidden_file_cannot_be_read() {
    let host = Host::new();
    std::fs::write(host.ws().join(".env"), "TOKEN=canary").unwrap();
    std::fs::create_dir(host.ws().join("keys")).unwrap();
    std::fs::write(host.ws().join("keys/k"), "canary").unwrap();
    std::fs::write(host.ws().join("seen"), "seen").unwrap();
    let mut profile = host.profile();
    profile.hidden = vec![host.ws().join(".env"), host.ws().join("keys"), host.ws().join("absent")];
    for rung in CONTAINED {
        for attempt in ["cat .env", "cat keys/k", "cp .env copy", "mv .env copy", "chmod 644 .env"] {
            let ran = host.run_with(rung, profile.clone(), &host.command(&["sh", "-c", attempt]));
            assert!(!ran.text.contains("canary"), "{rung}: {attempt}");
            if attempt != "chmod 644 .env" {
                ran.assert_refused();
            }
        }
        host.run_with(rung, profile.clone(), &host.command(&["cat", "seen"])).assert_ok();
    }
    assert_eq!(read(&host.ws().join(".env")), "TOKEN=canary");
    host.run_with(Rung::R0, profile, &host.command(&["cat", ".env"])).assert_ok();
}

/// What nobody may read nobody may write either, in rules too: hidden and protected is hidden.
#[test]
fn what_is_hidden_and_protected_is_hidden() {
    let host = Host::new();
    std::fs::write(host.ws().join(".env"), "canary").unwrap();
    std::fs::create_dir_all(host.ws().join("keys/deep")).unwrap();
    std::fs::write(host.ws().join("keys/deep/k"), "canary").unwrap();
    std::fs::create_dir(host.ws().join("real")).unwrap();
    std::fs::write(host.ws().join("real/k"), "canary").unwrap();
    symlink("real", host.ws().join("link")).unwrap();
    let at = |names: &[&str]| names.iter().map(|name| host.ws().join(name)).collect::<Vec<_>>();
    let mut profile = host.profile();
    profile.hidden = at(&[".env", "keys", "link"]);
    let hidden_only = profile.clone();
    profile.protected = at(&[".env", "keys", "keys/deep", "keys/deep/k", "link", "real"]);
    let mut staged = profile.clone();
    staged.changes = Changes::Staged { direct: Vec::new(), copy: None };
    let reads = ["cat .env", "cat keys/deep/k", "cat real/k", "cat link/k"];
    let writes = ["echo x > .env", "echo x > keys/deep/k", "echo x > real/k", "mv keys other", "rm -rf keys"];
    let of = |profile: &Profile, rung, script: &str| {
        host.run_with(rung, profile.clone(), &host.command(&["sh", "-c", script]))
    };
    for rung in CONTAINED {
        for profile in [&profile, &hidden_only] {
            for script in reads {
                let ran = of(profile, rung, script);
                assert!(!ran.assert_refused().text.contains("canary"), "{rung}: {script}");
            }
        }
        for script in writes {
            of(&profile, rung, script).assert_refused();
        }
        of(&profile, rung, "echo new > seen && cat seen").assert_ok();
    }
    let staged = sandbox(Rung::R3, staged);
    for script in reads.iter().chain(&writes) {
        let ran = staged.run_staged(&host.command(&["sh", "-c", script]), &Cancel::new().unwrap()).unwrap();
        Ran::of(ran.record).assert_refused();
    }
    for name in [".env", "keys/deep/k", "real/k"] {
        assert_eq!(read(&host.ws().join(name)), "canary");
    }
    // The control: without either rule all of it works.
    let plain = host.profile();
    for script in reads.iter().chain(&writes) {
        of(&plain, Rung::R3, script).assert_ok();
        let _ = std::fs::rename(host.ws().join("other"), host.ws().join("keys"));
    }
}

#[test]
fn a_read_only_workspace_cannot_be_changed() {
    let host = Host::new();
    std::fs::write(host.ws().join("file"), "x").unwrap();
    let mut profile = host.profile();
    profile.workspace_access = WorkspaceAccess::ReadOnly;
    for rung in CONTAINED {
        host.run_with(rung, profile.clone(), &host.command(&["touch", "new"])).assert_refused();
        host.run_with(rung, profile.clone(), &host.command(&["rm", "file"])).assert_refused();
        host.run_with(rung, profile.clone(), &host.command(&["cat", "file"])).assert_ok();
    }
    host.run_with(Rung::R0, profile, &host.command(&["touch", "new"])).assert_ok();
}

#[test]
fn declared_folders_are_what_they_were_declared() {
    let host = Host::new();
    let (cache, tools) = (host.outside().join("cache"), host.outside().join("tools"));
    std::fs::create_dir(&cache).unwrap();
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("tool"), "tool").unwrap();
    symlink(&tools, host.outside().join("alias")).unwrap();
    let mut profile = host.profile();
    profile.writable.push(cache.clone());
    profile.readable.extend([host.outside().join("alias"), host.outside().join("absent")]);
    let outside = host.outside().display().to_string();
    for rung in CONTAINED {
        let run = |script: &str| host.run_with(rung, profile.clone(), &host.command(&["sh", "-c", script]));
        run(&format!("echo {rung:?} > {outside}/cache/file")).assert_ok();
        assert_eq!(read(&cache.join("file")), format!("{rung:?}\n"));
        run(&format!("cat {outside}/alias/tool {outside}/tools/tool")).assert_ok();
        run(&format!("echo bad > {outside}/tools/tool")).assert_refused();
    }
}

#[test]
fn tmp_is_private() {
    let host = Host::new();
    let name = host.dir.path().file_name().unwrap().to_str().unwrap();
    for rung in CONTAINED {
        let script = format!(
            "echo x > \"${{TMPDIR:-/tmp}}/{name}-own\" && echo y > \"$HOME/file\" && cat \"$HOME/file\""
        );
        host.sh(rung, &script).assert_ok();
        assert!(!std::path::Path::new(&format!("/tmp/{name}-own")).exists());
        // Another command's leftovers are not there.
        host.sh(rung, &format!("test -e \"${{TMPDIR:-/tmp}}/{name}-own\"")).assert_refused();
    }
    let listing = host.sh(Rung::R3, "ls -A /tmp");
    assert_eq!(listing.text, format!("home\n{name}\n"), "only the way to the workspace");
}

#[test]
fn masks_refuse_writes_instead_of_swallowing_them() {
    let host = Host::new();
    for place in ["/", "/run", "/var", "/usr", "/etc", "/dev"] {
        let ran = host.sh(Rung::R3, &format!("echo x > {place}/swallowed"));
        ran.assert_refused();
        assert!(ran.text.contains("Read-only file system"), "{place}: {}", ran.text);
    }
}

#[test]
fn nothing_appears_on_the_host() {
    let list = |host: &Host| -> Vec<_> {
        let mut paths: Vec<_> =
            std::fs::read_dir(host.ws()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let host = Host::new();
    let before = list(&host);
    let mut profile = host.profile();
    profile.protected = vec![host.ws().join(".git"), host.ws().join("a/b")];
    profile.hidden = vec![host.ws().join(".env")];
    for rung in CONTAINED {
        host.run_with(rung, profile.clone(), &host.command(&["true"])).assert_ok();
        assert_eq!(list(&host), before);
    }
}

#[test]
fn the_record_folder_is_out_of_reach() {
    let host = Host::new();
    for place in [host.ws(), host.dir.path().to_owned(), "/usr/share".into()] {
        let mut command = host.command(&["true"]);
        command.record_dir = place;
        match host.try_run(Rung::R3, host.profile(), &command) {
            Err(RunError::NotStarted(failure)) => assert_eq!(failure.step, "record-folder"),
            other => panic!("{other:?}"),
        }
    }
    let command = host.command(&["sh", "-c", "ls ../records"]);
    for rung in CONTAINED {
        let ran = host.run_with(rung, host.profile(), &host.command(&["sh", "-c", "ls ../records"]));
        assert!(matches!(ran.record.ended, Ended::Exited(code) if code != 0), "{rung}");
    }
    host.run_with(Rung::R0, host.profile(), &command).assert_ok();
    // A used folder is refused, not overwritten.
    match host.try_run(Rung::R3, host.profile(), &command) {
        Err(RunError::NotStarted(failure)) => {
            assert_eq!((failure.step.as_str(), failure.errno), ("record-folder", libc::EEXIST))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn shared_memory_of_the_host_is_out_of_reach() {
    let host = Host::new();
    let name = host.dir.path().file_name().unwrap().to_str().unwrap().to_owned();
    let path = std::path::Path::new("/dev/shm").join(&name);
    std::fs::write(&path, "canary").unwrap();
    for rung in CONTAINED {
        assert!(!host.sh(rung, &format!("cat /dev/shm/{name}")).assert_refused().text.contains("canary"));
    }
    host.sh(Rung::R2, "echo x > /dev/shm/provost-it-new").assert_refused();
    host.sh(Rung::R3, "echo x > /dev/shm/provost-it-new").assert_ok();
    assert!(!std::path::Path::new("/dev/shm/provost-it-new").exists());
    host.sh(Rung::R0, &format!("cat /dev/shm/{name}")).assert_ok();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_workspace_may_lie_below_what_is_made_anew() {
    for place in ["/tmp", "/dev/shm", "/var/tmp"] {
        let dir = tempfile::tempdir_in(place).unwrap();
        let host = Host::new();
        for rung in CONTAINED {
            let mut command = host.command(&["sh", "-c", "pwd; echo x > file"]);
            command.cwd = dir.path().to_owned();
            let profile = provost_sandbox::Profile::for_workspace(dir.path()).unwrap();
            let ran = host.run_with(rung, profile, &command);
            assert_eq!(ran.assert_ok().text, format!("{}\n", dir.path().display()), "{rung}");
            assert_eq!(read(&dir.path().join("file")), "x\n", "{rung}");
            std::fs::remove_file(dir.path().join("file")).unwrap();
        }
    }
}
