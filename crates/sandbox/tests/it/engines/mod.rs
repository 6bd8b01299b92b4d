//! Commands by way of a container engine: a real podman, with a store of its own for each test; and a real docker, with a
//! daemon of its own (`docker.rs`).

mod attacks;
mod docker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use provost_core::caps::Caps;
use provost_core::containment::{Engine, Guarantee, Rung, Strength};
use provost_core::digest::Digest;
use provost_sandbox::image::{Image, ImageStore};
use provost_sandbox::{
    ByEngine, Cancel, Command, Ended, ImageRoot, Profile, Recovered, RunError, RungChoice, Sandbox,
    Unavailable, engines, recover,
};

use crate::images::shell;
use crate::support::{Host, Ran, eventually, probe};

/// An engine whose store lies in the test's folder, and an image in it that this program's store has too.
pub(crate) struct Store {
    pub(crate) engine: Engine,
    pub(crate) host: Host,
    pub(crate) image: Image,
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

impl Store {
    pub(crate) fn podman() -> Self {
        let host = Host::new();
        let (image, _) = shell(&host);
        let at = |name: &str| host.dir.path().join(name);
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            at("graph").display(),
            at("run").display()
        );
        fs::write(at("storage.conf"), storage).unwrap();
        // Its usual runtime refuses a host that has control groups of both versions.
        let conf = format!("[engine]\nruntime = \"runc\"\ntmp_dir = \"{}\"\n", at("tmp-of-podman").display());
        fs::write(at("containers.conf"), conf).unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            [("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("HOME", "/root")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        environment.insert("CONTAINERS_STORAGE_CONF".into(), at("storage.conf").into());
        environment.insert("CONTAINERS_CONF".into(), at("containers.conf").into());
        // No variable of the caller's is any business of a command's.
        environment.insert("A_KEY".into(), "s3cret".into());
        let podman = Self { engine: Engine::Podman, host, image, environment };
        podman.load();
        podman
    }

    /// Gives the engine the image.
    pub(crate) fn load(&self) {
        let layout = self.host.dir.path().join("layout");
        let archive = self.host.dir.path().join("layout.tar");
        let mut writer = tar::Builder::new(fs::File::create(&archive).unwrap());
        writer.append_dir_all(".", layout).unwrap();
        writer.finish().unwrap();
        self.ask(&["load", "--quiet", "--input", &archive.display().to_string()]);
    }

    fn output(&self, arguments: &[&str]) -> Output {
        std::process::Command::new(self.engine.name())
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .output()
            .expect("the engine is not there: run the tests by `./test`, which installs it")
    }

    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The names of all containers that there are.
    fn containers(&self) -> String {
        self.ask(&["ps", "--all", "--format", "{{.Names}}"])
    }

    fn profile(&self) -> Profile {
        self.profile_by(self.engine)
    }

    fn profile_by(&self, engine: Engine) -> Profile {
        let mut profile = self.host.profile();
        let by = ByEngine::new(engine, &self.environment, self.image.known_as.clone());
        let (folder, digest) = (self.image.root(), self.image.digest);
        profile.image = Some(ImageRoot { folder, digest, by: Some(by) });
        profile
    }

    fn try_sandbox(&self, profile: Profile) -> Result<Sandbox, Unavailable> {
        Sandbox::new(probe(), profile, RungChoice::Strongest { at_least: Rung::R3 })
    }

    fn sandbox(&self, profile: Profile) -> Sandbox {
        self.try_sandbox(profile).unwrap_or_else(|error| panic!("{error}"))
    }

    fn sh(&self, script: &str) -> Command {
        self.host.command(&["/bin/sh", "-c", script])
    }
}

fn run(sandbox: &Sandbox, command: &Command) -> Ran {
    Ran::of(sandbox.run(command, &Cancel::new().unwrap()).unwrap_or_else(|error| panic!("{error}")))
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.engine == Engine::Podman {
            // Mounts that are left keep the folder from being removed.
            let _ = self.output(&["rm", "--force", "--all", "--time", "0"]);
        }
    }
}

#[test]
fn a_command_runs_by_podman_and_the_receipt_says_what_was_seen() {
    runs_and_holds(&Store::podman());
}

pub(crate) fn runs_and_holds(store: &Store) {
    let host = &store.host;
    fs::create_dir_all(host.ws().join("deep/.git")).unwrap();
    fs::write(host.ws().join("deep/.git/config"), "[core]\n").unwrap();
    fs::write(host.ws().join("given"), "from outside\n").unwrap();
    fs::write(host.ws().join("hidden"), "s3cret").unwrap();
    fs::create_dir(host.ws().join("hidden-too")).unwrap();
    fs::write(host.ws().join("hidden-too/key"), "s3cret").unwrap();
    fs::write(host.outside().join("shown"), "shown\n").unwrap();
    let mut profile = store.profile();
    profile.protected =
        ["deep/.git", "absent", "hidden", "hidden-too/key"].map(|name| host.ws().join(name)).to_vec();
    profile.hidden = vec![host.ws().join("hidden"), host.ws().join("hidden-too")];
    profile.readable.push(host.outside());
    profile.limits = Caps {
        memory_bytes: Some(256 << 20),
        processes: Some(64),
        file_bytes: Some(1 << 20),
        open_files: Some(128),
        tmp_bytes: Some(8 << 20),
        cpu_ms: Some(60_000),
        ..Caps::default()
    };
    let sandbox = store.sandbox(profile);
    let receipt = sandbox.receipt().clone();
    assert_eq!(
        (receipt.rung, receipt.engine, receipt.image),
        (Rung::R4, Some(store.engine), Some(store.image.digest))
    );
    for (guarantee, strength) in &receipt.guarantees {
        // No engine sums processor time up.
        let expected = if *guarantee == Guarantee::CapCpu { Strength::Absent } else { Strength::Enforced };
        assert_eq!(*strength, expected, "{guarantee:?}");
    }
    assert!(receipt.enforces(Guarantee::CapMemory) && receipt.enforces(Guarantee::Protected));
    assert!(!receipt.can_dial());

    let mut command = store.sh("cat given /etc/of-the-image && echo made > made && echo $SAID $A_KEY $HOME");
    command.env.insert("SAID".into(), "a b,c=\"d\"".into());
    let ran = run(&sandbox, &command);
    ran.assert_ok();
    assert_eq!(ran.text, "from outside\nyes\na b,c=\"d\" /tmp/home\n");
    assert_eq!(ran.record.receipt, receipt);
    assert_eq!(fs::read_to_string(host.ws().join("made")).unwrap(), "made\n");
    let shown = host.outside().join("shown").display().to_string();
    run(&sandbox, &store.sh(&format!("cat {shown} deep/.git/config"))).assert_ok();
    for script in [
        "echo x > deep/.git/config",
        "mv deep elsewhere",
        "mv deep/.git deep/git",
        "grep . hidden",
        "cat hidden-too/key",
        "echo x > hidden-too/new",
        "ls hidden-too/* hidden-too",
        "ls /usr/bin/python3",
        "echo x > /new",
        &format!("echo x > {shown}"),
        "cp /bin/id /tmp/id && /tmp/id",
        "grep -v lo: /proc/net/dev | grep :",
    ] {
        run(&sandbox, &store.sh(script)).assert_refused();
    }
    // The exit status is the command's own, whatever the engine uses it for; and so is a cap.
    for status in [1, 125, 126, 127, 137] {
        let ran = run(&sandbox, &store.sh(&format!("exit {status}")));
        assert_eq!(ran.record.ended, Ended::Exited(status), "{}", ran.text);
    }
    run(&sandbox, &store.sh("ulimit -n | grep -x 128")).assert_ok();
    assert_eq!(store.containers(), "");
}

/// What it saves by default, which is docker's own form and no layout.
#[test]
fn what_podman_saves_without_being_asked_for_a_layout_is_imported() {
    let podman = Store::podman();
    let file = podman.host.dir.path().join("saved.tar");
    let id = podman.ask(&["images", "--quiet", "--no-trunc"]);
    let form = ["save", "--quiet", "--format", "docker-archive", "--output"];
    podman.ask(&[form.as_slice(), &[&file.display().to_string(), &id]].concat());
    let images = ImageStore::new(podman.host.dir.path().join("again"));
    let image = images.import(&file, None, Some("again")).unwrap();
    assert_eq!(format!("sha256:{}", image.known_as[0]), id);
    assert_eq!(fs::read_to_string(image.root().join("etc/of-the-image")).unwrap(), "yes\n");
}

#[test]
fn what_does_not_start_has_provably_not_run() {
    does_not_start(&Store::podman());
}

pub(crate) fn does_not_start(store: &Store) {
    let sandbox = store.sandbox(store.profile());
    let command = store.host.command(&["/bin/absent"]);
    let error = sandbox.run(&command, &Cancel::new().unwrap()).unwrap_err();
    let RunError::NotStarted(failure) = &error else { panic!("{error}") };
    assert!(failure.detail.contains("/bin/absent"), "{failure}");
    assert!(matches!(recover(&command.record_dir, Duration::ZERO), Ok(Recovered::NotStarted(_))));
    // The control.
    run(&sandbox, &store.sh("exit 0")).assert_ok();
    assert_eq!(store.containers(), "");
}

#[test]
fn a_limit_and_a_cancellation_end_it_and_remove_the_container() {
    is_ended(&Store::podman());
}

pub(crate) fn is_ended(store: &Store) {
    let sandbox = store.sandbox(store.profile());
    let mut command = store.sh("echo begun; sleep 1000 & sleep 1000");
    command.wall = Duration::from_secs(3);
    let ran = run(&sandbox, &command);
    assert_eq!((ran.record.ended, ran.record.survivors), (Ended::TimedOut { limit_ms: 3000 }, 0));
    assert_eq!(ran.text, "begun\n");
    assert_eq!(store.containers(), "");

    let cancel = Cancel::new().unwrap();
    let begun = store.host.ws().join("begun");
    let command = store.sh("touch begun; sleep 1000");
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| sandbox.run(&command, &cancel).unwrap());
        eventually("it has begun", || begun.exists());
        cancel.cancel();
        running.join().unwrap()
    });
    assert_eq!((ran.ended, ran.survivors), (Ended::Cancelled, 0));
    assert_eq!(store.containers(), "");
}

