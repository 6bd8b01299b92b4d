//! What is refused before anything is done, with the reason.

use std::sync::Arc;

use provost_agent::{Queued, enqueue, export, reserve, system_clock};
use provost_core::brief::{Brief, Effort};
use provost_core::budget::Price;
use provost_core::contract::Contract;
use provost_core::event::{ModelFact, Questions};
use provost_core::id::RunId;
use provost_core::price::Tier;
use provost_core::transcript::Message;
use provost_evidence::keys::SigningKey;
use provost_journal::Store;
use provost_model::{Answer, Dialogue, Prelude, Provider, Scripted};

use crate::support::Bench;

/// A run that was killed before its first event, or that only has a name, did nothing: that is no damaged journal.
#[tokio::test]
async fn what_never_began_is_not_exported() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let run = "only-a-name".parse::<RunId>().unwrap();
    let store: Arc<dyn Store> = bench.store.clone();
    let _ = reserve(&store, &system_clock(), &run).await.unwrap();
    let key = SigningKey::generate().unwrap();
    let to = bench.dir.path().join("bundle");
    let refused = export(bench.store.as_ref(), &run, &key, &to).await.unwrap_err();
    assert_eq!(refused.to_string(), "run `only-a-name` never began: it did nothing that could be proved");
    assert_eq!(refused.exit_code(), 2);
    assert!(!to.exists());
}

/// A model that is told nothing but words.
struct Wordly(Scripted);

impl Provider for Wordly {
    fn name(&self) -> &'static str {
        "wordly"
    }
    fn model(&self) -> &'static str {
        "wordly"
    }
    fn endpoint(&self) -> &'static str {
        ""
    }
    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        self.0.open(prelude)
    }
}

/// I9: what a contract asks of a model is refused where it could not be told, and never left out.
#[tokio::test]
async fn i9_a_model_that_cannot_be_told_of_effort_or_images_is_not_asked() {
    let picture = provost_agent::image(b"\x89PNG\r\n\x1a\n and the rest").unwrap();
    let effort = Brief { effort: Some(Effort::Low), ..Brief::default() };
    let images = Brief { images: vec![picture], ..Brief::default() };
    for (brief, what) in [(effort, "how much it is to reason"), (images, "images")] {
        let contract = || Contract::new("do it").brief(brief.clone());
        let model = || Scripted::from_fn(|_, _: &[Message]| Ok(Answer::text("done")));
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let refused =
            bench.start(&bench.runtime_with(Arc::new(Wordly(model()))), contract()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "contract: the contract names {what}, which `wordly` cannot tell the model; leave it out, or ask another"
            )
        );
        assert_eq!(refused.exit_code(), 2);
        // The control.
        let (_, ending) = bench.start(&bench.runtime_with(Arc::new(model())), contract()).await.unwrap();
        assert_eq!(ending.exit_code(), 0);
    }
}

/// I9: a contract whose prices no journal takes is refused as such, by whoever queues it too.
#[tokio::test]
async fn i9_a_price_with_more_tiers_than_any_vendors_is_refused_before_there_is_a_run() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let with = |tiers: u64| {
        let mut price = Price::flat(1, 2);
        price.tiers = (0..tiers).map(|n| Tier { above: n, rates: price.rates(0) }).collect();
        let mut contract = Contract::new("do it");
        contract.price = Some(price);
        Queued {
            contract,
            model: ModelFact::new("scripted", "m", ""),
            key_env: None,
            workspace: bench.dir.path().to_owned(),
            repository: None,
            questions: Questions::Wait,
        }
    };
    let store: Arc<dyn Store> = bench.store.clone();
    let refused = enqueue(&store, &system_clock(), None, &with(17)).await.unwrap_err();
    assert_eq!(
        (refused.exit_code(), refused.to_string().contains("more than 16 tiers")),
        (2, true),
        "{refused}"
    );
    assert!(bench.store.runs().await.unwrap().is_empty());
    let _ = enqueue(&store, &system_clock(), None, &with(16)).await.unwrap();
}
