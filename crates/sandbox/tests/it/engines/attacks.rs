//! The attack suite under a container engine.

use provost_sandbox::{Disabled, SelfTest, Setting, Verdict};

use super::*;

/// What is tried every time: most of what an engine leaves open by itself, and some of each other kind. All of it with
/// `PROVOST_LEAKS=long`, for it takes a container to look at and one to attack from for each.
const SOME: [&str; 22] = [
    "write-outside",
    "host-tmp",
    "read-ssh-key",
    "read-hidden",
    "own-environ",
    "open-timers",
    "git-config",
    "nested-folder-swap",
    "segment-read",
    "daemon-many",
    "tcp-mapped",
    "vsock",
    "netlink-generic",
    "docker-socket",
    "setuid-by-chmod",
    "user-namespace",
    "clone3-",
    "bind-mount",
    "key-read",
    "fork-bomb",
    "file-in-memory",
    "overrun",
];

fn attack(store: &Store, wanted: impl Fn(&str) -> bool) -> SelfTest {
    let setting = Setting { image: store.profile().image, ..Setting::from(Rung::R4) };
    SelfTest::of(probe(), setting, wanted).unwrap()
}

#[test]
fn an_engine_holds_what_it_promises() {
    holds(&Store::podman());
}

pub(crate) fn holds(store: &Store) {
    let all = std::env::var_os("PROVOST_LEAKS").is_some_and(|value| value == "long");
    let test = attack(store, |name| all || SOME.iter().any(|start| name.starts_with(start)));
    println!("{}: {} in {} ms", store.engine, test.counts(), test.took_ms);
    for attempt in &test.attempts {
        println!("{:<28} {:?}", attempt.name, attempt.verdict);
    }
    let broken: Vec<_> = test.mismatches().collect();
    assert!(broken.is_empty(), "{}: {broken:#?}", store.engine);
    assert!(test.counts().held > if all { 150 } else { 20 }, "{}", test.counts());
    assert_eq!((test.receipt.engine, test.disabled()), (Some(store.engine), None));
    assert_eq!(store.containers(), "");
}

/// What stands between is told to leave our filter out: what it looks like from outside is the same.
#[test]
fn an_engine_that_does_not_do_what_it_is_told_is_found_and_not_taken_any_more() {
    let mut podman = Store::podman();
    let bin = podman.host.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = "#!/bin/bash\nargs=()\nfor arg; do case $arg in --security-opt=seccomp=*) ;; *) args+=(\"$arg\");; esac; done\n\
        exec /usr/bin/podman \"${args[@]}\"\n";
    fs::write(bin.join("podman"), script).unwrap();
    fs::set_permissions(bin.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", bin.display());
    podman.environment.insert("PATH".into(), path.into());
    let test = attack(&podman, |name| ["user-namespace", "write-outside"].contains(&name));
    let verdicts: Vec<_> = test.attempts.iter().map(|attempt| (attempt.name, &attempt.verdict)).collect();
    assert!(
        matches!(
            verdicts.as_slice(),
            [
                ("write-outside", Verdict::Held { .. }),
                ("user-namespace", Verdict::Broken { by, .. })
            ] if by == "privileges"
        ),
        "{verdicts:#?}"
    );
    let disabled = test.disabled().unwrap();
    let attacks = vec!["user-namespace".to_owned()];
    assert_eq!(disabled, Disabled { rung: Rung::R4, engine: Some(Engine::Podman), attacks });

    let probe = probe().clone().with_disabled(vec![disabled]);
    let any = RungChoice::Strongest { at_least: Rung::R0 };
    let refused = Sandbox::new(&probe, podman.profile(), any).unwrap_err().to_string();
    assert_eq!(
        refused,
        "commands cannot run by podman here: self-test: it did not hold what it promises (user-namespace)"
    );
    // The control: this program's own containment of an image is another thing.
    let mut profile = podman.profile();
    profile.image = profile.image.map(|image| ImageRoot { by: None, ..image });
    assert_eq!(Sandbox::new(&probe, profile, any).unwrap().rung(), Rung::R4);
}
