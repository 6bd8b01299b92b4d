//! Room in a model's window: it is never exceeded, and what matters survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_agent::{Ending, Runtime};
use provost_core::contract::Contract;
use provost_core::event::{Body, ContextFolded, Event, FoldedBy, InvalidCall};
use provost_core::id::RunId;
use provost_core::outcome::Outcome;
use provost_core::policy::{Policy, Preset};
use provost_core::transcript::Usage;
use provost_journal::Store;
use provost_model::{Answer, Failure, FailureClass, RetryPolicy, WireKind};
use serde_json::{Value, json};

use crate::prompts::Wired;
use crate::support::{Bench, calls};

const GOAL: &str = "Read it all.\nKeep \u{201c}this\u{201d} word for word.";

/// What the model is asked for a summary with.
const ASKED: &str = "Your context is nearly full.";

fn contract() -> Contract {
    let mut contract = Contract::new(GOAL).policy(Policy::preset(Preset::Workspace));
    contract.budget.steps = Some(1_000);
    contract
}

fn runtime(bench: &Bench, wired: &Wired, window: Option<u64>) -> Runtime {
    let mut runtime = bench.runtime_with(Arc::new(wired.clone()));
    runtime.retry = RetryPolicy::none();
    runtime.model.window = window;
    runtime
}

