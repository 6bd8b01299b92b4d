//! `AGENT_VERIFY`: several commands in one variable.

use provost_core::act::show_argv;

/// Words that only a shell understands. Taken as arguments they would make a verification pass that never ran whole.
const OPERATORS: [&str; 9] = ["&&", "||", "|", "&", ">", ">>", "<", "2>&1", "2>"];

/// Why a value is not a list of commands, and what to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) problem: String,
    pub(super) hint: String,
}

fn bad(problem: impl Into<String>, hint: impl Into<String>) -> Bad {
    Bad { problem: problem.into(), hint: hint.into() }
}

/// Reads the commands: a JSON list of argument vectors, or text in which `;` separates whole commands.
pub(super) fn read(text: &str, allowed: &[String]) -> Result<Vec<Vec<String>>, Bad> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(bad(
            "is empty: without a verification no change can be verified, and the work is never accepted",
            "name the command that decides whether the work is done, such as AGENT_VERIFY=\"cargo test --locked\"",
        ));
    }
    let commands = if trimmed.starts_with('[') { json(trimmed)? } else { separated(trimmed, allowed)? };
    for command in &commands {
        check(command, allowed)?;
    }
    Ok(commands)
}

fn json(text: &str) -> Result<Vec<Vec<String>>, Bad> {
    const FORM: &str = "write a list of lists of words: AGENT_VERIFY='[[\"cargo\",\"test\",\"--locked\"]]'";
    let commands: Vec<Vec<String>> =
        serde_json::from_str(text).map_err(|error| match serde_json::from_str::<Vec<String>>(text) {
            Ok(words) => {
                let one = serde_json::Value::from(words);
                bad("is a list of words, not of commands", format!("write AGENT_VERIFY='[{one}]'"))
            }
            Err(_) => bad(format!("begins like JSON and is not a list of commands: {error}"), FORM),
        })?;
    if commands.is_empty() || commands.iter().any(Vec::is_empty) {
        return Err(bad("holds an empty list: nothing would be run", FORM));
    }
    Ok(commands)
}

fn separated(text: &str, allowed: &[String]) -> Result<Vec<Vec<String>>, Bad> {
    let parts = split(text).ok_or_else(|| {
        bad("has a quote that is not closed", "close the quote, or write the commands as JSON lists")
    })?;
    let parts: Vec<&str> = parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect();
    let commands: Vec<Vec<String>> =
        parts.into_iter().map(words).collect::<Option<_>>().ok_or_else(|| {
            bad("has a quote that is not closed", "close the quote, or write the commands as JSON lists")
        })?;
    if commands.is_empty() {
        return Err(bad("holds no command, only separators", "write AGENT_VERIFY=\"cargo test --locked\""));
    }
    if let Some(whole) = taken_apart(&commands, allowed) {
        let parts: Vec<String> = commands.iter().map(|command| format!("`{}`", show_argv(command))).collect();
        let problem = format!(
            "is {} commands, {}: `;` stands between whole commands, not between the words of one",
            commands.len(),
            parts.join(", ")
        );
        let whole: Vec<String> = whole.iter().map(|command| show_argv(command)).collect();
        let hint = format!(
            "write AGENT_VERIFY=\"{}\" (or, where each is a program of its own, add them to AGENT_ALLOWED)",
            whole.join("; ")
        );
        return Err(bad(problem, hint));
    }
    if let Some(operator) = commands.iter().flatten().find(|word| OPERATORS.contains(&word.as_str())) {
        return Err(bad(
            format!("holds `{operator}`, which would be an argument: no shell reads it"),
            "put `;` between commands, or write AGENT_VERIFY='[[\"sh\",\"-c\",\"…\"]]' and allow `sh`",
        ));
    }
    Ok(commands)
}

/// The commands that were meant where `;` was put between the words of one; `None` where nothing shows that.
///
/// What shows it: a later part that begins with `-`, or, where each part is one word, a later part that is not an allowed
/// program behind one that is. A part that shows it belongs to the part before it.
fn taken_apart(commands: &[Vec<String>], allowed: &[String]) -> Option<Vec<Vec<String>>> {
    let is_allowed = |word: &String| allowed.contains(word);
    let single = commands.iter().all(|command| command.len() == 1);
    let first = commands.first().and_then(|command| command.first()).is_some_and(is_allowed);
    let mut whole: Vec<Vec<String>> = Vec::new();
    let mut found = false;
    for command in commands {
        let [program, ..] = command.as_slice() else { continue };
        let belongs = program.starts_with('-') || (single && first && !is_allowed(program));
        match whole.last_mut() {
            Some(last) if belongs => {
                found = true;
                last.extend(command.iter().cloned());
            }
            _ => whole.push(command.clone()),
        }
    }
    found.then_some(whole)
}

fn check(command: &[String], allowed: &[String]) -> Result<(), Bad> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    if allowed.iter().any(|name| name == program) {
        return Ok(());
    }
    let shown = show_argv(command);
    if program.contains('/') {
        return Err(bad(
            format!("has the command `{shown}`, whose program is a path"),
            "write the program's bare name, and the same name in AGENT_ALLOWED",
        ));
    }
    Err(bad(
        format!("has the command `{shown}`, and `{program}` is not in AGENT_ALLOWED ({})", allowed.join(",")),
        format!("add it: AGENT_ALLOWED={}", [allowed, &[program.to_owned()]].concat().join(",")),
    ))
}

/// Text between the `;` that stand outside of quotes; `None` where a quote is not closed.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut quote, mut escaped) = (Vec::new(), 0, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, ';') => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(&text[from..]);
    quote.is_none().then_some(parts)
}

/// The words of one command. Without quotes exactly as they always were, split at white space with every other character
/// standing for itself; with quotes as a shell would read them.
fn words(part: &str) -> Option<Vec<String>> {
    if part.contains(['\'', '"']) {
        return shlex::split(part).filter(|words| !words.is_empty());
    }
    Some(part.split_whitespace().map(str::to_owned).collect())
}
