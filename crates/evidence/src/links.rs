//! Where symbolic links of a tree lead, read off the tree alone: nothing is opened.

use std::collections::BTreeMap;
use std::fmt;

use provost_core::path::RelPath;
use provost_core::text::{Lines, visible};

use crate::git::is_git_folder_name;
use crate::names::folded;

/// As many links as the kernel follows in one path (path_resolution(7)).
const MOST_FOLLOWED: usize = 40;
/// Longest target that the kernel takes, in bytes.
const LONGEST_TARGET: usize = 4096;

/// The symbolic links of a tree. Case and Unicode's forms do not count: a link that leads out on some recipient's disk
/// leads out.
#[derive(Debug, Default)]
pub struct Links {
    /// Targets by the link's folded path.
    targets: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Why a link does not stay inside its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Astray {
    /// No target, one longer than 4,096 bytes, or one with a NUL byte or a backslash.
    Unreadable,
    /// The target is absolute.
    Absolute,
    /// It leads above the tree's root.
    Out,
    /// It leads into git's own folder.
    Git,
    /// It leads in a circle, or through more than 40 links.
    Circle,
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "which is not a target that every system reads alike",
            Self::Absolute => "an absolute path",
            Self::Out => "which is outside of the scope",
            Self::Git => "which is git's own folder",
            Self::Circle => "which leads in a circle",
        })
    }
}

impl Links {
    /// From each link's path and target.
    pub fn new<'a>(links: impl IntoIterator<Item = (&'a RelPath, Vec<u8>)>) -> Self {
        let targets = links.into_iter().map(|(path, target)| (fold(&path.to_bytes()), target));
        Self { targets: targets.collect() }
    }

    /// Where the link at `path` goes astray, other links of the tree followed as the kernel would; `None` where it stays
    /// inside, or is no link. What it leads to need not be there.
    pub fn astray(&self, path: &RelPath) -> Option<Astray> {
        let path = fold(&path.to_bytes());
        let target = self.targets.get(&path)?;
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |cut| &path[..cut]);
        let mut at: Vec<Vec<u8>> = parts(folder);
        // What is still to be walked, the next part last.
        let mut rest = Vec::new();
        let mut followed = 0;
        if let Err(astray) = queue(&mut rest, target) {
            return Some(astray);
        }
        while let Some(part) = rest.pop() {
            match part.as_slice() {
                b".." => {
                    if at.pop().is_none() {
                        return Some(Astray::Out);
                    }
                }
                name if is_git_folder_name(name) => return Some(Astray::Git),
                _ => {
                    at.push(part);
                    if let Some(next) = self.targets.get(&at.join(&b'/')) {
                        followed += 1;
                        if followed == MOST_FOLLOWED {
                            return Some(Astray::Circle);
                        }
                        at.pop();
                        if let Err(astray) = queue(&mut rest, next) {
                            return Some(astray);
                        }
                    }
                }
            }
        }
        None
    }

    /// The target of the link at `path`, for a message.
    pub fn shown(&self, path: &RelPath) -> String {
        let target = self.targets.get(&fold(&path.to_bytes())).map_or(&b""[..], Vec::as_slice);
        visible(&String::from_utf8_lossy(target), Lines::Escape).chars().take(200).collect()
    }
}

/// Puts the parts of a target on the way, the first to be walked last.
fn queue(rest: &mut Vec<Vec<u8>>, target: &[u8]) -> Result<(), Astray> {
    if target.is_empty() || target.len() > LONGEST_TARGET || target.contains(&0) || target.contains(&b'\\') {
        return Err(Astray::Unreadable);
    }
    // A drive's letter is absolute for Windows.
    if target[0] == b'/' || target.get(1) == Some(&b':') {
        return Err(Astray::Absolute);
    }
    rest.extend(parts(&fold(target)).into_iter().rev());
    Ok(())
}

fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).map(<[u8]>::to_vec).collect()
}

fn fold(path: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(path) {
        Ok(text) => folded(text).into_owned().into_bytes(),
        Err(_) => path.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn astray(links: &[(&str, &str)], of: &str) -> Option<Astray> {
        let paths: Vec<RelPath> =
            links.iter().map(|(path, _)| RelPath::parse(path).expect("a path")).collect();
        let links = Links::new(paths.iter().zip(links).map(|(path, (_, to))| (path, to.as_bytes().to_vec())));
        links.astray(&RelPath::parse(of).expect("a path"))
    }

    #[test]
    fn a_link_inside_stays() {
        for (path, target) in [
            ("a", "b"),
            ("a", "not/there"),
            ("a", "."),
            ("d/a", "../b"),
            ("d/e/a", "../../x/../y"),
            ("a", "d/..//./b/"),
        ] {
            assert_eq!(astray(&[(path, target)], path), None, "{path} {target}");
        }
        assert_eq!(astray(&[("a", "b"), ("b", "c/d"), ("c/d", "../e")], "a"), None);
        assert_eq!(astray(&[("a", "/etc")], "b"), None, "no link");
    }

    #[test]
    fn a_link_that_leads_out_is_found() {
        for (path, target, astray_by) in [
            ("a", "..", Astray::Out),
            ("a", "../x", Astray::Out),
            ("d/a", "../../.github/x", Astray::Out),
            ("a", "d/../../x", Astray::Out),
            ("a", "/etc/passwd", Astray::Absolute),
            ("a", "/proc/self/root", Astray::Absolute),
            ("a", "C:/x", Astray::Absolute),
            ("a", "", Astray::Unreadable),
            ("a", "..\\x", Astray::Unreadable),
            ("a", ".git/hooks/post-checkout", Astray::Git),
            ("d/a", "../.GIT/config", Astray::Git),
        ] {
            assert_eq!(astray(&[(path, target)], path), Some(astray_by), "{path} {target}");
        }
    }

    #[test]
    fn links_are_followed_to_where_they_lead() {
        // Each by itself stays inside; `..` behind another goes up from wherever that one leads.
        assert_eq!(astray(&[("a", "d/deep/../../x"), ("d/deep", "../top")], "a"), Some(Astray::Out));
        assert_eq!(astray(&[("a", "b"), ("b", "c"), ("c", "../x")], "a"), Some(Astray::Out));
        assert_eq!(astray(&[("a", "b/x"), ("b", "/etc")], "a"), Some(Astray::Absolute));
        // Where case does not count, `D` is `d`.
        assert_eq!(astray(&[("a", "D/../x"), ("p/q", "."), ("d", "p")], "a"), None);
        assert_eq!(astray(&[("a", "p/D/../../x"), ("p/d", "..")], "a"), Some(Astray::Out));
        assert_eq!(astray(&[("a", "b"), ("b", "a")], "a"), Some(Astray::Circle));
        assert_eq!(astray(&[("a", "a")], "a"), Some(Astray::Circle));
        // Each link twice in the next: the number of steps is bounded all the same.
        let links: Vec<(String, String)> =
            (0..60).map(|n| (format!("l{n}"), format!("l{}/l{}", n + 1, n + 1))).collect();
        let links: Vec<(&str, &str)> = links.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(astray(&links, "l0"), Some(Astray::Circle));
    }
}
