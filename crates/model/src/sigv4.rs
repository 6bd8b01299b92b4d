//! Requests that are signed with the keys of an AWS account (Signature Version 4), by the crate that AWS keeps.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::Secret;

/// Keys of an AWS account, and what they sign for. The key itself is never sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// The access key's id.
    pub id: Secret,
    /// The access key.
    pub key: Secret,
    /// The session's token, where the keys are of a session. It is sent.
    pub session: Option<Secret>,
    /// Region that is asked, such as `us-west-2`.
    pub region: String,
    /// Service that is asked, as signatures name it, such as `bedrock`.
    pub service: String,
}

impl AwsKeys {
    /// Signs a request whose body has this SHA-256 (hexadecimal), as sent `at`. Host and content type are signed with it;
    /// the other headers are not. The error is a sentence, without any of the keys.
    pub(crate) fn sign(
        &self,
        (method, url): (&str, &str),
        headers: &mut HeaderMap,
        body: String,
        at: SystemTime,
    ) -> Result<(), String> {
        let session = self.session.as_ref().map(|session| session.expose().to_owned());
        let identity = Credentials::new(self.id.expose(), self.key.expose(), session, None, "provost").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(at)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let signed = kind.map(|kind| (CONTENT_TYPE.as_str(), kind)).into_iter();
        let request = SignableRequest::new(method, url, signed, SignableBody::Precomputed(body))
            .map_err(|error| error.to_string())?;
        let (instructions, _) = sign(request, &params).map_err(|error| error.to_string())?.into_parts();
        for header in instructions.into_parts().0 {
            let mut value = HeaderValue::try_from(header.value())
                .map_err(|_| "the keys hold what no header can".to_owned())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(header.name()), value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn keys(session: Option<&str>, service: &str) -> AwsKeys {
        AwsKeys {
            id: Secret::new("AKIDEXAMPLE"),
            key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session: session.map(Secret::new),
            region: "us-east-1".to_owned(),
            service: service.to_owned(),
        }
    }

    /// 2015-08-30 12:36:00 UTC.
    fn at() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_mins(24_015_636)
    }

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// The request that AWS's own documentation signs step by step.
    #[test]
    fn the_documented_request_has_the_documented_signature() {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        headers.insert(CONTENT_TYPE, form);
        let asked = ("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08");
        keys(None, "iam").sign(asked, &mut headers, EMPTY.to_owned(), at()).unwrap();
        assert_eq!(
            headers["authorization"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
        assert_eq!(headers["x-amz-date"], "20150830T123600Z");
    }

    #[test]
    fn i8_no_key_can_be_printed_and_the_key_itself_is_not_sent() {
        let keys = keys(Some("a-token-of-a-session"), "bedrock");
        let mut headers = HeaderMap::new();
        let asked = ("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/chat/completions");
        keys.sign(asked, &mut headers, EMPTY.to_owned(), at()).unwrap();
        assert_eq!(headers["x-amz-security-token"], "a-token-of-a-session");
        for shown in [format!("{keys:?}"), format!("{headers:?}")] {
            assert!(
                !shown.contains("wJalr") && !shown.contains("a-token") && !shown.contains("AKID"),
                "{shown}"
            );
        }
        assert!(headers.values().all(|value| !value.to_str().unwrap().contains("wJalr")));
        // What no header can carry is refused in words.
        let bad = AwsKeys { session: Some(Secret::new("a\nb")), ..keys };
        assert!(bad.sign(asked, &mut headers, EMPTY.to_owned(), at()).is_err());
    }
}
