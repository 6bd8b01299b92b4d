//! What commands send is read by parsers that never panic, and that say the same however the bytes arrive.

use proptest::prelude::*;
use provost_sandbox::parse::{
    Answer, Body, Chunked, Head, Hello, Query, Socks, greeting, head, hello, request,
};

/// A query as a C library sends it.
fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut out = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
    for label in name.split('.') {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(kind.to_be_bytes());
    out.extend([0, 1]);
    out
}

/// A first message of TLS with these extensions.
fn client_hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let with_length = |bytes: &[u8], width: usize| [&bytes.len().to_be_bytes()[8 - width..], bytes].concat();
    let mut all = Vec::new();
    for (kind, body) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend(with_length(body, 2));
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(with_length(&[1; 32], 1));
    body.extend(with_length(&[0x13, 1], 2));
    body.extend(with_length(&[0], 1));
    body.extend(with_length(&all, 2));
    let message = [vec![1], with_length(&body, 3)].concat();
    [vec![22, 3, 1], with_length(&message, 2)].concat()
}

fn server_name(name: &str) -> (u16, Vec<u8>) {
    let entry = [&[0], &u16::try_from(name.len()).unwrap().to_be_bytes()[..], name.as_bytes()].concat();
    (0, [&u16::try_from(entry.len()).unwrap().to_be_bytes()[..], &entry].concat())
}

#[test]
fn a_handshake_is_read_in_one_record_or_many() {
    let hello_bytes = client_hello(&[(10, vec![0, 2, 0, 29]), server_name("origin.test"), (16, vec![])]);
    let whole = Hello::Whole(Some("origin.test".to_owned()));
    assert_eq!(hello(&hello_bytes), whole);
    for end in 0..hello_bytes.len() {
        assert_eq!(hello(&hello_bytes[..end]), Hello::Partial, "{end}");
    }
    // In records of seven bytes.
    let records: Vec<u8> = hello_bytes[5..]
        .chunks(7)
        .flat_map(|part| [&[22, 3, 1, 0, u8::try_from(part.len()).unwrap()], part].concat())
        .collect();
    assert_eq!(hello(&records), whole);
    assert_eq!(hello(&client_hello(&[(16, vec![])])), Hello::Whole(None));
    let twice = client_hello(&[server_name("origin.test"), server_name("evil.test")]);
    assert_eq!(hello(&twice), Hello::Other);
    for other in [
        &b"\x16\x02\x01\x00\x05hello"[..],
        b"\x17\x03\x01",
        b"GET",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x01\x02",
    ] {
        assert_eq!(hello(other), Hello::Other, "{other:?}");
    }
    // One that claims to be huge is none.
    assert_eq!(hello(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff"), Hello::Other);
}

#[test]
fn questions_and_answers() {
    let question = query("Origin.Test", 1);
    let parsed = Query::parse(&question).unwrap();
    assert_eq!(parsed.name, "origin.test");
    let answer = parsed.answer(Answer::Address([198, 18, 0, 1].into()));
    assert_eq!(answer[..12], *b"\x12\x34\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00");
    assert!(answer[12..].starts_with(&question[12..]) && answer.ends_with(&[0, 4, 198, 18, 0, 1]));
    let six = Query::parse(&query("origin.test", 28)).unwrap();
    assert!(!six.is_for_address());
    assert_eq!(six.answer(Answer::Address([198, 18, 0, 1].into())), six.answer(Answer::Nothing));
    assert_eq!(six.answer(Answer::NoSuchName)[3] & 15, 3);
    // An answer, two questions, a pointer, a name cut off.
    let mut bad = vec![
        query("a.test", 1),
        query("a.test", 1),
        b"\0\0\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01".to_vec(),
    ];
    bad[0][2] |= 0x80;
    bad[1][5] = 2;
    bad.push(question[..question.len() - 1].to_vec());
    for bytes in bad {
        assert_eq!(Query::parse(&bytes), None, "{bytes:?}");
    }
}

#[test]
fn socks_is_read_piece_by_piece() {
    let asked = b"\x05\x01\x00\x03\x0borigin.test\x01\xbb";
    for end in 0..asked.len() {
        assert_eq!(request(&asked[..end]), Socks::Partial, "{end}");
    }
    assert_eq!(request(asked), Socks::Whole(("origin.test".to_owned(), 443), asked.len()));
    let four = b"\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50rest";
    assert_eq!(request(four), Socks::Whole(("10.0.0.1".to_owned(), 80), 10));
    assert_eq!(greeting(b"\x05\x02\x00\x02"), Socks::Whole(true, 4));
    assert_eq!(greeting(b"\x05\x01\x02"), Socks::Whole(false, 3));
    assert!(matches!(greeting(b"\x04\x01"), Socks::Bad(_)));
    // Binding, and UDP.
    for command in [2, 3] {
        assert!(matches!(request(&[5, command, 0, 1, 0, 0, 0, 0, 0, 0]), Socks::Bad(_)));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (hello(&bytes), greeting(&bytes), request(&bytes), head(&bytes));
        if let Some(query) = Query::parse(&bytes) {
            prop_assert!(query.answer(Answer::NoSuchName).len() >= 12);
        }
        let _ = Body::Chunked(Chunked::default()).take(&bytes);
    }

    /// Mutations of good messages reach deeper than noise does.
    #[test]
    fn nor_do_broken_messages(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let good = [
            client_hello(&[(10, vec![0, 2, 0, 29]), server_name("origin.test")]),
            query("origin.test", 1),
            b"\x05\x01\x00\x03\x0borigin.test\x01\xbb".to_vec(),
            b"POST http://a.test:1/b HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        ];
        let mut bytes = good[which].clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len() + 1));
        let _ = (hello(&bytes), greeting(&bytes), request(&bytes), head(&bytes), Query::parse(&bytes));
    }

    /// A body ends where it ends, however it is cut into pieces.
    #[test]
    fn chunks_end_in_one_place(
        sizes in proptest::collection::vec(1..40_usize, 0..6),
        pieces in proptest::collection::vec(1..20_usize, 1..60),
        trailer in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        for size in &sizes {
            bytes.extend(format!("{size:x};x=y\r\n{}\r\n", "d".repeat(*size)).as_bytes());
        }
        bytes.extend(b"0\r\n");
        if trailer {
            bytes.extend(b"X-Sum: 1\r\n");
        }
        bytes.extend(b"\r\n");
        let length = bytes.len();
        bytes.extend(b"GET /second HTTP/1.1\r\n");
        let mut body = Body::Chunked(Chunked::default());
        let (mut at, mut taken) = (0, 0);
        for piece in pieces.iter().cycle() {
            let end = (at + piece).min(bytes.len());
            taken += body.take(&bytes[at..end]).unwrap();
            at = end;
            if at == bytes.len() || body.is_over() {
                break;
            }
        }
        prop_assert!(body.is_over());
        prop_assert_eq!(taken, length);
    }

    /// What is refused is refused from some byte on, and what is whole is whole with anything behind it.
    #[test]
    fn a_head_is_read_the_same_however_it_arrives(rest in proptest::collection::vec(any::<u8>(), 0..40)) {
        let text = b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n";
        for end in 0..text.len() {
            prop_assert_eq!(head(&text[..end]), Head::Partial);
        }
        let whole = head(text);
        prop_assert_eq!(head(&[text.as_slice(), &rest].concat()), whole);
    }
}
