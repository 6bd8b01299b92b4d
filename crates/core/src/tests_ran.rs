//! How many tests a command ran, read off what it printed.
//!
//! Known are cargo test, cargo nextest, pytest, `node --test`, `go test -v`, jest and vitest; what several of them printed
//! is added up. What a runner prints is the word of the code that is tested: a test can print such a line too. So a count
//! proves that nobody deleted or switched off tests by the way, and nothing against whoever sets out to deceive.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Tests that a command ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestsRan {
    /// Those that passed.
    pub passed: u64,
    /// Those that ran and did not pass.
    pub failed: u64,
    /// Those that are there and were not run.
    pub ignored: u64,
}

impl TestsRan {
    /// All that ran.
    pub fn ran(self) -> u64 {
        self.passed.saturating_add(self.failed)
    }

    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.ignored = self.ignored.saturating_add(other.ignored);
    }

    fn passed(number: u64) -> Self {
        Self { passed: number, ..Self::default() }
    }

    fn failed(number: u64) -> Self {
        Self { failed: number, ..Self::default() }
    }

    fn ignored(number: u64) -> Self {
        Self { ignored: number, ..Self::default() }
    }

    /// Counts what `output` says of tests; `None` where nothing in it does.
    ///
    /// ```
    /// use provost_core::tests_ran::TestsRan;
    /// let cargo = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    /// assert_eq!(TestsRan::count(cargo.as_bytes()), Some(TestsRan { passed: 3, failed: 0, ignored: 1 }));
    /// assert_eq!(TestsRan::count(b"all is well\n"), None);
    /// ```
    pub fn count(output: &[u8]) -> Option<Self> {
        let mut sum: Option<Self> = None;
        for line in output.split(|byte| matches!(byte, b'\n' | b'\r')) {
            // No runner's line is longer.
            let line = plain(&line[..line.len().min(LONGEST)]);
            let line = line.trim();
            let readers = [cargo_test, nextest, pytest, node, go, jest, vitest];
            if let Some(found) = readers.into_iter().find_map(|read| read(line)) {
                sum.get_or_insert_default().add(found);
            }
        }
        sum
    }
}

/// Most bytes of a line that are looked at.
const LONGEST: usize = 1024;

/// A line without the escape sequences that colour it.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
        } else if chars.next() == Some('[') {
            // Up to the letter that ends it.
            let _ = chars.find(char::is_ascii_alphabetic);
        }
    }
    out
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn cargo_test(line: &str) -> Option<TestsRan> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    named(counts.split(';'), |word| match word {
        "passed" => Some(TestsRan::passed),
        "failed" => Some(TestsRan::failed),
        "ignored" => Some(TestsRan::ignored),
        _ => None,
    })
}

/// `Summary [   0.012s] 3 tests run: 2 passed (1 slow), 1 failed, 1 skipped`; of a run that was cut short `3/5 tests run`.
fn nextest(line: &str) -> Option<TestsRan> {
    let rest = line.strip_prefix("Summary [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (run, counts) = rest.split_once(" run: ")?;
    let run = run.strip_suffix(" tests").or_else(|| run.strip_suffix(" test"))?;
    let run = number(run.split('/').next()?)?;
    let mut ran = TestsRan::default();
    for part in counts.split(',') {
        match counted(part) {
            Some((passed, "passed")) => ran.passed = passed,
            Some((skipped, "skipped")) => ran.ignored = skipped,
            _ => {}
        }
    }
    // Failed, timed out, could not be started: all the others.
    ran.failed = run.saturating_sub(ran.passed);
    Some(ran)
}

/// `==== 1 failed, 3 passed, 1 skipped in 0.12s ====`, with `-q` without the rules around it.
fn pytest(line: &str) -> Option<TestsRan> {
    let line = line.trim_matches('=').trim();
    let (counts, time) = line.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(TestsRan::default());
    }
    // Each part is a number and a word: prose that ends so is none.
    let known = |part: &str| counted(part).is_some_and(|(_, word)| PYTEST.contains(&word));
    if !counts.split(',').all(known) {
        return None;
    }
    named(counts.split(','), |word| match word {
        // What was expected to fail and did is as it should be.
        "passed" | "xpassed" | "xfailed" => Some(TestsRan::passed),
        "failed" | "error" | "errors" => Some(TestsRan::failed),
        "skipped" => Some(TestsRan::ignored),
        _ => None,
    })
}

