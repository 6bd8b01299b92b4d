//! Images as the root of commands, from import to evidence.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::script::{exec, script, sh, submit, told};
use crate::support::{Rehearsal, Repo, TestEnvironment, bodies, finish};

/// Makes an OCI layout with what `sh` needs and a file of its own, as other people's tools would write it: an archive of
/// one gzipped layer.
const LAYOUT: &str = r##"
import gzip, hashlib, io, json, os, platform, re, subprocess, sys, tarfile

def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content, mode in entries:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()

files = {}
for program in ["/bin/sh", "/bin/bash", "/bin/cat", "/bin/ls", "/bin/sleep", "/bin/true"]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for path in [program] + re.findall(r"(/\S+)", listed):
        files[path] = open(path, "rb").read()
entries = [(path[1:], content, 0o755) for path, content in sorted(files.items())]
entries.append(("etc/of-the-image", sys.argv[2].encode(), 0o644))
entries.append(("opt/of-the-image/bin/say", b"#!/bin/sh\necho $0 says\n", 0o755))
content = tar(entries)
blobs = {}

def keep(blob):
    digest = hashlib.sha256(blob).hexdigest()
    blobs["blobs/sha256/" + digest] = blob
    return {"digest": "sha256:" + digest, "size": len(blob)}

machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
kind = "application/vnd.oci.image."
config = {"architecture": machine, "os": "linux", "config": {"Env": ["PATH=/opt/of-the-image/bin:/bin", "FROM_IMAGE=yes"]},
          "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]}}
layer = {"mediaType": kind + "layer.v1.tar+gzip", **keep(gzip.compress(content, 1))}
manifest = {"schemaVersion": 2, "layers": [layer],
            "config": {"mediaType": kind + "config.v1+json", **keep(json.dumps(config).encode())}}
index = {"schemaVersion": 2, "manifests": [
    {"mediaType": kind + "manifest.v1+json", **keep(json.dumps(manifest).encode())}]}
blobs["index.json"] = json.dumps(index).encode()
blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
open(sys.argv[1], "wb").write(tar([(name, blob, 0o644) for name, blob in blobs.items()]))
print(index["manifests"][0]["digest"])
"##;

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    archive: PathBuf,
    /// As the maker of the layout says.
    digest: String,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script(steps.into_iter().chain([submit()])));
        let archive = env.at("layout.tar");
        let digest = layout(&env, &archive, "of the image\n");
        Self { env, repo, model, archive, digest }
    }

    fn import(&self, more: &[&str]) -> String {
        let archive = self.archive.display().to_string();
        let ran = self.env.provost(["image", "import", &archive].iter().chain(more)).code(0);
        ran.stdout.trim().to_owned()
    }

    fn run(&self, more: &[&str]) -> crate::support::Ran {
        self.env.run(&self.repo.path, &self.model, more)
    }
}

pub(crate) fn layout(env: &TestEnvironment, archive: &std::path::Path, text: &str) -> String {
    let mut make = env.command("python3");
    make.args(["-c", LAYOUT, &archive.display().to_string(), text]);
    finish(make).code(0).stdout.trim().to_owned()
}

