//! OCI images: what is read, what is refused, and what commands see whose root one is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use provost_core::caps::{Cap, Caps};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_core::digest::Digest;
use provost_sandbox::image::{Image, ImageError, ImageStore, parse_digest};
use provost_sandbox::{Ended, ImageRoot, Profile, RungChoice, Sandbox, Unavailable};
use serde_json::{Value, json};
use sha2::Digest as _;
use tar::EntryType;

use crate::support::{Host, Ran, probe, sandbox};

const DOCUMENT: &str = "application/vnd.oci.image";

/// One entry of a layer.
enum Entry<'a> {
    File(&'a str, &'a [u8], u32),
    Folder(&'a str),
    Link(&'a str, &'a str),
    HardLink(&'a str, &'a str),
    Other(EntryType, &'a str),
}
use Entry::{File, Folder, HardLink, Link, Other};

/// A layer as a tar stream. Names go in as they are: no library that would tidy them is asked.
fn layer(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let (kind, name, link, content, mode) = match entry {
            File(name, content, mode) => (EntryType::Regular, *name, "", *content, *mode),
            Folder(name) => (EntryType::Directory, *name, "", &[][..], 0o755),
            Link(name, target) => (EntryType::Symlink, *name, *target, &[][..], 0o777),
            HardLink(name, target) => (EntryType::Link, *name, *target, &[][..], 0o644),
            Other(kind, name) => (*kind, *name, "", &[][..], 0o644),
        };
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_000_000);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest::new(sha2::Sha256::digest(bytes).into()))
}

