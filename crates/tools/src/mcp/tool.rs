//! One tool of a server, as the run sees it.

use provost_core::act::{Recovery, Touch};
use provost_core::server::{Server, called};
use provost_core::transcript::ToolSpec;
use serde_json::Value;

use crate::failure::{BadCall, Failure};
use crate::tool::{Context, Effect, Tool};

/// A tool of somebody else's.
pub struct ForeignTool {
    spec: ToolSpec,
    server: String,
    tool: String,
    recovery: Recovery,
}

impl ForeignTool {
    /// The tool that `server` calls `tool`, told of as `spec`. That it only reads is the person's word, never the server's.
    pub fn new(server: &Server, tool: &str, spec: ToolSpec) -> Self {
        let recovery =
            if server.offers_only_reading(tool) { Recovery::Replayable } else { Recovery::Indeterminate };
        Self { spec, server: server.name.clone(), tool: tool.to_owned(), recovery }
    }
}

impl Tool for ForeignTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn recovery(&self) -> Recovery {
        self.recovery
    }

    fn touches(&self, _: &Value, _: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Ok(vec![Touch::Call { tool: called(&self.server, &self.tool) }])
    }

    fn prepare(&self, args: &Value, _: &Context<'_>) -> Result<Effect, Failure> {
        let args = args.as_object().cloned().unwrap_or_default();
        Ok(Effect::Call { server: self.server.clone(), tool: self.tool.clone(), args })
    }
}