#[test]
fn a_run_in_an_image_sees_its_files_and_proves_which_image_it_was() {
    let look = sh("cat /etc/of-the-image a.txt; ls /usr/bin/python3; echo $FROM_IMAGE > made.txt");
    let case = Case::new([look, exec(&["python3", "-c", "1"]), exec(&["say"]), sh("say")]);
    assert_eq!(case.import(&["--name", "small"]), case.digest);
    let out = case.env.at("evidence");
    let out = out.to_str().unwrap();
    let _ = case.run(&["--image", "small", "--verify", "cat /etc/of-the-image", "--export", out]).code(0);
    let told = told(&case.model);
    assert!(told[0].contains("of the image\none\n"), "{told:?}");
    assert!(told[0].contains("cannot access '/usr/bin/python3'"), "{told:?}");
    // A program of the host is no program of the image.
    assert!(
        told[1].contains("there is no program `python3`: it is not in PATH (/opt/of-the-image/bin:/bin)"),
        "{told:?}"
    );
    // And one of the image is found in a folder that the host does not have.
    assert!(told[2].contains("/opt/of-the-image/bin/say says"), "{told:?}");
    assert!(told[3].contains("/opt/of-the-image/bin/say says"), "{told:?}");
    assert_eq!(fs::read_to_string(case.repo.path.join("made.txt")).unwrap(), "yes\n");
    let hex = case.digest.strip_prefix("sha256:").unwrap();
    let journal = case.env.journal(&case.env.only_run());
    assert_eq!(bodies(&journal, "run.created")[0]["policy"]["image"], json!(hex));
    let containment = &bodies(&journal, "driver.attached")[0]["containment"];
    assert_eq!((&containment["rung"], &containment["image"]), (&json!("R4"), &json!(hex)));
    let key = case.env.public_key();
    let repository = case.repo.path.display().to_string();
    let verify = ["verify", out, "--key", key.to_str().unwrap(), "--repo", &repository];
    let _ = case.env.provost(verify).code(0);

    // The control: without the image the host's files are seen.
    let control = Case::new([sh("ls /usr/bin/python3; cat /etc/of-the-image")]);
    let _ = control.run(&[]).code(0);
    let told = crate::script::told(&control.model);
    assert!(
        told[0].contains("/usr/bin/python3\n") && told[0].contains("of-the-image: No such file"),
        "{told:?}"
    );
}

/// A program that finds a store of podman's own for one test, and a runtime that takes any control groups.
fn with_podman(case: &Case, program: &str) -> std::process::Command {
    let mut command = case.env.command(program);
    command.env("CONTAINERS_STORAGE_CONF", case.env.at("storage.conf"));
    command.env("CONTAINERS_CONF", case.env.at("containers.conf"));
    command
}

fn podman(case: &Case, args: &[&str]) -> crate::support::Ran {
    let mut command = with_podman(case, "podman");
    command.args(args);
    finish(command)
}

/// Puts the case's image into podman's store, as `small:1`.
fn load(case: &Case) {
    let folder = |name: &str| case.env.at(name).display().to_string();
    let conf = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
        folder("graph"),
        folder("run-of-podman")
    );
    fs::write(case.env.at("storage.conf"), conf).unwrap();
    let conf = format!("[engine]\nruntime = \"runc\"\ntmp_dir = \"{}\"\n", folder("tmp-of-podman"));
    fs::write(case.env.at("containers.conf"), conf).unwrap();
    let archive = case.archive.display().to_string();
    let loaded = podman(case, &["load", "--quiet", "--input", &archive]).code(0).stdout;
    let id = loaded.trim().rsplit(':').next().unwrap().to_owned();
    let _ = podman(case, &["tag", &id, "small:1"]).code(0);
}