#[test]
fn a_large_output_is_bounded_and_counted() {
    let podman = Store::podman();
    let sandbox = podman.sandbox(podman.profile());
    let mut command = podman.sh(
        "i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done",
    );
    (command.keep_head, command.keep_tail) = (1000, 1000);
    command.wall = Duration::from_secs(60);
    let ran = run(&sandbox, &command);
    ran.assert_ok();
    assert_eq!((ran.record.output.total, ran.text.len()), (20_000 * 41, 2000));
}

#[test]
fn what_an_engine_does_not_enforce_is_refused_where_it_is_required() {
    let podman = Store::podman();
    let mut profile = podman.profile();
    profile.limits.cpu_ms = Some(1000);
    profile.require = [Guarantee::Net, Guarantee::CapCpu].into();
    match podman.try_sandbox(profile.clone()) {
        Err(error @ Unavailable::Required { .. }) => assert_eq!(
            error.to_string(),
            "R4 (an image's root, in a container of podman's) does not enforce here what is required: `cap-cpu` is absent"
        ),
        other => panic!("{other:?}"),
    }
    // The control: what it enforces may be required.
    profile.require = [Guarantee::Net, Guarantee::FsWrite, Guarantee::KillTree].into();
    run(&podman.sandbox(profile), &podman.sh("exit 0")).assert_ok();
}

