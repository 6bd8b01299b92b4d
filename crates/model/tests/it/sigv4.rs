//! Signed requests, against a server that makes each signature again from what reached it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use provost_model::{Auth, AwsKeys, BaseUrl, Invocation, PlainHttp, Remote, Secret, WireKind};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{CANARY, ask};

const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn keys() -> AwsKeys {
    AwsKeys {
        id: Secret::new("AKIDEXAMPLE"),
        key: Secret::new(KEY),
        session: Some(Secret::new(CANARY)),
        region: "us-west-2".to_owned(),
        service: "bedrock".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    provost_core::digest::Digest::new(bytes.try_into().unwrap()).to_string()
}

/// HMAC (RFC 2104) over SHA-256, by hand: the other side must not be the crate that signs.
fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let with = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(with(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(with(0x5c)).chain_update(inner).finalize().to_vec()
}

/// The signature of a request as AWS's documentation has it made.
fn signature(headers: &[(String, String)], path: &str, body: &[u8]) -> (String, String) {
    let value = |name: &str| {
        headers.iter().find(|(known, _)| known == name).map_or_else(String::new, |(_, value)| value.clone())
    };
    let said = value("authorization");
    let part = |name: &str| {
        let from = said.find(name).unwrap_or_else(|| panic!("{said}")) + name.len();
        said[from..].split(", ").next().unwrap().to_owned()
    };
    let signed = part("SignedHeaders=");
    let lines =
        signed.split(';').fold(String::new(), |all, name| all + &format!("{name}:{}\n", value(name).trim()));
    let request = format!("POST\n{path}\n\n{lines}\n{signed}\n{}", hex(&Sha256::digest(body)));
    let credential = part("Credential=");
    let scope = credential.split_once('/').unwrap().1;
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        value("x-amz-date"),
        hex(&Sha256::digest(request.as_bytes()))
    );
    let key = scope.split('/').fold(format!("AWS4{KEY}").into_bytes(), |key, part| hmac(&key, part));
    (part("Signature="), hex(&hmac(&key, &to_sign)))
}

/// A request as it came in: headers, path, body.
type Came = (Vec<(String, String)>, String, Vec<u8>);

/// Answers each request with the next of these, and hands over what came.
fn serve(answers: Vec<(u16, String)>) -> (String, Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (sender, came) = channel();
    std::thread::spawn(move || {
        for (status, answer) in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap().to_owned();
            let mut headers = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
            let length =
                headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            sender.send((headers, path, body)).unwrap();
            let head =
                format!("HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nconnection: close\r\n");
            let said = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
            reader.get_mut().write_all(said.as_bytes()).unwrap();
        }
    });
    (base, came)
}

#[tokio::test]
async fn a_request_reaches_the_server_with_the_signature_of_what_reached_it() {
    let refused = json!({ "message": format!("The canonical request was x-amz-security-token:{CANARY}") });
    let answered = json!({ "choices": [{ "message": { "content": "signed" }, "finish_reason": "stop" }] });
    let (base, came) = serve(vec![(403, refused.to_string()), (200, answered.to_string())]);
    let base = BaseUrl::parse(&format!("{base}/openai/v1"), PlainHttp::LoopbackOnly).unwrap();
    let remote = Remote::builder(WireKind::OpenAiChat, base, "m").auth(Auth::Aws(keys())).build().unwrap();
    let failure = ask(&remote, &Invocation::new("run-1:0")).await.0.unwrap_err();
    assert!(failure.message.contains("The canonical request was"), "{}", failure.message);
    assert!(!failure.message.contains(CANARY), "a token that comes back is not shown: {}", failure.message);
    assert_eq!(ask(&remote, &Invocation::new("run-1:0")).await.0.unwrap().assistant.text, "signed");
    for _ in 0..2 {
        let (headers, path, body) = came.recv().unwrap();
        let (said, made) = signature(&headers, &path, &body);
        assert_eq!(said, made);
        // The control: of another body it is another.
        assert_ne!(signature(&headers, &path, b"{}").1, said);
        let all = format!("{headers:?}");
        assert!(!all.contains(KEY) && all.contains("/us-west-2/bedrock/aws4_request"), "{all}");
        assert!(all.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"), "{all}");
    }
}
