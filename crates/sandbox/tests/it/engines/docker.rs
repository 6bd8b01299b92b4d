//! The same by a real docker, whose daemon is the test's own.

use std::process::Child;

use serde_json::json;

use super::*;

/// A daemon that ends with the test. It has no network and no rules of a firewall, which commands have no use for.
struct Daemon(Child);

impl Daemon {
    fn start(folder: &Path) -> Self {
        let at = |name: &str| folder.join(name).display().to_string();
        let log = fs::File::create(folder.join("docker.log")).unwrap();
        let child = std::process::Command::new("dockerd")
            .args([
                "--data-root",
                &at("docker"),
                "--exec-root",
                &at("docker-run"),
                "--pidfile",
                &at("docker.pid"),
            ])
            .args(["--host", &format!("unix://{}", at("d.sock"))])
            // The one that works on every file system.
            .args(["--storage-driver=vfs", "--iptables=false", "--bridge=none"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", folder)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("dockerd is not there: run the tests by `./test`, which installs it");
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked to, it ends its containerd too.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Store {
    /// A docker with the image. Docker takes an archive that says so in a way of its own, too, which all versions of it read.
    fn docker() -> (Daemon, Self) {
        let host = Host::new();
        let (image, _) = shell(&host);
        let daemon = Daemon::start(host.dir.path());
        let socket = format!("unix://{}", host.dir.path().join("d.sock").display());
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
            ("HOME", "/root"),
            ("DOCKER_HOST", &socket),
            ("A_KEY", "s3cret"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
        let docker = Self { engine: Engine::Docker, host, image, environment };
        eventually("the daemon answers", || docker.output(&["version"]).status.success());
        let layout = docker.host.dir.path().join("layout");
        let document = |path: PathBuf| -> serde_json::Value {
            serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
        };
        let blob = |digest: &serde_json::Value| {
            format!("blobs/sha256/{}", digest.as_str().unwrap().trim_start_matches("sha256:"))
        };
        let index = document(layout.join("index.json"));
        let manifest = document(layout.join(blob(&index["manifests"][0]["digest"])));
        let layers: Vec<String> =
            manifest["layers"].as_array().unwrap().iter().map(|layer| blob(&layer["digest"])).collect();
        let said = json!([{ "Config": blob(&manifest["config"]["digest"]), "RepoTags": ["small:1"], "Layers": layers }]);
        fs::write(layout.join("manifest.json"), said.to_string()).unwrap();
        docker.load();
        (daemon, docker)
    }
}

/// One daemon for all: it is what takes the time.
#[test]
fn docker_does_what_podman_does() {
    if !rustix::process::getuid().is_root() {
        // Its daemon is root's.
        return;
    }
    let (_daemon, mut docker) = Store::docker();
    let says =
        engines(&docker.environment).into_iter().find(|found| found.engine == Engine::Docker).unwrap().says;
    assert!(says.as_ref().is_ok_and(|says| says.contains("runtime runc")), "{says:?}");
    runs_and_holds(&docker);
    does_not_start(&docker);
    is_ended(&docker);
    for check in [goes_with_its_driver, is_removed_by_whoever_recovers] {
        // What the one before waited for.
        fs::remove_file(docker.host.ws().join("begun")).unwrap();
        check(&docker);
    }
    attacks::holds(&docker);
    // Out of its store too, in whatever form this version saves it.
    let images = ImageStore::new(docker.host.dir.path().join("again"));
    let image = images.import_from(Engine::Docker, &docker.environment, "small:1", None).unwrap();
    assert_eq!(fs::read_to_string(image.root().join("etc/of-the-image")).unwrap(), "yes\n");
    // One that is not there is said to be so.
    docker.environment.insert("DOCKER_HOST".into(), "unix:///nowhere".into());
    let error = docker.try_sandbox(docker.profile()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        error.starts_with("commands cannot run by docker here:") && error.contains("/nowhere"),
        "{error}"
    );
}
