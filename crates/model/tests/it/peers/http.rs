//! A plain request, for what a provider never asks.

use http_body_util::{BodyExt as _, Full};
use hyper::Uri;
use hyper_util::rt::TokioIo;

/// Sends `body`; gives the status, the media type and the answer.
pub(super) async fn send(method: &str, url: &str, body: Vec<u8>) -> (u16, String, Vec<u8>) {
    let url: Uri = url.parse().unwrap();
    let host = url.authority().unwrap().to_string();
    let stream = tokio::net::TcpStream::connect(&host).await.unwrap();
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::builder()
        .method(method)
        .uri(url.path_and_query().unwrap().as_str())
        .header("host", host)
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(bytes::Bytes::from(body)))
        .unwrap();
    let response = send.send_request(request).await.unwrap();
    let media = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    let (status, media) = (response.status().as_u16(), media.unwrap_or_default().to_owned());
    (status, media, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}