const PYTEST: [&str; 11] = [
    "passed",
    "failed",
    "skipped",
    "xfailed",
    "xpassed",
    "error",
    "errors",
    "deselected",
    "warning",
    "warnings",
    "rerun",
];

/// `# pass 3` and its siblings; of the reporter for people `ℹ pass 3`.
fn node(line: &str) -> Option<TestsRan> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("\u{2139} "))?;
    let (word, count) = rest.split_once(' ')?;
    let count = number(count)?;
    match word {
        "pass" => Some(TestsRan::passed(count)),
        "fail" | "cancelled" => Some(TestsRan::failed(count)),
        "skipped" | "todo" => Some(TestsRan::ignored(count)),
        _ => None,
    }
}

/// `--- PASS: TestName (0.00s)`, one for each test and each part of one.
fn go(line: &str) -> Option<TestsRan> {
    let (verdict, rest) = line.strip_prefix("--- ")?.split_once(": ")?;
    rest.ends_with("s)").then_some(())?;
    match verdict {
        "PASS" => Some(TestsRan::passed(1)),
        "FAIL" => Some(TestsRan::failed(1)),
        "SKIP" => Some(TestsRan::ignored(1)),
        _ => None,
    }
}

/// `Tests:       1 failed, 1 skipped, 2 passed, 4 total`
fn jest(line: &str) -> Option<TestsRan> {
    let counts = line.strip_prefix("Tests:")?;
    counts.trim_end().ends_with("total").then_some(())?;
    named(counts.split(','), of_node)
}

/// `Tests  1 failed | 2 passed | 1 skipped (4)`
fn vitest(line: &str) -> Option<TestsRan> {
    let (counts, all) = line.strip_prefix("Tests  ")?.rsplit_once(" (")?;
    number(all.strip_suffix(')')?)?;
    named(counts.split('|'), of_node)
}

fn of_node(word: &str) -> Option<fn(u64) -> TestsRan> {
    match word {
        "passed" => Some(TestsRan::passed),
        "failed" => Some(TestsRan::failed),
        "skipped" | "todo" | "pending" => Some(TestsRan::ignored),
        _ => None,
    }
}

/// The sum of parts such as `3 passed`, by their words; `None` where none of them has one that counts.
fn named<'a>(
    parts: impl Iterator<Item = &'a str>,
    of: impl Fn(&str) -> Option<fn(u64) -> TestsRan>,
) -> Option<TestsRan> {
    let mut sum: Option<TestsRan> = None;
    for part in parts {
        if let Some((count, made)) = counted(part).and_then(|(count, word)| Some((count, of(word)?))) {
            sum.get_or_insert_default().add(made(count));
        }
    }
    sum
}

/// A number and the word behind it.
fn counted(part: &str) -> Option<(u64, &str)> {
    let (count, rest) = part.trim().split_once(' ')?;
    Some((number(count)?, rest.split(' ').next()?))
}

/// A number of tests. Digits only: `+3` and what no counter holds are none.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// How many tests ran on the base and how many now; `None` is a number that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// On the files at the start.
    pub base: Option<TestsRan>,
    /// On those that the gate judged.
    pub now: Option<TestsRan>,
}

