//! Reported failures of other agents, by their ids, through the whole of Provost: a scripted model calls the tool; what
//! counts is the bytes on the disk, the next request, the journal. What one tool does alone is tested in its crate.
//!
//! `e…` are failures of editing, `c…` of commands and what they may touch, `d…` and `s5_d…` of results that say more or less
//! than what happened.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::fs::Mode;
use serde_json::{Value, json};

use crate::script::{body, call, call_ids, exec, read, results, script, sh, submit, told, with, write};
use crate::support::{
    Ran, Rehearsal, Repo, TestEnvironment, bodies, changes, eventually, finish, processes_at, text,
};

/// A repository with some files and a rehearsed model that plays `steps`.
struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(files: &[(&str, &[u8])], steps: impl IntoIterator<Item = Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[]);
        for (name, content) in files {
            repo.write(name, content);
        }
        repo.commit();
        let model = env.rehearse(&script(steps.into_iter().chain([submit()])));
        Self { env, repo, model }
    }

    /// Plays the script to its end.
    fn played(self) -> Self {
        let _ = self.run(&[]).code(0);
        self
    }

    fn run(&self, more: &[&str]) -> Ran {
        self.env.run(&self.repo.path, &self.model, more)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.repo.path.join(name)
    }

    #[track_caller]
    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// What the model was told of its calls, in order.
    fn told(&self) -> Vec<String> {
        told(&self.model)
    }

    fn journal(&self) -> Vec<Value> {
        self.env.journal(&self.env.only_run())
    }

    /// How the acts ended, `submit` left out.
    fn ends(&self) -> Vec<String> {
        let journal = self.journal();
        let mut ends: Vec<String> =
            bodies(&journal, "act.finished").iter().map(|event| text(&event["end"])).collect();
        ends.pop();
        ends
    }

    /// Paths that the journal says were changed.
    fn changed(&self) -> Vec<String> {
        let journal = self.journal();
        changes(&journal).iter().map(|change| text(&change["path"])).collect()
    }
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    call("edit_file", json!({ "path": path, "old": old, "new": new }))
}

fn patch(patch: &str) -> Value {
    call("apply_patch", json!({ "patch": patch }))
}

fn limited(line: &str, seconds: u32) -> Value {
    call("exec", json!({ "argv": ["sh", "-c", line], "timeout_seconds": seconds }))
}

/// `line 1`, `line 2` and so on.
fn lines(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat()
}

// Edits and patches.

#[test]
fn e5_crlf_stays_crlf() {
    let diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n-foo\n+FOO\n+new\n bar\n";
    let case = Case::new(&[("f", b"foo\r\nbar\r\n")], [read("f"), patch(diff)]).played();
    assert_eq!(case.bytes("f"), b"FOO\r\nnew\r\nbar\r\n");
    let case = Case::new(&[("f", b"foo\r\nbar\r\n")], [read("f"), edit("f", "foo\nbar", "a\nb\nc")]).played();
    assert_eq!(case.bytes("f"), b"a\r\nb\r\nc\r\n");
    // The control: a file with LF gets none.
    let case = Case::new(&[("f", b"foo\nbar\n")], [read("f"), patch(diff)]).played();
    assert_eq!(case.bytes("f"), b"FOO\nnew\nbar\n");
}

#[test]
fn e6_a_missing_newline_at_the_end_stays_missing() {
    let case = Case::new(&[("f", b"l1\nl2\nl3")], [read("f"), edit("f", "l1", "L1")]).played();
    assert_eq!(case.bytes("f"), b"L1\nl2\nl3");
    let out = case.env.at("bundle");
    let run = case.env.only_run();
    let _ = case.env.provost(["export", &run, "--out", &out.display().to_string()]).code(0);
    let diff = fs::read_to_string(out.join("changes.patch")).unwrap();
    let changed = |signs: [&str; 2]| {
        diff.lines().filter(|line| line.starts_with(signs[0]) && !line.starts_with(signs[1])).count()
    };
    assert_eq!((changed(["-", "---"]), changed(["+", "+++"])), (1, 1), "{diff}");
}

