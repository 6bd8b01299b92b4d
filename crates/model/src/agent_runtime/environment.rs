//! `AGENT_*` and `AGY_*`: read whole, checked before anything is paid for.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::text::{Lines, visible};

use super::verify;

/// What the variables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `AGENT_TASK`.
    pub task: String,
    /// `AGENT_ALLOWED`: bare names of programs, each once.
    pub allowed: Vec<String>,
    /// `AGENT_VERIFY`: argument vectors, none of them empty; each program is in [`Settings::allowed`].
    pub verify: Vec<Vec<String>>,
    /// `AGENT_MAX_STEPS` (8).
    pub max_steps: u32,
    /// `AGENT_TIMEOUT_SECS` (120): of one decision, and of one command.
    pub timeout: Duration,
    /// `AGENT_MAX_OBSERVATION_BYTES` (16384): of one observation, and of a file.
    pub max_observation_bytes: usize,
    /// `AGENT_MAX_OUTPUT_BYTES` (65536): of each stream of a command, and of one decision.
    pub max_output_bytes: usize,
    /// Who decides.
    pub asked: Asked,
    /// `AGY_WORK_DIR`: where the program that decides runs; the workspace where it is `None`.
    pub work_dir: Option<PathBuf>,
    /// Variables whose names begin as these do and that mean nothing: a slip of the pen, perhaps.
    pub unknown: Vec<String>,
}

/// Who decides. The program is as it was written: a path from the caller's folder, or a name along `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// `AGY_BIN` (`agy`), asked for `AGY_MODEL`.
    Agy {
        /// The program.
        program: OsString,
        /// The model.
        model: String,
    },
    /// `AGENT_FAKE_PROVIDER`, which stands before `AGY_BIN`.
    Script {
        /// The program.
        program: OsString,
    },
}

/// One variable that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadVariable {
    /// Its name.
    pub name: &'static str,
    /// What it holds, safe to show and shortened; `None` where it is not set.
    pub holds: Option<String>,
    /// What is the matter, to be read behind the name.
    pub problem: String,
    /// What to write.
    pub hint: String,
}

impl fmt::Display for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holds {
            Some(holds) => write!(f, "{} (`{holds}`) {}; {}", self.name, self.problem, self.hint),
            None => write!(f, "{} {}; {}", self.name, self.problem, self.hint),
        }
    }
}

/// All variables that cannot be used, so that they are put right in one go. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEnvironment(pub Vec<BadVariable>);

impl fmt::Display for BadEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, bad) in self.0.iter().enumerate() {
            let line_feed = if index == 0 { "" } else { "\n" };
            write!(f, "{line_feed}{bad}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BadEnvironment {}

/// The names that are read.
pub const NAMES: [&str; 11] = [
    "AGENT_TASK",
    "AGENT_ALLOWED",
    "AGENT_VERIFY",
    "AGENT_MAX_STEPS",
    "AGENT_TIMEOUT_SECS",
    "AGENT_MAX_OBSERVATION_BYTES",
    "AGENT_MAX_OUTPUT_BYTES",
    "AGY_BIN",
    "AGY_WORK_DIR",
    "AGY_MODEL",
    "AGENT_FAKE_PROVIDER",
];

const DEFAULT_MODEL: &str = "gemini-3.8-flash-low";

/// Reads the variables.
///
/// # Errors
///
/// Everything that is wrong with them, each with what to write.
pub fn read(variables: &BTreeMap<OsString, OsString>) -> Result<Settings, BadEnvironment> {
    let mut reader = Reader { variables, bad: Vec::new() };
    let task = reader.task();
    let allowed = reader.allowed();
    let verify = reader.verify(&allowed);
    let max_steps = reader.number("AGENT_MAX_STEPS", 8, u64::from(u32::MAX));
    // A hundred years: longer would overflow the arithmetic with instants.
    let timeout = reader.number("AGENT_TIMEOUT_SECS", 120, 100 * 365 * 24 * 3600);
    let observation = reader.number("AGENT_MAX_OBSERVATION_BYTES", 16 * 1024, 1 << 30);
    let output = reader.number("AGENT_MAX_OUTPUT_BYTES", 64 * 1024, 1 << 30);
    let model = reader.text("AGY_MODEL").unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    let asked = if let Some(program) = reader.given("AGENT_FAKE_PROVIDER") {
        Asked::Script { program: program.to_owned() }
    } else {
        let program = reader.given("AGY_BIN").unwrap_or(OsStr::new("agy")).to_owned();
        Asked::Agy { program, model }
    };
    let settings = Settings {
        task,
        allowed,
        verify,
        max_steps: max_steps as u32,
        timeout: Duration::from_secs(timeout),
        max_observation_bytes: observation as usize,
        max_output_bytes: output as usize,
        asked,
        work_dir: reader.given("AGY_WORK_DIR").map(PathBuf::from),
        unknown: unknown(variables),
    };
    if reader.bad.is_empty() { Ok(settings) } else { Err(BadEnvironment(reader.bad)) }
}

fn unknown(variables: &BTreeMap<OsString, OsString>) -> Vec<String> {
    let names = variables.keys().filter_map(|name| name.to_str());
    let ours = names.filter(|name| name.starts_with("AGENT_") || name.starts_with("AGY_"));
    ours.filter(|name| !NAMES.contains(name)).map(|name| visible(name, Lines::Escape)).collect()
}

struct Reader<'a> {
    variables: &'a BTreeMap<OsString, OsString>,
    bad: Vec<BadVariable>,
}

impl<'a> Reader<'a> {
    /// Both texts may quote parts of values: what is hidden in them is written out here, once for all.
    fn complain(&mut self, name: &'static str, problem: impl AsRef<str>, hint: impl AsRef<str>) {
        let holds = self.variables.get(OsStr::new(name)).map(|value| shown(value));
        let safe = |text: &str| visible(text, Lines::Escape);
        self.bad.push(BadVariable {
            name,
            holds,
            problem: safe(problem.as_ref()),
            hint: safe(hint.as_ref()),
        });
    }

