//! `delegate`: another agent does a part of the work.

use provost_core::act::{Recovery, Touch};
use provost_core::agents::{self, MOST_DENIED};
use provost_core::policy::Pattern;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, optional_number, optional_text, text};
use crate::failure::{BadCall, Failure};
use crate::tool::{Context, Delegation, Effect, Tool};

/// What an agent is called whose call gives it no name.
const NAME: &str = "agent";

/// `delegate`.
pub struct Delegate(ToolSpec);

impl Default for Delegate {
    fn default() -> Self {
        let goal = json!({"type": "string", "description": "What it is to do and to report. It knows nothing of what was \
            said here."});
        let name = json!({"type": "string", "description": "a-z, 0-9, `-`, `_`."});
        let max_steps = json!({"type": "integer", "description": "Most answers it may take."});
        let deny = json!({"type": "array", "items": {"type": "string"}, "description": "What it may not do that you may: \
            `write **`, `exec git*`."});
        Self(ToolSpec {
            name: "delegate".to_owned(),
            description: "Have another agent do a part of the work here, with these tools and from the same budget. Its last \
                          words are the result. Good for much reading that comes to a short answer."
                .to_owned(),
            schema: object(
                &[("goal", goal), ("name", name), ("max_steps", max_steps), ("deny", deny)],
                &["goal"],
            ),
        })
    }
}

fn read(args: &Value) -> Result<Delegation, BadCall> {
    let goal = text(args, "goal")?;
    if goal.trim().is_empty() {
        return Err(BadCall::value("goal", "is empty: say what is to be done"));
    }
    let name = optional_text(args, "name").unwrap_or(NAME);
    if !agents::is_name(name) {
        return Err(BadCall::value("name", "must be 1 to 32 characters of a-z, 0-9, `-` and `_`"));
    }
    let max_steps = optional_number(args, "max_steps", 1)?;
    let max_steps = max_steps.map(|steps| u32::try_from(steps).unwrap_or(u32::MAX));
    let rules = args.get("deny").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if rules.len() > MOST_DENIED {
        return Err(BadCall::value("deny", format!("has more than {MOST_DENIED} rules")));
    }
    let rule = |rule: &Value| {
        let pattern = rule.as_str().unwrap_or_default().parse::<Pattern>();
        pattern.map_err(|bad| BadCall::value("deny", bad.to_string()))
    };
    let deny = rules.iter().map(rule).collect::<Result<_, _>>()?;
    Ok(Delegation { name: name.to_owned(), goal: goal.to_owned(), max_steps, deny })
}

impl Tool for Delegate {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// The journal itself says whether there is such an agent, and what became of it.
    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, _: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Ok(vec![Touch::Spawn { agent: read(args)?.name }])
    }

    fn prepare(&self, args: &Value, _: &Context<'_>) -> Result<Effect, Failure> {
        Ok(Effect::Delegate(read(args)?))
    }
}