#[test]
fn e7_bytes_that_are_not_utf8_survive_an_edit_elsewhere() {
    for tail in [&b"// caf\xe9\n"[..], b"// \xc4\xe3\xba\xc3\n"] {
        let before = [b"const x=1;\n", tail].concat();
        let case = Case::new(&[("f.js", &before)], [read("f.js"), edit("f.js", "x=1", "x=2")]).played();
        assert!(case.bytes("f.js").ends_with(tail));
        let whole = call("write_file", json!({ "path": "f.js", "content": "const x=3;\n" }));
        // Nor does reading it show it as something that it is not.
        let case = Case::new(&[("f.js", &before)], [read("f.js"), whole]).played();
        assert!(!case.told()[0].contains('\u{fffd}'), "{:?}", case.told());
    }
}

#[test]
fn e8_a_file_never_gets_a_second_encoding() {
    let sjis = b"\x93\xfa\x96\x7b\nabc\n";
    let case = Case::new(&[("f", sjis)], [read("f"), edit("f", "abc", "\u{65e5}\u{672c}")]).played();
    assert_eq!(case.bytes("f"), sjis);
    assert_eq!(case.ends().last().unwrap(), "failed");
    // The control: in a file of UTF-8 it is written.
    let case = Case::new(&[("f", b"abc\n")], [read("f"), edit("f", "abc", "\u{65e5}\u{672c}")]).played();
    assert_eq!(case.bytes("f"), "\u{65e5}\u{672c}\n".as_bytes());
}

#[test]
fn e9_a_byte_order_mark_is_kept_and_in_nobodys_way() {
    let file: &[u8] = b"\xef\xbb\xbfparam($x)\r\nrest\r\n";
    let grep = call("grep", json!({ "pattern": "^param" }));
    let case = Case::new(&[("f.ps1", file)], [read("f.ps1"), grep, edit("f.ps1", "param($x)", "param($y)")])
        .played();
    assert_eq!(case.bytes("f.ps1"), b"\xef\xbb\xbfparam($y)\r\nrest\r\n");
    assert!(case.told()[1].contains("f.ps1"), "{}", case.told()[1]);
}

#[test]
fn e10_quotes_are_written_as_they_are_given() {
    let text = "\"straight\" and \u{201c}curly\u{201d}, 'it' and \u{2019}it\u{2019}\n";
    let case = Case::new(&[("g", b"x\n")], [write("f", text), read("g"), edit("g", "x", text)]).played();
    assert_eq!(case.bytes("f"), text.as_bytes());
    assert_eq!(case.bytes("g"), format!("{text}\n").as_bytes());
}

#[test]
fn e11_a_hunk_that_fits_two_places_is_written_nowhere() {
    let file = b"fn a() {\n\tone();\n\ttwo();\n}\nfn b() {\n\tif x {\n\t\tone();\n\t\ttwo();\n\t}\n}\n";
    let diff = "--- a/f\n+++ b/f\n@@ -90,2 +90,2 @@\n     one();\n-    two();\n+    three();\n";
    let case = Case::new(&[("f", file)], [read("f"), patch(diff)]).played();
    assert_eq!(case.bytes("f"), file);
    assert_eq!(case.ends(), ["done", "failed"]);
}

#[test]
fn e12_a_line_number_without_its_context_is_no_place() {
    let file = b"a\nb\nc\nd\n";
    let wrong = "--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@\n x\n-y\n+z\n";
    let case = Case::new(&[("f", file)], [read("f"), patch(wrong)]).played();
    assert_eq!(case.bytes("f"), file);
    assert!(case.changed().is_empty());
}

#[test]
fn e13_a_patch_of_several_files_is_all_or_nothing() {
    let head =
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n--- a/kept\n+++ b/kept\n@@ -1,2 +1,2 @@\n one\n";
    let stale = format!("{head}-stale\n+new\n");
    let files: &[(&str, &[u8])] = &[("gone", b"gone\n"), ("kept", b"one\ntwo\n")];
    let case = Case::new(files, [patch(&stale)]).played();
    assert_eq!((case.bytes("gone"), case.bytes("kept")), (b"gone\n".to_vec(), b"one\ntwo\n".to_vec()));
    assert!(case.told()[0].contains("kept"), "names the hunk: {}", case.told()[0]);
    let journal = case.journal();
    assert!(bodies(&journal, "act.started").is_empty(), "nothing was begun");
    // The control.
    let case = Case::new(files, [patch(&format!("{head}-two\n+new\n"))]).played();
    assert!(!case.path("gone").exists());
    assert_eq!(case.bytes("kept"), b"one\nnew\n");
    assert_eq!(case.changed(), ["gone", "kept"]);
}

