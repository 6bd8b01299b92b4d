//! Small pieces of JSON that the encoders share.

use serde::Serialize;
use serde_json::value::RawValue;

use super::malformed;
use crate::Failure;

/// Appends `value` as JSON.
pub(super) fn put(out: &mut impl std::io::Write, value: &(impl Serialize + ?Sized)) {
    // Strings, numbers and `Value`s cannot fail, and memory takes all bytes.
    if serde_json::to_writer(&mut *out, value).is_err() {
        debug_assert!(false, "only plain JSON values are encoded");
    }
}

/// Whether `text` is one complete JSON value that any server reads: parsed whole, since passing over it would let a
/// lone surrogate (`"\ud800"`) through.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// A member that is there and not null.
pub(super) fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

/// Whether `text` is one complete JSON object.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && is_json(text)
}

/// The arguments of an old call as an object that any server accepts: the model's own text where it is an
/// object, `{}` where it is blank, and else the text wrapped, so that one bad call does not make every later
/// request of the dialogue invalid.
pub(super) fn arguments_object(arguments: &str) -> std::borrow::Cow<'_, str> {
    if arguments.trim().is_empty() {
        "{}".into()
    } else if is_object(arguments) {
        arguments.into()
    } else {
        let mut out = b"{\"malformed_arguments\":".to_vec();
        put(&mut out, arguments);
        out.push(b'}');
        String::from_utf8_lossy(&out).into_owned().into()
    }
}

/// Arguments as received. On some wires they are a string, on others an object, whose text is then taken as it stands;
/// servers of either kind send the other.
pub(super) fn arguments_text(raw: &RawValue) -> Result<String, Failure> {
    match raw.get() {
        "null" => Ok(String::new()),
        text if text.starts_with('"') => {
            serde_json::from_str(text).map_err(|e| malformed("a call's arguments", &e))
        }
        text => Ok(text.to_owned()),
    }
}
