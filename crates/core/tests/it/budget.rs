//! The ledger: what is reserved is enough, what is unknown is not zero.

use proptest::prelude::*;
use provost_core::budget::{Bound, Budget, LEAST_OUTPUT, Ledger, Price};
use provost_core::price::{PriceFrom, Rates, Tier};
use provost_core::transcript::Usage;

use crate::cases;

fn prices() -> impl Strategy<Value = Price> {
    let price = || prop_oneof![Just(0), 0_u64..20_000_000, Just(u64::MAX)];
    let rates = || {
        (price(), price(), price(), price()).prop_map(|(input, output, cache_read, cache_write)| Rates {
            input,
            output,
            cache_read,
            cache_write,
        })
    };
    let tier = (0_u64..2_500, rates()).prop_map(|(above, rates)| Tier { above, rates });
    (rates(), prop::collection::vec(tier, 0..3))
        .prop_map(|(rates, tiers)| Price { tiers, ..Price::of_rates(rates) })
}

fn limits() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0_u64..5_000).prop_map(Some), any::<u64>().prop_map(Some)]
}

fn reserve_of(budget: Budget, price: Price, input: u64, wanted: u64) -> Result<u64, Bound> {
    let ledger = Ledger::new(budget, Some(price));
    ledger.reserve(ledger.price.as_ref(), input, wanted)
}

/// What `settle` does. It is private; that the state machine does the same is a test of `state`.
fn settle(ledger: &mut Ledger, usage: Usage) {
    ledger.usage.input += usage.input;
    ledger.usage.output += usage.output;
    ledger.usage.cache_read += usage.cache_read;
    ledger.usage.cache_write += usage.cache_write;
    ledger.cost_micros =
        ledger.cost_micros.saturating_add(ledger.price.as_ref().map_or(0, |price| price.of(&usage)));
    ledger.steps += 1;
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Whatever the vendor reads from its cache or writes to it, and however long the answer up to what was granted.
    #[test]
    fn i6_a_call_within_its_reservation_stays_within_the_bounds(
        price in prop::option::of(prices()),
        (tokens, cost_micros) in (limits(), limits()),
        calls in prop::collection::vec((0_u64..2_000, 0_u64..3_000, any::<[prop::sample::Index; 3]>()), 1..6),
    ) {
        let budget = Budget { steps: Some(5), tokens, cost_micros, time_ms: None };
        let mut ledger = Ledger::new(budget, price);
        for (input, wanted, [cut, other, long]) in calls {
            match ledger.reserve(ledger.price.as_ref(), input, wanted) {
                Ok(output) => {
                    prop_assert!(output <= wanted);
                    prop_assert!(output >= LEAST_OUTPUT.min(wanted), "an answer of {output} is worth nothing");
                    let read = cut.index(input as usize + 1) as u64;
                    let written = other.index((input - read) as usize + 1) as u64;
                    let output = long.index(output as usize + 1) as u64;
                    let usage = Usage {
                        input: input - read - written, output, cache_read: read, cache_write: written, reasoning: 0,
                    };
                    settle(&mut ledger, usage);
                }
                Err(Bound::Steps) => prop_assert_eq!(ledger.steps, 5),
                Err(Bound::Tokens) => prop_assert!(tokens.is_some()),
                Err(Bound::Cost) => prop_assert!(cost_micros.is_some()),
                Err(Bound::Time) => prop_assert!(false),
            }
            prop_assert!(tokens.is_none_or(|limit| ledger.usage.total() <= limit));
            prop_assert!(cost_micros.is_none_or(|limit| ledger.cost_micros <= limit));
        }
    }

    /// Rounded up, to the millionth: never in the run's favour, never by more than one.
    #[test]
    fn a_price_is_rounded_up(price in prices(), usage in any::<[u32; 4]>()) {
        let [input, output, cache_read, cache_write] = usage.map(u64::from);
        let usage = Usage { input, output, cache_read, cache_write, reasoning: output };
        let rates = price.rates(input + cache_read + cache_write);
        let exact = [(input, rates.input), (output, rates.output), (cache_read, rates.cache_read),
            (cache_write, rates.cache_write)]
            .into_iter().map(|(tokens, each)| u128::from(tokens) * u128::from(each)).sum::<u128>();
        let charged = u128::from(price.of(&usage));
        if charged < u128::from(u64::MAX) {
            prop_assert!(charged * 1_000_000 >= exact && charged * 1_000_000 < exact + 1_000_000);
        }
    }
}

#[test]
fn numbers_out_of_all_reason_are_no_panic() {
    let most = Usage {
        input: u64::MAX,
        output: u64::MAX,
        cache_read: u64::MAX,
        cache_write: u64::MAX,
        reasoning: 0,
    };
    let price = Price::flat(u64::MAX, u64::MAX);
    assert_eq!(price.of(&most), u64::MAX);
    assert_eq!(most.total(), u64::MAX);
    let budget = Budget { tokens: Some(u64::MAX), cost_micros: Some(u64::MAX), ..Budget::default() };
    let ledger = Ledger::new(budget, Some(price));
    assert_eq!(ledger.reserve(ledger.price.as_ref(), u64::MAX, u64::MAX), Err(Bound::Tokens));
}

