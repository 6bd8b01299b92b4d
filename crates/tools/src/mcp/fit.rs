//! What a model is told of a server's tools: names that every vendor takes, descriptions without hidden characters, and
//! no more of it than a prompt bears.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::server::{MOST_TOOLS, Server};
use provost_core::text::{Lines, visible};
use provost_core::transcript::ToolSpec;

use super::{Offered, schema};
use crate::text::show::clip;

/// Longest description, and longest name as the server has it, in bytes.
const LONGEST_DESCRIPTION: usize = 2048;
const LONGEST_OWN_NAME: usize = 128;

/// Longest name that vendors take.
const LONGEST_NAME: usize = 64;

/// Most bytes of JSON that the tools of one server may have together.
const LARGEST: usize = 64 * 1024;

/// A server's tools, ready for a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fitted {
    /// How the model is told of each, by the server's own name for it.
    pub tools: BTreeMap<String, ToolSpec>,
    /// Those that it is not told of, each with the reason in a sentence.
    pub left_out: Vec<String>,
}

/// Fits what a server offers to what a model can be told. The same offer gives the same tools, in whatever order it
/// comes.
pub fn fit(server: &Server, mut offered: Vec<Offered>) -> Fitted {
    let mut fitted = Fitted::default();
    offered.sort_by(|one, other| one.name.cmp(&other.name));
    let mut names = BTreeSet::new();
    let mut held = 0;
    for tool in offered {
        let own = visible(&clip(&tool.name, LONGEST_NAME), Lines::Escape);
        if !server.is_wanted(&tool.name) {
            continue;
        }
        match spec(server, &tool) {
            Err(why) => fitted.left_out.push(format!("`{own}` is left out: {why}.")),
            Ok(spec) => {
                let size = spec.description.len() + spec.schema.to_string().len();
                let why = if fitted.tools.len() >= MOST_TOOLS {
                    Some(format!("{MOST_TOOLS} tools of a server are the most"))
                } else if held + size > LARGEST {
                    Some(format!("the tools of a server may have {LARGEST} bytes together"))
                } else if !names.insert(spec.name.clone()) {
                    Some(format!("another tool is `{}` already", spec.name))
                } else {
                    None
                };
                if let Some(why) = why {
                    fitted.left_out.push(format!("`{own}` is left out: {why}."));
                } else {
                    held += size;
                    fitted.tools.insert(tool.name, spec);
                }
            }
        }
    }
    for wanted in server.tools.iter().flatten().filter(|wanted| !fitted.tools.contains_key(*wanted)) {
        let wanted = visible(wanted, Lines::Escape);
        if !fitted.left_out.iter().any(|said| said.starts_with(&format!("`{wanted}` "))) {
            fitted.left_out.push(format!("`{wanted}` is wanted, and the server does not have it."));
        }
    }
    fitted
}

fn spec(server: &Server, tool: &Offered) -> Result<ToolSpec, String> {
    if tool.name.is_empty() || tool.name.len() > LONGEST_OWN_NAME || tool.name.chars().any(char::is_control) {
        return Err(format!(
            "its name is not one of 1 to {LONGEST_OWN_NAME} bytes without control characters"
        ));
    }
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    let name: String = server.name.chars().chain("__".chars()).chain(tool.name.chars().map(plain)).collect();
    if name.len() > LONGEST_NAME {
        return Err(format!("its name is too long for a model: `{name}`"));
    }
    let description = visible(tool.description.trim(), Lines::Keep);
    let description = match description.as_str() {
        "" => format!("A tool of the server `{}`.", server.name),
        said => clip(said, LONGEST_DESCRIPTION),
    };
    Ok(ToolSpec { name, description, schema: schema::usable(&tool.schema)? })
}