#[test]
fn e15_modes_stay() {
    for mode in [0o755, 0o640, 0o600] {
        let case = Case::new(
            &[("run.sh", b"#!/bin/sh\necho one\n")],
            [read("run.sh"), edit("run.sh", "one", "two"), sh("test -x run.sh && ./run.sh || true")],
        );
        fs::set_permissions(case.path("run.sh"), fs::Permissions::from_mode(mode)).unwrap();
        let case = case.played();
        assert_eq!(fs::metadata(case.path("run.sh")).unwrap().mode() & 0o7777, mode);
        assert_eq!(case.told()[2].contains("two"), mode == 0o755, "{}", case.told()[2]);
    }
}

#[test]
fn e16_a_link_stays_a_link() {
    let case = Case::new(
        &[("real.txt", b"one\n")],
        [read("link"), edit("link", "one", "two"), read("twin.txt"), edit("twin.txt", "two", "three")],
    );
    symlink("real.txt", case.path("link")).unwrap();
    fs::hard_link(case.path("real.txt"), case.path("twin.txt")).unwrap();
    let case = case.played();
    assert!(fs::symlink_metadata(case.path("link")).unwrap().is_symlink());
    assert_eq!((case.bytes("real.txt"), case.bytes("twin.txt")), (b"three\n".to_vec(), b"three\n".to_vec()));
    assert!(case.told()[1].contains("hard link"), "all names are said to change: {}", case.told()[1]);
}

#[test]
fn e17_a_stale_write_destroys_nothing() {
    let case = Case::new(
        &[("f", b"one\n")],
        [
            read("f"),
            sh("echo theirs >> f"),
            write("f", "mine\n"),
            read("f"),
            write("f", "one\ntheirs\nmine\n"),
            write("f", "mine again\n"),
        ],
    )
    .played();
    assert_eq!(case.ends(), ["done", "done", "failed", "done", "done", "done"]);
    assert_eq!(case.bytes("f"), b"mine again\n");
    assert!(case.told()[3].contains("theirs"), "what it would have destroyed is there to be read");
}

#[test]
fn e18_a_patch_in_another_form_is_taken_or_answered_with_the_right_form() {
    let envelope = "*** Begin Patch\n*** Update File: f\n@@\n-one\n+two\n*** End Patch\n";
    let wrapped = json!({ "patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n" }).to_string();
    let case =
        Case::new(&[("f", b"one\n")], [patch(&wrapped), patch("f: one -> two"), patch(envelope)]).played();
    for (end, told) in case.ends().iter().zip(case.told()) {
        assert!(end == "done" || told.contains("@@ "), "shows a valid form: {told}");
    }
    assert!([&b"one\n"[..], b"two\n"].contains(&case.bytes("f").as_slice()));
    // The guard against the same failing call is `w5_…` in `provider.rs`.
}

#[test]
fn e19_the_first_line_that_differs_is_named() {
    let all = lines(1..=40);
    let old = lines(5..=30).replace("line 25", "line XXV");
    let case = Case::new(&[("f", all.as_bytes())], [read("f"), edit("f", &old, "new\n")]).played();
    let told = &case.told()[1];
    assert!(told.contains("line XXV") && told.contains("line 25"), "expected and found: {told}");
    assert_eq!(case.bytes("f"), all.as_bytes());
}

#[test]
fn e20_tabs_that_are_quoted_as_spaces() {
    let case = Case::new(
        &[("Makefile", b"all:\n\techo one\n")],
        [read("Makefile"), edit("Makefile", "    echo one", "    echo two\n    echo three")],
    )
    .played();
    let applied = case.bytes("Makefile") == b"all:\n\techo two\n\techo three\n";
    assert!(applied || (case.bytes("Makefile") == b"all:\n\techo one\n" && case.ends()[1] == "failed"));
}

#[test]
fn e21_an_ambiguous_edit_is_answered_with_its_places() {
    let file = b"same\nother\nsame\nmore\nsame\n";
    let case = Case::new(&[("f", file)], [read("f"), edit("f", "same", "new")]).played();
    assert_eq!(case.bytes("f"), file);
    let told = &case.told()[1];
    assert!(["1", "3", "5"].iter().all(|line| told.contains(line)), "{told}");
}

