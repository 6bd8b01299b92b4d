//! What a model costs and how much it takes, as the user's file and the table that comes with the program have it.

use std::path::Path;
use std::time::Duration;

use provost::core::budget::Price;
use provost::core::contract::Contract;
use provost::core::price::PriceFrom;
use provost::core::text::{Lines, visible};
use provost::model::presets::Place;
use provost::model::prices::{Format, Prices};

use super::model_choice::ModelChoice;
use super::setup::keep_outside;
use crate::args::PriceArgs;
use crate::failure::Failure;
use crate::world::World;

/// Longest that a runtime is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The user's file before the table: the one that is named, or the usual one where there is one.
pub(super) fn prices(world: &World, named: Option<&Path>) -> Result<Prices, Failure> {
    let (path, what) = match (named, world.usual_prices()) {
        (Some(named), _) => (named.to_owned(), "--prices"),
        (None, Some(usual)) if usual.exists() => (usual, "prices"),
        (None, _) => return Ok(Prices::shipped()),
    };
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::usage(format!("{what} {}: {error}", visible(&shown, Lines::Escape))))?;
    let json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    Prices::with_file(&text, if json { Format::Json } else { Format::Toml })
        .map_err(|error| Failure::usage(format!("{what} {}: {error}", visible(&shown, Lines::Escape))))
}

/// Freezes into the contract what its model costs, as far as that is known, and into the model's facts how much it takes.
pub(super) fn price(
    world: &World,
    args: &PriceArgs,
    workspace: &Path,
    model: &mut ModelChoice,
    contract: &mut Contract,
) -> Result<(), Failure> {
    if let Some(named) = &args.prices {
        keep_outside("the file of prices", named, workspace)?;
    }
    let provider = model.row().map(|row| row.name);
    let known = prices(world, args.prices.as_deref())?.find(provider, &model.name);
    model.window = known.window;
    if let Some(most) = known.max_output {
        // A vendor refuses to be asked for more.
        contract.limits.answer_tokens = contract.limits.answer_tokens.min(most);
    }
    let given = args.price.map(|(input, output)| Price::flat(input, output).known_from(PriceFrom::Given));
    contract.price = given.or(known.price);
    if contract.budget.cost_micros.is_some() && contract.price.is_none() {
        let model = visible(&model.name, Lines::Escape);
        let (whose, hint) = match provider {
            Some(provider) => (format!("`{model}` at `{provider}`"), ""),
            None => (format!("`{model}` at an endpoint that is no provider's"), ", or name its --provider"),
        };
        return Err(Failure::usage(format!("--max-cost needs a price, and of {whose} none is known")).hint(
            format!("give --price IN/OUT, or put the model into a file of prices (--prices FILE){hint}"),
        ));
    }
    Ok(())
}

/// Asks one's own runtime how much the model takes as it is served there, where nothing else says so. One that does not
/// say leaves it unknown; that it cannot be reached, the first request tells.
pub(super) async fn window(world: &World, model: &mut ModelChoice) -> Result<(), Failure> {
    let local = model.provider.is_some_and(|row| row.place == Place::Local);
    if !local || model.window.is_some() || model.cassette.is_some() {
        return Ok(());
    }
    if let Ok(catalogue) = model.catalogue(world)? {
        let asked = tokio::time::timeout(PATIENCE, catalogue.one(&model.name)).await;
        model.window = asked.ok().and_then(Result::ok).flatten().and_then(|offer| offer.window);
    }
    Ok(())
}
