//! What a contract asks of the model beside the goal: checked before there is a run, kept in its journal, held against what
//! is submitted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_core::brief::{Brief, BriefFact, ImageFact, LARGEST_IMAGE, MOST_IMAGES};
use provost_core::digest::Digest;
use provost_core::transcript::Image;
use provost_model::{Beside, OutputSchema, Prelude, Provider};

use crate::error::RunError;
use crate::recorder::Recorder;
use crate::schema::{Schema, parsed};

/// Most bytes of all images together: a request holds all of them.
const ALL_IMAGES: u64 = 20 * 1024 * 1024;

/// An image, by what its bytes begin with: PNG, JPEG, GIF or WebP.
///
/// ```
/// let png = b"\x89PNG\r\n\x1a\n and so on";
/// assert_eq!(provost_agent::image(png).unwrap().media, "image/png");
/// assert!(provost_agent::image(b"<svg>").is_err());
/// ```
///
/// # Errors
///
/// [`RunError::Contract`] where it is none of these, or larger than [`LARGEST_IMAGE`].
pub fn image(bytes: &[u8]) -> Result<Image, RunError> {
    let refuse = |why: String| Err(RunError::Contract(why));
    if bytes.len() as u64 > LARGEST_IMAGE {
        return refuse(format!("an image has at most {} MiB", LARGEST_IMAGE >> 20));
    }
    let Some(media) = media_of(bytes) else {
        return refuse("it is no PNG, JPEG, GIF or WebP image".to_owned());
    };
    Ok(Image { media: media.to_owned(), data: STANDARD.encode(bytes) })
}

fn media_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Refuses what cannot be asked, before there is a run.
pub(crate) fn check(brief: &Brief) -> Result<(), RunError> {
    let refuse = |why: String| Err(RunError::Contract(why));
    if let Some(text) = &brief.schema {
        Schema::read(text)?;
    }
    if brief.images.len() > MOST_IMAGES {
        return refuse(format!("at most {MOST_IMAGES} images are shown beside a goal"));
    }
    let mut all = 0;
    for shown in &brief.images {
        let bytes = STANDARD.decode(&shown.data).unwrap_or_default();
        if image(&bytes)?.media != shown.media {
            return refuse(format!("an image is called `{}`, and is none by its bytes", shown.media));
        }
        all += bytes.len() as u64;
    }
    if all > ALL_IMAGES {
        return refuse(format!("the images have more than {} MiB together", ALL_IMAGES >> 20));
    }
    Ok(())
}

/// Refuses to ask a model by a way that would leave out what the contract asks of it.
pub(crate) fn check_carried<'a>(
    fact: Option<&BriefFact>,
    providers: impl Iterator<Item = &'a dyn Provider>,
) -> Result<(), RunError> {
    let Some(fact) = fact else { return Ok(()) };
    let wanted = [
        (fact.effort.is_some(), Beside::Effort, "how much it is to reason"),
        (!fact.images.is_empty(), Beside::Images, "images"),
    ];
    for provider in providers {
        if let Some((_, _, what)) = wanted.iter().find(|(asked, what, _)| *asked && !provider.carries(*what))
        {
            return Err(RunError::Contract(format!(
                "the contract names {what}, which `{}` cannot tell the model; leave it out, or ask another",
                provider.name()
            )));
        }
    }
    Ok(())
}

/// The brief as a journal has it. `name` takes its words and bytes, and names them.
pub(crate) fn fact(brief: &Brief, mut name: impl FnMut(&[u8]) -> Digest) -> Option<Box<BriefFact>> {
    let fact = BriefFact {
        effort: brief.effort,
        schema: brief.schema.as_ref().map(|text| name(text.as_bytes())),
        images: brief
            .images
            .iter()
            .map(|image| ImageFact {
                media: image.media.clone(),
                bytes: decoded_len(&image.data),
                data: name(image.data.as_bytes()),
            })
            .collect(),
    };
    (!brief.is_none()).then(|| Box::new(fact))
}

fn decoded_len(data: &str) -> u64 {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    (data.len() / 4 * 3).saturating_sub(padding) as u64
}

/// The brief, read back.
pub(crate) async fn read(fact: Option<&BriefFact>, recorder: &Recorder) -> Result<Brief, RunError> {
    let Some(fact) = fact else { return Ok(Brief::default()) };
    let schema = match fact.schema {
        Some(digest) => Some(text(recorder, &digest).await?),
        None => None,
    };
    let mut images = Vec::with_capacity(fact.images.len());
    for image in &fact.images {
        images.push(Image { media: image.media.clone(), data: text(recorder, &image.data).await? });
    }
    Ok(Brief { effort: fact.effort, schema, images })
}

/// The schema of a run, read back.
pub(crate) async fn schema_text(
    fact: Option<&BriefFact>,
    recorder: &Recorder,
) -> Result<Option<String>, RunError> {
    match fact.and_then(|fact| fact.schema) {
        Some(digest) => text(recorder, &digest).await.map(Some),
        None => Ok(None),
    }
}

async fn text(recorder: &Recorder, digest: &Digest) -> Result<String, RunError> {
    let bytes = recorder.bytes(digest).await?;
    String::from_utf8(bytes).map_err(|_| RunError::Gone(format!("content {} is no text", digest.short())))
}

/// Puts into a prelude what every request says beside words.
pub(crate) fn tell(
    prelude: &mut Prelude,
    fact: Option<&BriefFact>,
    schema: Option<&str>,
) -> Result<(), RunError> {
    prelude.effort = fact.and_then(|fact| fact.effort);
    prelude.schema = schema
        .map(|text| parsed(text).map(|schema| OutputSchema { name: "answer".to_owned(), schema }))
        .transpose()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_by_their_bytes() {
        for (bytes, media) in [
            (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ] {
            let image = image(bytes).unwrap();
            assert_eq!((image.media.as_str(), decoded_len(&image.data)), (media, bytes.len() as u64));
            check(&Brief { images: vec![image], ..Brief::default() }).unwrap();
        }
        for bytes in [&b""[..], b"%PDF", b"RIFF\0\0\0\0WAVE", b"<svg/>"] {
            assert!(image(bytes).is_err());
        }
        let called = Image { media: "image/gif".to_owned(), ..image(b"\xff\xd8\xff\xe0").unwrap() };
        assert!(check(&Brief { images: vec![called.clone()], ..Brief::default() }).is_err());
        let right = image(b"GIF89a").unwrap();
        assert!(check(&Brief { images: vec![right; MOST_IMAGES + 1], ..Brief::default() }).is_err());
    }
}