// Commands.

#[test]
fn c2_c3_nothing_of_a_command_outlives_its_limit() {
    let lines = [
        // A child that takes no notice of TERM, and its own child.
        "trap '' TERM; sleep 997 & wait",
        // Three deep; each waits for a flag that never comes and would then leave a canary.
        "sh -c 'sh -c \"trap : TERM; while [ ! -e flag ]; do sleep 0.05; done; echo x > canary\" & wait' & wait",
        // A daemon: own session, own group, parent gone.
        "setsid sh -c 'trap \"\" TERM HUP; sleep 998' >/dev/null 2>&1 & sleep 999",
    ];
    for line in lines {
        let case = Case::new(
            &[],
            [limited(line, 1), write("flag", ""), sh("pgrep -f 'sleep 99[789]' || echo none")],
        );
        let case = case.played();
        assert_eq!(case.ends()[0], "timed_out", "{line}");
        let journal = case.journal();
        let command = &bodies(&journal, "act.finished")[0]["command"];
        assert_eq!(command["exit"]["how"], "timed_out", "{command}");
        drop(case.model);
        assert!(processes_at(&case.repo.path).is_empty(), "{line}");
        assert!(!case.repo.path.join("canary").exists());
    }
}

#[test]
fn c6_what_a_command_leaves_in_the_background_is_gone_when_it_returns() {
    let lines = ["sleep 991 & sleep 992 & echo started", "setsid sleep 993 >/dev/null 2>&1 & echo started"];
    for line in lines {
        let case = Case::new(&[], [sh(line)]).played();
        assert!(case.told()[0].contains("started"), "{}", case.told()[0]);
        drop(case.model);
        assert!(processes_at(&case.repo.path).is_empty(), "{line}");
    }
}

#[test]
fn c7_a_long_command_is_waited_for() {
    let case = Case::new(&[], [sh("sleep 2; echo the-end")]).played();
    assert!(case.told()[0].contains("the-end"));
}

/// Most memory that a process has had, in kB, watched until it is over.
fn peak(driver: &mut crate::support::Running) -> u64 {
    let status = format!("/proc/{}/status", driver.pid());
    let mut peak = 0;
    while !driver.is_over() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        peak = peak.max(now);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    peak
}

#[test]
fn c4_c5_d7_d14_a_flood_is_bounded_and_both_its_ends_are_kept() {
    let flood = [
        // For ever: the limit ends it, and what it printed is there.
        limited("echo the-beginning; exec yes", 2),
        // One line of 160 MB.
        sh("printf the-beginning; head -c 160000000 /dev/zero | tr '\\0' x; printf the-end"),
        // The summary stands at the end.
        sh("echo the-beginning; seq 1 20000; echo 'test result: FAILED. 1 failed'"),
        // Characters of three bytes are not cut inside.
        sh("i=0; while [ $i -lt 30 ]; do printf '\u{20ac}%.0s' $(seq 1 2000); i=$((i+1)); done"),
    ];
    let case = Case::new(&[], flood);
    let mut driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &[]));
    let peak = peak(&mut driver);
    let _ = driver.wait().code(0);
    assert!(peak > 1_000 && peak < 60_000, "the driver's peak was {peak} kB");
    let told = case.told();
    assert_eq!(case.ends()[0], "timed_out");
    assert!(told[0].contains("the-beginning") && told[0].contains("\ny\n"));
    assert!(told[1].contains("the-beginning") && told[1].ends_with("the-end\n"));
    assert!(told[2].contains("the-beginning") && told[2].contains("FAILED. 1 failed"));
    let journal = case.journal();
    for (text, act) in told.iter().zip(bodies(&journal, "act.finished")) {
        assert!(text.contains("bytes left out"), "says that it is a part");
        assert!(text.len() < 40_000);
        assert!(!text.contains('\u{fffd}') && !text.contains("\\x"), "no character is cut");
        assert!(act["command"]["output_bytes"].as_u64().unwrap() > 80_000);
    }
    // How much is left out is right to the byte: 180,000 in all.
    // One more stands in the command that is shown above its output.
    let kept = (told[3].matches('\u{20ac}').count() - 1) * 3;
    assert!(told[3].contains(&format!("{} bytes left out", 180_000 - kept)), "{kept} kept");
}

