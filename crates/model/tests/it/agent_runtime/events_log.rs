//! Its event log. Lines as it writes them, whole, torn, glued and flipped.

use std::collections::BTreeMap;

use proptest::prelude::*;
use provost_model::agent_runtime::events_log::{Log, State, Warning, What};

const RUN: &str = "clamp\tqueued\t0\tenqueue\n\
    clamp\trunning\t1\tstart\n\
    tool\tclamp\t1\tcargo\t1\t1\tfalse\tfalse\tfalse\t255\t1547\t843\n\
    trace\tclamp\t1\tsh\t0\t0\tfalse\tfalse\tfalse\t0\t0\t9\n\
    tool\tclamp\t1\tgit\t3\tnone\ttrue\tfalse\ttrue\t255\t237\t51\n\
    clamp\tfailed\t1\tcomplete\n";

fn read(text: impl AsRef<[u8]>) -> Log {
    Log::read(text.as_ref())
}

fn problems(log: &Log) -> Vec<(u64, &What)> {
    log.problems.iter().map(|problem| (problem.line, &problem.what)).collect()
}

#[test]
fn a_run_is_read_with_its_last_tool() {
    let log = read(RUN);
    assert_eq!((log.lines, log.problem_count), (6, 0));
    let task = &log.tasks["clamp"];
    assert_eq!(
        (task.state, task.attempts, task.reason.as_str(), task.line),
        (State::Failed, 1, "complete", 6)
    );
    let trace = task.last_trace().unwrap();
    assert_eq!((trace.program.as_str(), trace.duration_ms, trace.status), ("git", 51, None));
    assert!(trace.timed_out && trace.output_truncated && !trace.cancelled);
    assert_eq!(task.last_task.as_ref().unwrap().program, "sh");
    assert_eq!(task.warnings, []);
    assert_eq!(read("").lines, 0);
}

#[test]
fn an_id_is_any_text_without_tab_and_line_feed() {
    for id in ["", "\u{1b}[2J", "a b\r", "trace", "tool", "é", "queued"] {
        let log = read(format!(
            "{id}\tqueued\t0\tenqueue\ntool\t{id}\t1\tls\t0\t0\tfalse\tfalse\tfalse\t1\t2\t3\n"
        ));
        assert_eq!(log.problem_count, 0, "{id:?}: {log:?}");
        assert_eq!(log.tasks[id].last_trace().unwrap().program, "ls");
    }
}

/// A1, A4: what is torn is not believed, and is named.
#[test]
fn a_torn_end_is_named_and_not_believed() {
    let before = "a\tqueued\t0\tenqueue\na\trunning\t3\tstart\n";
    for torn in [
        "a",
        "a\tca",
        "a\tcancelled",
        "a\tcancelled\t",
        "a\tcancelled\t1",
        "a\tcancelled\t3\tcan",
        "tool\ta\t1",
    ] {
        let log = read(format!("{before}{torn}"));
        assert_eq!(problems(&log), [(3, &What::Torn)], "{torn:?}");
        assert_eq!(log.tasks["a"].state, State::Running);
    }
    let whole = read(format!("{before}a\tcancelled\t3\tcancel"));
    assert_eq!((problems(&whole), whole.tasks["a"].state), (vec![(3, &What::NoLineFeed)], State::Cancelled));
    // Its last number may have lost digits.
    let trace = read(format!("{before}tool\ta\t3\tls\t0\t0\tfalse\tfalse\tfalse\t1\t2\t3"));
    assert_eq!(problems(&trace), [(3, &What::Torn)]);
    let half = [before.as_bytes(), b"\xc3"].concat();
    assert_eq!(problems(&read(half)), [(3, &What::Torn)]);
}

/// A1: an acknowledged cancel that was glued to a torn record is found.
#[test]
fn a_record_glued_to_a_torn_one_is_taken_where_its_task_is_certain() {
    let before = "a\tqueued\t0\tenqueue\nbb\tqueued\t0\tenqueue\n";
    for torn in
        ["bb\tru", "bb\trunning\t", "bb\trunning\t1", "bb\trunning\t1\t", "bb\trunning\t1\tst", "trace\tbb"]
    {
        let log = read(format!("{before}{torn}a\tcancelled\t0\tcancel\n"));
        let glued = What::Glued { task: Some("a".to_owned()), candidates: 1 };
        assert_eq!(problems(&log), [(3, &glued)], "{torn:?}");
        assert_eq!(
            (log.tasks["a"].state, log.tasks["bb"].state),
            (State::Cancelled, State::Queued),
            "{torn:?}"
        );
    }
    let tool = "tool\ta\t1\tls\t0\t0\tfalse\tfalse\tfalse\t1\t2\t3\n";
    for torn in ["b", "bb\tru", "bb\trunning\t1\tst", "tool\tbb\t1\tls\t0\t0\tfal", "trace\tbb"] {
        let log = read(format!("{before}{torn}{tool}"));
        assert!(matches!(problems(&log)[..], [(3, What::Glued { task: Some(_), .. })]), "{torn:?}: {log:?}");
        assert_eq!(log.tasks["a"].last_trace().unwrap().program, "ls", "{torn:?}");
    }
}

