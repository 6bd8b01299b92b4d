//! `provost models`: what a provider can run, as it says itself, with prices from the table.

use std::path::Path;

use provost::core::price::Price;
use provost::core::text::{Lines, visible};
use provost::model::catalogue::Offer;
use provost::model::presets::Preset;
use provost::model::prices::{Entry, Prices};
use serde_json::json;

use super::model_choice::{ModelChoice, choose_model};
use super::price::prices;
use crate::args::{ModelArgs, Models};
use crate::failure::Failure;
use crate::render::words::{grouped, per_million};
use crate::render::{JsonLines, say};
use crate::world::World;

pub(crate) async fn models(world: &World, args: Models) -> Result<u8, Failure> {
    let known = prices(world, args.prices.as_deref())?;
    if args.endpoint.provider.is_none() && args.endpoint.base_url.is_none() {
        return Ok(table(&known, &args));
    }
    let choice = choose_model(&ModelArgs { model: Some(String::new()), endpoint: args.endpoint.clone() })?;
    let provider = choice.row().map(|row| row.name);
    let rows: Vec<Row> = match choice.catalogue(world, Path::new("."))? {
        Ok(catalogue) => {
            let offers = catalogue.list().await.map_err(|failure| asked_in_vain(&choice, &failure))?;
            offers.into_iter().map(|offer| Row::offered(offer, provider, &known)).collect()
        }
        Err(no_key) => {
            if !args.json {
                let whose = choice.row().map_or("it", |row| row.name);
                eprintln!("`{whose}` was not asked: {no_key}. From the table of {}:", Prices::as_of());
            }
            listed(provider, &known)
        }
    };
    print(&args, rows.into_iter().map(|row| (provider, row)));
    Ok(0)
}

fn asked_in_vain(choice: &ModelChoice, failure: &provost::model::Failure) -> Failure {
    let at = visible(&choice.base_url, Lines::Escape);
    Failure::coded(6, format!("`{at}` was asked what it offers: {failure}"))
        .hint("without a key, `provost models --provider NAME` lists what the table knows")
}

/// Without an endpoint: the table, and nobody is asked.
fn table(known: &Prices, args: &Models) -> u8 {
    if !args.json {
        eprintln!("nobody was asked; `--provider NAME` asks. From the table of {}:", Prices::as_of());
    }
    let rows = Preset::all()
        .iter()
        .flat_map(|preset| listed(Some(preset.name), known).into_iter().map(|row| (Some(preset.name), row)));
    // What the user's file has for wherever a model is asked.
    let anywhere = known.own().filter(|(at, _)| at.is_none()).map(|(_, entry)| (None, Row::own(entry)));
    print(args, rows.chain(anywhere));
    0
}

fn listed(provider: Option<&'static str>, known: &Prices) -> Vec<Row> {
    let Some(name) = provider else { return Vec::new() };
    let shipped = Prices::listed(name);
    let is_shipped = |entry: &Entry| shipped.iter().any(|it| it.id.eq_ignore_ascii_case(&entry.id));
    // What only the user's file has comes behind what the table has.
    let own =
        known.own().filter(|(at, entry)| *at == Some(name) && !is_shipped(entry)).map(|(_, entry)| entry);
    let own: Vec<Row> = own.map(|entry| Row::listed(entry, name, known)).collect();
    shipped.iter().map(|entry| Row::listed(entry, name, known)).chain(own).collect()
}

/// A model in the list.
struct Row {
    offer: Offer,
    price: Option<Price>,
    asked: Asked,
}

/// Whether the endpoint said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

impl Row {
    fn offered(mut offer: Offer, provider: Option<&str>, known: &Prices) -> Self {
        let found = known.find(provider, &offer.id);
        offer.window = offer.window.or(found.window);
        offer.max_output = offer.max_output.or(found.max_output);
        Self { offer, price: found.price, asked: Asked::Yes }
    }

    fn own(entry: &Entry) -> Self {
        let (id, window, max_output) = (entry.id.clone(), entry.window, entry.max_output);
        let offer = Offer { id, window, max_output, ..Offer::default() };
        Self { offer, price: entry.price.clone(), asked: Asked::No }
    }

    fn listed(entry: &Entry, provider: &str, known: &Prices) -> Self {
        let found = known.find(Some(provider), &entry.id);
        let offer = Offer {
            id: entry.id.clone(),
            window: found.window,
            max_output: found.max_output,
            ..Offer::default()
        };
        Self { offer, price: found.price, asked: Asked::No }
    }

    /// Input and output in dollars per million tokens; `+` where long prompts are dearer.
    fn price(&self) -> String {
        self.price.as_ref().map_or("unknown".to_owned(), |price| {
            let more = if price.tiers.is_empty() { "" } else { "+" };
            format!("{}/{}{more}", per_million(price.input), per_million(price.output))
        })
    }

    fn notes(&self) -> String {
        let offer = &self.offer;
        let mut notes = Vec::new();
        notes.extend(offer.size_bytes.map(size));
        notes.extend(offer.loaded.filter(|loaded| *loaded).map(|_| "loaded".to_owned()));
        let more = offer.own_window.filter(|own| Some(*own) != offer.window);
        notes.extend(more.map(|own| format!("could take {}", grouped(own))));
        notes.extend(offer.tools.filter(|tools| !tools).map(|_| "calls no tools".to_owned()));
        notes.join(", ")
    }
}

fn print(args: &Models, rows: impl Iterator<Item = (Option<&'static str>, Row)>) {
    let wanted = args.only.as_deref().unwrap_or_default().to_lowercase();
    let rows: Vec<_> = rows.filter(|(_, row)| row.offer.id.to_lowercase().contains(&wanted)).collect();
    if args.json {
        for (provider, row) in &rows {
            let offer = &row.offer;
            JsonLines::say(&json!({
                "provider": provider, "model": offer.id, "title": offer.title, "window": offer.window,
                "own_window": offer.own_window, "max_output": offer.max_output, "size_bytes": offer.size_bytes,
                "loaded": offer.loaded, "tools": offer.tools, "price": row.price, "asked": row.asked == Asked::Yes,
            }));
        }
        return;
    }
    let tokens = |count: Option<u64>| count.map_or("unknown".to_owned(), grouped);
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|(provider, row)| {
            [
                provider.unwrap_or("-").to_owned(),
                visible(&row.offer.id, Lines::Escape),
                tokens(row.offer.window),
                tokens(row.offer.max_output),
                row.price(),
                row.notes(),
            ]
        })
        .collect();
    let width = |at: usize, head: &str| {
        cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(head.len())
    };
    let heads = ["PROVIDER", "MODEL", "WINDOW", "ANSWER", "$ IN/OUT", ""];
    let widths: Vec<usize> = heads.iter().enumerate().map(|(at, head)| width(at, head)).collect();
    let line = |row: &[String]| {
        let text = format!(
            "{:<a$}  {:<b$}  {:>c$}  {:>d$}  {:>e$}  {}",
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            row[5],
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3],
            e = widths[4]
        );
        say!("{}", text.trim_end());
    };
    line(&heads.map(str::to_owned));
    for row in &cells {
        line(row);
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000),
    }
}