#[test]
fn c8_nothing_can_take_the_terminal() {
    let case = Case::new(
        &[("a", b"1\n")],
        [
            sh("tty; cat; echo input-ended"),
            sh("echo x > /dev/tty"),
            exec(&["git", "log", "--oneline"]),
            sh("sudo -n true && echo root"),
            exec(&["sudo", "true"]),
            limited("git commit --allow-empty", 20),
            limited("git rebase -i HEAD~1", 20),
        ],
    );
    case.repo.write("b", "2\n");
    let head = case.repo.commit();
    let case = case.played();
    assert_eq!(case.ends(), ["done", "failed", "done", "failed", "failed", "failed", "failed"]);
    assert!(case.told()[0].contains("not a tty") && case.told()[0].contains("input-ended"));
    assert!(case.told()[2].contains("A commit"));
    assert_eq!(case.repo.head(), head, "nothing was committed, nothing rebased");
    assert!(!case.path(".git/rebase-merge").exists());
}

#[test]
fn c9_d6_special_files_are_refused_by_kind_and_hold_nothing_up() {
    let grep = call("grep", json!({ "pattern": "needle" }));
    let case = Case::new(
        &[("a", b"needle\n")],
        [
            read("fifo"),
            read("zero"),
            read("folder"),
            write("fifo", "x"),
            grep,
            call("list_dir", json!({})),
            sh("ls -l"),
        ],
    );
    fs::create_dir(case.path("folder")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, case.path("fifo"), Mode::from(0o644)).unwrap();
    symlink("/dev/zero", case.path("zero")).unwrap();
    let case = case.played();
    let told = case.told();
    assert!(told[0].contains("fifo") && told[0].to_lowercase().contains("named pipe"), "{}", told[0]);
    assert!(told[1].contains("/dev/zero"), "{}", told[1]);
    assert!(told[4].contains("needle"), "the search goes past them: {}", told[4]);
    assert!(["fifo", "zero", "folder"].iter().all(|name| told[5].contains(name)), "{}", told[5]);
}

#[test]
fn c10_arguments_arrive_byte_for_byte() {
    let words = [
        "C:\\Users\\unicorn\\new",
        "\\u0041\\n\\t\\x41\\0",
        "two\nlines\r\n",
        " spaces  inside ",
        "",
        "$HOME `id` $(id) ${X} * ? [a] ~ ! # & | ; < >",
        "'single' \"double\" \\",
        "ref:.path",
        "--flag=\u{65e5}\u{672c}\u{1f600}",
        "\u{1b}[31m",
    ];
    let mut argv = vec!["sh", "-c", "printf '%s\\0' \"$@\" > args", "sh"];
    argv.extend(words);
    let case = Case::new(&[], [exec(&argv)]).played();
    let expected: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    assert_eq!(case.bytes("args"), expected);
    // So they stand in the journal, too.
    let journal = case.journal();
    assert_eq!(bodies(&journal, "act.started")[0]["intent"]["argv"], json!(argv));
}

// Defects that were found live elsewhere. D1 and D13 are in `durable.rs` and `presets.rs`, D3 and D4 in `crash.rs`, D6
// is `c9`, D7 and D14 are `c4`.

#[test]
fn d8_d9_a_search_is_bounded_and_says_so() {
    let line = "some text with the letter e in it, again and again\n";
    let big = line.repeat(400_000);
    let case = Case::new(
        &[("small", b"needle\n")],
        [
            call("grep", json!({ "pattern": "e" })),
            call("grep", json!({ "pattern": "needle" })),
            call("find", json!({ "glob": "**" })),
        ],
    );
    for n in 0..3 {
        fs::write(case.path(&format!("big-{n}.txt")), &big).unwrap();
    }
    let mut driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &[]));
    let peak = peak(&mut driver);
    let _ = driver.wait().code(0);
    assert!(peak < 90_000, "the driver's peak was {peak} kB");
    let told = case.told();
    assert!(told[0].len() < 100_000);
    let says_more = |text: &str| ["more", "stopped", "first"].iter().any(|word| text.contains(word));
    assert!(says_more(&told[0]), "{}", told[0].lines().last().unwrap());
    assert!(!says_more(&told[1]), "the control: all of it was shown: {}", told[1]);
}

