//! Trees and blobs get the ids that git gives them, in both formats.

use proptest::prelude::*;
use provost_core::path::RelPath;
use provost_evidence::tree::{BadTree, BlobOid, Mode, TreeEntry, hex, tree_digest};

use crate::git_repo::{Format, Repo};

fn entry(path: &str, mode: Mode, content: &[u8]) -> TreeEntry {
    TreeEntry { path: RelPath::parse(path).expect("path"), mode, oid: BlobOid::of(content) }
}

#[test]
fn the_empty_tree_has_its_well_known_id() {
    let digest = tree_digest(&[]).expect("a tree");
    assert_eq!(digest.sha1, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    assert_eq!(digest.sha256.to_string(), "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321");
}

#[test]
fn entries_that_cannot_stand_together_are_named() {
    let file = |path| entry(path, Mode::File, b"");
    assert_eq!(tree_digest(&[file("a"), file("a")]), Err(BadTree::Twice(RelPath::parse("a").expect("path"))));
    // `a-` sorts between the two, so they are not neighbours.
    let both = tree_digest(&[file("x/a"), file("x/a-"), file("x/a/b")]);
    assert_eq!(both, Err(BadTree::FileAndFolder(RelPath::parse("x/a").expect("path"))));
    assert_eq!(tree_digest(&[file(".")]), Err(BadTree::Root));
}

#[test]
fn a_path_of_a_hundred_thousand_folders_is_only_slow() {
    let deep = vec!["d"; 100_000].join("/");
    tree_digest(&[entry(&format!("{deep}/f"), Mode::File, b"")]).expect("a tree");
}

/// Names that sort differently as files and as folders, and names that are not UTF-8.
pub(crate) fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[abc]".prop_map(String::into_bytes),
        2 => prop::sample::select(vec![&b"a-"[..], b"a.", b"a0", b"a b", b"A", b"b\xff", b"c\"q", b"d\\e", "\u{e4}".as_bytes()])
            .prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(prop::num::u8::ANY, 1..4),
    ]
    .prop_filter("a name", |name: &Vec<u8>| {
        !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
    })
}

/// Files of a tree: no path is inside another.
pub(crate) fn files(
    content: impl Strategy<Value = Vec<u8>> + Clone,
) -> impl Strategy<Value = Vec<(RelPath, Mode, Vec<u8>)>> {
    let path = prop::collection::vec(names(), 1..4).prop_map(|parts| parts.join(&b'/'));
    let mode = prop::sample::select(vec![Mode::File, Mode::File, Mode::Executable, Mode::Symlink]);
    prop::collection::vec((path, mode, content), 0..12).prop_map(|all| {
        let mut kept: Vec<(Vec<u8>, Mode, Vec<u8>)> = Vec::new();
        for (path, mode, content) in all {
            let inside = |outer: &[u8], inner: &[u8]| {
                inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            };
            if !kept.iter().any(|(other, ..)| inside(other, &path) || inside(&path, other)) {
                // A link needs a target that the system takes.
                let content = if mode == Mode::Symlink { b"target".to_vec() } else { content };
                kept.push((path, mode, content));
            }
        }
        kept.into_iter()
            .map(|(path, mode, content)| (RelPath::from_bytes(&path).expect("path"), mode, content))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_has_the_id_that_git_gives_it(files in files(prop::collection::vec(prop::num::u8::ANY, 0..40))) {
        let entries: Vec<_> = files
            .iter()
            .map(|(path, mode, content)| TreeEntry { path: path.clone(), mode: *mode, oid: BlobOid::of(content) })
            .collect();
        let ours = tree_digest(&entries).expect("a tree");
        for (format, id) in [(Format::Sha1, ours.sha1.clone()), (Format::Sha256, ours.sha256.to_string())] {
            let repo = Repo::new(format);
            let mut index = Vec::new();
            for (path, mode, content) in &files {
                let oid = repo.git_with(&["hash-object", "-w", "--stdin"], content);
                let expected = match format {
                    Format::Sha1 => hex(&BlobOid::of(content).sha1),
                    Format::Sha256 => hex(&BlobOid::of(content).sha256),
                };
                prop_assert_eq!(oid.trim(), &expected);
                index.extend_from_slice(format!("{mode} {expected}\t").as_bytes());
                index.extend_from_slice(&path.to_bytes());
                index.push(0);
            }
            repo.git_with(&["update-index", "-z", "--index-info"], &index);
            let written = repo.git(&["write-tree"]);
            prop_assert_eq!(written.trim(), id);
        }
    }
}
