//! A Rust image from the host's own toolchain: no registry, no daemon, no network.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use provost_core::digest::Digest;

use super::ImageError;
use super::make::{self, Node, Tree};
use crate::view::realise;

/// Where the Rust toolchain lies in the image.
const RUST: &str = "/opt/rust";
/// What is left out of it: documentation, sources of the compiler, an installer's notes.
const LEFT_OUT: [&str; 5] = ["share", "etc", "lib/rustlib/src", "lib/rustlib/rustc-src", "lib/rustlib/etc"];
/// Programs that an image is of no use without.
const NEEDED: [&str; 4] = ["sh", "cc", "ld", "as"];
/// Programs that builds and tests expect, as far as the host has them.
const USUAL: [&str; 69] = [
    "ar",
    "awk",
    "basename",
    "bash",
    "bzip2",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "gcc",
    "git",
    "grep",
    "gzip",
    "head",
    "hostname",
    "id",
    "install",
    "ln",
    "ls",
    "make",
    "mkdir",
    "mktemp",
    "mv",
    "nm",
    "nproc",
    "objcopy",
    "objdump",
    "od",
    "patch",
    "pkg-config",
    "printf",
    "pwd",
    "ranlib",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "strip",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "which",
    "xargs",
];
/// What the linker asks the C compiler for.
const LINKED: [&str; 19] = [
    "crt1.o",
    "Scrt1.o",
    "rcrt1.o",
    "crti.o",
    "crtn.o",
    "libc.so",
    "libc.a",
    "libc_nonshared.a",
    "libm.so",
    "libm.a",
    "libmvec.a",
    "libmvec.so",
    "libpthread.a",
    "libdl.a",
    "librt.a",
    "libutil.a",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
];
/// Folders and files of the host that go in whole, as far as it has them: C headers, the locale of commands, and how names
/// are looked up.
const WHOLE: [&str; 7] = [
    "/usr/lib/locale/C.utf8",
    "/usr/lib/locale/C.UTF-8",
    "/usr/include",
    "/usr/lib/git-core",
    "/usr/share/git-core/templates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf.d",
];
/// The loaders of C libraries.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
const PASSWD: &str = "root:x:0:0:root:/tmp/home:/bin/sh\nnobody:x:65534:65534:nobody:/tmp/home:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// Where the host's tools are looked for. Read by whoever starts this, never from the environment here.
#[derive(Debug, Clone)]
pub struct HostTools {
    /// Folders with programs, in order, as in `PATH`.
    pub path: Vec<PathBuf>,
}