#[test]
fn d10_a_write_without_content_writes_nothing() {
    let case =
        Case::new(&[("f", b"one\n")], [read("f"), call("write_file", json!({ "path": "f" }))]).played();
    assert_eq!(case.bytes("f"), b"one\n");
    // The control: to empty it on purpose is possible.
    let case = Case::new(&[("f", b"one\n")], [read("f"), write("f", "")]).played();
    assert_eq!(case.bytes("f"), b"");
}

#[test]
fn d11_a_file_that_is_not_there_is_a_failure_that_names_what_is() {
    let case = Case::new(&[("src/library.rs", b"x\n")], [read("src/libary.rs")]).played();
    assert_eq!(case.ends(), ["failed"]);
    assert!(case.told()[0].contains("src/library.rs"), "{}", case.told()[0]);
}

#[test]
fn d16_what_is_read_can_be_patched() {
    let all = lines(1..=30);
    let off = "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 19\n-line 20\n+line twenty\n line 21\n";
    let case = Case::new(&[("f", all.as_bytes())], [read("f"), patch(off)]).played();
    assert!(case.told()[0].contains("    20\tline 20"), "numbers are shown");
    assert_eq!(case.bytes("f"), all.replace("line 20", "line twenty").as_bytes());
}

#[test]
fn d20_what_was_there_before_is_durable_before_the_write() {
    let steps = [read("f"), write("f", "two\n"), sh("rm f; echo new > g")];
    let case = Case::new(&[("f", b"one\n")], steps).played();
    let run = case.env.only_run();
    let journal = case.journal();
    let order: Vec<&str> = journal.iter().filter_map(|event| event["kind"].as_str()).collect();
    let started = order.iter().position(|kind| *kind == "act.started").unwrap();
    let finished = &journal[started + 1];
    assert_eq!(finished["kind"], "act.finished");
    assert_eq!(finished["body"]["end"], "done", "it did what it set out to do");
    assert!(finished["body"].get("changes").is_none(), "which is not said twice");
    // Both sides are kept, also of what a command did.
    let store = rusqlite::Connection::open(case.env.store()).unwrap();
    let kept = |digest: &Value| -> Vec<u8> {
        let query = "SELECT bytes FROM blob WHERE lower(hex(digest)) = ?1";
        store.query_row(query, [digest.as_str().unwrap()], |row| row.get(0)).unwrap()
    };
    let contents: Vec<(Vec<u8>, Vec<u8>)> = changes(&journal)
        .iter()
        .map(|change| {
            let side = |side: &str| change[side].get("content").map(&kept).unwrap_or_default();
            (side("before"), side("after"))
        })
        .collect();
    let pair = |before: &str, after: &str| (before.as_bytes().to_vec(), after.as_bytes().to_vec());
    assert_eq!(contents, [pair("one\n", "two\n"), pair("two\n", ""), pair("", "new\n")], "{run}");
}

// Reading.

