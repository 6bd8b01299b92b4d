//! Text as a model has to see it: lines and their endings, differences, what is near a name.

/// Appends formatted text to a `String`, which never fails.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($text)*);
    }};
}
pub(crate) use put;

pub(crate) mod diff;
pub(crate) mod lines;
pub(crate) mod near;
pub(crate) mod show;
