//! Reading a repository that may be hostile: by object id, through a git that can run nothing of the repository's.
//!
//! Its hooks, filters, fsmonitor, textconv and aliases are somebody's code. Only commands that have no use for them are
//! run here (`rev-parse`, `rev-list`, `ls-tree`, `ls-files`, `cat-file`; for a fork `worktree add --no-checkout`, `read-tree`; for a
//! commit plumbing that writes objects and one name), with a
//! fixed environment and configuration on top.

mod command;
mod commit;
mod export;
mod rules;
mod worktree;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::path::RelPath;

use crate::tree::{BadTree, Mode};
use command::{Batch, Git};

pub use commit::{NewCommit, NewFile};
pub use export::is_git_folder_name;

/// Longest that one command of git may take.
const TIME_LIMIT: Duration = Duration::from_mins(2);

/// Why a repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no program `git`.
    #[error("`git` was not found on the PATH; install git")]
    NoGit,
    /// The folder is in no repository.
    #[error("`{path}` is in no git repository", path = .0.display())]
    NotARepository(PathBuf),
    /// The repository has no work tree, or the folder lies in its `.git`.
    #[error("`{path}` has no work tree: it is a bare repository or lies in `.git`", path = .0.display())]
    Bare(PathBuf),
    /// The revision names no commit.
    #[error("`{0}` names no commit of this repository")]
    NoCommit(String),
    /// The commit has no folder there.
    #[error("commit {commit} has no folder `{scope}`")]
    NoFolder {
        /// Full commit id.
        commit: String,
        /// What was asked for.
        scope: RelPath,
    },
    /// An object is not there; git was not allowed to fetch it.
    #[error("object {0} is missing; fetch it first (nothing is downloaded here)")]
    Missing(String),
    /// An object's content does not have the id it is stored under.
    #[error("object {0} does not have that id: the repository is damaged or was tampered with")]
    Altered(String),
    /// A tree whose files do not give its id.
    #[error("tree {0} is not what its files give: it was damaged, or holds modes that git no longer writes")]
    OddTree(String),
    /// A submodule where files are wanted.
    #[error("`{0}` is a submodule, which cannot be exported; choose a folder without it")]
    Submodule(RelPath),
    /// A file of a kind that a workspace does not have.
    #[error("`{path}` has mode {mode}, which a workspace does not have")]
    BadMode {
        /// Which.
        path: RelPath,
        /// Git's mode.
        mode: String,
    },
    /// A name that would be another file, or a repository, when written.
    #[error("`{0}` is not a name that can be written: it is, or can be taken for, `.git`, `.` or `..`")]
    BadName(String),
    /// Entries that cannot stand in one tree.
    #[error(transparent)]
    BadTree(#[from] BadTree),
    /// A symbolic link that leads out.
    #[error("the symbolic link `{path}` leads out of the exported folder, to `{target}`")]
    LinkOut {
        /// The link.
        path: RelPath,
        /// Its target.
        target: String,
    },
    /// The folder to export into holds something.
    #[error("`{path}` is not empty; export into a new folder", path = .0.display())]
    NotEmpty(PathBuf),
    /// Git took too long.
    #[error("`git {command}` took more than {seconds} s and was stopped")]
    TimedOut {
        /// Its subcommand.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// Git failed or said something that is not understood.
    #[error("`git {command}` failed: {message}")]
    Failed {
        /// Its subcommand.
        command: String,
        /// What it said.
        message: String,
    },
    /// The system failed.
    #[error("`{path}`: {source}", path = .path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> GitError {
    move |source| GitError::Io { path: path.to_owned(), source }
}

/// The format of a repository's object ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hex digits.
    Sha1,
    /// 64 hex digits.
    Sha256,
}

/// One file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEntry {
    /// Where, from the scope.
    pub path: RelPath,
    /// What kind of file.
    pub mode: Mode,
    /// Id of its content in the repository's own format, lower-case hex.
    pub oid: String,
    /// Bytes.
    pub size: u64,
}