fn folds(events: &[Event]) -> Vec<ContextFolded> {
    let of = |event: &Event| match &event.body {
        Body::ContextFolded(body) => Some(*body),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The texts of a prompt's messages, in order, with who says them. What is on record of a prompt ends within its list.
fn messages(prompt: &[u8]) -> Vec<(String, String)> {
    let text = std::str::from_utf8(prompt).unwrap();
    let from = text.find("\"messages\":[").unwrap() + "\"messages\":[".len();
    let list = serde_json::Deserializer::from_str(&text[from..].replace("},{\"role\"", "} {\"role\""))
        .into_iter::<Value>()
        .map_while(Result::ok)
        .collect::<Vec<Value>>();
    let said = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    list.iter().map(|message| (message["role"].as_str().unwrap().to_owned(), said(message))).collect()
}

/// Tokens as a vendor would count them: a quarter of the bytes.
fn counted(answer: Answer, prompt: &[u8]) -> Answer {
    let usage = Usage { input: prompt.len() as u64 / 4, output: 10, ..Usage::default() };
    Answer { usage: Some(usage), ..answer }
}

fn asks_for_summary(prompt: &[u8]) -> bool {
    messages(prompt).last().is_some_and(|(_, text)| text.starts_with(ASKED))
}

async fn events(bench: &Bench, run: &RunId) -> Vec<Event> {
    bench.store.events(run, 0).await.unwrap()
}

#[tokio::test]
async fn a_run_that_outgrows_the_window_goes_on_from_summaries_also_across_a_resume() {
    const WINDOW: u64 = 20_000;
    let page = "a line of some length, so that the file has a size\n".repeat(150);
    let bench = Bench::new(&[("page.txt", &page)]);
    let away = Arc::new(AtomicBool::new(false));
    let wired = Wired::seeing(WireKind::OpenAiChat, "m", {
        let away = away.clone();
        move |n, prompt| {
            assert!(prompt.len() as u64 / 4 <= WINDOW, "request {n} has {} bytes", prompt.len());
            let answer = match n {
                // At a request for a summary, as it happens.
                20 if !away.swap(true, Ordering::SeqCst) => {
                    return Err(Failure::new(FailureClass::Auth, "not now"));
                }
                _ if asks_for_summary(prompt) => Answer::text(format!("I read it {n} times.")),
                n if n < 60 => calls("read_file", json!({ "path": "page.txt" })),
                _ => Answer::text("done"),
            };
            Ok(counted(answer, prompt))
        }
    });
    let runtime = runtime(&bench, &wired, Some(WINDOW));
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert!(matches!(ending, Ending::Paused(_)), "{ending:?}");
    let Ending::Over(end) = bench.resume(&runtime, &run).await.unwrap() else { panic!("it waits") };
    assert_eq!(end.outcome, Outcome::Done);

    let events = events(&bench, &run).await;
    let folds = folds(&events);
    assert!(folds.len() > 3, "{folds:?}");
    assert!(folds.iter().all(|fold| fold.by == FoldedBy::Model), "{folds:?}");
    assert!(
        folds.iter().all(|fold| fold.tokens >= WINDOW / 4 * 3 && fold.window == Some(WINDOW)),
        "{folds:?}"
    );
    let broke = |event: &Event| matches!(event.body, Body::PromptBroke(_) | Body::CacheMissed(_));
    assert!(!events.iter().any(broke), "a fold is no prompt that broke");

    let sent = wired.sent.lock().unwrap().clone();
    let system = messages(&sent[0])[0].clone();
    let mut folded = 0;
    for pair in sent.windows(2) {
        let next = messages(&pair[1]);
        assert_eq!(next[0], system);
        assert_eq!(next[1], ("user".to_owned(), GOAL.to_owned()), "the goal stays word for word");
        if !asks_for_summary(&pair[0]) {
            assert!(pair[1].starts_with(&pair[0]), "prompts grow between folds");
            continue;
        }
        if pair[0] == pair[1] {
            // Asked again by the driver that took the run up.
            continue;
        }
        folded += 1;
        // Goal, summary, and the newest steps as they were.
        assert!(next[2].1.contains("times.") && next[2].1.contains("what you wrote down"), "{:?}", next[2]);
        assert!(!next.iter().any(|(_, text)| text.starts_with(ASKED)));
        assert!(pair[1].len() < pair[0].len() / 2, "{} of {}", pair[1].len(), pair[0].len());
    }
    assert_eq!(folded, folds.len());
}

/// Small steps: the newest stay as they were, calls with their results.
#[tokio::test]
async fn the_newest_steps_stay_word_for_word() {
    let bench = Bench::new(&[("a.txt", &"x".repeat(300))]);
    let wired = Wired::seeing(WireKind::OpenAiChat, "m", |n, prompt| {
        let answer = match n {
            _ if asks_for_summary(prompt) => Answer::text("All of it."),
            n if n < 80 => calls("read_file", json!({ "path": "a.txt" })),
            _ => Answer::text("done"),
        };
        Ok(counted(answer, prompt))
    });
    let (run, ending) = bench.start(&runtime(&bench, &wired, Some(10_000)), contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0, "{ending:?}");
    let events = events(&bench, &run).await;
    assert!(!folds(&events).is_empty());
    let sent = wired.sent.lock().unwrap().clone();
    let at = sent.iter().position(|prompt| asks_for_summary(prompt)).unwrap();
    let (before, after) = (messages(&sent[at]), messages(&sent[at + 1]));
    let kept = &after[3..];
    assert!(kept.len() >= 4, "{after:?}");
    assert_eq!(kept[0].0, "assistant");
    // All but the request for the summary.
    let before = &before[..before.len() - 1];
    assert_eq!(kept, &before[before.len() - kept.len()..]);
}

/// A vendor whose window nobody knew says that a prompt does not fit.
#[tokio::test]
async fn a_vendor_that_says_that_it_is_too_long_is_asked_again_with_less() {
    const MOST: usize = 60_000;
    let page = "0123456789 line\n".repeat(700);
    let bench = Bench::new(&[("page.txt", &page)]);
    let wired = Wired::seeing(WireKind::OpenAiChat, "m", |n, prompt| {
        if prompt.len() > MOST {
            return Err(Failure::new(FailureClass::ContextOverflow, "too long"));
        }
        let answer = match n {
            n if n < 20 => calls("read_file", json!({ "path": "page.txt" })),
            _ => Answer::text("done"),
        };
        Ok(counted(answer, prompt))
    });
    let (run, ending) = bench.start(&runtime(&bench, &wired, None), contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0, "{ending:?}");
    let events = events(&bench, &run).await;
    let folds = folds(&events);
    assert!(folds.len() > 1 && folds.iter().all(|fold| fold.by == FoldedBy::Runtime), "{folds:?}");
    let text = bench.store.blob(&run, folds[0].text).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("there is no summary of it"), "{text}");
    assert!(text.contains("read_file({\"path\":\"page.txt\"})"), "{text}");
}

/// Control: with nothing to fold it gives up, as a goal that is too long has to.
#[tokio::test]
async fn a_goal_that_does_not_fit_is_not_folded() {
    let bench = Bench::new(&[]);
    let wired = Wired::seeing(WireKind::OpenAiChat, "m", |_, _| {
        Err(Failure::new(FailureClass::ContextOverflow, "too long"))
    });
    let (run, ending) = bench.start(&runtime(&bench, &wired, None), contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 6, "{ending:?}");
    assert!(folds(&events(&bench, &run).await).is_empty());
    assert_eq!(wired.sent.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn calls_instead_of_a_summary_do_not_run_and_the_run_goes_on_without_one() {
    let page = "a line of some length, so that the file has a size\n".repeat(150);
    let bench = Bench::new(&[("page.txt", &page)]);
    let wired = Wired::seeing(WireKind::OpenAiChat, "m", |n, prompt| {
        let answer = match n {
            _ if asks_for_summary(prompt) => {
                calls("write_file", json!({ "path": "evil.txt", "content": "x" }))
            }
            n if n < 12 => calls("read_file", json!({ "path": "page.txt" })),
            _ => Answer::text("done"),
        };
        Ok(counted(answer, prompt))
    });
    let (run, ending) = bench.start(&runtime(&bench, &wired, Some(20_000)), contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0, "{ending:?}");
    let events = events(&bench, &run).await;
    let folds = folds(&events);
    assert!(!folds.is_empty() && folds.iter().all(|fold| fold.by == FoldedBy::Runtime), "{folds:?}");
    let instead = |event: &&Event| match &event.body {
        Body::CallInvalid(body) => body.why == InvalidCall::InsteadOfSummary,
        _ => false,
    };
    assert_eq!(events.iter().filter(instead).count(), 2 * folds.len());
    assert!(!bench.path("evil.txt").exists());
}

/// What was seen of a file before a fold is no ground for changing it after.
#[tokio::test]
async fn a_file_is_read_again_after_a_fold_before_it_is_changed() {
    for folds_before in [false, true] {
        let bench = Bench::new(&[("b.txt", "bee\n")]);
        let wired = Wired::seeing(WireKind::OpenAiChat, "m", move |n, prompt| {
            let answer = match n {
                0 => calls("read_file", json!({ "path": "b.txt" })),
                1 if folds_before => return Err(Failure::new(FailureClass::ContextOverflow, "too long")),
                1 | 2 => calls("write_file", json!({ "path": "b.txt", "content": "sea\n" })),
                _ => Answer::text("done"),
            };
            Ok(counted(answer, prompt))
        });
        let (_, ending) = bench.start(&runtime(&bench, &wired, None), contract()).await.unwrap();
        assert_eq!(ending.exit_code(), 0, "{ending:?}");
        assert_eq!(bench.read("b.txt"), if folds_before { "bee\n" } else { "sea\n" });
    }
}
