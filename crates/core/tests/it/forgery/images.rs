//! Images that commands are said to have had as their root.

use provost_core::containment::Engine;

use super::*;

fn with_image(policy: Policy) -> Policy {
    Policy { image: Some(digest(40)), ..policy }
}

fn attached(hand: &Hand, containment: Receipt) -> Body {
    let generation = hand.0.generation() + 1;
    Body::DriverAttached(DriverAttached { generation, host: "h".into(), pid: 1, containment })
}

fn in_image(n: u64) -> Receipt {
    Receipt { image: Some(digest(n)), ..receipt(Rung::R4) }
}

const WHY: &str = "is not the image that the policy names";

#[test]
fn commands_run_in_the_image_that_the_contract_names() {
    let mut hand = Hand::new(Policy::preset(Preset::Workspace), Rung::R3, 0);
    // Its driver died. Under a policy without an image there is none.
    hand.cannot(attached(&hand, in_image(40)), WHY);
    hand.cannot(attached(&hand, receipt(Rung::R4)), WHY);
    hand.does(attached(&hand, receipt(Rung::R3)));

    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.policy = with_image(Policy::preset(Preset::Workspace));
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.cannot(attached(&hand, receipt(Rung::R3)), WHY);
    hand.cannot(attached(&hand, in_image(41)), WHY);
    hand.cannot(attached(&hand, Receipt { image: Some(digest(40)), ..receipt(Rung::R3) }), WHY);
    hand.does(attached(&hand, in_image(40)));

    let by_podman = Receipt { engine: Some(Engine::Podman), ..in_image(40) };
    hand.cannot(
        attached(&hand, by_podman.clone()),
        "do not run by the container engine that the policy names",
    );

    hand.answer(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let fact = |receipt| CommandFact { containment: Some(receipt), ..ran(0, Rung::R4) };
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(fact(in_image(41)))), WHY);
    hand.does(finished(act, ActEnd::Done, vec![], Some(fact(in_image(40)))));
}

#[test]
fn commands_run_by_the_engine_that_the_contract_names() {
    const WHY: &str = "do not run by the container engine that the policy names";
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.policy = Policy { engine: Some(Engine::Podman), ..with_image(Policy::preset(Preset::Workspace)) };
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.cannot(attached(&hand, in_image(40)), WHY);
    hand.cannot(attached(&hand, Receipt { engine: Some(Engine::Docker), ..in_image(40) }), WHY);
    hand.does(attached(&hand, Receipt { engine: Some(Engine::Podman), ..in_image(40) }));
}