/// The files beneath a folder of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTree {
    /// Id of the folder's tree object in the repository's own format.
    pub tree: String,
    /// Its files, in git's order.
    pub entries: Vec<CommitEntry>,
    /// Its submodules, which are none of its files.
    pub submodules: Vec<RelPath>,
}

/// A repository with a work tree.
#[derive(Debug, Clone)]
pub struct Repository {
    git: Git,
    root: PathBuf,
    exclude: PathBuf,
    format: ObjectFormat,
}

/// What is asked of a repository at first, in one start of git.
const DISCOVER: [&str; 7] = [
    "rev-parse",
    "--is-inside-work-tree",
    "--show-object-format",
    "--absolute-git-dir",
    "--show-toplevel",
    "--git-path",
    "info/exclude",
];

impl Repository {
    /// The repository that `dir` lies in.
    pub fn discover(dir: &Path) -> Result<Self, GitError> {
        if !dir.is_dir() {
            return Err(io_at(dir)(io::ErrorKind::NotADirectory.into()));
        }
        let git = Git::new(dir);
        let facts = match git.output(&DISCOVER, TIME_LIMIT) {
            Err(GitError::Failed { message, .. }) if message.contains("not a git repository") => {
                return Err(GitError::NotARepository(dir.to_owned()));
            }
            Err(GitError::Failed { message, .. }) if message.contains("must be run in a work tree") => {
                return Err(GitError::Bare(dir.to_owned()));
            }
            other => other?,
        };
        let lines: Vec<&[u8]> =
            facts.strip_suffix(b"\n").unwrap_or(&facts).split(|byte| *byte == b'\n').collect();
        let [inside, format, paths @ ..] = &lines[..] else {
            return Err(failed("rev-parse", "it does not say what was asked".to_owned()));
        };
        if *inside != b"true" {
            return Err(GitError::Bare(dir.to_owned()));
        }
        let format = match *format {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(failed("rev-parse", format!("object format {other:?} is not known")));
            }
        };
        let one = |argument: &[&str]| {
            let args: Vec<&str> = ["rev-parse"].into_iter().chain(argument.iter().copied()).collect();
            Ok::<_, GitError>(path_line(git.output(&args, TIME_LIMIT)?))
        };
        let (git_dir, root, exclude) = match paths {
            [git_dir, root, exclude] => (path(git_dir), path(root), path(exclude)),
            // A name with a line end in it: each is asked for by itself.
            _ => (one(&DISCOVER[3..4])?, one(&DISCOVER[4..5])?, one(&DISCOVER[5..])?),
        };
        Ok(Self { git: git.at(&git_dir, &root), exclude: dir.join(exclude), root, format })
    }

    /// The work tree's top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The format of its object ids.
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Files that hold ignore rules beside the `.gitignore` files, the stronger first (git's `gitignore` manual): the
    /// repository's `info/exclude`, and what `core.excludesFile` names, by default the file in `home`.
    pub fn exclude_files(&self, home: Option<&Path>) -> Result<Vec<PathBuf>, GitError> {
        let mut files = vec![self.exclude.clone()];
        if let Some(home) = home {
            let args = ["config", "--type=path", "--get", "core.excludesFile"];
            files.push(match self.git.of_person(home).output(&args, TIME_LIMIT) {
                Ok(named) => self.root.join(path_line(named)),
                // It exits so where nothing is set.
                Err(GitError::Failed { .. }) => home.join(".config/git/ignore"),
                Err(error) => return Err(error),
            });
        }
        Ok(files)
    }

    /// Name and address that commits here are made under, as the repository's configuration and that of the person whose
    /// home this is say; `None` where one of the two is not set.
    pub fn identity(&self, home: Option<&Path>) -> Result<Option<(String, String)>, GitError> {
        let git = home.map_or_else(|| self.git.clone(), |home| self.git.of_person(home));
        let ask = |key: &str| match git.output(&["config", "--get", key], TIME_LIMIT) {
            Ok(said) => Ok(Some(String::from_utf8_lossy(&said).trim_end().to_owned())),
            // It exits so where nothing is set.
            Err(GitError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        Ok(ask("user.name")?.zip(ask("user.email")?))
    }

    /// Full id of the commit that is checked out; `None` before the first commit.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        match self.resolve("HEAD") {
            Ok(commit) => Ok(Some(commit)),
            Err(GitError::NoCommit(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Full id of the commit that `rev` names: a branch, a tag, an id or the unambiguous beginning of one.
    pub fn resolve(&self, rev: &str) -> Result<String, GitError> {
        self.parse(format!("{rev}^{{commit}}").as_bytes())?.ok_or_else(|| GitError::NoCommit(rev.to_owned()))
    }

    fn parse(&self, expression: &[u8]) -> Result<Option<String>, GitError> {
        let expression = OsStr::from_bytes(expression);
        let args = [
            "rev-parse".as_ref(),
            "--verify".as_ref(),
            "--quiet".as_ref(),
            "--end-of-options".as_ref(),
            expression,
        ];
        match self.git.output(&args, TIME_LIMIT) {
            Ok(id) => Ok(Some(String::from_utf8_lossy(&id).trim().to_owned())),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where `dir` lies in the repository.
    pub fn prefix(&self, dir: &Path) -> Result<RelPath, GitError> {
        let dir = dir.canonicalize().map_err(io_at(dir))?;
        let root = self.root.canonicalize().map_err(io_at(&self.root))?;
        let inside = dir.strip_prefix(&root).map_err(|_| GitError::NotARepository(dir.clone()))?;
        let raw = inside.as_os_str().as_bytes();
        if raw.is_empty() {
            return Ok(RelPath::root());
        }
        RelPath::from_bytes(raw).map_err(|_| GitError::BadName(inside.display().to_string()))
    }

    /// The files of a commit beneath `scope`, read by object id. `commit` is a full id, as [`resolve`](Self::resolve)
    /// gives it.
    pub fn commit_entries(&self, commit: &str, scope: &RelPath) -> Result<CommitTree, GitError> {
        let no_folder = || GitError::NoFolder { commit: commit.to_owned(), scope: scope.clone() };
        let expression = if scope.is_root() {
            format!("{commit}^{{tree}}").into_bytes()
        } else {
            [commit.as_bytes(), b":", &scope.to_bytes()].concat()
        };
        let tree = self.parse(&expression)?.ok_or_else(no_folder)?;
        if self.batch("--batch-check", std::slice::from_ref(&tree))?.header()?.kind != "tree" {
            return Err(no_folder());
        }
        let listing = self.git.output(&["ls-tree", "-r", "-z", "-l", "--full-tree", &tree], TIME_LIMIT)?;
        let mut found = CommitTree { tree, entries: Vec::new(), submodules: Vec::new() };
        for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            Self::entry(line, &mut found)?;
        }
        Ok(found)
    }

    /// One line of `ls-tree -l`: mode, type, id, size, a tab, the name.
    fn entry(line: &[u8], found: &mut CommitTree) -> Result<(), GitError> {
        let unclear = || failed("ls-tree", format!("unclear line {:?}", String::from_utf8_lossy(line)));
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(unclear)?;
        let (facts, name) = (&line[..tab], &line[tab + 1..]);
        let bad_name = || GitError::BadName(String::from_utf8_lossy(name).into_owned());
        let path = RelPath::from_bytes(name).map_err(|_| bad_name())?;
        // `a//b` or `./a` in a forged tree would be another file's name.
        if path.to_bytes() != name || path.is_root() {
            return Err(bad_name());
        }
        let facts = std::str::from_utf8(facts).map_err(|_| unclear())?;
        let mut facts = facts.split_ascii_whitespace();
        let (Some(mode), Some(_), Some(oid), Some(size)) =
            (facts.next(), facts.next(), facts.next(), facts.next())
        else {
            return Err(unclear());
        };
        if mode == "160000" {
            found.submodules.push(path);
            return Ok(());
        }
        let Ok(mode) = mode.parse() else {
            return Err(GitError::BadMode { path, mode: mode.to_owned() });
        };
        let Ok(size) = size.parse() else {
            return Err(GitError::Missing(oid.to_owned()));
        };
        found.entries.push(CommitEntry { path, mode, oid: oid.to_owned(), size });
        Ok(())
    }

    /// The contents of blobs, in the order asked for, each checked against its id.
    pub fn blobs(&self, oids: &[String]) -> Result<Vec<Vec<u8>>, GitError> {
        let mut all = Vec::with_capacity(oids.len());
        self.each_blob(oids, |_, content| {
            all.push(content);
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands the contents of blobs to `take` one after the other, with their place in `oids`, each checked against its
    /// id. One process of git, one blob in memory.
    pub fn each_blob(
        &self,
        oids: &[String],
        mut take: impl FnMut(usize, Vec<u8>) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        let mut batch = self.batch("--batch", oids)?;
        for (place, oid) in oids.iter().enumerate() {
            let header = batch.header()?;
            if header.kind == "missing" {
                return Err(GitError::Missing(oid.clone()));
            }
            let content = batch.content(header.size)?;
            if header.kind != "blob" || export::oid(self.format, &content) != *oid {
                return Err(GitError::Altered(oid.clone()));
            }
            take(place, content)?;
        }
        batch.finish()
    }

    /// Which of `oids` are not in the repository.
    pub fn missing(&self, oids: &[String]) -> Result<Vec<String>, GitError> {
        let mut batch = self.batch("--batch-check", oids)?;
        let mut missing = Vec::new();
        for oid in oids {
            if batch.header()?.kind == "missing" {
                missing.push(oid.clone());
            }
        }
        batch.finish()?;
        Ok(missing)
    }

    fn batch(&self, how: &str, oids: &[String]) -> Result<Batch, GitError> {
        // Anything but an id could name another object, or be two lines.
        if let Some(bad) =
            oids.iter().find(|oid| !oid.bytes().all(|b| b.is_ascii_hexdigit()) || oid.len() < 40)
        {
            return Err(GitError::Missing(bad.clone()));
        }
        self.git.batch(&["cat-file", how, "--buffer"], oids, TIME_LIMIT)
    }

    /// The files of the index beneath `dir`, named from `dir`. What is in the index need not be on disk.
    pub fn tracked(&self, dir: &Path) -> Result<Vec<RelPath>, GitError> {
        let listing = self.git.in_folder(dir).output(&["ls-files", "-z"], TIME_LIMIT)?;
        listing
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| {
                RelPath::from_bytes(name)
                    .map_err(|_| GitError::BadName(String::from_utf8_lossy(name).into_owned()))
            })
            .collect()
    }

    /// The files that [`export`](Self::export) would write, or why it would refuse to. Nothing is written.
    pub fn exportable(&self, commit: &str, scope: &RelPath) -> Result<Vec<CommitEntry>, GitError> {
        export::exportable(self, commit, scope).map(|found| found.entries)
    }

    /// Writes the files of a commit beneath `scope` into the new or empty folder `into`, from objects alone: no filter,
    /// attribute, hook or checkout is involved, and nothing uncommitted is in it.
    ///
    /// Refused before anything is written: submodules, links that lead out, names that are or can be taken for `.git`.
    /// Every object is checked against its id.
    pub fn export(&self, commit: &str, scope: &RelPath, into: &Path) -> Result<Vec<CommitEntry>, GitError> {
        export::export(self, commit, scope, into)
    }
}

fn failed(command: &str, message: String) -> GitError {
    GitError::Failed { command: command.to_owned(), message }
}

/// A path that git printed on a line of its own.
fn path(raw: &[u8]) -> PathBuf {
    OsStr::from_bytes(raw).into()
}

fn path_line(mut raw: Vec<u8>) -> PathBuf {
    if raw.last() == Some(&b'\n') {
        raw.pop();
    }
    OsString::from_vec(raw).into()
}