impl Compared {
    /// Whether tests are missing: fewer passed than ran on the base, or their number is gone. Where the base's is not
    /// known nothing can be missing.
    pub fn fewer(self) -> bool {
        self.base.is_some_and(|base| self.now.is_none_or(|now| now.passed < base.ran()))
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.now {
            None => f.write_str("the number of tests is not known")?,
            Some(now) if now.ran() == 1 => f.write_str("1 test ran")?,
            Some(now) => write!(f, "{} tests ran", now.ran())?,
        }
        match self.base {
            None => f.write_str("; that of the base is not known"),
            Some(base) => write!(f, ", the base had {}", base.ran()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> Option<(u64, u64, u64)> {
        TestsRan::count(output.as_bytes()).map(|ran| (ran.passed, ran.failed, ran.ignored))
    }

    #[test]
    fn each_runner_is_counted() {
        let cargo = "running 3 tests\ntest a ... ok\n\ntest result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; \
                     7 filtered out; finished in 0.00s\n\n   Doc-tests x\n\ntest result: ok. 5 passed; 0 failed; 0 \
                     ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        assert_eq!(of(cargo), Some((7, 1, 4)));
        let nextest = "     Summary [   0.012s] 12 tests run: 9 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 3 skipped\n";
        assert_eq!(of(nextest), Some((9, 3, 3)));
        assert_eq!(of("     Summary [   0.012s] 1 test run: 1 passed, 0 skipped"), Some((1, 0, 0)));
        assert_eq!(
            of("     Summary [   0.012s] 3/5 tests run: 2 passed, 1 failed, 0 skipped"),
            Some((2, 1, 0))
        );
        assert_eq!(of("==== 1 failed, 3 passed, 2 skipped, 1 warning in 0.12s ===="), Some((3, 1, 2)));
        assert_eq!(of("2 passed, 1 xfailed, 1 error in 61.20s (0:01:01)"), Some((3, 1, 0)));
        assert_eq!(of("===== no tests ran in 0.01s ====="), Some((0, 0, 0)));
        let tap = "# tests 6\n# suites 0\n# pass 3\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 1\n# duration_ms 40.1\n";
        assert_eq!(of(tap), Some((3, 1, 2)));
        assert_eq!(of("\u{2139} tests 2\n\u{2139} pass 2\n\u{2139} fail 0\n"), Some((2, 0, 0)));
        let go = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/part (0.00s)\n--- SKIP: TestB (0.00s)\n\
                  --- FAIL: TestC (0.02s)\nFAIL\n";
        assert_eq!(of(go), Some((2, 1, 1)));
        assert_eq!(of("Tests:       1 failed, 1 skipped, 2 passed, 4 total"), Some((2, 1, 1)));
        assert_eq!(
            of("\u{1b}[2m      Tests \u{1b}[22m \u{1b}[31m1 failed\u{1b}[39m | 2 passed (3)"),
            Some((2, 1, 0))
        );
    }

    #[test]
    fn what_is_no_summary_is_not_counted() {
        for prose in [
            "",
            "3 passed",
            "test result",
            "I looked at 3 files in 2s",
            "all 3 passed, as they did in 0.1s",
            "# pass many",
            "--- PASS: by the way",
            "Tests: none",
            "Summary [0.1s] everything ran",
            "ok  \texample.org/x\t0.002s",
            "test result: ok. +3 passed; 99999999999999999999999 failed",
        ] {
            assert_eq!(of(prose), None, "{prose}");
        }
    }

    #[test]
    fn fewer_is_fewer_that_passed_than_ran_before() {
        let ran = |passed, failed| Some(TestsRan { passed, failed, ignored: 0 });
        let fewer = |base, now| Compared { base, now }.fewer();
        assert!(fewer(ran(1, 1), ran(1, 0)));
        assert!(!fewer(ran(1, 1), ran(2, 0)));
        assert!(!fewer(ran(2, 0), ran(3, 0)));
        assert!(fewer(ran(2, 0), None), "their number is gone");
        assert!(!fewer(None, None) && !fewer(None, ran(0, 0)), "there is nothing to compare with");
        let said = |base, now| Compared { base, now }.to_string();
        assert_eq!(said(ran(1, 1), ran(1, 0)), "1 test ran, the base had 2");
        assert_eq!(said(ran(3, 0), None), "the number of tests is not known, the base had 3");
        assert_eq!(said(None, ran(3, 0)), "3 tests ran; that of the base is not known");
    }
}