#[test]
fn a_record_whose_task_is_not_certain_is_not_taken() {
    // `1a` or `a`: the torn record's number may be `1` or `11`.
    let before = "a\tqueued\t0\tenqueue\n1a\tqueued\t0\tenqueue\n";
    let log = read(format!("{before}x\trunning\t11a\tcancelled\t0\tcancel\n"));
    assert_eq!(problems(&log), [(3, &What::Glued { task: None, candidates: 2 })]);
    assert!(log.tasks.values().all(|task| task.state == State::Queued));
    // A new task's name is nowhere else; that `b` is known makes it no `b`.
    let log = read("b\tqueued\t0\tenqueue\nb\trunning\t1\tstnewb\tqueued\t0\tenqueue\n");
    assert_eq!(problems(&log), [(2, &What::Glued { task: None, candidates: 0 })]);
    // It is told by what it does later.
    let log = read("b\trunning\t1\tstc\tqueued\t0\tenqueue\nc\trunning\t1\tstart\n");
    assert_eq!(problems(&log), [(1, &What::Glued { task: Some("c".to_owned()), candidates: 1 })]);
    assert_eq!((log.tasks["c"].state, log.tasks["c"].warnings.len()), (State::Running, 0));
    // Two names made into one: nothing in the line shows it, the history does.
    let log = read("a\tqueued\t0\tenqueue\nba\tcancelled\t0\tcancel\n");
    assert_eq!(log.tasks["ba"].warnings, [Warning::NoBeginning { line: 2, state: State::Cancelled }]);
}

/// A2, A3: damage stays where it is.
#[test]
fn damage_costs_its_own_line_and_nothing_else() {
    let mut bytes = RUN.as_bytes().to_vec();
    bytes.splice(7..7, [0xff]);
    bytes.extend_from_slice(b"clamp\tcanceLled\t1\tcancel\n\nx\ty\n");
    bytes.extend_from_slice(b"clamp\tfailed\t1\tbecause\nclamp\tfailed\t+1\tcomplete\ntool\tz\t1\tls\t0\t0\tfalse\tfalse\tfalse\t1\t2\t3\n");
    let log = Log::read(&bytes);
    let lines: Vec<u64> = log.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 7, 8, 9, 10, 11, 12]);
    assert_eq!(
        log.problems[0].to_string(),
        "line 1: it is not UTF-8 from byte 7 on; nothing of it was taken"
    );
    assert_eq!(log.problems[4].what, What::Reason);
    assert_eq!(log.problems[6].what, What::NoTask);
    assert_eq!(log.tasks["clamp"].last_trace().unwrap().program, "git");
    assert_eq!(log.tasks["clamp"].warnings, [Warning::NoBeginning { line: 2, state: State::Running }]);
}

/// A6 and its like.
#[test]
fn what_cannot_have_happened_is_warned_of() {
    let begin = "a\tqueued\t0\tenqueue\na\trunning\t1\tstart\n";
    let warnings = |rest: &str| read(format!("{begin}{rest}")).tasks["a"].warnings.clone();
    assert_eq!(
        warnings("a\tcancelled\t1\tcancel\na\tsucceeded\t1\tcomplete\n"),
        [Warning::CancelOverwritten { line: 4, cancelled: 3, by: State::Succeeded }]
    );
    assert_eq!(
        warnings("a\tsucceeded\t1\tcomplete\na\tfailed\t2\tcomplete\n"),
        [Warning::EndOverwritten { line: 4, was: State::Succeeded, by: State::Failed }]
    );
    assert_eq!(warnings("a\tfailed\t1\tcomplete\na\tqueued\t1\tretry\na\trunning\t2\tstart\n"), []);
    assert_eq!(warnings("a\tqueued\t1\trestart_recovery\n"), []);
    assert_eq!(
        warnings("a\tqueued\t0\tenqueue\n"),
        [Warning::EnqueuedAgain { line: 3 }, Warning::AttemptsFell { line: 3, from: 1, to: 0 }]
    );
}