#[test]
fn commands_run_by_podman_where_the_operator_names_it_and_the_evidence_says_so() {
    let case = Case::new([
        sh("cat /etc/of-the-image a.txt; echo $FROM_IMAGE > made.txt; echo x > .git/config"),
        exec(&["say"]),
    ]);
    load(&case);
    let mut import = with_podman(&case, env!("CARGO_BIN_EXE_provost"));
    import.args(["image", "import", "--from", "podman", "small:1"]);
    let _ = finish(import).code(0);
    let run = |more: &[&str]| {
        let mut command = with_podman(&case, env!("CARGO_BIN_EXE_provost"));
        command.args(case.env.run_args(&case.repo.path, &case.model, more));
        finish(command)
    };
    // An engine without an image, and a guarantee that none gives.
    let refused = run(&["--engine", "podman"]).code(2);
    assert!(refused.stderr.contains("no image is named for them"), "{}", refused.stderr);
    let refused = run(&["--engine", "lxc", "--image", "small:1"]).code(2);
    assert!(refused.stderr.contains("expected podman or docker"), "{}", refused.stderr);
    // What none can honour is refused before anything is begun.
    let refused =
        run(&["--engine", "podman", "--image", "small:1", "--allow", "net example.org:443"]).code(2);
    assert!(
        refused.stderr.contains("cannot have what the policy grants: hosts of the network"),
        "{}",
        refused.stderr
    );
    let policy = case.env.at("publishes.toml").display().to_string();
    fs::write(&policy, "preset = \"workspace\"\npublish = [3000]\ngit = \"commit\"\n").unwrap();
    let refused = run(&["--engine", "podman", "--image", "small:1", "--policy", &policy]).code(2);
    assert!(refused.stderr.contains("grants: published ports (`publish`), commits"), "{}", refused.stderr);
    let needs = ["--engine", "podman", "--image", "small:1", "--require", "cap-cpu"];
    let refused = run(&needs).code(9);
    assert!(refused.stderr.contains("in a container of podman's) does not enforce"), "{}", refused.stderr);

    let out = case.env.at("evidence");
    let out = out.to_str().unwrap();
    let verify = ["--verify", "cat /etc/of-the-image", "--export", out];
    let _ = run(&[&["--engine", "podman", "--image", "small:1"], verify.as_slice()].concat()).code(0);
    let told = told(&case.model);
    assert!(told[0].contains("of the image\none\n") && told[0].contains("Read-only file system"), "{told:?}");
    assert!(told[1].contains("/opt/of-the-image/bin/say says"), "{told:?}");
    assert_eq!(fs::read_to_string(case.repo.path.join("made.txt")).unwrap(), "yes\n");
    let run = case.env.only_run();
    let journal = case.env.journal(&run);
    assert_eq!(bodies(&journal, "run.created")[0]["policy"]["engine"], "podman");
    let containment = &bodies(&journal, "driver.attached")[0]["containment"];
    assert_eq!((&containment["rung"], &containment["engine"]), (&json!("R4"), &json!("podman")));
    let shown = case.env.provost(["log", &run]).code(0).stdout;
    assert!(shown.contains("R4 (an image's root, in a container of podman's)"), "{shown}");
    let key = case.env.public_key();
    let repository = case.repo.path.display().to_string();
    let verify = ["verify", out, "--key", key.to_str().unwrap(), "--repo", &repository];
    let _ = case.env.provost(verify).code(0);
    assert_eq!(podman(&case, &["ps", "--all", "--quiet"]).code(0).stdout, "");
}

/// Runs a case by an engine that makes all containers but that of `sleep 1000`, of which it says so by `refusal`.
fn run_refusing(case: &Case, refusal: &str) {
    load(case);
    let mut import = with_podman(case, env!("CARGO_BIN_EXE_provost"));
    import.args(["image", "import", "--from", "podman", "small:1"]);
    let _ = finish(import).code(0);
    let folder = case.env.at("refusing");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'sleep 1000'*) {refusal}; exit 125;; esac\nexec /usr/bin/podman \"$@\"\n"
    );
    fs::write(folder.join("podman"), script).unwrap();
    fs::set_permissions(folder.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = with_podman(case, env!("CARGO_BIN_EXE_provost"));
    command.args(case.env.run_args(
        &case.repo.path,
        &case.model,
        &["--engine", "podman", "--image", "small:1"],
    ));
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", folder.display()));
    let _ = finish(command).code(0);
}

fn sleeper() -> Value {
    json!({ "call": { "name": "shell_start", "arguments": { "command": "sleep 1000" } } })
}

#[test]
fn a_background_command_whose_container_does_not_start_is_a_result_and_not_the_end() {
    let case = Case::new([sleeper(), sh("cat /etc/of-the-image")]);
    run_refusing(&case, "echo no room for it >&2");
    let told = told(&case.model);
    assert!(told[0].contains("no room for it") && told[0].contains("Nothing was run."), "{told:?}");
    assert!(told[1].contains("of the image\n"), "{told:?}");
    let journal = case.env.journal(&case.env.only_run());
    assert!(bodies(&journal, "process.ended").is_empty());
}