/// A layout on disk, made by hand.
struct Layout {
    folder: PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { folder: folder.to_owned(), manifests: Vec::new() }
    }

    fn blob(&self, bytes: &[u8]) -> (String, usize) {
        let digest = sha256(bytes);
        fs::write(self.path(&digest), bytes).unwrap();
        (digest, bytes.len())
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join("blobs").join(digest.replace(':', "/"))
    }

    /// Adds an image of these layers, each as (media type's end, blob, content).
    fn image(&mut self, architecture: &str, layers: &[(&str, Vec<u8>, Vec<u8>)], name: &str) -> String {
        let (config, config_size) = self.blob(
            json!({
                "architecture": architecture, "os": "linux",
                "config": {"Env": ["PATH=/bin", "COLOUR=blue"]},
                "rootfs": {
                    "type": "layers",
                    "diff_ids": layers.iter().map(|(_, _, content)| sha256(content)).collect::<Vec<_>>(),
                },
            })
            .to_string()
            .as_bytes(),
        );
        let layers: Vec<Value> = layers
            .iter()
            .map(|(kind, blob, _)| {
                let (digest, size) = self.blob(blob);
                json!({"mediaType": format!("{DOCUMENT}.layer.v1.{kind}"), "digest": digest, "size": size})
            })
            .collect();
        let (manifest, size) = self.blob(
            json!({
                "schemaVersion": 2,
                "config": {"mediaType": format!("{DOCUMENT}.config.v1+json"), "digest": config, "size": config_size},
                "layers": layers,
            })
            .to_string()
            .as_bytes(),
        );
        self.manifests.push(json!({
            "mediaType": format!("{DOCUMENT}.manifest.v1+json"), "digest": manifest, "size": size,
            "platform": {"architecture": architecture, "os": "linux"},
            "annotations": {"org.opencontainers.image.ref.name": name},
        }));
        let index = json!({"schemaVersion": 2, "manifests": self.manifests});
        fs::write(self.folder.join("index.json"), index.to_string()).unwrap();
        manifest
    }

    /// The same of plain layers for this machine.
    fn plain(&mut self, layers: &[&[Entry<'_>]]) -> String {
        let layers: Vec<_> = layers
            .iter()
            .map(|entries| layer(entries))
            .map(|content| ("tar", content.clone(), content))
            .collect();
        self.image(HERE, &layers, "small")
    }
}

#[cfg(target_arch = "x86_64")]
const HERE: &str = "amd64";
#[cfg(target_arch = "aarch64")]
const HERE: &str = "arm64";

fn store(host: &Host) -> ImageStore {
    ImageStore::new(host.dir.path().join("images"))
}

/// Imports one image of these layers.
fn import(host: &Host, layers: &[&[Entry<'_>]]) -> Result<Image, ImageError> {
    let folder = host.dir.path().join("layout");
    let _ = fs::remove_dir_all(&folder);
    Layout::new(&folder).plain(layers);
    store(host).import(&folder, None, None)
}

/// What a shell and a few tools of the host need, at their own paths.
fn tools() -> Vec<(String, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let programs = ["sh", "cat", "id", "touch", "cp", "mv", "ls", "grep", "getent", "sleep"]
        .map(|name| format!("/bin/{name}"));
    for program in &programs {
        files.insert(program.clone(), fs::read(program).unwrap());
        let output = std::process::Command::new("ldd").arg(program).output().unwrap();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let path = line.split_whitespace().find(|word| word.starts_with('/'));
            if let Some(path) = path {
                files.insert(path.to_owned(), fs::read(path).unwrap());
            }
        }
    }
    files.into_iter().map(|(path, bytes)| (path[1..].to_owned(), bytes)).collect()
}

/// An image with a shell, and a profile whose root it is.
pub(crate) fn shell(host: &Host) -> (Image, Profile) {
    let files = tools();
    // Each folder too: older dockers make one that has no entry so that nobody can enter it.
    let above = files.iter().flat_map(|(path, _)| Path::new(path).ancestors().skip(1));
    let folders: BTreeSet<&str> = above.chain([Path::new("etc")]).filter_map(Path::to_str).collect();
    let mut entries: Vec<Entry<'_>> =
        folders.into_iter().filter(|path| !path.is_empty()).map(Folder).collect();
    entries.extend(files.iter().map(|(path, bytes)| File(path, bytes, 0o755)));
    entries.push(File("etc/of-the-image", b"yes\n", 0o644));
    entries.push(Folder("work"));
    let image = import(host, &[&entries]).unwrap();
    let mut profile = host.profile();
    profile.image = Some(ImageRoot { folder: image.root(), digest: image.digest, by: None });
    (image, profile)
}

fn run(host: &Host, profile: &Profile, script: &str) -> Ran {
    host.run_with(Rung::R4, profile.clone(), &host.command(&["/bin/sh", "-c", script]))
}

#[test]
fn commands_see_the_image_and_the_workspace_and_nothing_of_the_host() {
    let host = Host::new();
    let (image, profile) = shell(&host);
    fs::write(host.ws().join("given"), "from outside\n").unwrap();
    let ran = run(&host, &profile, "cat given /etc/of-the-image && echo made > made && id -u && ls /");
    ran.assert_ok();
    assert!(ran.text.starts_with("from outside\nyes\n65534\n"), "{}", ran.text);
    assert_eq!(ran.record.receipt.rung, Rung::R4);
    assert_eq!(ran.record.receipt.image, Some(image.digest));
    // What it makes belongs to whoever runs it.
    let made = fs::metadata(host.ws().join("made")).unwrap();
    assert_eq!(made.uid(), rustix::process::getuid().as_raw());
    for path in ["/etc/passwd", "/usr/bin/python3", "/root", "/home", "/opt"] {
        let ran = run(&host, &profile, &format!("ls -d {path}"));
        ran.assert_refused();
        // The control: the host has it.
        if Path::new(path).exists() && path != "/root" && path != "/home" {
            host.run(Rung::R3, &["ls", "-d", path]).assert_ok();
        }
    }
}

#[test]
fn an_image_is_never_written_and_gives_no_rights() {
    let host = Host::new();
    let (image, profile) = shell(&host);
    let before = fs::read(image.root().join("etc/of-the-image")).unwrap();
    for script in
        ["echo x > /etc/of-the-image", "echo x > /new", "touch /bin/new", "touch /dev/new", "touch /run/new"]
    {
        run(&host, &profile, script).assert_refused();
    }
    assert_eq!(fs::read(image.root().join("etc/of-the-image")).unwrap(), before);
    // `/tmp` is the command's own, empty at each start, and nothing in it can be executed.
    run(&host, &profile, "cp /bin/id /tmp/id && test -x /bin/id").assert_ok();
    let ran = run(&host, &profile, "cp /bin/id /tmp/id && /tmp/id");
    ran.assert_refused();
    assert!(ran.text.contains("Permission denied"), "{}", ran.text);
    run(&host, &profile, "cp /bin/id id && ./id").assert_ok();
    let ran = run(&host, &profile, "grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status");
    let words: Vec<&str> = ran.text.split_whitespace().collect();
    let none = "0000000000000000";
    assert_eq!(
        words,
        ["CapPrm:", none, "CapEff:", none, "CapBnd:", none, "NoNewPrivs:", "1", "Seccomp:", "2"]
    );
}

#[test]
fn everything_that_r3_promises_holds_with_an_image_too() {
    let host = Host::new();
    let (_, mut profile) = shell(&host);
    fs::create_dir(host.ws().join(".git")).unwrap();
    fs::write(host.ws().join(".git/config"), "[core]\n").unwrap();
    fs::write(host.ws().join("secret"), "s3cret").unwrap();
    profile.protected = vec![host.ws().join(".git")];
    profile.hidden = vec![host.ws().join("secret")];
    run(&host, &profile, "cat .git/config").assert_ok();
    for script in ["echo x > .git/config", "mkdir .git/hooks", "cat secret"] {
        run(&host, &profile, script).assert_refused();
    }
    let sandbox = sandbox(Rung::R4, profile);
    let receipt = sandbox.receipt();
    for (guarantee, strength) in probe().receipt(Rung::R3).guarantees {
        if guarantee == Guarantee::Protected || receipt.guarantees.contains_key(&guarantee) {
            assert_eq!(receipt.guarantees.get(&guarantee), Some(&strength), "{guarantee:?}");
        }
    }
    assert_eq!(receipt.guarantees[&Guarantee::Net], Strength::Enforced);
}

/// In an image everybody is uid 65534, and the kernel goes by who they are outside: root's processes it does not bound.
#[test]
fn processes_are_bounded_whoever_runs_an_image() {
    let host = Host::new();
    let (_, mut profile) = shell(&host);
    let script = |seconds: &str| {
        format!("i=0; while [ $i -lt 40 ]; do sleep {seconds} & i=$((i+1)); done; wait; echo all of them")
    };
    profile.limits = Caps::none();
    let control = run(&host, &profile, &script("0.1"));
    assert!(control.assert_ok().text.contains("all of them"), "{}", control.text);
    profile.limits.processes = Some(20);
    let ran = run(&host, &profile, &script("15"));
    let hit = match ran.record.ended {
        Ended::Capped(hit) => Some(hit),
        _ => ran.record.caps.first().copied(),
    };
    // An ordinary user's next process is refused, and the shell gives up at once; root's are counted.
    let refused = !rustix::process::getuid().is_root() && ran.text.contains("fork");
    let counted = hit.map(|hit| (hit.cap, hit.limit)) == Some((Cap::Processes, 20));
    assert!(refused || counted, "{}\n{:?}", ran.text, ran.record);
    assert!(!ran.text.contains("all of them"), "{}", ran.text);
}

#[test]
fn the_rung_and_the_image_belong_together() {
    let host = Host::new();
    let (_, profile) = shell(&host);
    assert!(probe().has_images(), "{:?}", probe().facts);
    let strongest = |at_least| RungChoice::Strongest { at_least };
    assert_eq!(
        Sandbox::new(probe(), profile.clone(), strongest(Rung::R0)).unwrap().rung(),
        Rung::R4,
        "an image that was named is the root"
    );
    for (profile, rungs) in [
        (profile, RungChoice::Exactly(Rung::R3)),
        (host.profile(), RungChoice::Exactly(Rung::R4)),
        (host.profile(), strongest(Rung::R4)),
    ] {
        let refused = Sandbox::new(probe(), profile, rungs).unwrap_err();
        assert!(matches!(refused, Unavailable::Rung { .. }), "{refused}");
        assert!(refused.to_string().contains("image: "), "{refused}");
    }
}

#[test]
fn later_layers_replace_and_remove_what_earlier_ones_have() {
    let host = Host::new();
    let image = import(
        &host,
        &[
            &[
                File("keep", b"1", 0o644),
                File("gone", b"1", 0o644),
                File("changed", b"1", 0o644),
                File("d/old", b"1", 0o644),
                File("d/e/old", b"1", 0o644),
                File("was-file", b"1", 0o644),
                File("was-folder/inner", b"1", 0o644),
                HardLink("same", "keep"),
                Link("lib", "usr/lib"),
                Folder("usr/lib"),
            ],
            &[
                File(".wh.gone", b"", 0o644),
                File("changed", b"2", 0o600),
                File("d/new", b"2", 0o644),
                File("d/e/new", b"2", 0o644),
                // An opaque folder says that nothing of the layers below shows, wherever it stands in the layer.
                File("d/.wh..wh..opq", b"", 0o644),
                Folder("was-file"),
                File("was-folder", b"2", 0o644),
                // Through a link of the layer below.
                File("lib/libz.so", b"2", 0o644),
                File("nowhere/.wh.nothing", b"", 0o644),
            ],
            &[File("gone", b"3", 0o755), File("./deep/er/file", b"3", 0o644)],
        ],
    )
    .unwrap();
    let root = image.root();
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    assert_eq!(text("keep").as_deref(), Some("1"));
    assert_eq!(text("gone").as_deref(), Some("3"));
    assert_eq!(text("changed").as_deref(), Some("2"));
    assert_eq!(text("d/old"), None);
    assert_eq!(text("d/e/old"), None);
    assert_eq!(text("d/new").as_deref(), Some("2"));
    assert_eq!(text("d/e/new").as_deref(), Some("2"));
    assert!(root.join("was-file").is_dir());
    assert_eq!(text("was-folder").as_deref(), Some("2"));
    assert_eq!(text("usr/lib/libz.so").as_deref(), Some("2"));
    assert_eq!(text("deep/er/file").as_deref(), Some("3"));
    let meta = |path: &str| fs::metadata(root.join(path)).unwrap();
    assert_eq!(meta("keep").ino(), meta("same").ino());
    assert_eq!(meta("changed").permissions().mode() & 0o7777, 0o600);
    assert_eq!(meta("keep").mtime(), 1_000_000);
    assert_eq!(image.layers, 3);
    assert_eq!(image.env, ["PATH=/bin", "COLOUR=blue"]);
    assert_eq!(image.var("COLOUR"), Some("blue"));
}

#[test]
fn nothing_is_written_outside_of_the_image() {
    let host = Host::new();
    let canary = host.outside().join("canary");
    fs::write(&canary, "untouched").unwrap();
    let outside = host.outside().to_str().unwrap().to_owned();
    let up = format!("{}{}", "../".repeat(20), &outside[1..]);
    let absolute = format!("{outside}/canary");
    // Each of these is refused, or stays in the image.
    let into = format!("x{outside}");
    let attempts: Vec<Vec<Entry<'_>>> = vec![
        vec![File("../canary", b"evil", 0o644)],
        vec![File(&absolute, b"evil", 0o644)],
        vec![Link("out", &outside), File("out/canary", b"evil", 0o644)],
        vec![Link("out", &up), File("out/canary", b"evil", 0o644)],
        vec![Link("canary", &absolute), File("canary", b"evil", 0o644)],
        vec![HardLink("canary", &absolute), File("canary", b"evil", 0o644)],
        vec![HardLink("canary", "../../outside/canary")],
        vec![Link("out", &outside), File("out/.wh.canary", b"", 0o644)],
        vec![Link("out", &outside), File("out/.wh..wh..opq", b"", 0o644)],
        vec![File(".wh...", b"", 0o644)],
        vec![File(".wh.../outside", b"", 0o644)],
        vec![Link("x", "/"), File(&into, b"evil", 0o644)],
    ];
    for (index, attempt) in attempts.iter().enumerate() {
        let _ = import(&host, &[attempt]);
        let _ = import(&host, &[&[Folder("a")], attempt]);
        assert_eq!(fs::read_to_string(&canary).unwrap(), "untouched", "attempt {index}");
        let names: Vec<_> =
            fs::read_dir(host.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"], "attempt {index}");
    }
    // The control: the same entries are unpacked where they belong.
    let image =
        import(&host, &[&[Link("out", "inside"), Folder("inside"), File("out/canary", b"fine", 0o644)]]);
    assert_eq!(fs::read_to_string(image.unwrap().root().join("inside/canary")).unwrap(), "fine");
}

#[test]
fn what_could_lend_rights_is_refused_or_taken_away() {
    let host = Host::new();
    let image = import(&host, &[&[File("su", b"x", 0o6755), File("dev/null", b"x", 0o666)]]).unwrap();
    let mode = fs::metadata(image.root().join("su")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert!(!image.root().join("dev/null").exists(), "the sandbox has its own");
    for kind in [EntryType::Block, EntryType::Char, EntryType::Fifo, EntryType::new(b'Z')] {
        let refused = import(&host, &[&[File("a", b"", 0o644)], &[Other(kind, "etc/thing")]]).unwrap_err();
        let said = refused.to_string();
        assert!(said.starts_with("layer 2 of the image holds `etc/thing`"), "{said}");
        assert!(said.ends_with("nothing was imported"), "{said}");
    }
    // In a folder that is the sandbox's own it does no harm.
    import(&host, &[&[Other(EntryType::Char, "dev/console")]]).unwrap();
}

#[test]
fn content_that_is_not_what_its_digest_says_is_refused() {
    let host = Host::new();
    let store = store(&host);
    let folder = host.dir.path().join("layout");
    let content = layer(&[File("a", b"one", 0o644)]);
    let other = layer(&[File("a", b"two", 0o644)]);
    let fresh = || {
        let _ = fs::remove_dir_all(&folder);
        Layout::new(&folder)
    };
    // The blob is another one.
    let mut layout = fresh();
    let digest = layout.image(HERE, &[("tar", content.clone(), content.clone())], "a");
    fs::write(layout.path(&sha256(&content)), &other).unwrap();
    let refused = store.import(&folder, None, None).unwrap_err();
    assert!(matches!(refused, ImageError::Digest { .. }), "{refused}");
    // The blob is as named, and unpacks to something else than the configuration says.
    let mut layout = fresh();
    layout.image(HERE, &[("tar", content.clone(), other.clone())], "a");
    let refused = store.import(&folder, None, None).unwrap_err();
    assert!(refused.to_string().starts_with("the content of layer 1 has the digest"), "{refused}");
    // The manifest is another one.
    let mut layout = fresh();
    layout.image(HERE, &[("tar", content.clone(), content.clone())], "a");
    fs::write(layout.path(&digest), "{}").unwrap();
    assert!(matches!(store.import(&folder, None, None).unwrap_err(), ImageError::Digest { .. }));
    // Another image than the one that is pinned.
    let mut layout = fresh();
    layout.image(HERE, &[("tar", other.clone(), other.clone())], "a");
    let pin = parse_digest(&digest).unwrap();
    let refused = store.import(&folder, Some(pin), None).unwrap_err();
    assert!(refused.to_string().contains(&digest), "{refused}");
    assert!(store.list().unwrap().is_empty());
    // The control.
    let mut layout = fresh();
    layout.image(HERE, &[("tar", content.clone(), content)], "a");
    assert_eq!(store.import(&folder, Some(pin), None).unwrap().digest, pin);
    let left: Vec<_> =
        fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [OsStr::new(&pin.to_string())]);
}

#[test]
fn packed_layers_and_archives_of_layouts_are_read() {
    let host = Host::new();
    let folder = host.dir.path().join("layout");
    let [first, second, third] =
        ["one", "two", "three"].map(|name| layer(&[File(name, name.as_bytes(), 0o644)]));
    let gzip = |content: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    };
    let zstd =
        ruzstd::encoding::compress_to_vec(third.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
    let layers =
        [("tar", first.clone(), first), ("tar+gzip", gzip(&second), second), ("tar+zstd", zstd, third)];
    let digest = Layout::new(&folder).image(HERE, &layers, "packed:1");
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all(".", &folder).unwrap();
    let archive = archive.into_inner().unwrap();
    let plain = host.dir.path().join("plain.tar");
    fs::write(&plain, &archive).unwrap();
    let packed = host.dir.path().join("packed.tar.gz");
    fs::write(&packed, gzip(&archive)).unwrap();
    for source in [&folder, &plain, &packed] {
        let store = ImageStore::new(tempfile::tempdir_in(host.dir.path()).unwrap().keep());
        assert_eq!(format!("sha256:{}", store.digest(source).unwrap()), digest);
        let image = store.import(source, None, None).unwrap();
        assert_eq!(image.name.as_deref(), Some("packed:1"));
        for name in ["one", "two", "three"] {
            assert_eq!(fs::read_to_string(image.root().join(name)).unwrap(), name);
        }
    }
}

#[test]
fn what_is_no_layout_is_told_as_such() {
    let host = Host::new();
    let store = store(&host);
    let folder = host.dir.path().join("layout");
    fs::create_dir(&folder).unwrap();
    let said = |source: &Path| store.import(source, None, None).unwrap_err().to_string();
    assert!(said(&folder).ends_with("is not an OCI image layout: it has no `oci-layout`"));
    fs::write(folder.join("file"), "no archive").unwrap();
    assert!(
        said(&folder.join("file")).contains("is not an OCI image layout: "),
        "{}",
        said(&folder.join("file"))
    );
    assert!(said(&host.dir.path().join("absent")).contains("No such file"));
    let mut layout = Layout::new(&folder);
    assert!(said(&folder).contains("it has no `index.json`"));
    layout.image("riscv64", &[], "foreign");
    assert!(said(&folder).contains("for linux/riscv64"), "{}", said(&folder));
    let ours = layout.plain(&[&[File("a", b"", 0o644)]]);
    assert_eq!(format!("sha256:{}", store.import(&folder, None, None).unwrap().digest), ours);
    layout.plain(&[&[File("b", b"", 0o644)]]);
    assert!(said(&folder).contains("holds no single image"), "{}", said(&folder));
    assert!(store.import(&folder, Some(parse_digest(&ours).unwrap()), None).is_ok());
}

#[test]
fn images_are_found_by_name_digest_and_its_beginning() {
    let host = Host::new();
    let store = store(&host);
    let first = import(&host, &[&[File("a", b"1", 0o644)]]).unwrap();
    assert_eq!(store.find("small").unwrap(), first);
    let second = import(&host, &[&[File("a", b"2", 0o644)]]).unwrap();
    // A name belongs to the image that got it last.
    assert_eq!(store.find("small").unwrap().digest, second.digest);
    assert_eq!(store.open(first.digest).unwrap().name, None);
    let digits = first.digest.to_string();
    for wanted in [format!("sha256:{digits}"), digits.clone(), digits[..12].to_owned()] {
        assert_eq!(store.find(&wanted).unwrap().digest, first.digest);
    }
    assert!(matches!(store.find("absent").unwrap_err(), ImageError::Unknown { .. }));
    assert!(matches!(store.find(&digits[..5]).unwrap_err(), ImageError::Unknown { .. }));
    let layout = host.dir.path().join("layout");
    for name in ["", "a b", "-x", "a\u{1b}[31m", &format!("sha256:{digits}")] {
        assert!(
            matches!(store.import(&layout, None, Some(name)).unwrap_err(), ImageError::Reference(_)),
            "{name}"
        );
    }
    assert_eq!(store.import(&layout, None, Some("mine:2")).unwrap().label(), "mine:2");
    assert_eq!(store.list().unwrap().len(), 2);
    store.remove(first.digest).unwrap();
    assert!(matches!(store.remove(first.digest).unwrap_err(), ImageError::Unknown { .. }));
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn an_import_that_died_is_cleared_away_and_one_under_way_is_not() {
    let host = Host::new();
    let store = store(&host);
    for name in [".new-dead", ".new-alive"] {
        fs::create_dir_all(store.folder().join(name).join("image/root")).unwrap();
        fs::write(store.folder().join(name).join("lock"), "").unwrap();
    }
    let alive = fs::File::open(store.folder().join(".new-alive/lock")).unwrap();
    rustix::fs::flock(&alive, rustix::fs::FlockOperation::LockExclusive).unwrap();
    import(&host, &[&[File("a", b"1", 0o644)]]).unwrap();
    assert!(!store.folder().join(".new-dead").exists());
    assert!(store.folder().join(".new-alive").exists());
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn the_same_image_may_be_imported_by_many_at_once() {
    let host = Host::new();
    let folder = host.dir.path().join("layout");
    Layout::new(&folder).plain(&[&[File("a", b"1", 0o644)]]);
    let store = store(&host);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| store.import(&folder, None, None).unwrap());
        }
    });
    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 1);
}