    /// The value; none where it is not set or empty, which a shell makes of a variable that is not set.
    fn given(&self, name: &str) -> Option<&'a OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The value as text.
    fn text(&mut self, name: &'static str) -> Option<String> {
        let value = self.given(name)?;
        if value.to_str().is_none() {
            self.complain(name, "is not UTF-8", "write it anew");
        }
        value.to_str().map(str::to_owned)
    }

    fn task(&mut self) -> String {
        let before = self.bad.len();
        let task = self.text("AGENT_TASK").filter(|task| !task.trim().is_empty());
        if task.is_none() && self.bad.len() == before {
            self.complain("AGENT_TASK", missing(self.given("AGENT_TASK")), "say in it what shall be done");
        }
        task.unwrap_or_default()
    }

    fn allowed(&mut self) -> Vec<String> {
        const NAME: &str = "AGENT_ALLOWED";
        let before = self.bad.len();
        let text = self.text(NAME).unwrap_or_default();
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name.contains('/') {
                let bare = name.rsplit('/').next().unwrap_or_default();
                let problem = format!("has the path `{name}`; programs are allowed by their bare names");
                self.complain(NAME, problem, format!("write `{bare}`"));
            } else if name.contains(char::is_whitespace) {
                let problem = format!("has `{name}`, which is several words");
                self.complain(NAME, problem, "put a comma between programs, and leave arguments out");
            } else if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.is_empty() && self.bad.len() == before {
            self.complain(
                NAME,
                "names no program",
                "write the programs that may run: AGENT_ALLOWED=cargo,git",
            );
        }
        names
    }

    fn verify(&mut self, allowed: &[String]) -> Vec<Vec<String>> {
        const NAME: &str = "AGENT_VERIFY";
        let before = self.bad.len();
        let text = self.text(NAME).unwrap_or_default();
        if self.bad.len() > before {
            return Vec::new();
        }
        match verify::read(&text, allowed) {
            Ok(commands) => commands,
            // Without a list of programs, what is said about those of the commands would be noise.
            Err(_) if allowed.is_empty() && !text.trim().is_empty() => Vec::new(),
            Err(bad) => {
                self.complain(NAME, bad.problem, bad.hint);
                Vec::new()
            }
        }
    }

    fn number(&mut self, name: &'static str, default: u64, most: u64) -> u64 {
        let Some(text) = self.text(name) else { return default };
        match text.trim().parse::<u64>() {
            Ok(number) if (1..=most).contains(&number) => number,
            _ => {
                let hint = format!("write a whole number from 1 to {most}, or leave it out for {default}");
                self.complain(name, "is not such a number", hint);
                default
            }
        }
    }
}

fn missing(value: Option<&OsStr>) -> &'static str {
    if value.is_some() { "is blank" } else { "is not set" }
}

/// A value as a person sees it: hidden characters written out, at most some 200 characters.
fn shown(value: &OsStr) -> String {
    let text = visible(&value.to_string_lossy(), Lines::Escape);
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
