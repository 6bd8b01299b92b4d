//! Every seed of `corpus/`, and mutations of them, on a stable compiler.
//!
//! `FUZZ_RUNS` mutated inputs a target (20,000), from the seed `FUZZ_SEED`. A failure prints the input and what makes it
//! again.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A xorshift generator: the same inputs everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Pieces at which parsers decide.
const PIECES: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e999",
    b"9007199254740993",
    b"18446744073709551616",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\u0000",
    b"\\ud800",
    b"..",
    b"/",
    b"/../",
    b"*",
    b"**",
    b"?",
    b"{a,",
    b"[!",
    b"data: ",
    b"event: ",
    b"[DONE]",
    b"@@ -1 +1 @@\n",
    b"@@",
    b"--- a/one.txt\n",
    b"+++ b/one.txt\n",
    b"/dev/null",
    b"\\ No newline at end of file\n",
    b"-----END",
    b"=",
    b"'",
    b"\xc3\xa9",
    b"\xf0\x9f\xa6\x80",
    b"\xe2\x80\xae",
    b"${x}",
    b"~",
    b"\t",
    b"a\tqueued\t0\tenqueue\n",
    b"cancelled",
];

/// Changes one place.
fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let until = (at + 1 + random.below(16)).min(input.len());
    match random.below(9) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.next() as u8,
        2 => drop(input.drain(at.min(until)..until)),
        3 => drop(input.splice(at..at, random.pick(PIECES).iter().copied())),
        4 if at < input.len() => drop(input.splice(at..until, random.pick(PIECES).iter().copied())),
        5 if at < input.len() => {
            let copy = input[at..until].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        6 => input.truncate(at),
        7 => {
            let other = random.pick(others);
            let from = random.below(other.len() + 1);
            let end = (from + 1 + random.below(200)).min(other.len());
            input.splice(at..at, other[from.min(end)..end].iter().copied());
        }
        _ => {
            // A number becomes another one: the place is a digit more often than chance would have it.
            if let Some(digit) = input[at..].iter().position(u8::is_ascii_digit) {
                input[at + digit] = b'0' + random.below(10) as u8;
            }
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a seed")).collect();
    assert!(seeds.len() >= 2, "`{}` has too few seeds", folder.display());
    let (runs, start) = (number("FUZZ_RUNS", 20_000), number("FUZZ_SEED", 0x9e37_79b9_7f4a_7c15).max(1));
    let mut random = Random(start);
    let inputs = seeds.iter().cloned().chain([Vec::new()]);
    let check = |input: &[u8], which: &str| {
        let sound = catch_unwind(AssertUnwindSafe(|| target(input))).is_ok();
        assert!(sound, "`{name}` fails on {which} (FUZZ_SEED={start}):\n{}", input.escape_ascii());
    };
    for (i, input) in inputs.enumerate() {
        check(&input, &format!("seed {i}"));
    }
    for i in 0..runs {
        let mut input = random.pick(&seeds).clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &seeds, &mut random);
        }
        check(&input, &format!("mutation {i}"));
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), provost_fuzz::$name);
        })*

        #[test]
        fn every_corpus_has_its_target() {
            let known = [$(stringify!($name)),*];
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
            for entry in fs::read_dir(corpus).expect("the corpus") {
                let name = entry.expect("an entry").file_name();
                assert!(known.iter().any(|known| name == *known), "{name:?} has no target");
            }
        }
    };
}

targets! {
    event policy pattern rel_path sse chat responses anthropic gemini ollama script dsse journal bundle statement keys exit_record arguments patch
    dns_query socks http_head client_hello shell
    events_log tests_ran
    checkpoint ssh_sig ssh_key ssh_agent trust authorization attestation
}