#[test]
fn a_link_where_the_sandbox_puts_its_own_is_refused() {
    let host = Host::new();
    let (image, profile) = shell(&host);
    let var = image.root().join("var");
    std::os::unix::fs::symlink(host.outside(), &var).unwrap();
    let command = host.command(&["/bin/sh", "-c", "true"]);
    let refused = host.try_run(Rung::R4, profile.clone(), &command).unwrap_err();
    assert!(refused.to_string().contains("image-root"), "{refused}");
    assert_eq!(fs::read_dir(host.outside()).unwrap().count(), 0);
    // The control.
    fs::remove_file(&var).unwrap();
    run(&host, &profile, "true").assert_ok();
}

/// An entry's headers are read whole, before anything of the entry itself is counted.
#[test]
fn headers_have_a_bound_and_layouts_hold_files_and_folders_only() {
    let host = Host::new();
    let long = |kind: u8, size: usize| {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..13].copy_from_slice(b"././@LongLink");
        header.as_mut_bytes()[156] = kind;
        header.set_mode(0o644);
        header.set_size(size as u64);
        header.set_cksum();
        let mut archive = header.as_bytes().to_vec();
        archive.resize(512 + size.next_multiple_of(512), b'a');
        archive.extend(layer(&[File("short", b"x", 0o644)]));
        archive
    };
    let import = |content: Vec<u8>| {
        let folder = host.dir.path().join("headers");
        let _ = fs::remove_dir_all(&folder);
        Layout::new(&folder).image(HERE, &[("tar", content.clone(), content)], "headers");
        store(&host).import(&folder, None, None)
    };
    for kind in [b'L', b'x', b'K'] {
        let error = import(long(kind, 8 << 20)).unwrap_err().to_string();
        assert!(error.contains("its header is longer than 1 MiB"), "{error}");
    }
    // The control: long names are read. (This one is longer than a path may be.)
    let error = import(long(b'L', 9000)).unwrap_err().to_string();
    assert!(!error.contains("longer than 1 MiB"), "{error}");
    import(layer(&[File("short", &[b'x'; 3 << 20], 0o644), File("other", b"x", 0o644)])).unwrap();

    // A pipe is not waited for.
    let folder = host.dir.path().join("piped");
    Layout::new(&folder).plain(&[&[File("a", b"x", 0o644)]]);
    fs::remove_file(folder.join("oci-layout")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(folder.join("oci-layout")).status().unwrap();
    assert!(status.success());
    let error = store(&host).import(&folder, None, None).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("no ordinary file"), "{error}");

    // An archive of a layout has no links that lead to the host's files.
    let archive = host.dir.path().join("linked.tar");
    let text = br#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(&archive, layer(&[File("oci-layout", text, 0o644), Link("index.json", "/etc/passwd")]))
        .unwrap();
    let error = store(&host).import(&archive, None, None).unwrap_err().to_string();
    assert!(error.contains("`index.json`, which is a link"), "{error}");
}

