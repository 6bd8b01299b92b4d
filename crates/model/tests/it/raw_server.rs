//! Servers that answer in ways the rehearsal never would.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use provost_model::{FailureClass, Invocation, WireKind};

use crate::support::{ask, provider};

/// Serves `pieces` to one client, with a pause between, then closes.
fn serve(pieces: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4_096];
        // The request ends in the tail's `"max_tokens":1000}`.
        while !request.ends_with(b":1000}") {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(n) => request.extend_from_slice(&buffer[..n]),
            }
        }
        for piece in pieces {
            if stream.write_all(&piece).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    base
}

fn http(content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut out =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n").into_bytes();
    out.extend_from_slice(body);
    out
}

fn quick() -> Invocation {
    Invocation { timeout: Duration::from_secs(20), idle: Duration::from_secs(10), ..Invocation::new("i") }
}

#[tokio::test]
async fn a_stream_in_single_bytes() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n";
    let bytes = http("text/event-stream", body.as_bytes());
    let (answer, _) =
        ask(&provider(WireKind::OpenAiChat, &serve(bytes.chunks(3).map(<[u8]>::to_vec).collect())), &quick())
            .await;
    assert_eq!(answer.unwrap().assistant.text, "é");
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let body = br#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#;
    let base = serve(vec![http("application/json; charset=utf-8", body)]);
    let (answer, _) = ask(&provider(WireKind::OpenAiChat, &base), &quick()).await;
    assert_eq!(answer.unwrap().assistant.text, "whole");

    let base = serve(vec![http("application/json", br#"{"error":{"message":"no model","code":404}}"#)]);
    let (answer, _) = ask(&provider(WireKind::OpenAiChat, &base), &quick()).await;
    assert_eq!(answer.unwrap_err().class, FailureClass::BadRequest);
}

#[tokio::test]
async fn limits_come_with_an_answer() {
    let body = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
        Anthropic-RateLimit-Tokens-Limit: 80\r\nAnthropic-RateLimit-Tokens-Remaining: 9\r\n\r\n\
        {\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"stop_reason\":\"end_turn\"}";
    let base = serve(vec![body.as_bytes().to_vec()]);
    let (answer, _) = ask(&provider(WireKind::AnthropicMessages, &base), &quick()).await;
    let limits = answer.unwrap().rate_limits;
    assert_eq!((limits.windows[0].limit, limits.windows[0].remaining), (Some(80), Some(9)));
}

/// This vendor answers 200 also when it refuses.
#[tokio::test]
async fn a_refusal_with_status_200() {
    let body = br#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#;
    let (answer, _) =
        ask(&provider(WireKind::OpenAiChat, &serve(vec![http("application/json", body)])), &quick()).await;
    assert_eq!(answer.unwrap_err().class, FailureClass::Quota);
    // The control: it says 0 where all is well.
    let body = br#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"base_resp":{"status_code":0,"status_msg":""}}"#;
    let (answer, _) =
        ask(&provider(WireKind::OpenAiChat, &serve(vec![http("application/json", body)])), &quick()).await;
    assert_eq!(answer.unwrap().assistant.text, "x");
}

#[tokio::test]
async fn no_http_at_all_and_an_early_close() {
    for pieces in [vec![b"SSH-2.0-x\r\n\r\n".to_vec()], vec![]] {
        let (answer, _) = ask(&provider(WireKind::OpenAiChat, &serve(pieces)), &quick()).await;
        assert_eq!(answer.unwrap_err().class, FailureClass::UnknownOutcome);
    }
}

/// The body of a web page with status 200, as a captive portal gives it.
#[tokio::test]
async fn a_web_page_is_no_answer() {
    let base = serve(vec![http("text/html", b"<html>\n\n<body>log in</body></html>")]);
    let (answer, _) = ask(&provider(WireKind::OpenAiChat, &base), &quick()).await;
    let failure = answer.unwrap_err();
    assert_eq!(failure.class, FailureClass::BadRequest, "{failure}");
    assert!(failure.message.contains("web page"));
}

/// A complete answer whose connection is then held open in silence is given without the whole idle time.
#[tokio::test]
async fn done_ends_the_answer_though_the_connection_stays() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 65_536];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        stream.write_all(&http("text/event-stream", body)).await.unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
    });
    let start = std::time::Instant::now();
    let (answer, _) = ask(&provider(WireKind::OpenAiChat, &base), &quick()).await;
    assert_eq!(answer.unwrap().assistant.text, "a");
    assert!(start.elapsed() < Duration::from_secs(5));
}
