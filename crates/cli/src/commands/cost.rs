//! `provost cost`: what runs came to, derived from their events whenever it is asked.

use std::collections::BTreeMap;

use provost::core::budget::Price;
use provost::core::route::Route;
use provost::core::spend::{Account, Bill, Call, KINDS};
use provost::core::text::{Lines, moment, visible};
use provost::journal::Store;
use provost::model::prices::Prices;
use serde_json::{Map, Value, json};

use super::price::prices;
use super::setup::Place;
use crate::args::{By, Cost};
use crate::failure::Failure;
use crate::render::words::{dollars, duration, grouped};
use crate::render::{JsonLines, counted, say};
use crate::world::World;

pub(crate) async fn cost(world: &World, args: Cost) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let today =
        if args.today || args.prices.is_some() { Some(prices(world, args.prices.as_deref())?) } else { None };
    let runs = match &args.run {
        Some(name) => vec![place.store.find(name).await?],
        None => place.store.runs().await?.into_iter().map(|row| row.run).collect(),
    };
    let by = if args.by.is_empty() { vec![By::Model] } else { args.by.clone() };
    let mut table = Table { by, groups: BTreeMap::new(), total: Bill::default(), inherited: 0, replayed: 0 };
    for run in runs {
        if let Some(since) = args.since
            && !goes_on_after(&place, &run, since).await?
        {
            continue;
        }
        let account = Account::of(&place.store.events_of(&run, &KINDS).await?);
        table.add(run.as_str(), &account, args.since.unwrap_or(0), today.as_ref());
    }
    if args.json {
        table.say_json();
    } else {
        table.say(today.is_some());
    }
    Ok(0)
}

/// Whether the run has an event that is no older. Reads one.
async fn goes_on_after(place: &Place, run: &provost::core::id::RunId, since: u64) -> Result<bool, Failure> {
    let Some(last) = place.store.row(run).await?.last_seq else { return Ok(false) };
    let newest = place.store.events(run, last).await?;
    Ok(newest.iter().any(|event| event.at_ms >= since))
}

/// Sums by group.
struct Table {
    by: Vec<By>,
    groups: BTreeMap<Vec<String>, Bill>,
    total: Bill,
    /// Calls that forks have from the runs that they were forked from.
    inherited: u64,
    /// Runs that were replayed from cassettes.
    replayed: u64,
}

impl Table {
    fn add(&mut self, run: &str, account: &Account, since: u64, today: Option<&Prices>) {
        // Nobody was asked.
        let replayed = account.routes.first().is_some_and(|route| route.model.replayed);
        self.replayed += u64::from(replayed);
        let price = |route: &Route| match today {
            _ if replayed => Some(Price::flat(0, 0)),
            Some(prices) => prices.find(route.model.provider.as_deref(), &route.model.name).price,
            None => route.price.clone(),
        };
        let prices: Vec<Option<Price>> = account.routes.iter().map(price).collect();
        self.inherited += account.inherited;
        for call in account.calls.iter().filter(|call| call.at_ms >= since) {
            let Some(Route { model, .. }) = account.asked(call) else { continue };
            let price = prices.get(usize::from(call.route.0)).and_then(Option::as_ref);
            let key = self.by.iter().map(|by| match by {
                By::Run => run.to_owned(),
                By::Model => model.name.clone(),
                By::Provider => model.provider.clone().unwrap_or_else(|| model.endpoint.clone()),
                By::Agent => call.agent.0.to_string(),
                By::Day => day(call),
            });
            let key = key.collect();
            self.groups.entry(key).or_default().add(call, price);
            self.total.add(call, price);
        }
    }

    fn say_json(&self) {
        for (key, bill) in &self.groups {
            let names = self.by.iter().zip(key).map(|(by, value)| (by.word().to_owned(), json!(value)));
            JsonLines::say(&object(&names.collect(), bill));
        }
        let mut total = Map::new();
        total.insert("total".to_owned(), json!(true));
        total.insert("replayed_runs".to_owned(), json!(self.replayed));
        total.insert("inherited_calls".to_owned(), json!(self.inherited));
        JsonLines::say(&object(&total, &self.total));
    }

    fn say(&self, today: bool) {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let names = self.by.iter().map(|by| by.word().to_uppercase());
        rows.push(names.chain(HEADS.map(str::to_owned)).collect());
        for (key, bill) in &self.groups {
            let names = key.iter().map(|name| visible(name, Lines::Escape));
            rows.push(names.chain(figures(bill)).collect());
        }
        // One group is its own total.
        if self.groups.len() != 1 {
            let blank = (1..self.by.len()).map(|_| String::new());
            rows.push(std::iter::once("total".to_owned()).chain(blank).chain(figures(&self.total)).collect());
        }
        let columns = rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                // Names to the left, numbers to the right.
                if at < self.by.len() { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            say!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        for line in self.notes(today) {
            say!("{line}");
        }
    }

    fn notes(&self, today: bool) -> Vec<String> {
        let bill = &self.total;
        let mut notes = Vec::new();
        if bill.unpriced > 0 {
            let whose = if today { "no price is known now" } else { "their runs had no price" };
            notes.push(format!(
                "of {} the cost is unknown: {whose}{}",
                counted(bill.unpriced, "call"),
                if today { "" } else { " (--today asks the table)" }
            ));
        }
        if bill.estimated > 0 {
            notes.push(format!(
                "{} charged by estimate: the vendor did not say, or the answer broke off",
                counted(bill.estimated, "call")
            ));
        }
        if bill.failed_charged > 0 {
            notes.push(format!("{} gave no answer and cost something", counted(bill.failed_charged, "call")));
        }
        if self.replayed > 0 {
            let runs = counted(self.replayed, "run");
            notes.push(format!("{runs} replayed from a cassette: nobody was asked, and it cost nothing"));
        }
        if self.inherited > 0 {
            notes.push(format!(
                "{} of forks are not counted: they were made in the runs that these were forked from",
                counted(self.inherited, "call")
            ));
        }
        notes
    }
}

const HEADS: [&str; 11] = [
    "CALLS", "FAILED", "EST.", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "REASONED", "COST", "LATENCY", "TTFT",
];

fn figures(bill: &Bill) -> [String; 11] {
    let ms = |ms: Option<u64>| ms.map_or("-".to_owned(), duration);
    let usage = &bill.usage;
    let cost = match (bill.cost(), bill.unpriced) {
        (None, _) => "unknown".to_owned(),
        (Some(known), 0) => dollars(known),
        (Some(known), _) => format!("{}+?", dollars(known)),
    };
    [
        grouped(bill.calls),
        grouped(bill.failed),
        grouped(bill.estimated),
        grouped(usage.input),
        grouped(usage.cache_read),
        grouped(usage.cache_write),
        grouped(usage.output),
        grouped(usage.reasoning),
        cost,
        ms(bill.latency_ms()),
        ms(bill.ttft_ms()),
    ]
}

fn object(names: &Map<String, Value>, bill: &Bill) -> Value {
    let mut out = names.clone();
    let figures = json!({
        "calls": bill.calls, "failed": bill.failed, "failed_charged": bill.failed_charged,
        "estimated": bill.estimated, "unpriced": bill.unpriced, "usage": bill.usage,
        "cost_micros": bill.cost(), "latency_ms": bill.latency_ms(), "ttft_ms": bill.ttft_ms(),
    });
    if let Value::Object(figures) = figures {
        out.extend(figures);
    }
    Value::Object(out)
}

/// The day of a call, in UTC.
fn day(call: &Call) -> String {
    moment(call.at_ms).chars().take(10).collect()
}