#[test]
fn an_engine_s_own_settings_that_open_a_container_are_seen() {
    let podman = Store::podman();
    let conf = podman.host.dir.path().join("containers.conf");
    let text = fs::read_to_string(&conf).unwrap();
    // The operator's settings give every container a folder of the host's and a variable.
    let outside = podman.host.outside().display().to_string();
    let more = format!("{text}[containers]\nvolumes = [\"{outside}:/from-the-host\"]\nenv = [\"ADDED=1\"]\n");
    fs::write(&conf, more).unwrap();
    let sandbox = podman.sandbox(podman.profile());
    let of = |sandbox: &Sandbox, guarantee| sandbox.receipt().guarantees.get(&guarantee).copied();
    assert_eq!(of(&sandbox, Guarantee::FsWrite), Some(Strength::Absent));
    assert_eq!(of(&sandbox, Guarantee::Environment), Some(Strength::Absent));
    // And so is what it does not speak of.
    assert_eq!(of(&sandbox, Guarantee::Net), Some(Strength::Enforced));
    let nowhere = [("PATH".into(), "/nowhere".into())].into();
    let mut profile = podman.profile();
    if let Some(image) = &mut profile.image {
        image.by = Some(ByEngine::new(Engine::Podman, &nowhere, podman.image.known_as.clone()));
    }
    match podman.try_sandbox(profile) {
        Err(error @ Unavailable::Engine { .. }) => assert_eq!(
            error.to_string(),
            "commands cannot run by podman here: there is no `podman` on PATH: install it, or name no engine"
        ),
        other => panic!("{other:?}"),
    }
}

