use super::*;
use crate::presets::{Place, Preset};
use provost_core::price::PriceFrom;
use provost_core::transcript::Usage;

fn shipped(provider: &str, model: &str) -> Known {
    Prices::shipped().find(Some(provider), model)
}

#[test]
fn the_table_is_sound_and_of_our_providers() {
    assert!(Prices::as_of().len() == 10 && Prices::as_of().starts_with("20"));
    let mut rows = 0;
    for preset in Preset::all() {
        let listed = Prices::listed(preset.name);
        rows += listed.len();
        assert!(preset.place == Place::Hosted || listed.is_empty(), "{}", preset.name);
        for entry in listed {
            // A price is of the model that is listed so, not of another whose names take it too.
            let found = shipped(preset.name, &entry.id);
            assert_eq!(found.price, entry.price, "{} {}", preset.name, entry.id);
            if let Some(price) = &entry.price {
                assert!(price.output < 2_000_000_000 && price.tiers.len() <= 4, "{}", entry.id);
                assert!(price.tiers.iter().all(|tier| tier.above >= 1_000));
            }
            assert!(entry.window.is_none_or(|window| (1..1 << 30).contains(&window)), "{}", entry.id);
        }
    }
    assert!(rows > 1_000, "{rows}");
}

/// Figures that vendors publish, and that no longer change.
#[test]
fn models_are_found_by_the_names_that_they_are_asked_by() {
    let price = |provider, model| shipped(provider, model).price.map(|price| (price.input, price.output));
    for model in ["claude-opus-4-5", "claude-opus-4-5-20251101", "Claude-Opus-4.5"] {
        assert_eq!(price("anthropic", model), Some((5_000_000, 25_000_000)), "{model}");
    }
    assert_eq!(shipped("anthropic", "claude-opus-4-5").window, Some(200_000));
    for provider in ["openai", "openai-responses", "azure"] {
        assert_eq!(price(provider, "gpt-4o"), Some((2_500_000, 10_000_000)), "{provider}");
    }
    assert_eq!(price("gemini-openai", "gemini-2.5-pro"), price("gemini", "gemini-2.5-pro"));
    // A name that goes on with something else is another model.
    assert_eq!(price("gemini", "gemini-2.5-pro-of-tomorrow-tts"), None);
    assert!(price("gemini", "gemini-2.5-pro-preview-06-05").is_some());
    // Sold by one vendor, and not by another.
    assert_eq!(price("groq", "claude-opus-4-5"), None);
    assert_eq!(price("openai", "a-model-of-tomorrow"), None);
    assert_eq!(
        Prices::shipped().find(None, "gpt-4o"),
        Known::default(),
        "of a stranger's endpoint nothing is known"
    );
    assert_eq!(
        shipped("ollama", "gpt-oss:20b"),
        Known::default(),
        "one's own runtime has no price of its own"
    );
}

#[test]
fn a_long_prompt_is_dearer_where_the_vendor_says_so() {
    let price = shipped("gemini", "gemini-2.5-pro").price.expect("it is known");
    let of = |input| price.of(&Usage { input, output: 1_000, ..Usage::default() });
    assert_eq!(of(200_000), 260_000);
    assert_eq!(of(200_001), 515_003);
    assert_eq!(price.from, Some(PriceFrom::Table { as_of: Prices::as_of().to_owned() }));
}

#[test]
fn the_users_file_goes_before_the_table() {
    let text = r#"
        as_of = "2026-12-01"
        [[model]]
        provider = "openai"
        name = "gpt-4o"
        input = 1.1
        output = 0.0000001
        [[model]]
        provider = "anthropic"
        name = "claude-opus-4-5*"
        window = 77
        [[model]]
        name = "mine"
        input = 3
        output = 15
        cache_read = 0.3
        [[model.tier]]
        above = 10
        input = 6
        output = 30
        [[model]]
        provider = "ollama"
        name = "*"
        input = 0
        output = 0
    "#;
    let prices = Prices::with_file(text, Format::Toml).unwrap_or_else(|error| panic!("{error}"));
    let file = PriceFrom::File { as_of: Some("2026-12-01".to_owned()) };
    let own = prices.find(Some("openai"), "gpt-4o");
    let price = own.price.expect("the file has one");
    assert_eq!((price.input, price.output, price.from), (1_100_000, 1, Some(file)));
    assert_eq!(own.window, Some(128_000), "what the file does not say, the table does");
    assert_ne!(prices.find(Some("openai"), "gpt-4o-mini").price, None);
    assert_eq!(prices.find(Some("openai-responses"), "gpt-4o").price, shipped("openai", "gpt-4o").price);
    let opus = prices.find(Some("anthropic"), "claude-opus-4-5-20251101");
    assert_eq!((opus.window, opus.price), (Some(77), shipped("anthropic", "claude-opus-4-5").price));
    for provider in [None, Some("openai"), Some("llamacpp")] {
        let price = prices.find(provider, "mine").price.expect("wherever it is asked");
        assert_eq!((price.rates(10).cache_write, price.rates(10).cache_read), (3_000_000, 300_000));
        assert_eq!(price.rates(11).output, 30_000_000);
    }
    let free = prices.find(Some("ollama"), "gpt-oss:20b").price.expect("the user says so");
    assert_eq!(free.of(&Usage { input: 9_000_000, output: 9, ..Usage::default() }), 0);
    let json = r#"{ "model": [ { "name": "mine", "input": 1, "output": 2 } ] }"#;
    let prices = Prices::with_file(json, Format::Json).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        prices.find(None, "mine").price.and_then(|price| price.from),
        Some(PriceFrom::File { as_of: None })
    );
}

#[test]
fn i9_a_file_that_cannot_be_meant_says_what_is_wrong_with_it() {
    let told = |text: &str| match Prices::with_file(text, Format::Toml) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string().lines().last().unwrap_or_default().to_owned(),
    };
    let model = |rest: &str| told(&format!("[[model]]\nname = \"m\"\n{rest}"));
    assert_eq!(model("input = 1\noutput = 2"), "nothing");
    assert_eq!(model("input = 1"), "model `m`: a price has both `input` and `output`");
    assert_eq!(model("cache_read = 1"), "model `m`: a price has both `input` and `output`");
    assert!(model("").contains("it says nothing"));
    assert!(model("input = -1\noutput = 2").contains("`-1` is no price"));
    assert!(model("input = nan\noutput = 2").contains("is no price"));
    assert!(model("input = 3e9\noutput = 2").contains("is no price"));
    assert!(model("window = 0").contains("more than none"));
    assert!(model("inptu = 1\noutput = 2").contains("unknown field `inptu`"), "{}", model("inptu = 1"));
    assert!(model("provider = \"opnai\"\nwindow = 9").contains("did you mean `openai`?"));
    for name in ["", "a*b", "#", "**"] {
        let text = format!("[[model]]\nname = \"{name}\"\nwindow = 9");
        assert!(told(&text).contains("a name has a `*`"), "{name}: {}", told(&text));
    }
}
