//! Names of models, and patterns of them.

/// A pattern of names: `x`, `x*`, `*x`, `*x*`, and `x#` for names that go on with a date. In lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    Exactly(String),
    Begins(String),
    Ends(String),
    Holds(String),
    /// Goes on with digits and hyphens.
    Dated(String),
}

impl Name {
    /// Reads a pattern; `None` where a `*` or `#` stands elsewhere, or nothing is left without it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (kind, rest): (fn(String) -> Self, &str) = if text == "*" {
            return Some(Self::Begins(String::new()));
        } else if let Some(rest) = text.strip_suffix('#') {
            (Self::Dated, rest)
        } else {
            match (text.strip_prefix('*'), text.strip_suffix('*')) {
                (Some(inner), Some(_)) => (Self::Holds, inner.strip_suffix('*')?),
                (Some(rest), None) => (Self::Ends, rest),
                (None, Some(rest)) => (Self::Begins, rest),
                (None, None) => (Self::Exactly, text.as_str()),
            }
        };
        (!rest.is_empty() && !rest.contains(['*', '#'])).then(|| kind(rest.to_owned()))
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Exactly(own) if own == name)
    }

    pub(super) fn takes(&self, name: &str) -> bool {
        match self {
            Self::Exactly(own) => own == name,
            Self::Begins(own) => name.starts_with(own.as_str()),
            Self::Ends(own) => name.ends_with(own.as_str()),
            Self::Holds(own) => name.contains(own.as_str()),
            Self::Dated(own) => name.strip_prefix(own.as_str()).is_some_and(|date| {
                !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            }),
        }
    }
}
