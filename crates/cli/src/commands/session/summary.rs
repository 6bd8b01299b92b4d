//! What an authority is shown before it signs: the whole of a request, in words.

use provost::core::act::show_argv;
use provost::core::session::{Danger, Request};
use provost::core::text::{Lines, visible};

use crate::render::{counted, words};

/// Lines of the task that are shown.
const TASK_LINES: usize = 12;
/// Judging files that are named.
const JUDGES: usize = 6;

/// A request in words; with the task, its beginning too.
pub(super) fn summary(request: &Request, task: Option<&[u8]>) -> Vec<String> {
    let esc = |text: &str| visible(text, Lines::Escape);
    let source = &request.source;
    let mut out = vec![
        format!("session {}", request.session),
        format!(
            "  files    commit {}, `{}`, tree {}",
            source.commit().unwrap_or("-"),
            esc(source.scope().as_str()),
            request.tree.sha1
        ),
        format!("  runner   {}", esc(&request.audience)),
        format!(
            "  model    {} ({}, {})",
            esc(&request.model.name),
            request.model.wire,
            esc(&request.model.endpoint)
        ),
    ];
    let budget = &request.budget;
    let mut bounds: Vec<String> = Vec::new();
    bounds.extend(budget.steps.map(|steps| counted(steps, "step")));
    bounds.extend(budget.tokens.map(|tokens| format!("{tokens} tokens")));
    bounds.extend(budget.cost_micros.map(words::dollars));
    bounds.extend(budget.time_ms.map(crate::render::duration));
    out.push(format!("  budget   at most {}", bounds.join(", ")));
    let layers: Vec<String> = request.policy.layers.iter().map(|layer| esc(&layer.name)).collect();
    out.push(format!("  policy   {}", layers.join("; ")));
    let hosts = request.policy.allowed_hosts();
    out.push(format!("  network  {}", if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }));
    out.push(match (&request.policy.image, &request.toolchain) {
        (Some(image), _) => format!("  runs in  image {image}"),
        (None, Some(digest)) => format!("  runs in  the host's toolchain {}", digest.short()),
        (None, None) => "  runs in  the host's toolchain, whatever it is".to_owned(),
    });
    out.push(match &request.gate {
        Some(gate) => format!("  gate     {}", esc(&show_argv(&gate.argv))),
        None => "  gate     none: only the agent will say that the work is done".to_owned(),
    });
    let judges = request.judges.len();
    let named: Vec<String> =
        request.judges.keys().take(JUDGES).map(|path| format!("`{}`", esc(path.as_str()))).collect();
    let more =
        if judges > named.len() { format!(" and {} more", judges - named.len()) } else { String::new() };
    out.push(match judges {
        0 => "  judges   no file is taken for a test: none is protected".to_owned(),
        _ => format!(
            "  judges   {} may not be changed: {}{more}",
            counted(judges as u64, "file"),
            named.join(", ")
        ),
    });
    let allowed: Vec<&str> = request.allowed.iter().copied().map(Danger::name).collect();
    out.push(match allowed.as_slice() {
        [] => "  danger   build scripts, manifests, CI and the like may not be changed".to_owned(),
        kinds => format!("  danger   MAY be changed: {}", kinds.join(", ")),
    });
    if let Some(task) = task {
        let text = String::from_utf8_lossy(task);
        let lines: Vec<&str> = text.lines().collect();
        out.push(format!("  task     SHA-256 {}", request.task));
        out.extend(lines.iter().take(TASK_LINES).map(|line| format!("    | {}", esc(line))));
        if lines.len() > TASK_LINES {
            out.push(format!("    | … {} more", counted((lines.len() - TASK_LINES) as u64, "line")));
        }
    } else {
        out.push(format!("  task     SHA-256 {} (give --task FILE to see it)", request.task));
    }
    out
}