/// W10: an unknown price with a bound on money admits nothing, and what was spent is unknown, not zero.
#[test]
fn w10_an_unknown_price_is_not_a_price_of_zero() {
    let budget = Budget { cost_micros: Some(1_000_000), ..Budget::default() };
    let mut unknown = Ledger::new(budget, None);
    assert_eq!(unknown.reserve(unknown.price.as_ref(), 10, 100), Err(Bound::Cost));
    settle(&mut unknown, Usage { input: 10, output: 10, ..Usage::default() });
    assert_eq!(unknown.cost(), None);
    let mut free = Ledger::new(budget, Some(Price::flat(0, 0)));
    assert_eq!(free.reserve(free.price.as_ref(), 10, 100), Ok(100));
    settle(&mut free, Usage { input: 10, output: 10, ..Usage::default() });
    assert_eq!(free.cost(), Some(0));
    let unbounded = Ledger::new(Budget::default(), None);
    assert_eq!(
        unbounded.reserve(unbounded.price.as_ref(), 10, 100),
        Ok(100),
        "a bound on steps alone needs no price"
    );
}

/// Input alone can be too much: for tokens, and for money where output costs nothing.
#[test]
fn input_that_does_not_fit_is_refused_even_where_no_output_is_wanted() {
    let tokens = Ledger::new(Budget { tokens: Some(100), ..Budget::default() }, None);
    assert_eq!(tokens.reserve(tokens.price.as_ref(), 101, 0), Err(Bound::Tokens));
    assert_eq!(tokens.reserve(tokens.price.as_ref(), 100, 0), Ok(0));
    let budget = Budget { cost_micros: Some(100), ..Budget::default() };
    let money = Ledger::new(budget, Some(Price::flat(1_000_000, 0)));
    assert_eq!(money.reserve(money.price.as_ref(), 101, 500), Err(Bound::Cost));
    assert_eq!(money.reserve(money.price.as_ref(), 100, 500), Ok(500));
    // Writing to a cache is dearer than input with some vendors; the reservation covers that.
    let rates = Rates { input: 1_000_000, output: 1_000_000, cache_read: 100_000, cache_write: 1_250_000 };
    let price = Price::of_rates(rates);
    assert_eq!(reserve_of(budget, price.clone(), 90, 10), Err(Bound::Cost));
}

/// All tokens of a call cost what its prompt's length says, and how long that is the vendor counts afterwards: a call is
/// reserved at the dearest.
#[test]
fn a_long_prompt_costs_what_its_tier_says() {
    let tier = |above, each| Tier { above, rates: Price::flat(each, each * 2).rates(0) };
    let tiers = vec![tier(1_000, 4_000_000), tier(100, 2_000_000)];
    let price = Price { tiers, ..Price::flat(1_000_000, 2_000_000) };
    let of = |input, cache_read| price.of(&Usage { input, cache_read, output: 10, ..Usage::default() });
    assert_eq!(
        [of(100, 0), of(101, 0), of(60, 41), of(1_000, 0), of(1_001, 0)],
        [120, 242, 242, 2_040, 4_084]
    );
    let budget = Budget { cost_micros: Some(500), ..Budget::default() };
    assert_eq!(reserve_of(budget, price.clone(), 100, 500), Err(Bound::Cost), "at four, 100 leave 12");
    assert_eq!(reserve_of(budget, Price::flat(1_000_000, 2_000_000), 100, 500), Ok(200));
}

/// What a journal of before says is what it said.
#[test]
fn a_price_without_tiers_is_written_as_it_always_was() {
    let old = r#"{"input":1,"output":2,"cache_read":3,"cache_write":4}"#;
    let price: Price = serde_json::from_str(old).unwrap();
    assert_eq!((price.tiers.len(), &price.from), (0, &None));
    assert_eq!(serde_json::to_string(&price).unwrap(), old);
    for (from, text, words) in [
        (PriceFrom::Given, r#""given""#, "given"),
        (
            PriceFrom::Table { as_of: "2026-01-31".into() },
            r#"{"table":{"as_of":"2026-01-31"}}"#,
            "table 2026-01-31",
        ),
        (PriceFrom::File { as_of: None }, r#"{"file":{}}"#, "file"),
    ] {
        assert_eq!(
            (serde_json::to_string(&from).unwrap().as_str(), from.to_string().as_str()),
            (text, words)
        );
    }
}

#[test]
fn a_bound_that_is_reached_is_named_in_a_fixed_order() {
    let budget = Budget { steps: Some(1), tokens: Some(10), cost_micros: Some(10), time_ms: Some(10) };
    let mut ledger = Ledger::new(budget, Some(Price::flat(1_000_000, 1_000_000)));
    assert_eq!(ledger.spent(), None);
    ledger.time_ms = 10;
    assert_eq!(ledger.spent(), Some(Bound::Time));
    ledger.cost_micros = 10;
    assert_eq!(ledger.spent(), Some(Bound::Cost));
    ledger.usage.output = 10;
    assert_eq!(ledger.spent(), Some(Bound::Tokens));
    ledger.steps = 1;
    assert_eq!(ledger.spent(), Some(Bound::Steps));
    assert_eq!(ledger.reserve(ledger.price.as_ref(), 0, 1), Err(Bound::Steps));
}