/// The act that starts it is over by then, so that it is an end of the command: to whoever polls it, to whoever ends it, and
/// to nobody in particular.
#[test]
fn a_container_that_is_known_late_not_to_start_is_an_end_of_its_command() {
    let poll = json!({ "call": { "name": "shell_poll", "arguments": { "id": "bg-0", "wait_seconds": 20 } } });
    let kill = json!({ "call": { "name": "shell_kill", "arguments": { "id": "bg-0" } } });
    let steps = [sleeper(), sh(": > go"), poll.clone(), poll, kill, sh("cat /etc/of-the-image")];
    let case = Case::new(steps);
    let go = case.repo.path.join("go");
    let waits =
        format!("echo making it >&2; until [ -e {} ]; do sleep 0.01; done; echo no room >&2", go.display());
    run_refusing(&case, &waits);
    let told = told(&case.model);
    assert!(told[0].contains("bg-0 is running.") && told[0].contains("making it"), "{told:?}");
    assert!(told[2..5].concat().contains("no room"), "{told:?}");
    let ended = "bg-0 ended: it could not be started after all, and nothing of it was run.";
    assert!(told[4].starts_with(ended), "{told:?}");
    // The run goes on.
    assert!(told[5].contains("of the image\n"), "{told:?}");
    let run = case.env.only_run();
    let journal = case.env.journal(&run);
    let ended = &bodies(&journal, "process.ended")[0]["command"];
    assert_eq!(ended["exit"]["how"], "not_started");
    let shown = case.env.provost(["log", &run]).code(0).stdout;
    assert!(shown.contains("never started"), "{shown}");
}

#[test]
fn staged_changes_and_background_commands_work_by_podman_too() {
    let started = json!({ "call": { "name": "shell_start", "arguments": { "command": "echo it goes on; sleep 1000" } } });
    let steps = || [sh("echo two > a.txt; echo evil > .git/config; cat /etc/of-the-image"), started.clone()];
    for mode in ["staged", "direct"] {
        let case = Case::new(steps());
        load(&case);
        let mut import = with_podman(&case, env!("CARGO_BIN_EXE_provost"));
        import.args(["image", "import", "--from", "podman", "small:1"]);
        let _ = finish(import).code(0);
        let mut command = with_podman(&case, env!("CARGO_BIN_EXE_provost"));
        let more = ["--engine", "podman", "--image", "small:1", "--workspace-mode", mode];
        command.args(case.env.run_args(&case.repo.path, &case.model, &more));
        let _ = finish(command).code(0);
        let told = told(&case.model);
        assert!(told[0].contains("of the image\n"), "{mode}: {told:?}");
        assert_eq!(fs::read_to_string(case.repo.path.join("a.txt")).unwrap(), "two\n", "{mode}");
        assert!(!fs::read_to_string(case.repo.path.join(".git/config")).unwrap().contains("evil"), "{mode}");
        let journal = case.env.journal(&case.env.only_run());
        let containment = &bodies(&journal, "driver.attached")[0]["containment"];
        let by = if mode == "staged" { json!("copy") } else { Value::Null };
        assert_eq!(containment["staged"], by, "{mode}");
        // Where changes are staged nothing goes on; otherwise it does, and ends with the run.
        assert_eq!(told[1].contains("it goes on"), mode == "direct", "{mode}: {told:?}");
        assert_eq!(podman(&case, &["ps", "--all", "--quiet"]).code(0).stdout, "", "{mode}");
    }
}

