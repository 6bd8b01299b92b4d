//! in-toto Statements: what things they are about, and what is said of them.
//!
//! Format: in-toto attestation spec, `spec/v1/statement.md` and `digest_set.md`. A statement is stored as canonical JSON
//! (RFC 8785) and read in no other spelling.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use provost_core::digest::{Digest, TreeDigest};
use provost_core::text::{Lines, moment, visible};

use crate::canonical::{NotCanonical, first_difference, to_canonical};

/// The statement's type (in-toto attestation spec, `statement.md`).
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// Why a payload is not a statement of the kind that is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStatement {
    /// Not JSON of this format.
    #[error("not a statement of this kind: {0}")]
    Shape(String),
    /// A statement or predicate of another type, or another version.
    #[error("`{field}` is `{got}`; this program knows `{expected}`")]
    Type {
        /// The field.
        field: &'static str,
        /// What it says.
        got: String,
        /// What is known.
        expected: &'static str,
    },
    /// A subject is missing, or does not have the digests that it must have.
    #[error("the subject `{0}` is missing or lacks a digest")]
    Subject(&'static str),
    /// A part of the predicate is not what it has to be.
    #[error("`{0}` of the predicate is not what it has to be")]
    Predicate(&'static str),
    /// Another spelling of the same statement, or one that says more.
    #[error("the statement differs from its one canonical spelling at byte {at}")]
    Spelling {
        /// First differing byte.
        at: usize,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<P> {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: P,
}

/// One thing that a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    name: String,
    digest: BTreeMap<String, String>,
}

impl Subject {
    /// A file, by its SHA-256.
    pub(crate) fn file(name: &str, sha256: &Digest) -> Self {
        Self { name: name.to_owned(), digest: [("sha256".to_owned(), sha256.to_string())].into() }
    }

    /// A tree of files, as git names it in both of its object formats.
    pub(crate) fn tree(name: &str, tree: &TreeDigest) -> Self {
        Self { name: name.to_owned(), digest: tree_digests(tree) }
    }
}

/// Something that a predicate refers to (in-toto attestation spec, `resource_descriptor.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    /// What it is called here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is, or what names it everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
    /// What more there is to say of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Resource {
    /// A file or a text, by its SHA-256.
    pub(crate) fn file(name: impl Into<String>, sha256: &Digest) -> Self {
        let digest = [("sha256".to_owned(), sha256.to_string())].into();
        Self { name: Some(name.into()), digest, ..Self::default() }
    }

    pub(crate) fn noted(mut self, name: &str, value: &impl ToString) -> Self {
        self.annotations.insert(name.to_owned(), value.to_string());
        self
    }
}

/// A time as predicates hold it: RFC 3339, in UTC, to the millisecond.
///
/// ```
/// assert_eq!(provost_evidence::in_toto::timestamp(951_827_640_123), "2000-02-29T12:34:00.123Z");
/// ```
pub fn timestamp(ms: u64) -> String {
    let minute = moment(ms).replace(' ', "T");
    format!("{minute}:{:02}.{:03}Z", ms / 1000 % 60, ms % 1000)
}

/// A tree's digests as in-toto names them (`digest_set.md`): `gitTree` is git's own id.
pub(crate) fn tree_digests(tree: &TreeDigest) -> BTreeMap<String, String> {
    [("gitTree".to_owned(), tree.sha1.clone()), ("sha256".to_owned(), tree.sha256.to_string())].into()
}

/// The digest of a subject that is a file.
pub(crate) fn file_digest(subjects: &[Subject], name: &'static str) -> Result<Digest, BadStatement> {
    digest_of(subjects, name, "sha256")?.parse().map_err(|_| BadStatement::Subject(name))
}

/// The digests of a subject that is a tree.
pub(crate) fn tree_digest(subjects: &[Subject], name: &'static str) -> Result<TreeDigest, BadStatement> {
    Ok(TreeDigest {
        sha1: digest_of(subjects, name, "gitTree")?.to_owned(),
        sha256: file_digest(subjects, name)?,
    })
}

fn digest_of<'a>(
    subjects: &'a [Subject],
    name: &'static str,
    algorithm: &str,
) -> Result<&'a str, BadStatement> {
    subjects
        .iter()
        .find(|subject| subject.name == name)
        .and_then(|subject| subject.digest.get(algorithm))
        .map(String::as_str)
        .ok_or(BadStatement::Subject(name))
}

/// The canonical JSON of a statement: the payload that is signed.
pub(crate) fn write(
    subject: Vec<Subject>,
    predicate_type: &str,
    predicate: &impl Serialize,
) -> Result<Vec<u8>, NotCanonical> {
    to_canonical(&Wire {
        kind: STATEMENT_TYPE.to_owned(),
        subject,
        predicate_type: predicate_type.to_owned(),
        predicate,
    })
}

/// Only the types, so that a statement of another type is named before its predicate is read.
#[derive(Deserialize)]
struct Types {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

/// The type of a statement's predicate; `None` where it is no statement.
pub fn predicate_type(payload: &[u8]) -> Option<String> {
    let types: Types = serde_json::from_slice(payload).ok()?;
    (types.kind == STATEMENT_TYPE).then_some(types.predicate_type)
}

/// Reads a statement whose predicate is of this type. Whoever calls writes what was read again and compares it by
/// [`same`]: what the typed form does not hold shows there.
pub(crate) fn read<P: DeserializeOwned>(
    payload: &[u8],
    predicate_type: &'static str,
) -> Result<(Vec<Subject>, P), BadStatement> {
    let shape = |error: serde_json::Error| BadStatement::Shape(shown(&error.to_string()));
    let types: Types = serde_json::from_slice(payload).map_err(shape)?;
    for (field, got, expected) in
        [("_type", types.kind, STATEMENT_TYPE), ("predicateType", types.predicate_type, predicate_type)]
    {
        if got != expected {
            return Err(BadStatement::Type { field, got: shown(&got), expected });
        }
    }
    let wire: Wire<P> = serde_json::from_slice(payload).map_err(shape)?;
    Ok((wire.subject, wire.predicate))
}

/// Whether what was read is spelled as it would be written.
pub(crate) fn same(payload: &[u8], written: Result<Vec<u8>, NotCanonical>) -> Result<(), BadStatement> {
    let written = written.map_err(|error| BadStatement::Shape(shown(&error.to_string())))?;
    match first_difference(payload, &written) {
        None => Ok(()),
        Some(at) => Err(BadStatement::Spelling { at }),
    }
}

fn shown(text: &str) -> String {
    visible(text, Lines::Escape).chars().take(200).collect()
}