/// Where there is no daemon: what takes its place is told what a docker is told, notes it, and has podman do it.
#[test]
fn docker_is_asked_for_the_same() {
    let mut podman = Store::podman();
    let bin = podman.host.dir.path().join("bin");
    let log = podman.host.dir.path().join("asked");
    let conf = podman.host.dir.path().join("containers.conf");
    let text = fs::read_to_string(&conf).unwrap();
    let ulimits = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n";
    fs::write(&conf, format!("{text}{ulimits}")).unwrap();
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nif [ \"$1\" = info ]; then echo '[\"name=seccomp\"]'; exit; fi\nexec podman \"$@\"\n",
        log.display()
    );
    fs::write(bin.join("docker"), script).unwrap();
    fs::set_permissions(bin.join("docker"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", bin.display());
    podman.environment.insert("PATH".into(), path.into());
    let sandbox = podman.sandbox(podman.profile_by(Engine::Docker));
    let receipt = sandbox.receipt();
    assert_eq!(receipt.engine, Some(Engine::Docker));
    for guarantee in [Guarantee::Net, Guarantee::FsWrite, Guarantee::Privileges, Guarantee::Environment] {
        assert!(receipt.enforces(guarantee), "{guarantee:?}: {receipt:?}");
    }
    let ran = run(&sandbox, &podman.sh("cat /etc/of-the-image; echo made > made; exit 3"));
    assert_eq!((ran.record.ended, ran.text.as_str()), (Ended::Exited(3), "yes\n"));
    assert!(podman.host.ws().join("made").exists());
    let asked = fs::read_to_string(log).unwrap();
    let line = asked.lines().rev().find(|line| line.starts_with("--log-level=error run ")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    for flag in [
        "--pull=never",
        "--network=none",
        "--ipc=private",
        "--read-only",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--env=https_proxy=",
        "--pids-limit=4096",
    ] {
        assert!(words.contains(&flag), "{flag}: {line}");
    }
    // What only podman has is not asked of docker.
    for flag in ["--timeout", "--image-volume", "--pid=", "--uts="] {
        assert!(!line.contains(flag), "{flag}: {line}");
    }
    assert_eq!(asked.lines().last().unwrap(), format!("rm --force --volumes {}", words[3]));
    assert_eq!(podman.containers(), "");
}

#[test]
fn an_image_that_the_engine_does_not_have_is_refused() {
    let podman = Store::podman();
    let mut profile = podman.profile();
    let other = Digest::new([7; 32]);
    let by = ByEngine::new(Engine::Podman, &podman.environment, vec![other]);
    if let Some(image) = &mut profile.image {
        image.by = Some(by);
    }
    let error = podman.try_sandbox(profile).unwrap_err().to_string();
    assert!(error.contains("it has no image that is sha256:"), "{error}");
    assert!(error.contains("`podman load --input ARCHIVE`"), "{error}");
    assert_eq!(podman.containers(), "");
}

/// The control is every other test here, by runc.
#[test]
fn a_runtime_that_refuses_this_host_is_named_with_what_to_do() {
    let podman = Store::podman();
    let conf = podman.host.dir.path().join("containers.conf");
    let other = fs::read_to_string(&conf).unwrap().replace("\"runc\"", "\"crun\"");
    fs::write(&conf, other).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let hybrid = mounts.contains(" - cgroup ") && mounts.contains(" - cgroup2 ");
    let says = engines(&podman.environment).remove(0).says.unwrap();
    assert_eq!(says.contains("write `runtime = \"runc\"`"), hybrid, "{says}");
    let error = podman.try_sandbox(podman.profile()).err().map(|error| error.to_string());
    assert_eq!(
        error.as_ref().is_some_and(|error| error.contains("write `runtime = \"runc\"`")),
        hybrid,
        "{error:?}"
    );
}

#[test]
fn the_container_goes_with_its_driver_and_what_happened_is_on_record() {
    goes_with_its_driver(&Store::podman());
}

pub(crate) fn goes_with_its_driver(store: &Store) {
    let command = store.sh("touch begun; sleep 1000");
    let mut driver = driver(store, &command.record_dir, "touch begun; sleep 1000");
    eventually("it has begun", || store.host.ws().join("begun").exists());
    driver.kill().unwrap();
    driver.wait().unwrap();
    let found = recover(&command.record_dir, Duration::from_secs(60)).unwrap();
    let Recovered::Finished(record) = found else { panic!("{found:?}") };
    assert_eq!((record.ended, record.survivors), (Ended::DriverLost, 0));
    assert_eq!(record.receipt.engine, Some(store.engine));
    assert_eq!(store.containers(), "");
}

/// Where the supervisor dies as well nobody can tell what became of the command, and it does not live on.
#[test]
fn whoever_recovers_removes_a_container_that_nobody_supervises() {
    is_removed_by_whoever_recovers(&Store::podman());
}

pub(crate) fn is_removed_by_whoever_recovers(store: &Store) {
    let command = store.sh("");
    let mut driver = driver(store, &command.record_dir, "touch begun; sleep 1000");
    eventually("it has begun", || store.host.ws().join("begun").exists());
    assert!(store.containers().starts_with("provost-"));
    // What started the supervisor, that one and the one that stands by, and then whoever they served: nobody is left to
    // see it.
    let launchers = children(driver.id() as i32);
    let supervisors: Vec<i32> = launchers.iter().flat_map(|launcher| children(*launcher)).collect();
    assert_eq!((launchers.len(), supervisors.len()), (1, 2));
    for pid in launchers.into_iter().chain(supervisors).chain([driver.id() as i32]) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    driver.wait().unwrap();
    assert_eq!(recover(&command.record_dir, Duration::from_secs(60)).unwrap(), Recovered::Unknown);
    assert_eq!(store.containers(), "");
}

/// The children of all threads of a process.
fn children(of: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).unwrap().filter_map(Result::ok);
    let children =
        threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    children
        .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

const DRIVER: &str = "PROVOST_TEST_ENGINE_DRIVER";

/// Starts this test binary again as a driver that runs one command.
fn driver(store: &Store, record_dir: &Path, script: &str) -> std::process::Child {
    let known_as: Vec<String> = store.image.known_as.iter().map(Digest::to_string).collect();
    let root = store.image.root();
    let told = serde_json::json!({
        "ws": store.host.ws(), "root": root, "digest": store.image.digest, "known_as": known_as,
        "record_dir": record_dir, "script": script, "engine": store.engine,
    });
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engines::as_a_driver", "--nocapture"])
        .env_clear()
        .envs(&store.environment)
        .env(DRIVER, told.to_string())
        .spawn()
        .unwrap()
}

/// Not a test of its own: the driver of those that need one.
#[test]
fn as_a_driver() {
    let Ok(told) = std::env::var(DRIVER) else { return };
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    let known_as = told["known_as"].as_array().unwrap();
    let known_as = known_as.iter().map(|digest| digest.as_str().unwrap().parse().unwrap()).collect();
    let engine: Engine = serde_json::from_value(told["engine"].clone()).unwrap();
    let environment = std::env::vars_os().collect();
    let mut profile = Profile::for_workspace(text("ws")).unwrap();
    profile.image = Some(ImageRoot {
        folder: PathBuf::from(text("root")),
        digest: text("digest").parse().unwrap(),
        by: Some(ByEngine::new(engine, &environment, known_as)),
    });
    let sandbox = Sandbox::new(probe(), profile, RungChoice::Strongest { at_least: Rung::R0 }).unwrap();
    let host = Host::new();
    let command = Command {
        cwd: text("ws").into(),
        record_dir: text("record_dir").into(),
        wall: Duration::from_secs(600),
        ..host.command(&["/bin/sh", "-c", &text("script")])
    };
    sandbox.run(&command, &Cancel::new().unwrap()).unwrap();
}
