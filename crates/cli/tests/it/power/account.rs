//! What must hold of a run whatever its driver went through, as lists of complaints: empty where all is well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::power::stage::{COMMANDS, MAKER, Recorded, Stage, is_command};
use crate::support::{bodies, text};

/// What a run came to, as far as it must not depend on when its driver died.
#[derive(Debug)]
pub(crate) struct End {
    tree: BTreeMap<PathBuf, String>,
    acts: Vec<Act>,
    shown: BTreeMap<&'static str, Value>,
    usage: Vec<Value>,
}

/// An act of the journal, without times and digests.
#[derive(Debug, PartialEq)]
struct Act {
    decided: Value,
    intent: Value,
    finished: Value,
}

impl Act {
    fn was_interrupted(&self) -> bool {
        self.finished["end"] == "interrupted"
    }

    fn is_command(&self) -> bool {
        ["exec", "gate"].iter().any(|tool| self.decided["tool"] == *tool)
    }
}

impl End {
    pub(crate) fn of(stage: &Stage, run: &str, journal: &[Value]) -> Self {
        let shown = stage.env.show(run);
        // All usage but what was lost with a driver in mid-answer, which is charged beside it.
        let keys = ["state", "steps", "outcome", "verified"];
        Self {
            tree: stage.tree(),
            acts: acts(journal),
            shown: keys.into_iter().map(|key| (key, shown[key].clone())).collect(),
            usage: bodies(journal, "model.answered").iter().map(|body| body["usage"].clone()).collect(),
        }
    }

    /// Complaints about this end, where `whole` is that of a run whose driver was left alone.
    pub(crate) fn complaints(&self, whole: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: &str, mine: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            let (mine, theirs) = (format!("{mine:#?}"), format!("{theirs:#?}"));
            if mine != theirs {
                found.push(format!("{what}: {mine}\ninstead of {theirs}"));
            }
        };
        same("shown", &self.shown, &whole.shown);
        same("usage", &self.usage, &whole.usage);
        same("count of acts", &self.acts.len(), &whole.acts.len());
        for (mine, theirs) in self.acts.iter().zip(&whole.acts) {
            same("decided", &mine.decided, &theirs.decided);
            if mine.was_interrupted() && mine.is_command() {
                continue;
            }
            same("intent", &mine.intent, &theirs.intent);
            same("finished", &mine.finished, &theirs.finished);
        }
        let mut tree = self.tree.clone();
        if self.acts.iter().any(|act| act.was_interrupted() && is_command(&act.intent, MAKER)) {
            // Cut short, it made the file, or it did not, or an empty one.
            let made = Path::new("made.txt");
            tree.insert(made.to_owned(), whole.tree[made].clone());
        }
        same("tree", &tree, &whole.tree);
        found
    }
}

/// The acts that count, in order: a gate that judged nothing is none of them.
fn acts(journal: &[Value]) -> Vec<Act> {
    let judged = bodies(journal, "gate.judged");
    let void: Vec<&Value> =
        judged.iter().filter(|body| body["verdict"] == "errored").map(|body| &body["act"]).collect();
    let of = |kind: &str, act: &Value| {
        let found = bodies(journal, kind).into_iter().find(|body| body["act"] == *act);
        found.map_or(Value::Null, |body| without_accidents(body.clone()))
    };
    let decided = bodies(journal, "act.decided").into_iter().filter(|body| !void.contains(&&body["act"]));
    let acts = decided.map(|body| {
        let act = &body["act"];
        let intent = of("act.started", act)["intent"].clone();
        Act { decided: without_accidents(body.clone()), intent, finished: of("act.finished", act) }
    });
    acts.collect()
}

