use proptest::prelude::*;

use provost_core::digest::Digest;
use provost_evidence::log::{
    BadProof, Log, LogHead, Tree, check_consistency, check_inclusion, head_of, leaf_hash, leaves,
};

/// Leaves and roots that the tests of certificate-transparency-go have (`merkle_tree_test.go`): the root of the first n.
const LEAVES: [&[u8]; 8] = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
];
const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

fn digest(text: &str) -> Digest {
    text.parse().unwrap()
}

#[test]
fn roots_are_those_of_other_implementations() {
    let log: Log = LEAVES.into_iter().collect();
    let mut tree = Tree::new();
    for (size, root) in ROOTS.iter().enumerate() {
        let head = LogHead { size: size as u64, root: digest(root) };
        assert_eq!(tree.head(), head);
        assert_eq!(log.head_at(size as u64), Some(head));
        if let Some(leaf) = LEAVES.get(size) {
            tree.push(leaf);
        }
    }
    assert_eq!(log.head_at(9), None);
}

#[test]
fn a_leaf_is_a_line_without_its_end() {
    let lines = |journal| leaves(journal).collect::<Vec<_>>();
    assert_eq!(lines(b"a\nbc\n"), [b"a".as_slice(), b"bc"]);
    assert_eq!(lines(b"a\n\n"), [b"a".as_slice(), b""]);
    assert_eq!(lines(b""), Vec::<&[u8]>::new());
    assert_eq!(head_of(b"a\nbc\n").size, 2);
    assert_ne!(head_of(b"a\nbc\n").root, head_of(b"a\nbd\n").root);
}

#[test]
fn what_does_not_fit_the_log_is_refused_by_name() {
    let log: Log = LEAVES.into_iter().collect();
    let head = log.head_at(7).unwrap();
    let proof = log.inclusion(2, 7).unwrap();
    let leaf = leaf_hash(LEAVES[2]);
    assert_eq!(check_inclusion(&leaf, 2, &head, &proof), Ok(()));
    assert_eq!(check_inclusion(&leaf, 7, &head, &proof), Err(BadProof::Outside { asked: 7, size: 7 }));
    assert_eq!(check_inclusion(&leaf, 2, &head, &proof[1..]), Err(BadProof::Length { hashes: 2 }));
    assert!(matches!(check_inclusion(&leaf, 3, &head, &proof), Err(BadProof::Root { .. })));
    assert!(matches!(check_inclusion(&leaf_hash(b"x"), 2, &head, &proof), Err(BadProof::Root { .. })));

    let old = log.head_at(5).unwrap();
    let proof = log.consistency(5, 7).unwrap();
    assert_eq!(check_consistency(&old, &head, &proof), Ok(()));
    assert_eq!(check_consistency(&head, &old, &proof), Err(BadProof::Outside { asked: 7, size: 5 }));
    let forked = LogHead { size: 5, root: digest(ROOTS[4]) };
    assert!(matches!(check_consistency(&forked, &head, &proof), Err(BadProof::Root { size: 5, .. })));
    assert_eq!(log.consistency(8, 7), None);
    assert_eq!(log.inclusion(7, 7), None);
}

#[test]
fn the_empty_log_and_the_same_log_need_no_proof() {
    let log: Log = LEAVES.into_iter().collect();
    let (empty, all) = (log.head_at(0).unwrap(), log.head_at(8).unwrap());
    assert_eq!(check_consistency(&empty, &all, &[]), Ok(()));
    assert_eq!(check_consistency(&all, &all, &[]), Ok(()));
    assert_eq!(check_consistency(&empty, &all, &[all.root]), Err(BadProof::Length { hashes: 1 }));
    let other = LogHead { root: empty.root, ..all };
    assert!(matches!(check_consistency(&other, &all, &[]), Err(BadProof::Root { .. })));
    let no_empty_log = LogHead { size: 0, root: all.root };
    assert!(matches!(check_consistency(&no_empty_log, &all, &[]), Err(BadProof::Root { .. })));
}

fn numbered(size: u64) -> Vec<[u8; 8]> {
    (0..size).map(u64::to_be_bytes).collect()
}

proptest! {
    #[test]
    fn every_proof_holds_and_no_other(size in 1u64..200, at in any::<prop::sample::Index>(), old in any::<prop::sample::Index>()) {
        let leaves = numbered(size);
        let log: Log = leaves.iter().map(<[u8; 8]>::as_slice).collect();
        let tree: Tree = leaves.iter().map(<[u8; 8]>::as_slice).collect();
        let head = log.head_at(size).unwrap();
        prop_assert_eq!(tree.head(), head);

        let index = at.index(size as usize);
        let leaf = leaf_hash(&leaves[index]);
        let proof = log.inclusion(index as u64, size).unwrap();
        prop_assert_eq!(check_inclusion(&leaf, index as u64, &head, &proof), Ok(()));
        for other in 0..size {
            let holds = check_inclusion(&leaf, other, &head, &proof).is_ok();
            prop_assert_eq!(holds, other == index as u64);
        }
        for at in 0..proof.len() {
            let mut changed = proof.clone();
            changed[at] = leaf_hash(b"another");
            prop_assert!(check_inclusion(&leaf, index as u64, &head, &changed).is_err());
            changed.remove(at);
            prop_assert!(check_inclusion(&leaf, index as u64, &head, &changed).is_err());
        }

        let old = old.index(size as usize + 1) as u64;
        let old = log.head_at(old).unwrap();
        let proof = log.consistency(old.size, size).unwrap();
        prop_assert_eq!(check_consistency(&old, &head, &proof), Ok(()));
        for at in 0..proof.len() {
            let mut changed = proof.clone();
            changed[at] = leaf_hash(b"another");
            prop_assert!(check_consistency(&old, &head, &changed).is_err());
            changed.remove(at);
            prop_assert!(check_consistency(&old, &head, &changed).is_err());
        }
        let longer = [proof, vec![head.root]].concat();
        prop_assert!(check_consistency(&old, &head, &longer).is_err());
    }
}