#[test]
fn paths_that_lead_out_are_refused_and_huge_files_are_not_read() {
    let case = Case::new(&[("a", b"inside\n")], []);
    let outside = case.env.at("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "canary-77\n").unwrap();
    fs::write(case.env.at("secret"), "canary-77\n").unwrap();
    symlink(&outside, case.path("out")).unwrap();
    symlink(outside.join("secret"), case.path("link")).unwrap();
    fs::File::create(case.path("huge")).unwrap().set_len(300 << 20).unwrap();
    let model = case.env.rehearse(&script([
        read("../secret"),
        read(&outside.join("secret").display().to_string()),
        read("out/secret"),
        read("link"),
        write("out/new", "x"),
        write("../new", "x"),
        read("huge"),
        call("read_file", json!({ "path": "huge", "start_line": 1, "end_line": 2 })),
        call("grep", json!({ "pattern": "canary" })),
        read("a"),
        submit(),
    ]));
    let mut driver = case.env.start(case.env.run_args(&case.repo.path, &model, &[]));
    let peak = peak(&mut driver);
    let _ = driver.wait().code(0);
    assert!(peak < 90_000, "the driver's peak was {peak} kB");
    let told = told(&model);
    assert!(told.iter().all(|text| !text.contains("canary-77")), "{told:?}");
    for (text, name) in
        told.iter().zip(["../secret", "/outside/secret", "out", "link", "out", "../new", "huge"])
    {
        assert!(text.contains(name), "names it: {text}");
    }
    assert!(told[9].contains("inside"), "the control");
    assert!(!outside.join("new").exists() && !case.env.at("new").exists());
    case.env.assert_store_intact();
}

#[test]
fn names_that_are_not_utf8_are_carried_through() {
    let case = Case::new(
        &[("a", b"1\n")],
        [
            call("list_dir", json!({})),
            read("caf\\xe9.txt"),
            edit("caf\\xe9.txt", "one", "two"),
            sh("printf 'new\\n' > \"$(printf 'by-\\377')\""),
        ],
    );
    let name = std::ffi::OsString::from_vec(b"caf\xe9.txt".to_vec());
    fs::write(case.repo.path.join(&name), "one\n").unwrap();
    case.repo.commit();
    let recipient = case.repo.clone_to("recipient");
    let case = case.played();
    assert_eq!(case.ends(), ["done", "done", "done", "done"], "{:?}", case.told());
    assert_eq!(fs::read(case.repo.path.join(&name)).unwrap(), b"two\n");
    // The patch says so, too: another git applies it.
    let run = case.env.only_run();
    let out = case.env.at("bundle");
    let _ = case.env.provost(["export", &run, "--out", &out.display().to_string()]).code(0);
    let key = case.env.public_key();
    let mut verify = case.env.provost_command(["verify", "bundle", "--repo", "recipient", "--key"]);
    verify.arg(key);
    let _ = finish(verify).code(0);
    recipient.git(&["apply", &out.join("changes.patch").display().to_string()]);
    assert_eq!(fs::read(recipient.path.join(&name)).unwrap(), b"two\n");
    assert_eq!(fs::read(recipient.path.join(std::ffi::OsStr::from_bytes(b"by-\xff"))).unwrap(), b"new\n");
}

// Sessions.

#[test]
fn s5_d3_d4_after_a_kill_the_next_request_is_valid_and_keeps_what_was_there() {
    let steps = [read("a"), sh("echo begun > begun; exec sleep 996"), sh("echo after")];
    let case = Case::new(&[("a", b"one\n")], steps);
    let driver = case.env.start(case.env.run_args(&case.repo.path, &case.model, &[]));
    eventually("the command runs", || case.path("begun").exists());
    let _ = driver.kill();
    let before = body(case.model.requests().last().unwrap());
    let run = case.env.only_run();
    let _ = case.env.provost(["resume", &run, "--json"]).code(0);
    for request in case.model.requests() {
        let body = body(&request);
        let answered: Vec<String> = results(&body).into_iter().map(|told| told.id).collect();
        assert_eq!(answered, call_ids(&body), "every call has its one result");
    }
    let after = body(case.model.requests().last().unwrap());
    let count = before["messages"].as_array().unwrap().len();
    assert_eq!(after["messages"].as_array().unwrap()[..count], before["messages"].as_array().unwrap()[..]);
    let told = case.told();
    assert!(told[1].contains("interrupted"), "{}", told[1]);
    assert!(told[2].contains("after"));
    // It is told the same at every later request: the words are recorded once.
    let journal = case.journal();
    assert_eq!(bodies(&journal, "act.finished").len(), 4);
}

#[test]
fn s5_d5_d9_a_damaged_store_is_named_and_left_as_it_is() {
    let case = Case::new(&[("a", b"one\n")], [read("a")]).played();
    let run = case.env.only_run();
    let journal = case.journal();
    let whole = fs::read(case.env.store()).unwrap();
    // NULs behind the end lose nothing.
    fs::write(case.env.store(), [whole.clone(), vec![0; 4096]].concat()).unwrap();
    assert_eq!(case.env.journal(&run), journal);
    // Garbage in a page: an error that names the file, or the page is one that nobody reads. Never other events.
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        for (at, byte) in damaged[page * 4096..][..4096].iter_mut().enumerate() {
            *byte = (at * 31 + page) as u8;
        }
        fs::write(case.env.store(), &damaged).unwrap();
        let ran = case.env.provost(["log", &run, "--json"]);
        assert!(!ran.stderr.contains("panicked"), "page {page}: {ran}");
        if ran.code == 0 {
            assert_eq!(ran.json(), journal, "page {page}");
        } else {
            assert!([2, 8, 70].contains(&ran.code), "page {page}: {ran}");
            assert!(!ran.stderr.is_empty(), "page {page}");
        }
    }
    fs::write(case.env.store(), whole).unwrap();
    assert_eq!(case.env.journal(&run), journal, "the control");
}

