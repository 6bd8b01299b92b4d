//! What a model costs and how much it takes, as the user's file and the table that comes with the program have it.

use std::path::Path;
use std::time::Duration;

use provost::core::budget::{Budget, Price};
use provost::core::contract::{Contract, Limits};
use provost::core::price::PriceFrom;
use provost::core::text::{Lines, visible};
use provost::model::presets::Place;
use provost::model::prices::{Format, Prices};

use super::files::read_bounded;
use super::model_choice::{ModelChoice, Stands};
use super::setup::keep_outside;
use crate::args::PriceArgs;
use crate::failure::Failure;
use crate::world::World;

/// Longest that a runtime is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest file of prices, in bytes.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The user's file before the table: the one that is named, or the usual one where there is one.
pub(super) fn prices(world: &World, named: Option<&Path>) -> Result<Prices, Failure> {
    let (path, what) = match (named, world.usual_prices()) {
        (Some(named), _) => (named.to_owned(), "--prices"),
        (None, Some(usual)) if usual.exists() => (usual, "prices"),
        (None, _) => return Ok(Prices::shipped()),
    };
    let shown = path.display().to_string();
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("{what} {}: {why}", visible(&shown, Lines::Escape)))
    };
    let bytes = read_bounded(&path, LARGEST_FILE).map_err(|error| refuse(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| refuse(&"it is no text"))?;
    let json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    Prices::with_file(&text, if json { Format::Json } else { Format::Toml }).map_err(|error| refuse(&error))
}

/// Freezes into the contract what its models cost, as far as that is known, and into their facts how much they take. The
/// models are the first, and the others in the order of the contract's.
pub(super) fn price(
    world: &World,
    args: &PriceArgs,
    workspace: &Path,
    (first, others): (&mut ModelChoice, &mut [ModelChoice]),
    contract: &mut Contract,
) -> Result<(), Failure> {
    if let Some(named) = &args.prices {
        keep_outside("the file of prices", named, workspace)?;
    }
    let prices = prices(world, args.prices.as_deref())?;
    let given = args.price.map(|(input, output)| Price::flat(input, output).known_from(PriceFrom::Given));
    let known = know(&prices, first, &mut contract.limits);
    contract.price = given.or(known);
    check(&contract.budget, first, Stands::First, contract.price.as_ref())?;
    let mut routes = std::mem::take(&mut contract.routing.others);
    for (model, route) in others.iter_mut().zip(&mut routes) {
        let known = know(&prices, model, &mut contract.limits);
        route.price = route.price.take().or(known);
        route.model = model.fact();
        check(&contract.budget, model, Stands::Beside, route.price.as_ref())?;
    }
    contract.routing.others = routes;
    Ok(())
}

/// Takes down how much a model takes, and gives what it costs.
fn know(prices: &Prices, model: &mut ModelChoice, limits: &mut Limits) -> Option<Price> {
    let known = prices.find(model.row().map(|row| row.name), &model.name);
    model.window = known.window;
    if let Some(most) = known.max_output {
        // A vendor refuses to be asked for more.
        limits.answer_tokens = limits.answer_tokens.min(most);
    }
    known.price
}

/// A bound on money needs a price of each model.
fn check(budget: &Budget, model: &ModelChoice, stands: Stands, price: Option<&Price>) -> Result<(), Failure> {
    if budget.cost_micros.is_none() || price.is_some() {
        return Ok(());
    }
    let name = visible(&model.name, Lines::Escape);
    let (whose, hint) = match model.row() {
        Some(row) => (format!("`{name}` at `{}`", row.name), ""),
        None => (format!("`{name}` at an endpoint that is no provider's"), ", or name its --provider"),
    };
    if let (Stands::Beside, Some(row)) = (stands, model.row()) {
        return Err(Failure::usage(format!(
            "--max-cost needs a price, and of {whose}, which is named beside the first model, none is known"
        ))
        .hint(format!(
            "write it behind the model, as in {}/{name}=IN/OUT, or put the model into a file of prices (--prices FILE)",
            row.name
        )));
    }
    Err(Failure::usage(format!("--max-cost needs a price, and of {whose} none is known"))
        .hint(format!("give --price IN/OUT, or put the model into a file of prices (--prices FILE){hint}")))
}

/// Asks one's own runtime how much the model takes as it is served there, where nothing else says so. One that does not
/// say leaves it unknown; that it cannot be reached, the first request tells.
pub(super) async fn window(world: &World, model: &mut ModelChoice) -> Result<(), Failure> {
    let local = model.provider.is_some_and(|row| row.place == Place::Local);
    if !local || model.window.is_some() || model.cassette.is_some() {
        return Ok(());
    }
    if let Ok(catalogue) = model.catalogue(world, Path::new("."))? {
        let asked = tokio::time::timeout(PATIENCE, catalogue.one(&model.name)).await;
        model.window = asked.ok().and_then(Result::ok).flatten().and_then(|offer| offer.window);
    }
    Ok(())
}
