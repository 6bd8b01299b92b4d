//! What its scripts read.

use proptest::prelude::*;
use provost_model::agent_runtime::events_log::{Log, State};
use provost_model::agent_runtime::shapes::{
    Completed, Enqueued, Failed, FailureKind, Row, Tokens, Verified, cancelled, completed, enqueued, failed,
    status,
};

fn done(summary: &str) -> Completed<'_> {
    Completed {
        summary,
        steps: 4,
        tool_runs: 2,
        changed_files: 1,
        verified: Verified::AfterChange,
        tokens: Tokens { input: 200, output: 20 },
        provider_duration_ms: 31,
    }
}

#[test]
fn every_shape_is_the_known_one() {
    assert_eq!(enqueued(Enqueued::New), "enqueued=true\n");
    assert_eq!(enqueued(Enqueued::Known), "enqueued=false\n");
    assert_eq!(cancelled("a b"), "cancelled=a b\n");
    assert_eq!(
        completed(&done("Fixed the range.")),
        "outcome=completed\nsummary=Fixed the range.\nsteps=4\ntool_runs=2\nchanged_files=1\n\
         verified_after_change=true\ninput_tokens=200\noutput_tokens=20\nprovider_duration_ms=31\n"
    );
    let run = Failed { kind: FailureKind::TimedOut, failure: "agent step limit reached", tokens: None };
    let known = "outcome=failed\nfailure_kind=TimedOut\nfailure=agent step limit reached\n";
    assert_eq!(failed(&run), known);
    let counted = Failed { tokens: Some(Tokens { input: 7, output: 1 }), ..run };
    assert_eq!(failed(&counted), format!("{known}input_tokens=7\noutput_tokens=1\n"));
}

#[test]
fn the_table_of_a_log() {
    let log = Log::read(
        b"b\tqueued\t0\tenqueue\na\tqueued\t0\tenqueue\na\trunning\t1\tstart\n\
          tool\ta\t1\tcargo\t1\t0\tfalse\tfalse\tfalse\t1\t1\t843\n\x1b[2J\tqueued\t0\tenqueue\n",
    );
    let table = status(log.tasks.iter().map(|(id, task)| Row::of(id, task)));
    assert_eq!(
        table,
        "TASK\tSTATE\tATTEMPTS\tLAST_TOOL\tLAST_MS\n\\u{1b}[2J\tQueued\t0\t-\t-\na\tRunning\t1\tcargo\t843\n\
         b\tQueued\t0\t-\t-\n"
    );
    assert_eq!(status([]), "TASK\tSTATE\tATTEMPTS\tLAST_TOOL\tLAST_MS\n");
    assert_eq!(State::Cancelled.to_string(), "Cancelled");
}

/// B26: a summary that forges keys.
#[test]
fn a_summary_forges_no_key() {
    let out = completed(&done("done\ninput_tokens=1\routcome=failed"));
    assert_eq!(out.lines().filter(|line| line.starts_with("input_tokens=")).count(), 1);
    assert!(out.contains("summary=done\\u{a}input_tokens=1\\u{d}outcome=failed\n"), "{out}");
}

proptest! {
    #[test]
    fn no_text_makes_a_line_or_a_field_or_reaches_a_terminal(text in any::<String>()) {
        let run = Failed { kind: FailureKind::Other, failure: &text, tokens: None };
        let row = Row { id: &text, state: State::Queued, attempts: 0, last: Some((&text, 1)) };
        for (out, lines, tabs) in [
            (completed(&done(&text)), 9, 0),
            (failed(&run), 3, 0),
            (cancelled(&text), 1, 0),
            (status([row]), 2, 8),
        ] {
            prop_assert_eq!(out.matches('\n').count(), lines);
            prop_assert_eq!(out.matches('\t').count(), tabs);
            prop_assert!(!out.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }

    #[test]
    fn ordinary_text_comes_out_as_it_is(text in "[ -~éß漢🦀]{0,40}") {
        prop_assert_eq!(cancelled(&text), format!("cancelled={text}\n"));
    }
}
