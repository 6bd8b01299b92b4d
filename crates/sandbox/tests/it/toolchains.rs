//! Real toolchains inside: cargo, Python, Node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::containment::Rung;
use provost_sandbox::{Profile, cargo_caches, git_reads, toolchain_env, toolchain_reads};

use crate::support::Host;

fn home() -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap())
}

#[test]
fn cargo_test_runs_inside() {
    cargo_test(Rung::R3);
}

#[test]
fn cargo_test_runs_without_namespaces() {
    cargo_test(Rung::R2);
}

fn cargo_test(rung: Rung) {
    let host = Host::new();
    std::fs::write(
        host.ws().join("Cargo.toml"),
        "[package]\nname=\"small\"\nversion=\"0.1.0\"\nedition=\"2024\"\n",
    )
    .unwrap();
    std::fs::create_dir(host.ws().join("src")).unwrap();
    std::fs::write(host.ws().join("src/lib.rs"), "#[test] fn two() { assert_eq!(1 + 1, 2); }\n").unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut profile = host.profile();
    profile.readable.extend(toolchain_reads(&path, Some(&home())));
    let mut command = host.command(&["cargo", "test", "--offline"]);
    command.wall = Duration::from_secs(120);
    command.env.insert("PATH".into(), path);
    command.env.extend(toolchain_env(&home()));
    let ran = host.run_with(rung, profile, &command);
    ran.assert_ok();
    assert!(ran.text.contains("test result: ok. 1 passed"), "{}", ran.text);
    assert!(host.ws().join("target").is_dir());
}

/// A home of cargo's with one package downloaded and not unpacked, as `cargo fetch` on another machine leaves it.
fn cargo_home(host: &Host) -> PathBuf {
    let (from, to) = (home().join(".cargo/registry"), host.outside().join("cargo/registry"));
    let copy = |path: &Path| {
        let to = to.join(path.strip_prefix(&from).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(path, to).unwrap();
    };
    let only = |folder: PathBuf| std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let index = only(from.join("index"));
    copy(&index.join("config.json"));
    copy(&index.join(".cache/cf/g-/cfg-if"));
    let mut downloaded =
        std::fs::read_dir(only(from.join("cache"))).unwrap().map(|entry| entry.unwrap().path());
    copy(&downloaded.find(|path| path.to_str().unwrap().contains("/cfg-if-1.")).unwrap());
    to.parent().unwrap().to_owned()
}

#[test]
fn cargo_unpacks_what_was_downloaded_and_the_cache_of_the_host_stays_as_it_is() {
    let host = Host::new();
    let cargo_home = cargo_home(&host);
    let manifest = "[package]\nname=\"small\"\nversion=\"0.1.0\"\nedition=\"2024\"\n[dependencies]\n";
    std::fs::create_dir(host.ws().join("src")).unwrap();
    std::fs::write(
        host.ws().join("src/lib.rs"),
        "#[test] fn two() { cfg_if::cfg_if! { if #[cfg(test)] {} } }\n",
    )
    .unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut profile = host.profile();
    profile.readable.extend(toolchain_reads(&path, Some(&home())));
    profile.readable.push(cargo_home.clone());
    let mut command = host.command(&["cargo", "test", "--offline"]);
    command.wall = Duration::from_secs(120);
    command.env.insert("PATH".into(), path);
    command.env.extend(toolchain_env(&home()));
    command.env.insert("CARGO_HOME".into(), cargo_home.clone().into());
    let mut test = |profile: &Profile, dependency: &str| {
        std::fs::write(host.ws().join("Cargo.toml"), format!("{manifest}{dependency} = \"1\"\n")).unwrap();
        command.record_dir = host.record_dir();
        host.run_with(Rung::R3, profile.clone(), &command)
    };
    // The control: a cache that can only be read is of no use to cargo before it is unpacked.
    test(&profile, "cfg-if").assert_refused();
    profile.private.extend(cargo_caches(&cargo_home));
    let ran = test(&profile, "cfg-if");
    assert!(ran.assert_ok().text.contains("test result: ok. 1 passed"), "{}", ran.text);
    assert!(!cargo_home.join("registry/src").exists());
    // What is missing is named, in cargo's own words.
    let ran = test(&profile, "itoa");
    assert!(ran.assert_refused().text.contains("no matching package named `itoa` found"), "{}", ran.text);
}

#[test]
fn a_shim_finds_its_python() {
    let host = Host::new();
    let path = std::env::var_os("PATH").unwrap();
    let mut profile = host.profile();
    profile.readable.extend(toolchain_reads(&path, Some(&home())));
    let mut command = host.command(&["python3", "-c", "import sys, ssl, sqlite3; print(sys.prefix)"]);
    command.env.insert("PATH".into(), path);
    command.env.extend(toolchain_env(&home()));
    for rung in [Rung::R3, Rung::R2] {
        command.record_dir = host.record_dir();
        host.run_with(rung, profile.clone(), &command).assert_ok();
    }
}

#[test]
fn no_credential_is_a_toolchain() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    for folder in [
        ".cargo/bin",
        ".cargo/registry",
        ".rustup",
        ".ssh",
        ".aws",
        ".local/bin",
        ".config/tool/bin",
        ".local/share/tool/v1/bin",
        ".local/share/tool/v1/lib",
        "project/bin",
        "project/lib",
        "other/.pyenv/shims",
        "other/.pyenv/libexec",
    ] {
        std::fs::create_dir_all(home.join(folder)).unwrap();
    }
    for file in [
        ".cargo/credentials.toml",
        ".netrc",
        ".npmrc",
        ".local/share/tool/v1/bin/tool",
        "project/Cargo.toml",
        "project/bin/mine",
        "loose.py",
    ] {
        std::fs::write(home.join(file), "x").unwrap();
    }
    // An installation is shown whole; of somebody's project only what a link names.
    for (target, link) in
        [(".local/share/tool/v1/bin/tool", "tool"), ("project/bin/mine", "mine"), ("loose.py", "loose")]
    {
        std::os::unix::fs::symlink(home.join(target), home.join(".local/bin").join(link)).unwrap();
    }
    let path = std::env::join_paths(
        [".cargo/bin", ".local/bin", ".config/tool/bin", ".ssh", "", "other/.pyenv/shims"]
            .map(|folder| home.join(folder))
            .into_iter()
            .chain(["/".into(), ".".into(), "/usr/bin".into()]),
    )
    .unwrap();
    let found = toolchain_reads(&path, Some(&home));
    let expected: Vec<_> = [
        ".cargo/bin",
        ".cargo/registry",
        ".local/bin",
        ".local/share/tool/v1",
        ".rustup",
        "loose.py",
        "other/.pyenv",
        "project/bin/mine",
    ]
    .map(|path| home.join(path))
    .to_vec();
    assert_eq!(found, expected);
}