#[test]
fn a_flood_of_bad_lines_is_counted_and_costs_little() {
    let log = read("x\n".repeat(100_000));
    assert_eq!((log.lines, log.problem_count, log.problems.len()), (100_000, 100_000, 1000));
    let log = read("\t".repeat(5_000_000));
    assert_eq!(problems(&log), [(1, &What::Torn)]);
    let overwritten = "a\tcancelled\t0\tcancel\na\tqueued\t0\tretry\n".repeat(5_000);
    assert!(read(overwritten).tasks["a"].warnings.len() <= 20);
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{1,2}", 1 => "[^\t\n]{0,6}"]
}

/// A record as the peer writes it, with its id and, for one of state, the state.
fn record() -> impl Strategy<Value = (String, Option<(String, State)>)> {
    let states = prop::sample::select(vec![
        (State::Queued, "enqueue"),
        (State::Running, "start"),
        (State::Succeeded, "complete"),
        (State::Failed, "complete"),
        (State::Cancelled, "cancel"),
        (State::Queued, "restart_recovery"),
    ]);
    let state = (id(), states, 0u32..30).prop_map(|(id, (state, reason), attempts)| {
        (format!("{id}\t{}\t{attempts}\t{reason}\n", state.word()), Some((id, state)))
    });
    let tool = (id(), any::<bool>(), any::<u64>()).prop_map(|(id, cut, ms)| {
        (format!("tool\t{id}\t1\tcargo\t2\t-1\tfalse\t{cut}\tfalse\t1\t2\t{ms}\n"), None)
    });
    prop_oneof![3 => state, 1 => tool]
}

proptest! {
    /// Whole records are read as they were written: the last one of each id stands.
    #[test]
    fn whole_records_are_read_without_a_problem(records in prop::collection::vec(record(), 0..40)) {
        let text: String = records.iter().map(|(line, _)| line.as_str()).collect();
        let log = read(&text);
        prop_assert!(log.problems.iter().all(|problem| problem.what == What::NoTask), "{:?}", log.problems);
        let last: BTreeMap<String, State> = records.into_iter().filter_map(|(_, state)| state).collect();
        let found: BTreeMap<String, State> = log.tasks.into_iter().map(|(id, task)| (id, task.state)).collect();
        prop_assert_eq!(found, last);
    }

    /// A log that is cut anywhere says what its whole lines say, or, of a record that is whole, what that says.
    #[test]
    fn a_cut_changes_nothing_before_it(records in prop::collection::vec(record(), 1..20), cut in any::<prop::sample::Index>()) {
        let text: String = records.iter().map(|(line, _)| line.as_str()).collect();
        let cut = &text.as_bytes()[..cut.index(text.len() + 1)];
        let log = Log::read(cut);
        let whole = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let torn = log.problems.iter().any(|problem| problem.what == What::Torn);
        let taken = log.problems.iter().any(|problem| problem.what == What::NoLineFeed);
        prop_assert_eq!(torn || taken, whole < cut.len());
        if torn {
            prop_assert_eq!(&log.tasks, &Log::read(&cut[..whole]).tasks);
        }
    }

    /// A record that is appended to a torn log is found or named: never is a line passed over in silence.
    #[test]
    fn what_is_glued_is_never_silent(first in record(), torn in record(), cut in any::<prop::sample::Index>(), last in record()) {
        let cut = cut.index(torn.0.len());
        if !torn.0.is_char_boundary(cut) || cut == 0 {
            return Ok(());
        }
        let text = format!("{}{}{}", first.0, &torn.0[..cut], last.0);
        let log = read(&text);
        // Two names that became one are a record of a task that was never enqueued, or enqueued under that name.
        let one_name = !torn.0[..cut].contains('\t');
        prop_assert!(log.problem_count > 0 || one_name, "{text:?} {log:?}");
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(prop_oneof![Just(b'\t'), Just(b'\n'), any::<u8>()], 0..300)) {
        let log = Log::read(&bytes);
        prop_assert_eq!(log.lines, bytes.split_inclusive(|byte| *byte == b'\n').count() as u64);
        prop_assert!(log.problems.iter().all(|problem| (1..=log.lines).contains(&problem.line)));
        prop_assert!(log.tasks.keys().all(|id| !id.contains(['\t', '\n'])));
    }
}