/// A body without numbers that count other events, times, and digests (which depend on the run's salt).
fn without_accidents(mut value: Value) -> Value {
    const ACCIDENTS: [&str; 5] = ["act", "duration_ms", "containment", "limit_ms", "tree"];
    match &mut value {
        Value::Object(members) => {
            members.retain(|name, member| !ACCIDENTS.contains(&name.as_str()) && !is_digest(member));
            for member in members.values_mut() {
                *member = without_accidents(member.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_accidents(item.take());
            }
        }
        _ => {}
    }
    value
}

fn is_digest(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// I2, at a moment when the driver is dead: nothing happened, and nothing was told, that is not recorded.
pub(crate) fn unrecorded(stage: &Stage, recorded: Option<&Recorded>) -> Vec<String> {
    let nothing = Recorded { run: String::new(), events: Vec::new() };
    let recorded = recorded.unwrap_or(&nothing);
    let mut found = Vec::new();
    for n in 1..=COMMANDS {
        if stage.count(&format!("begin {n}")) > 0 && !recorded.started(n) {
            found.push(format!("command {n} began, and its start is not recorded"));
        }
    }
    let written = recorded.written();
    for path in changed(stage) {
        let by_command = path == Path::new("made.txt") && recorded.started(MAKER);
        if !by_command && !written.contains(&path) {
            found.push(format!("{} was written, and no recorded intent says so", path.display()));
        }
    }
    found.extend(told_too_much(stage, recorded));
    found
}

/// Files of the workspace that are not as at the start. Those that a write is still making ready have other names.
fn changed(stage: &Stage) -> BTreeSet<PathBuf> {
    let now = stage.tree();
    let paths = now.keys().chain(stage.base.keys()).cloned();
    let made_ready =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".provost-tmp-");
    paths.filter(|path| !made_ready(path) && now.get(path) != stage.base.get(path)).collect()
}

/// A request for step n tells the model of all that came before: so much must be recorded.
fn told_too_much(stage: &Stage, recorded: &Recorded) -> Vec<String> {
    let asked = stage.asked();
    let Some(newest) = asked.iter().map(|(_, step, _)| *step).max() else { return Vec::new() };
    let mut found = Vec::new();
    if asked.iter().any(|(run, ..)| *run != recorded.run) {
        found.push("the model was asked on behalf of a run that is not recorded".to_owned());
    }
    let answers = bodies(&recorded.events, "model.answered");
    for step in 0..newest {
        if !answers.iter().any(|answer| answer["step"] == step) {
            found.push(format!("step {newest} was asked for, and the answer of step {step} is not recorded"));
        }
    }
    let calls: u64 =
        answers.iter().take(newest as usize).map(|answer| answer["calls"].as_u64().unwrap()).sum();
    let finished = bodies(&recorded.events, "act.finished").len() as u64;
    if finished < calls {
        found.push(format!("the model was told of {calls} calls, and {finished} are recorded as finished"));
    }
    found
}

/// I4 and I6, for a run that is over or waits: each thing was done and counted once.
pub(crate) fn done_twice(stage: &Stage, run: &str, journal: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for (seq, event) in journal.iter().enumerate() {
        if event["seq"] != seq as u64 {
            found.push(format!("event {seq} has the place {}", event["seq"]));
        }
    }
    let invocations: Vec<String> =
        bodies(journal, "model.answered").iter().map(|body| text(&body["invocation"])).collect();
    let due: Vec<String> = (0..invocations.len()).map(|step| format!("{run}.{step}")).collect();
    if invocations != due {
        found.push(format!("invocations were answered as {invocations:?}"));
    }
    for kind in ["act.decided", "act.started", "act.finished"] {
        let acts: Vec<u64> = bodies(journal, kind).iter().map(|body| body["act"].as_u64().unwrap()).collect();
        let once: BTreeSet<&u64> = acts.iter().collect();
        if once.len() != acts.len() {
            found.push(format!("{kind} twice for an act: {acts:?}"));
        }
    }
    if !bodies(journal, "workspace.drifted").is_empty() {
        found.push("a change of the run's own was taken for somebody else's".to_owned());
    }
    found.extend((1..=COMMANDS).flat_map(|n| command_complaints(stage, journal, n)));
    found.extend(asked_differently(stage));
    found
}

/// The journal's account of a command against the command's own.
fn command_complaints(stage: &Stage, journal: &[Value], n: u32) -> Vec<String> {
    let (began, ended) = (stage.count(&format!("begin {n}")), stage.count(&format!("end {n}")));
    let start = bodies(journal, "act.started").into_iter().find(|body| is_command(&body["intent"], n));
    let finish = start.and_then(|start| {
        bodies(journal, "act.finished").into_iter().find(|body| body["act"] == start["act"])
    });
    let mut found = Vec::new();
    if began > 1 || ended > 1 {
        found.push(format!("command {n} ran twice: it began {began} times and ended {ended} times"));
    }
    let exited = finish.is_some_and(|finish| finish["command"]["exit"]["how"] == "exited");
    if exited && (began, ended) != (1, 1) {
        found.push(format!(
            "command {n} exited, says the journal; it began {began} times, ended {ended} times"
        ));
    }
    // An act that was interrupted and has no account of a command says that nothing ran.
    let ran_not = finish.is_none_or(|finish| finish["end"] == "interrupted" && finish["command"].is_null());
    let cannot_tell = start.is_some() && finish.is_none();
    if ran_not && !cannot_tell && began > 0 {
        found.push(format!("command {n} did not run, says the journal; it began"));
    }
    found
}

/// The same invocation is the same request, byte for byte.
fn asked_differently(stage: &Stage) -> Vec<String> {
    let mut bodies: BTreeMap<(String, u64), String> = BTreeMap::new();
    let mut found = Vec::new();
    for (run, step, body) in stage.asked() {
        let first = bodies.entry((run, step)).or_insert_with(|| body.clone());
        if *first != body {
            found.push(format!("step {step} was asked for in two ways:\n{first}\n{body}"));
        }
    }
    found
}
