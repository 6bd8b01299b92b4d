//! The ignore rules that git has for a workspace outside of it.

use std::path::Path;

use provost_core::path::RelPath;
use provost_core::session::BUILD_OUTPUT;
use provost_evidence::git::{GitError, Repository};
use provost_tools::workspace::OuterRules;

/// Bytes of a rule file that are read.
const LIMIT: u64 = 64 * 1024;

/// The rules of the folders above `workspace` in its repository, nearest first, of the repository itself, and of the
/// person whose home is `home`. Nothing that an agent may write is among them.
pub(crate) fn outer_rules(
    repository: &Repository,
    workspace: &Path,
    home: Option<&Path>,
) -> Result<Vec<OuterRules>, GitError> {
    let scope = repository.prefix(workspace)?;
    let mut rules = Vec::new();
    let mut below = workspace;
    while below != repository.root()
        && let Some(folder) = below.parent()
    {
        below = folder;
        let from_here = workspace.strip_prefix(folder).ok().and_then(relative);
        let file = folder.join(".gitignore");
        // Git follows no link of this name in a work tree.
        let is_file = file.symlink_metadata().is_ok_and(|meta| meta.is_file());
        if let (Some(from_here), Some(lines)) = (from_here, read(&file).filter(|_| is_file)) {
            rules.push(OuterRules::new(&from_here, &lines));
        }
    }
    for file in repository.exclude_files(home)? {
        if let Some(lines) = read(&file) {
            rules.push(OuterRules::new(&scope, &lines));
        }
    }
    Ok(rules)
}

/// The rules of the folders above the subtree of a commit that is worked on elsewhere, read from the commit, and those for
/// what builds leave behind. Nothing of the repository's or a person's configuration is among them.
pub(crate) fn committed_rules(
    repository: &Repository,
    commit: &str,
    scope: &RelPath,
) -> Result<Vec<OuterRules>, GitError> {
    let above = repository.rules_above(commit, scope)?;
    let mut rules: Vec<OuterRules> =
        above.iter().map(|(workspace, lines)| OuterRules::new(workspace, lines)).collect();
    rules.push(OuterRules::new(&RelPath::root(), BUILD_OUTPUT.as_bytes()));
    Ok(rules)
}

fn relative(path: &Path) -> Option<RelPath> {
    RelPath::from_bytes(path.as_os_str().as_encoded_bytes()).ok()
}

/// A rule file. One that is not there, or cannot be read, has no rules, as in git.
fn read(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let is_file = path.metadata().is_ok_and(|meta| meta.is_file());
    let mut lines = Vec::new();
    std::fs::File::open(path).ok().filter(|_| is_file)?.take(LIMIT).read_to_end(&mut lines).ok()?;
    Some(lines)
}
