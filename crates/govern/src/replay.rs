//! Doing it again: the recorded commands in the recipient's own sandbox, from the committed files on, and after each
//! whether the files are what the journal says.
//!
//! Where they are, nobody has to believe the runner that this change came from these commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use provost_core::act::{Change, CommandFact, ExitFact, FileFact, Intent, show_argv};
use provost_core::digest::Digest;
use provost_core::event::{ActFinished, Body, Event};
use provost_core::id::ActId;
use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_core::session::BUILD_OUTPUT;
use provost_evidence::content::Salt;
use provost_evidence::git::{NewFile, Repository};
use provost_evidence::tree::Mode;

use crate::SessionError;
use crate::folder::at;
use crate::trial::Bench;

/// What became of one recorded command when it was done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The act.
    pub act: ActId,
    /// The command.
    pub command: String,
    /// What became of it.
    pub found: Found,
}

/// How the second time compares with the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It left the same files.
    Same,
    /// It left other files: the first of them, and what is otherwise.
    Differs(RelPath, &'static str),
    /// It was not done again, and why.
    Skipped(&'static str),
}

/// Ignore rules from above the subtree: those of the commit, nearest first, and those for what builds leave behind.
#[derive(Debug, Clone)]
pub struct Outer(Vec<(PathBuf, Gitignore)>);

impl Outer {
    /// The rules for a commit's subtree.
    pub fn of(repository: &Repository, commit: &str, scope: &RelPath) -> Result<Self, SessionError> {
        let mut all = repository.rules_above(commit, scope)?;
        all.push((RelPath::root(), BUILD_OUTPUT.as_bytes().to_vec()));
        let mut rules = Vec::new();
        for (workspace, lines) in all {
            let mut builder = GitignoreBuilder::new("");
            for line in String::from_utf8_lossy(&lines).lines() {
                // A line that is no rule is none for git either.
                let _ = builder.add_line(None, line);
            }
            if let Ok(built) = builder.build() {
                rules.push((PathBuf::from(workspace.to_os()), built));
            }
        }
        Ok(Self(rules))
    }
}

/// What the nearest rule says that says anything of a path.
fn ignored(rules: &[(PathBuf, Gitignore)], path: &Path, is_folder: bool) -> bool {
    let said = rules.iter().map(|(prefix, rules)| rules.matched(prefix.join(path), is_folder));
    said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
}

/// Looks content up by its salted digest.
pub(crate) type Contents<'a> = &'a dyn Fn(&Digest) -> Option<Vec<u8>>;

/// Does the commands of a journal again. The bench's folder holds the files at the start; when this is done, those at the
/// end as the journal has them.
pub fn replay(
    bench: &Bench<'_>,
    outer: &Outer,
    policy: &Policy,
    events: &[Event],
    salt: &Salt,
    contents: Contents<'_>,
) -> Result<Vec<Again>, SessionError> {
    let mut known = look(&bench.folder(), outer, salt)?;
    let mut started: BTreeMap<ActId, &Intent> = BTreeMap::new();
    let mut gates: BTreeSet<ActId> = BTreeSet::new();
    let mut all = Vec::new();
    for event in events {
        match &event.body {
            Body::ActDecided(decided) if decided.call.is_none() => {
                gates.insert(decided.act);
            }
            Body::ActStarted(begun) => {
                started.insert(begun.act, &begun.intent);
            }
            Body::ActFinished(finished) => match started.remove(&finished.act) {
                Some(Intent::Write { changes }) if finished.changes.is_empty() => {
                    apply(bench, changes, contents, &mut known)?;
                }
                Some(Intent::Command { argv, cwd, limit_ms }) => {
                    let again = |found| Again { act: finished.act, command: show_argv(argv), found };
                    if gates.contains(&finished.act) {
                        // In a checkout of its own that is thrown away.
                        all.push(again(Found::Skipped("it is the gate's, which --test runs")));
                        continue;
                    }
                    if !finished.unapplied.is_empty() || !finished.reverted.is_empty() {
                        all.push(again(Found::Skipped("not all of it came into the workspace")));
                    } else if !ended_by_itself(finished) {
                        all.push(again(Found::Skipped("it was cut short: where, nobody can do again")));
                    } else {
                        bench.run(policy, argv, cwd, Duration::from_millis(*limit_ms))?;
                        all.push(again(compare(bench, outer, &known, &finished.changes, salt)?));
                    }
                    // What the journal has, whatever the second time came to: each command is judged by itself.
                    put_back(bench, outer, &known, &finished.changes, salt, contents)?;
                    note(&finished.changes, &mut known);
                }
                _ => apply(bench, &finished.changes, contents, &mut known)?,
            },
            Body::ProcessChanged(changed) => apply(bench, &changed.changes, contents, &mut known)?,
            Body::WorkspaceDrifted(drifted) => apply(bench, &drifted.changes, contents, &mut known)?,
            _ => {}
        }
    }
    Ok(all)
}

/// Whether a command ran to an end of its own, rather than into a limit, a signal or the death of its driver.
fn ended_by_itself(finished: &ActFinished) -> bool {
    matches!(finished.command, Some(CommandFact { exit: ExitFact::Exited { .. }, .. }))
}

/// A file by mode and salted digest.
type Look = BTreeMap<RelPath, (String, Digest)>;

/// The files of a folder that its ignore rules do not leave out.
fn look(folder: &Path, outer: &Outer, salt: &Salt) -> Result<Look, SessionError> {
    let mut found = Look::new();
    let root = folder.to_owned();
    let rules = outer.0.clone();
    let walk = WalkBuilder::new(folder)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .ignore(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            path.as_os_str().is_empty() || !ignored(&rules, path, is_folder)
        })
        .build();
    for entry in walk {
        let entry = entry.map_err(|error| SessionError::Internal(error.to_string()))?;
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        let Ok(name) = RelPath::from_bytes(relative.as_os_str().as_bytes()) else { continue };
        if let Some(look) = look_at(path, salt)? {
            found.insert(name, look);
        }
    }
    Ok(found)
}

