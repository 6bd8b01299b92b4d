//! What a server said to a call, as words for the model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use super::Reply;
use crate::text::show::clip;

/// Longest name of a resource that is shown, in bytes.
const LONGEST_NAME: usize = 200;

/// The words of a result. Nothing is dropped without a word: what is no text is named with its size.
pub(super) fn of(result: CallToolResult) -> Reply {
    let mut parts: Vec<String> = result.content.into_iter().map(part).collect();
    if parts.is_empty() {
        parts.extend(result.structured_content.map(|value| value.to_string()));
    }
    if parts.is_empty() {
        parts.push("[it said nothing]".to_owned());
    }
    Reply { text: parts.join("\n"), is_error: result.is_error == Some(true) }
}

fn part(content: ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => left_out("an image", &image.mime_type, decoded(&image.data)),
        ContentBlock::Audio(audio) => left_out("a sound", &audio.mime_type, decoded(&audio.data)),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[the resource {}:]\n{text}", name(&uri))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_else(|| "of unknown type".to_owned());
                left_out(&format!("the resource {}", name(&uri)), &kind, decoded(&blob))
            }
            _ => "[a resource of an unknown kind is not shown]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[the resource {} is not shown]", name(&link.uri)),
        _ => "[content of an unknown kind is not shown]".to_owned(),
    }
}

fn left_out(what: &str, kind: &str, bytes: usize) -> String {
    format!("[{what}, {}, {bytes} bytes, is not shown]", name(kind))
}

/// How many bytes some base64 stands for.
fn decoded(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn name(text: &str) -> String {
    clip(&provost_core::text::visible(text, provost_core::text::Lines::Escape), LONGEST_NAME)
}
