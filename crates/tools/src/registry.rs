//! The tools by name, and reading a call as one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::transcript::ToolSpec;
use serde_json::Value;

use crate::args;
use crate::failure::BadCall;
use crate::text::{near, show};
use crate::tool::Tool;

/// Bytes of bad arguments that are echoed.
const ECHO: usize = 400;

/// The tools that a model is offered, in a fixed order.
#[derive(Clone, Default)]
pub struct Registry {
    order: Vec<Arc<dyn Tool>>,
    names: BTreeMap<String, usize>,
}

/// A tool that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// The name is taken.
    #[error("there is already a tool `{0}`")]
    Taken(String),
    /// The name is not one.
    #[error("`{0}` is not a tool name: 1 to 64 of a-z, 0-9 and _")]
    Name(String),
}

impl Registry {
    /// No tools.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The tools of this crate.
    pub fn standard() -> Self {
        let tools: [Arc<dyn Tool>; 14] = [
            Arc::new(crate::read::ReadFile::default()),
            Arc::new(crate::list::ListDir::default()),
            Arc::new(crate::search::grep::Grep::default()),
            Arc::new(crate::search::find::Find::default()),
            Arc::new(crate::write::WriteFile::default()),
            Arc::new(crate::edit::EditFile::default()),
            Arc::new(crate::patch::ApplyPatch::default()),
            Arc::new(crate::exec::Exec::default()),
            Arc::new(crate::shell::Shell::default()),
            Arc::new(crate::shell::ShellStart::default()),
            Arc::new(crate::shell::ShellPoll::default()),
            Arc::new(crate::shell::ShellKill::default()),
            Arc::new(crate::delegate::Delegate::default()),
            Arc::new(crate::submit::Submit::default()),
        ];
        let mut registry = Self::empty();
        for tool in tools {
            let added = registry.add(tool);
            debug_assert_eq!(added, Ok(()), "the names above are distinct constants");
        }
        registry
    }

    /// Adds a tool behind the others. A name is never replaced: no tool can shadow another.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), BadTool> {
        let name = tool.spec().name.clone();
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
            return Err(BadTool::Name(name));
        }
        if self.names.contains_key(&name) {
            return Err(BadTool::Taken(name));
        }
        self.names.insert(name, self.order.len());
        self.order.push(tool);
        Ok(())
    }

    /// How the model is told of them, in order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.order.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// These without the one of that name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let order: Vec<_> = self.order.iter().filter(|tool| tool.spec().name != name).cloned().collect();
        let names = order.iter().enumerate().map(|(index, tool)| (tool.spec().name.clone(), index)).collect();
        Self { order, names }
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.names.get(name).map(|index| &self.order[*index])
    }

    /// Reads a call: the tool, and its arguments checked against the tool's schema. Whatever does not fit is refused
    /// and never repaired: a call that was guessed at is not what the model asked for.
    pub fn decode(&self, name: &str, arguments: &str) -> Result<(Arc<dyn Tool>, Value), BadCall> {
        let known = || self.order.iter().map(|tool| tool.spec().name.as_str());
        let tool = self.get(name).ok_or_else(|| BadCall::UnknownTool {
            name: show::clip(name, 64),
            near: near::nearest(name, known()).map(str::to_owned),
            known: known().map(str::to_owned).collect(),
        })?;
        let spec = tool.spec();
        let value = args::parse(arguments).map_err(|error| BadCall::NotJson {
            tool: name.to_owned(),
            problem: problem(&error, arguments),
            received: received(arguments),
        })?;
        args::check(&value, &spec.schema, "").map_err(|problem| BadCall::Arguments {
            tool: name.to_owned(),
            problem,
            takes: args::takes(&spec.schema),
        })?;
        Ok((Arc::clone(tool), value))
    }
}

fn problem(error: &serde_json::Error, arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "they are empty; an object is needed, at least `{}`".to_owned();
    }
    error.to_string()
}

fn received(arguments: &str) -> String {
    let shown = show::clip(arguments, ECHO);
    format!(
        "{} bytes: `{}`",
        arguments.len(),
        provost_core::text::visible(&shown, provost_core::text::Lines::Escape)
    )
}