/// One file; `None` where there is none, or something that is no file.
fn look_at(path: &Path, salt: &Salt) -> Result<Option<(String, Digest)>, SessionError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(None) };
    let (mode, content) = if meta.is_symlink() {
        (Mode::Symlink, fs::read_link(path).map_err(at(path))?.as_os_str().as_bytes().to_vec())
    } else if meta.is_file() {
        let executable = meta.permissions().mode() & 0o100 != 0;
        (if executable { Mode::Executable } else { Mode::File }, fs::read(path).map_err(at(path))?)
    } else {
        return Ok(None);
    };
    Ok(Some((mode.as_str().to_owned(), salt.digest(&content))))
}

/// The files as they have to be after `changes`.
fn note(changes: &[Change], known: &mut Look) {
    for change in changes {
        match &change.after {
            Some(after) => known.insert(change.path.clone(), (after.mode.clone(), after.content)),
            None => known.remove(&change.path),
        };
    }
}

fn compare(
    bench: &Bench<'_>,
    outer: &Outer,
    known: &Look,
    changes: &[Change],
    salt: &Salt,
) -> Result<Found, SessionError> {
    let mut wanted = known.clone();
    note(changes, &mut wanted);
    let mut found = look(&bench.folder(), outer, salt)?;
    // Ignore rules may have come that leave out what is known.
    for path in wanted.keys() {
        if !found.contains_key(path)
            && let Some(look) = look_at(&bench.folder().join(path.to_os()), salt)?
        {
            found.insert(path.clone(), look);
        }
    }
    let paths: BTreeSet<&RelPath> = wanted.keys().chain(found.keys()).collect();
    for path in paths {
        let why = match (wanted.get(path), found.get(path)) {
            (Some(wanted), Some(found)) if wanted == found => continue,
            (Some((mode, _)), Some((other, _))) if mode != other => "its mode is another",
            (Some(_), Some(_)) => "its content is another",
            (Some(_), None) => "it is not there",
            (None, _) => "it is there and was not",
        };
        return Ok(Found::Differs(path.clone(), why));
    }
    Ok(Found::Same)
}

fn apply(
    bench: &Bench<'_>,
    changes: &[Change],
    contents: Contents<'_>,
    known: &mut Look,
) -> Result<(), SessionError> {
    let files = changes
        .iter()
        .map(|change| Ok((change.path.clone(), wanted(change.after.as_ref(), &change.path, contents)?)))
        .collect::<Result<Vec<_>, SessionError>>()?;
    bench.put(&files)?;
    note(changes, known);
    Ok(())
}

/// Makes the folder what the journal says it was after these changes, whatever a second time has left there.
fn put_back(
    bench: &Bench<'_>,
    outer: &Outer,
    known: &Look,
    changes: &[Change],
    salt: &Salt,
    contents: Contents<'_>,
) -> Result<(), SessionError> {
    let found = look(&bench.folder(), outer, salt)?;
    let mut after = known.clone();
    note(changes, &mut after);
    let strays: Vec<(RelPath, NewFile)> =
        found.keys().filter(|path| !after.contains_key(path)).map(|path| (path.clone(), None)).collect();
    bench.put(&strays)?;
    let files = changes
        .iter()
        .filter(|change| found.get(&change.path) != after.get(&change.path))
        .map(|change| Ok((change.path.clone(), wanted(change.after.as_ref(), &change.path, contents)?)))
        .collect::<Result<Vec<_>, SessionError>>()?;
    bench.put(&files)
}

fn wanted(fact: Option<&FileFact>, path: &RelPath, contents: Contents<'_>) -> Result<NewFile, SessionError> {
    let Some(fact) = fact else { return Ok(None) };
    let mode = fact.mode.parse::<Mode>().map_err(|error| SessionError::Refused(error.to_string()))?;
    let content = contents(&fact.content).ok_or_else(|| {
        SessionError::Refused(format!("the bundle does not hold the content of `{path}` at each step"))
    })?;
    Ok(Some((mode, content)))
}