/// An archive as docker 20.10 writes it: no layout, a folder for each layer, and a link where one is there twice.
#[test]
fn an_archive_of_docker_s_own_form_is_imported() {
    let host = Host::new();
    let [base, over] = [("kept", "base"), ("replaced", "over")].map(|(name, text)| {
        layer(&[File(name, text.as_bytes(), 0o644), File("last", text.as_bytes(), 0o644)])
    });
    let config = json!({
        "architecture": HERE, "os": "linux", "docker_version": "20.10.24", "created": "2024-01-01T00:00:00Z",
        "config": {
            "Hostname": "", "AttachStdin": false, "Env": ["PATH=/bin", "COLOUR=blue"], "Cmd": ["sh"], "Image": "",
            "Volumes": null, "Entrypoint": null, "OnBuild": null, "Labels": null,
        },
        "container_config": {"Cmd": ["/bin/sh", "-c", "#(nop) "]},
        "history": [{"created": "2024-01-01T00:00:00Z", "created_by": "/bin/sh -c #(nop) ADD"}],
        "rootfs": {"type": "layers", "diff_ids": [sha256(&base), sha256(&over), sha256(&base)]},
    })
    .to_string();
    let id = sha256(config.as_bytes()).trim_start_matches("sha256:").to_owned();
    let archive = |config_name: &str, target: &str, layers: &Value| {
        let manifest =
            json!([{"Config": config_name, "RepoTags": ["small:1"], "Layers": layers}]).to_string();
        let path = host.dir.path().join("saved.tar");
        let content = layer(&[
            // What it leads to comes after it.
            Folder("aa"),
            Link("aa/layer.tar", target),
            Folder("bb"),
            File("bb/VERSION", b"1.0", 0o644),
            File("bb/layer.tar", &base, 0o644),
            File("cc/layer.tar", &over, 0o644),
            File(config_name, config.as_bytes(), 0o644),
            File("manifest.json", manifest.as_bytes(), 0o644),
            File("repositories", b"{}", 0o644),
        ]);
        fs::write(&path, content).unwrap();
        path
    };
    let store = store(&host);
    let name = format!("{id}.json");
    let layers = json!(["bb/layer.tar", "cc/layer.tar", "aa/layer.tar"]);
    let image = store.import(&archive(&name, "../bb/layer.tar", &layers), None, None).unwrap();
    assert_eq!((image.name.as_deref(), image.layers), (Some("small:1"), 3));
    assert_eq!(image.env, ["PATH=/bin", "COLOUR=blue"]);
    // By its id an engine knows it.
    assert_eq!(image.known_as[0].to_string(), id);
    let said = |name: &str| fs::read_to_string(image.root().join(name)).unwrap();
    assert_eq!([said("kept"), said("replaced"), said("last")], ["base", "over", "base"]);
    // The same archive is the same image.
    assert_eq!(store.digest(&archive(&name, "../bb/layer.tar", &layers)).unwrap(), image.digest);

    let refused = |path: PathBuf| store.import(&path, None, None).unwrap_err().to_string();
    for target in ["/etc/passwd", "../../etc/passwd"] {
        let error = refused(archive(&name, target, &layers));
        assert!(error.contains("`aa/layer.tar`, which is a link, and no part of a layout"), "{error}");
    }
    let error = refused(archive(&name, "../dd/layer.tar", &layers));
    assert!(error.contains("`aa/layer.tar`, a link to what is not there"), "{error}");
    for (layer, why) in
        [("../bb/layer.tar", "no path in an archive"), ("dd/layer.tar", "it has no `dd/layer.tar`")]
    {
        let error = refused(archive(&name, "../bb/layer.tar", &json!([layer])));
        assert!(error.contains(why), "{error}");
    }
    let error =
        refused(archive(&name, "../bb/layer.tar", &json!(["cc/layer.tar", "bb/layer.tar", "aa/layer.tar"])));
    assert!(error.contains("the content of layer 1 has the digest"), "{error}");
    let other = format!("{}.json", "0".repeat(64));
    assert!(refused(archive(&other, "../bb/layer.tar", &layers)).contains("nothing was imported"));
}