/// A program without which no image can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingTool {
    /// It is not on the path.
    #[error("`{0}` is not on PATH: install it, or make the image elsewhere and import it")]
    Absent(String),
    /// It does not say what is asked of it.
    #[error("`{program}` does not answer `{asked}`: {said}")]
    Silent {
        /// The program.
        program: String,
        /// What it was asked.
        asked: String,
        /// What it said.
        said: String,
    },
}

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoImage {
    /// The host lacks something.
    #[error(transparent)]
    Tool(#[from] MissingTool),
    /// It could not be written.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Writes a layout with one image into an empty folder: the Rust toolchain that `rustc` on the path belongs to, a C
/// toolchain to link with, a shell and the usual tools, and every library that any of these needs. Returns the digest.
///
/// The same host gives the same image, byte for byte.
///
/// # Errors
///
/// [`NoImage::Tool`] names what the host lacks, [`NoImage::Image`] what could not be read or written.
pub fn rust_image(tools: &HostTools, folder: &Path, name: &str) -> Result<Digest, NoImage> {
    let mut tree = Tree::default();
    for folder in ["/tmp", "/proc", "/sys", "/dev", "/run", "/var", "/etc", "/usr/bin"] {
        tree.put(Path::new(folder), Node::Folder);
    }
    for (path, text) in [("/etc/passwd", PASSWD), ("/etc/group", GROUP), ("/etc/nsswitch.conf", NSSWITCH)] {
        tree.put(Path::new(path), Node::Text(text));
    }
    let rustc = tools.find("rustc")?;
    let sysroot = PathBuf::from(ask(&rustc, &["--print", "sysroot"])?);
    let left_out = LEFT_OUT.map(|part| sysroot.join(part));
    gather(&mut tree, &sysroot, Path::new(RUST), &left_out)?;
    for name in NEEDED {
        host(&mut tree, &tools.find(name)?)?;
    }
    for path in USUAL.into_iter().filter_map(|name| tools.find(name).ok()) {
        host(&mut tree, &path)?;
    }
    let cc = tools.find("cc")?;
    for name in LINKED {
        let path = PathBuf::from(ask(&cc, &[&format!("-print-file-name={name}")])?);
        // A name that comes back as it was given is one that this compiler has no file for.
        if path.is_absolute() {
            host(&mut tree, &path)?;
        }
    }
    let install = ask(&cc, &["-print-file-name=crtbegin.o"])?;
    let whole = Path::new(&install).parent().filter(|folder| folder.is_absolute()).map(Path::to_owned);
    for folder in whole.into_iter().chain(WHOLE.map(PathBuf::from)).filter(|path| path.exists()) {
        host(&mut tree, &folder)?;
    }
    let program = PathBuf::from(ask(&cc, &["-print-prog-name=cc1"])?);
    if program.is_absolute() {
        host(&mut tree, &program)?;
    }
    libraries(&mut tree)?;
    let env = [format!("PATH={RUST}/bin:/usr/local/bin:/usr/bin:/bin")];
    Ok(make::layout(folder, &tree, &env, name)?)
}

impl HostTools {
    /// The folders of a `PATH`; relative ones are passed over.
    pub fn of_path(path: &OsStr) -> Self {
        Self { path: std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect() }
    }

    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, MissingTool> {
        let candidates = self.path.iter().map(|folder| folder.join(name));
        candidates
            .into_iter()
            .find(|path| fs::metadata(path).is_ok_and(|found| found.is_file()))
            .ok_or_else(|| MissingTool::Absent(name.to_owned()))
    }
}

/// What a tool says on its standard output, without the line end.
fn ask(program: &Path, arguments: &[&str]) -> Result<String, MissingTool> {
    let silent = |said: String| MissingTool::Silent {
        program: program.display().to_string(),
        asked: arguments.join(" "),
        said,
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| silent(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !said.is_empty() {
        return Ok(said);
    }
    Err(silent(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// A file or folder of the host at its own path, with the links that lead to it.
fn host(tree: &mut Tree, path: &Path) -> Result<(), ImageError> {
    let mut links = BTreeMap::new();
    let Some(real) = realise(path, &mut links) else { return Ok(()) };
    for (link, target) in links {
        tree.put(&link, Node::Link(target));
    }
    gather(tree, &real, &real, &[])
}

/// A folder with all in it, or a file, at a path of the image.
fn gather(tree: &mut Tree, from: &Path, to: &Path, left_out: &[PathBuf]) -> Result<(), ImageError> {
    if left_out.iter().any(|path| path == from) {
        return Ok(());
    }
    let about = fs::symlink_metadata(from).map_err(ImageError::io(from))?;
    if about.is_symlink() {
        let target = fs::read_link(from).map_err(ImageError::io(from))?;
        // What an absolute link leads to is wanted too; inside of a folder that goes in whole it may be anything.
        if target.is_absolute() && from == to && about_to_be_had(&target) {
            host(tree, &target)?;
        }
        tree.put(to, Node::Link(target));
    } else if about.is_file() {
        tree.put(to, Node::File(from.to_owned()));
    } else if about.is_dir() {
        tree.put(to, Node::Folder);
        for entry in fs::read_dir(from).map_err(ImageError::io(from))? {
            let name = entry.map_err(ImageError::io(from))?.file_name();
            gather(tree, &from.join(&name), &to.join(&name), left_out)?;
        }
    }
    Ok(())
}

/// Whether a link's target is a single file: a folder is not drawn in through a link.
fn about_to_be_had(target: &Path) -> bool {
    fs::metadata(target).is_ok_and(|found| found.is_file())
}

/// Adds every library that a program or library of the tree is linked with. The host's loader says which.
fn libraries(tree: &mut Tree) -> Result<(), NoImage> {
    let Some(loader) = LOADERS.map(Path::new).into_iter().find(|path| path.exists()) else {
        return Err(MissingTool::Absent("the loader of the C library".to_owned()).into());
    };
    host(tree, loader)?;
    let mut wanted = BTreeSet::new();
    for file in tree.files() {
        if !is_linked(file) {
            continue;
        }
        // One that is linked statically has nothing to say.
        let Ok(said) = ask(loader, &["--list", &file.to_string_lossy()]) else { continue };
        wanted.extend(said.lines().filter_map(library));
    }
    for path in wanted {
        // The toolchain's own are there already, at another path.
        if !tree.files().any(|file| file == path) {
            host(tree, &path)?;
        }
    }
    Ok(())
}

/// The path in a line such as `libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f…)`.
fn library(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    let path = PathBuf::from(path.rsplit_once(" (").map_or(path, |(path, _)| path));
    path.is_absolute().then_some(path)
}

fn is_linked(file: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let name = file.to_string_lossy();
    let object = [".o", ".a", ".rlib", ".rmeta"].iter().any(|end| name.ends_with(end));
    !object
        && fs::File::open(file).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}
