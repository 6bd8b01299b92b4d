//! The provider in process.

use provost_model::{Answer, Discard, Failure, FailureClass, Invocation, Provider as _, Record, Scripted};

use crate::support::{Heard, call, prelude, user};

#[tokio::test]
async fn canned_turns_come_in_order_and_all_is_recorded() {
    let provider = Scripted::new([
        Ok(Answer::calls(vec![call("a", "list", "{}")])),
        Err(Failure::new(FailureClass::Overloaded, "busy")),
        Ok(Answer::text("done")),
    ]);
    let mut dialogue = provider.open(prelude());
    dialogue.push(&user("go"));
    assert!(dialogue.prompt_bytes() > 20);
    let mut heard = Heard::default();
    let invocation = Invocation::new("i");
    assert_eq!(dialogue.ask(&invocation, &mut heard).await.unwrap().assistant.calls, heard.calls);
    assert_eq!(dialogue.ask(&invocation, &mut heard).await.unwrap_err().class, FailureClass::Overloaded);
    assert_eq!(dialogue.ask(&invocation, &mut heard).await.unwrap().assistant.text, "done");
    assert_eq!(dialogue.ask(&invocation, &mut Discard).await.unwrap_err().class, FailureClass::BadRequest);
    assert_eq!(provider.messages(0), [user("go")]);
    assert_eq!(provider.records().iter().filter(|r| matches!(r, Record::Asked { .. })).count(), 4);
}

#[tokio::test]
async fn a_function_can_decide() {
    let provider = Scripted::from_fn(|prelude, messages| {
        Ok(Answer::text(format!("{} {}", prelude.tools.len(), messages.len())))
    });
    let mut dialogue = provider.open(prelude());
    dialogue.push(&user("go"));
    let answer = dialogue.ask(&Invocation::new("i"), &mut Discard).await.unwrap();
    assert_eq!(answer.assistant.text, "2 1");
}