#[test]
fn an_image_of_podman_s_store_is_imported_and_run_in() {
    let case = Case::new([sh("cat /etc/of-the-image")]);
    load(&case);
    let import = |name: &str| {
        let mut command = with_podman(&case, env!("CARGO_BIN_EXE_provost"));
        command.args(["image", "import", "--from", "podman", "--", name]);
        finish(command)
    };
    let digest = import("small:1").code(0).stdout.trim().to_owned();
    assert!(digest.starts_with("sha256:"), "{digest}");
    let _ = case.run(&["--image", "small:1"]).code(0);
    assert!(told(&case.model)[0].contains("of the image\n"));
    // What it does not have it says itself; nothing is fetched, and nothing is left.
    let refused = import("absent:1").code(2);
    assert!(refused.stderr.contains("does not answer `save absent:1`"), "{}", refused.stderr);
    // A name is no option.
    let refused = import("--help").code(2);
    assert!(!refused.stderr.contains("sha256:"), "{}", refused.stderr);
    let mut left = fs::read_dir(case.env.at("images")).into_iter().flatten().filter_map(Result::ok);
    assert!(left.all(|entry| !entry.file_name().to_string_lossy().starts_with(".new-")));
    let unknown = case.env.provost(["image", "import", "--from", "lxc", "small:1"]).code(2);
    assert!(unknown.stderr.contains("expected podman or docker"), "{}", unknown.stderr);
}

#[test]
fn an_image_is_pinned_by_its_digest() {
    let case = Case::new([]);
    let archive = case.archive.display().to_string();
    let pinned = |digest: &str| format!("{archive}@{digest}");
    let other = layout(&case.env, &case.env.at("other.tar"), "another\n");
    let refused = case.env.provost(["image", "import", &pinned(&other)]).code(2);
    assert!(refused.stderr.contains(&format!("holds no single image for {other}")), "{}", refused.stderr);
    let refused = case.env.provost(["image", "import", &pinned("sha256:12")]).code(2);
    assert!(refused.stderr.contains("`sha256:12` is not a name of an image"), "{}", refused.stderr);
    assert!(case.env.provost(["image", "list"]).code(0).stdout.starts_with("no images in "));
    let said = case.env.provost(["image", "import", &pinned(&case.digest), "--name", "small"]).code(0).stdout;
    assert_eq!(said.trim(), case.digest);
    for image in ["small", &case.digest, &archive] {
        assert_eq!(case.env.provost(["image", "digest", image]).code(0).stdout.trim(), case.digest);
    }
    let listed = case.env.provost(["image", "list", "--json"]).code(0).json();
    assert_eq!((&listed[0]["name"], &listed[0]["digest"]), (&json!("small"), &json!(case.digest)));
    let _ = case.env.provost(["image", "remove", "small"]).code(0);
    let refused = case.env.provost(["image", "remove", "small"]).code(2);
    assert!(refused.stderr.contains("there is no image `small`"), "{}", refused.stderr);
}

#[test]
fn a_queued_run_keeps_its_image_and_does_not_begin_without_it() {
    let case = Case::new([sh("cat /etc/of-the-image")]);
    let refused = case.run(&["--image", "small"]).code(2);
    assert!(refused.stderr.contains("there is no image `small`"), "{}", refused.stderr);
    let _ = case.import(&["--name", "small"]);
    let mut args = case.env.run_args(&case.repo.path, &case.model, &["--image", "small", "--id", "in-image"]);
    args[0] = "enqueue".to_owned();
    let _ = case.env.provost(args).code(0);
    // The name means another image by now; the run means the one that it was queued with.
    let other = case.env.at("other.tar").display().to_string();
    let _ = layout(&case.env, &case.env.at("other.tar"), "another\n");
    let _ = case.env.provost(["image", "import", &other, "--name", "small"]).code(0);
    let _ = case.env.provost(["image", "remove", &case.digest]).code(0);
    let _ = case.env.provost(["worker", "--until-empty"]);
    let journal = case.env.journal("in-image");
    let held = bodies(&journal, "run.held");
    assert_eq!(held.len(), 1, "{journal:?}");
    assert!(bodies(&journal, "driver.attached").is_empty());
    assert!(case.env.provost(["status", "in-image"]).stdout.contains(&case.digest));
    // With the image back it runs.
    let _ = case.import(&[]);
    let _ = case.env.provost(["resume", "in-image"]).code(0);
    assert!(told(&case.model)[0].contains("of the image\n"));
}
