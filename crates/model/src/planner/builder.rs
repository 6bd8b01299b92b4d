//! A planner and its settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::dialogue::PlannerDialogue;
use crate::{Dialogue, Prelude, Provider, Secret};

/// Which program is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `agy` or what takes its arguments.
    Agy,
    /// Called without arguments.
    Script,
}

/// What a planner is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// One decision: `--output-format json`, one envelope.
    #[default]
    Decisions,
    /// Words, as they are written: `--output-format stream-json`, one event a line.
    Text,
}

/// How the context reaches a client that takes a prompt as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextBy {
    /// As the argument while the prompt has at most so many bytes (and never more than [`ContextBy::LONGEST`]); on
    /// standard input when it is longer. Other users of the host can see arguments.
    Argument {
        /// Bytes.
        longest: usize,
    },
    /// Always on standard input.
    Stdin,
}

impl ContextBy {
    /// Longest prompt that is given as an argument, in bytes: Linux takes 128 KiB.
    pub const LONGEST: usize = 120 * 1024;
}

impl Default for ContextBy {
    fn default() -> Self {
        Self::Argument { longest: Self::LONGEST }
    }
}

/// When a planner may decide that the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finishes {
    /// Whenever it decides so.
    #[default]
    Anytime,
    /// Not before a `replace_text` of its own was carried out, in this dialogue or before it was taken up again. Until
    /// then the decision is rejected, and the planner is told why.
    AfterAnEdit,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) model: String,
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) secrets: Vec<Secret>,
    pub(super) answers: Answers,
    pub(super) context: ContextBy,
    pub(super) task: Option<String>,
    pub(super) allowed: Vec<String>,
    pub(super) verification: Vec<Vec<String>>,
    pub(super) timeout: Duration,
    pub(super) output_bytes: usize,
    pub(super) observation_bytes: usize,
    pub(super) finishes: Finishes,
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPlanner {
    /// The program is not given as an absolute path: [`resolve`](super::resolve()) makes one.
    #[error("the planner's program `{}` is not an absolute path", .0.display())]
    Program(PathBuf),
    /// There is no such folder to run it in.
    #[error("the planner's folder `{}` is no folder that can be reached", .0.display())]
    Folder(PathBuf),
    /// A verification command is empty.
    #[error("verification command {0} is empty")]
    Verification(usize),
}

/// Makes a [`Planner`].
#[derive(Debug, Clone)]
pub struct PlannerBuilder(Settings);

impl PlannerBuilder {
    fn new(kind: Kind, name: &str, program: PathBuf, cwd: &Path, model: String) -> Self {
        Self(Settings {
            kind,
            name: name.to_owned(),
            model,
            program,
            cwd: cwd.to_owned(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            answers: Answers::default(),
            context: ContextBy::default(),
            task: None,
            allowed: Vec::new(),
            verification: Vec::new(),
            timeout: Duration::from_mins(2),
            output_bytes: 1 << 20,
            observation_bytes: 16 * 1024,
            finishes: Finishes::default(),
        })
    }

    /// The program's whole environment: what the caller lets it have, name by name. Nothing is inherited.
    #[must_use]
    pub fn env(mut self, env: BTreeMap<OsString, OsString>) -> Self {
        self.0.env = env;
        self
    }

    /// A credential in the environment, which is taken out of whatever the program prints.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.0.secrets.push(secret);
        self
    }

    /// Asks for decisions (the default) or for text.
    #[must_use]
    pub fn answers(mut self, answers: Answers) -> Self {
        self.0.answers = answers;
        self
    }

    /// How the context reaches `agy`.
    #[must_use]
    pub fn context(mut self, by: ContextBy) -> Self {
        self.0.context = by;
        self
    }

    /// The task; where it is not given, the first message of the dialogue is it.
    #[must_use]
    pub fn task(mut self, task: impl Into<String>) -> Self {
        self.0.task = Some(task.into());
        self
    }

    /// Programs that the planner is told it may run. Whether they run is the policy's decision.
    #[must_use]
    pub fn allowed(mut self, programs: impl IntoIterator<Item = String>) -> Self {
        self.0.allowed = programs.into_iter().collect();
        self
    }

    /// What `verify` runs, each as an argument vector.
    #[must_use]
    pub fn verification(mut self, commands: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.0.verification = commands.into_iter().collect();
        self
    }

    /// Wall-clock limit of one decision (2 minutes); an invocation may be shorter.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Most bytes of an answer, or of one line and of all text of a stream (1 MiB).
    #[must_use]
    pub fn output_bytes(mut self, limit: usize) -> Self {
        self.0.output_bytes = limit;
        self
    }

    /// Most bytes of one observation (16 KiB); a longer one keeps its start and its end.
    #[must_use]
    pub fn observation_bytes(mut self, limit: usize) -> Self {
        self.0.observation_bytes = limit;
        self
    }

    /// When the planner may finish.
    #[must_use]
    pub fn finishes(mut self, when: Finishes) -> Self {
        self.0.finishes = when;
        self
    }

    /// The planner.
    ///
    /// # Errors
    ///
    /// [`BadPlanner`] names the setting.
    pub fn build(self) -> Result<Planner, BadPlanner> {
        let settings = self.0;
        if !settings.program.is_absolute() {
            return Err(BadPlanner::Program(settings.program));
        }
        if !settings.cwd.is_dir() {
            return Err(BadPlanner::Folder(settings.cwd));
        }
        if let Some(empty) = settings.verification.iter().position(Vec::is_empty) {
            return Err(BadPlanner::Verification(empty + 1));
        }
        Ok(Planner { settings: Arc::new(settings) })
    }
}

/// A provider behind a program.
#[derive(Debug, Clone)]
pub struct Planner {
    settings: Arc<Settings>,
}

impl Planner {
    /// Asks `agy` at this absolute path, run in `cwd`, for `model`.
    pub fn agy(
        program: impl Into<PathBuf>,
        cwd: impl AsRef<Path>,
        model: impl Into<String>,
    ) -> PlannerBuilder {
        PlannerBuilder::new(Kind::Agy, "agy", program.into(), cwd.as_ref(), model.into())
    }

    /// Asks a script at this absolute path, run in `cwd`. It gets no arguments and may read the request as JSON on
    /// standard input: `{"task", "allowed_programs", "verification_programs", "observations"}`.
    pub fn script(program: impl Into<PathBuf>, cwd: impl AsRef<Path>) -> PlannerBuilder {
        let program = program.into();
        let model = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        PlannerBuilder::new(Kind::Script, "script", program, cwd.as_ref(), model)
    }
}

impl Provider for Planner {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        Box::new(PlannerDialogue::new(self.settings.clone(), prelude))
    }
}
