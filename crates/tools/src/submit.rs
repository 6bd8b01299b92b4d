//! `submit`: the agent says that it is done.

use provost_core::act::{Recovery, Touch};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, text};
use crate::failure::{BadCall, Failure};
use crate::tool::{Context, Effect, Tool};

/// `submit`.
pub struct Submit(ToolSpec);

impl Default for Submit {
    fn default() -> Self {
        let summary = json!({"type": "string", "description": "What was done and how it was checked, in a few sentences."});
        Self(ToolSpec {
            name: "submit".to_owned(),
            description: "Say that the work is done. Where the contract has a verification command it is run now; if it \
                          does not pass you are told what it printed and go on."
                .to_owned(),
            schema: object(&[("summary", summary)], &["summary"]),
        })
    }
}

impl Tool for Submit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, _: &Value, _: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Ok(Vec::new())
    }

    fn prepare(&self, args: &Value, _: &Context<'_>) -> Result<Effect, Failure> {
        let summary = text(args, "summary")?.to_owned();
        Ok(Effect::Submit { summary })
    }
}