#[test]
fn programs_that_filters_break() {
    let host = Host::new();
    let asyncio = "import asyncio, threading\n\
        async def main():\n    \
            loop = asyncio.get_running_loop()\n    \
            event = asyncio.Event()\n    \
            threading.Timer(0.01, lambda: loop.call_soon_threadsafe(event.set)).start()\n    \
            await asyncio.wait_for(event.wait(), 5)\n    \
            process = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1)\n    \
            out, _ = await process.communicate()\n    \
            assert out == b'child\\n', out\n\
        asyncio.run(main())\n\
        from multiprocessing import Lock, Pool\n\
        Lock()\n\
        print('asyncio ok')";
    let node = "const { spawnSync } = require('child_process');\n\
        const r = spawnSync('echo', ['child']);\n\
        if (r.error || r.stdout.toString() !== 'child\\n') throw r.error || new Error(r.stdout);\n\
        require('fs').writeFileSync('from-node', 'x');\n\
        console.log('node ok', require('os').cpus().length > 0);";
    for rung in [Rung::R3, Rung::R2] {
        let mut profile = host.profile();
        profile.writable.push("/dev/shm".into());
        let command = host.command(&["/usr/bin/python3", "-c", asyncio]);
        assert_eq!(host.run_with(rung, profile, &command).assert_ok().text, "asyncio ok\n", "{rung}");
        assert_eq!(
            host.run(rung, &["/usr/bin/node", "-e", node]).assert_ok().text,
            "node ok true\n",
            "{rung}"
        );
    }
    let server = "require('http').createServer((q, s) => s.end('hi')).listen(0, '127.0.0.1', function () {\n\
        fetch('http://localhost:' + this.address().port).then(r => r.text()).then(t => { console.log(t); process.exit(t === 'hi' ? 0 : 1); });\n\
        })";
    host.run(Rung::R3, &["/usr/bin/node", "-e", server]).assert_ok();
}

#[test]
fn a_linked_worktree_shows_its_git_folders_and_a_forged_pointer_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (main, linked) = (folder.path().join("main"), folder.path().join("linked"));
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        assert!(command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q", "main"]);
    git(&["-C", "main", "commit", "-q", "--allow-empty", "-m", "x"]);
    git(&["-C", "main", "worktree", "add", "-q", linked.to_str().unwrap()]);
    let common = main.join(".git").canonicalize().unwrap();
    assert_eq!(git_reads(&linked), [common.join("worktrees/linked"), common.clone()]);

    // A `.git` file can be written by whoever writes in the workspace; the folder that it names has to name it back.
    let forged = folder.path().join("forged");
    std::fs::create_dir(&forged).unwrap();
    for target in [common.clone(), common.join("worktrees/linked")] {
        std::fs::write(forged.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        assert_eq!(git_reads(&forged), Vec::<PathBuf>::new());
    }
}
