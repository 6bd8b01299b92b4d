//! The parser of server-sent events.

use proptest::prelude::*;
use provost_model::sse::{SseEvent, SseParser};

fn parse(bytes: &[u8], cuts: &[usize]) -> Vec<SseEvent> {
    let mut parser = SseParser::default();
    let mut out = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        parser.feed(&bytes[from..cut], &mut out).unwrap();
        from = cut;
    }
    parser.feed(&bytes[from..], &mut out).unwrap();
    out
}

fn event(event: &str, data: &str) -> SseEvent {
    SseEvent { event: event.to_owned(), data: data.to_owned() }
}

#[test]
fn fields_line_ends_comments_and_the_byte_order_mark() {
    let all = "\u{feff}data: a\n\n: keep-alive\r\n\r\nevent: x\rdata:b\rdata: c\r\rid: 7\nretry: 3\ndata\n\ndata:  two\n\n";
    assert_eq!(
        parse(all.as_bytes(), &[]),
        [event("", "a"), event("x", "b\nc"), event("", ""), event("", " two")]
    );
    // An event without data is none, and its name does not stick.
    assert_eq!(parse(b"event: x\n\ndata: a\n\n", &[]), [event("", "a")]);
    // What the end cuts off is never given.
    assert_eq!(parse(b"data: a\n\ndata: b\n", &[]), [event("", "a")]);
    // A mark counts only at the very start.
    assert_eq!(parse("data: a\n\n\u{feff}data: b\n\n".as_bytes(), &[]), [event("", "a")]);
}

#[test]
fn an_event_has_a_limit() {
    let mut parser = SseParser::with_limit(100);
    let mut out = Vec::new();
    for _ in 0..50 {
        parser.feed(b"data: 12345678\n\n", &mut out).unwrap();
    }
    assert_eq!(out.len(), 50);
    let mut fed = Ok(());
    for _ in 0..20 {
        fed = fed.and_then(|()| parser.feed(b"data: 12345678\n", &mut out));
    }
    assert_eq!(fed.unwrap_err().limit, 100);
    let mut parser = SseParser::with_limit(100);
    assert!(parser.feed(&[b'x'; 101], &mut out).is_err());
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "data: ", "data:", "event: ", ": c", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\u{feff}", "a", "é", "{}", " ", "id: 1",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(bytes in stream(), cuts in prop::collection::vec(any::<usize>(), 0..12)) {
        let whole = parse(&bytes, &[]);
        prop_assert_eq!(&parse(&bytes, &cuts), &whole);
        let each: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&parse(&bytes, &each), &whole);
    }
}
