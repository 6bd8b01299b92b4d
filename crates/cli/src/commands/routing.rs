//! Models beside the first: from what was typed, and from what a run says.

use std::path::Path;

use provost::core::budget::Price;
use provost::core::price::PriceFrom;
use provost::core::route::{Begin, Downshift, Escalate, Route, RouteId, Routing, Unresolved};

use super::model_choice::{Connected, ModelChoice, connect_all, provider};
use super::queue::model_of;
use crate::args::{ModelSpec, RoutingArgs, UnknownOutcome, Wire};
use crate::failure::Failure;
use crate::world::World;

/// The models that a run may ask: the first, and the others in the order of its routes.
pub(crate) struct Models {
    pub(crate) first: ModelChoice,
    pub(crate) others: Vec<ModelChoice>,
}

impl Models {
    /// One model, and no other.
    pub(crate) fn only(first: ModelChoice) -> Self {
        Self { first, others: Vec::new() }
    }

    /// A run's.
    pub(crate) fn of_run(first: ModelChoice, routing: Option<&Routing>) -> Result<Self, Failure> {
        let others = routing.into_iter().flat_map(|routing| &routing.others);
        Ok(Self {
            first,
            others: others.map(|route| model_of(&route.model, None)).collect::<Result<_, _>>()?,
        })
    }

    /// Whoever is asked for each.
    pub(crate) fn connect(&self, world: &World, workspace: &Path) -> Result<Connected, Failure> {
        connect_all(&self.first, &self.others, world, workspace)
    }
}

/// Refuses a model beside the first that is the first: where that gives no answer, it gives none.
pub(crate) fn apart(first: &ModelChoice, others: &[ModelChoice]) -> Result<(), Failure> {
    let same = |other: &&ModelChoice| {
        (other.wire, &other.name, &other.base_url) == (first.wire, &first.name, &first.base_url)
    };
    match others.iter().find(same) {
        None => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "`{}` at {} is the model that is asked first, and is named again beside it",
            other.name, other.base_url
        ))
        .hint("name another model, or leave it out: the first is asked again anyway before anybody stands in for it")),
    }
}

/// The rules that were typed, and the models that they name.
pub(crate) fn routing(args: &RoutingArgs) -> Result<(Routing, Vec<ModelChoice>), Failure> {
    if args.unknown_outcome == UnknownOutcome::GoOn && args.fallback.is_empty() {
        return Err(Failure::usage("--unknown-outcome go-on: there is no fallback to go on with")
            .hint("name one with --fallback, or leave it out: the same model is then asked again"));
    }
    let mut named = Named::default();
    let fallback = args.fallback.iter().map(|spec| named.route(spec)).collect::<Result<_, _>>()?;
    let escalate = args.escalate_to.as_ref().map(|spec| named.route(spec)).transpose()?;
    let downshift = args.downshift_to.as_ref().map(|spec| named.route(spec)).transpose()?;
    let routing = Routing {
        fallback,
        begin: if args.begin_with_fallback { Begin::Anyone } else { Begin::Chosen },
        unresolved: match args.unknown_outcome {
            UnknownOutcome::AskAgain => Unresolved::AskAgain,
            UnknownOutcome::GoOn => Unresolved::GoOn,
        },
        escalate: escalate.map(|to| Escalate { after: args.escalate_after, to }),
        downshift: downshift.map(|to| Downshift { below_bytes: args.downshift_below, to }),
        others: named.routes,
    };
    Ok((routing, named.choices))
}

/// Models by the words that name them: one that is named twice is one.
#[derive(Default)]
struct Named {
    specs: Vec<ModelSpec>,
    routes: Vec<Route>,
    choices: Vec<ModelChoice>,
}

impl Named {
    fn route(&mut self, spec: &ModelSpec) -> Result<RouteId, Failure> {
        let known = self.specs.iter().position(|known| known == spec);
        let at = known.unwrap_or(self.specs.len());
        if known.is_none() {
            let choice = choice(spec)?;
            let price =
                spec.price.map(|(input, output)| Price::flat(input, output).known_from(PriceFrom::Given));
            self.routes.push(Route { model: choice.fact(), price });
            self.choices.push(choice);
            self.specs.push(spec.clone());
        }
        u16::try_from(at + 1).map(RouteId).map_err(|_| Failure::usage("too many models"))
    }
}

fn choice(spec: &ModelSpec) -> Result<ModelChoice, Failure> {
    let row = provider(&spec.provider)?;
    let base_url = spec.base_url.clone().or_else(|| row.base_url.map(str::to_owned)).ok_or_else(|| {
        Failure::usage(format!("`{}` gives each customer a base URL of its own", row.name))
            .hint(format!("write it behind the model, as in {spec}@https://…"))
    })?;
    Ok(ModelChoice {
        wire: Wire::of(row.wire),
        name: spec.model.clone(),
        base_url,
        key_env: None,
        provider: Some(row),
        window: None,
        cassette: None,
    })
}