#[test]
fn s5_d6_a_full_disk_stops_the_run_and_space_lets_it_go_on() {
    let content = lines(1..=20_000);
    let big = with(write("big-{{i}}.txt", &format!("{{{{i}}}}{content}")), "repeat", 12);
    let case = Case::new(&[], [big]);
    // A file system of two megabytes, in a mount namespace of its own.
    let dir = case.env.at("small");
    fs::create_dir(&dir).unwrap();
    let provost = env!("CARGO_BIN_EXE_provost");
    let line = format!(
        "mount -t tmpfs -o size=2m none small || exit 99\n\
         {provost} run 'Mend it.' -C repository --model m --base-url {url} --store small/store.db --json >one 2>two\n\
         echo $? >first\n\
         mount -o remount,size=64m none small || exit 99\n\
         run=$({provost} runs --store small/store.db | cut -d' ' -f1)\n\
         {provost} resume \"$run\" --store small/store.db --json >three 2>four\n\
         echo $? >second\n\
         {provost} log \"$run\" --store small/store.db --json >log\n",
        url = case.model.base_url,
    );
    let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let mut unshare = case.env.command("unshare");
    unshare.args([namespaces, "sh", "-c", &line]);
    let _ = finish(unshare).code(0);
    let file = |name: &str| fs::read_to_string(case.env.at(name)).unwrap();
    assert_ne!(file("first").trim(), "0", "it does not go on unrecorded");
    assert!(file("two").contains("no space"), "{}", file("two"));
    assert_eq!(file("second").trim(), "0", "{}{}", file("three"), file("four"));
    let log: Vec<Value> = file("log").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(log.last().unwrap()["body"]["outcome"]["is"], "done");
    for n in 0..12 {
        assert_eq!(
            case.bytes(&format!("big-{n}.txt")),
            format!("{n}{content}").as_bytes(),
            "each written once"
        );
    }
}

#[test]
fn s5_d7_resuming_again_and_again_adds_the_same_little_each_time() {
    let case = Case::new(&[("a", b"one\n")], [with(read("a"), "repeat", 20), write("b", "two\n")]);
    let ran = case.run(&["--policy", "strict"]).code(5);
    let run = ran.run();
    let mut counts = vec![case.journal().len()];
    let asked = case.model.requests().len();
    for _ in 0..20 {
        let _ = case.env.provost(["resume", &run, "--json"]).code(5);
        counts.push(case.journal().len());
    }
    let added: Vec<usize> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(added.iter().all(|count| *count == added[0] && *count <= 3), "{added:?}");
    assert_eq!(case.model.requests().len(), asked, "nothing is asked again");
    let _ = case.env.provost(["resume", &run, "--yes", "--json"]).code(0);
    assert_eq!(case.bytes("b"), b"two\n");
}

#[test]
fn s5_d11_a_lease_of_a_dead_process_with_a_reused_pid_holds_nobody_up() {
    let hold = |case: &Case, later: u64| {
        let store = rusqlite::Connection::open(case.env.store()).unwrap();
        let me = std::process::id();
        let stat = fs::read_to_string(format!("/proc/{me}/stat")).unwrap();
        let own: u64 = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        let trim = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
        let holder = json!({
            "host": trim("/proc/sys/kernel/hostname"),
            "boot_id": trim("/proc/sys/kernel/random/boot_id"),
            "pid_namespace": fs::metadata("/proc/self/ns/pid").unwrap().ino(),
            "pid": me,
            "pid_start": own + later,
        });
        let query = "UPDATE run SET holder = ?1, since_ms = created_ms, until_ms = created_ms + 100000000000";
        store.execute(query, [holder.to_string()]).unwrap();
    };
    let fault = json!({ "status": 429, "headers": { "retry-after": "86400" } });
    let case = Case::new(&[("a", b"one\n")], [with(read("a"), "fault", fault)]);
    let run = case.run(&[]).code(6).run();
    // A process that lives: the second driver is refused, and told by whom.
    hold(&case, 0);
    let ran = case.env.provost(["resume", &run]).code(7);
    assert!(ran.stderr.contains(&std::process::id().to_string()), "{ran}");
    // The same pid, and a process that began at another time: its owner is dead.
    hold(&case, 1);
    let _ = case.env.provost(["resume", &run]).code(0);
}
