//! Numbers, times, and what a contract says, in words.

use provost::agent::Asker;
use provost::core::act::{ExitFact, Touch, show_argv};
use provost::core::agents::AgentEnd;
use provost::core::budget::{Budget, Price};
use provost::core::containment::Rung;
use provost::core::event::{ModelFact, RateLimitFact, WindowFact};
use provost::core::policy::{Layer, Policy};
use provost::core::price::Rates;
use provost::core::state::Agent;
pub(crate) use provost::core::text::moment;
use provost::core::text::{Lines, visible};

/// Milliseconds for people.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// `1,234`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 step`, `1,234 steps`.
pub(crate) fn counted(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// The first `most` characters of a text's first line, with a mark where something is left out.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default().trim_end();
    clipped(line, most, lines.next().is_some())
}

/// A line that shows what it cannot hold, in at most `most` characters; `more` says that something follows it.
pub(crate) fn clipped(line: &str, most: usize, more: bool) -> String {
    let shown = visible(line, Lines::Escape);
    if shown.chars().count() > most || more {
        return shown.chars().take(most - 1).chain(['…']).collect();
    }
    shown
}

/// Foreign text with each of its lines behind `margin`, so that none can pass for a line of ours.
pub(crate) fn behind(margin: &str, text: &str) -> Vec<String> {
    visible(text, Lines::Keep).lines().map(|line| format!("{margin}{line}").trim_end().to_owned()).collect()
}

/// How a command ended.
pub(crate) fn exit(exit: ExitFact) -> String {
    match exit {
        ExitFact::Exited { code } => format!("exit {code}"),
        ExitFact::Signalled { signal } => format!("signal {signal}"),
        ExitFact::TimedOut { limit_ms } => format!("killed at its limit of {}", duration(limit_ms)),
        ExitFact::Capped { hit } => format!("killed at a cap: {hit}"),
        ExitFact::Cancelled => "cancelled".to_owned(),
        ExitFact::DriverLost => "killed: its driver died".to_owned(),
        ExitFact::NotStarted => "never started".to_owned(),
    }
}

/// An act by its tool and the first thing that it touches.
pub(crate) fn act_title(tool: &str, touches: &[Touch]) -> String {
    let what = touches.first().map_or(String::new(), |touch| match touch {
        // The line, which is the last of bash's words.
        Touch::Exec { argv, .. } | Touch::Shell { argv, .. }
            if tool.starts_with("shell") && argv.len() == 5 =>
        {
            visible(&argv[4], Lines::Escape)
        }
        Touch::Exec { argv, .. } => show_argv(argv),
        Touch::Read { path } | Touch::Write { path } => visible(path.as_str(), Lines::Escape),
        // The tool's own name says the same.
        Touch::Call { .. } => String::new(),
        other => other.to_string(),
    });
    format!("{tool} {what}").trim_end().to_owned()
}

/// An agent that was started, and how it stands.
pub(crate) fn agent(agent: &Agent) -> String {
    let name = visible(agent.name().unwrap_or("root"), Lines::Escape);
    let by = agent.parent().map_or(String::new(), |parent| format!(", for agent {parent}"));
    let steps = counted(u64::from(agent.steps()), "step");
    let how = agent.end().map_or("at work", |ended| agent_end(ended.end));
    format!("`{name}`{by}, {steps}: {how}")
}

/// Whose an act is that somebody is asked about.
pub(crate) fn asker_line(asker: &Asker) -> String {
    /// Characters of a goal.
    const GOAL: usize = 100;
    let (name, goal) = (visible(&asker.name, Lines::Escape), first_line(&asker.goal, GOAL));
    format!("  for agent {} `{name}`, which is to: {goal}", asker.agent)
}

/// How an agent ended.
pub(crate) fn agent_end(end: AgentEnd) -> &'static str {
    match end {
        AgentEnd::Done => "done",
        AgentEnd::Stalled => "made no progress",
        AgentEnd::StepsSpent => "its steps are spent",
        AgentEnd::BudgetSpent { .. } => "the run's budget is spent",
        AgentEnd::Cancelled => "cancelled",
    }
}

/// All layers of a policy, the most general first.
pub(crate) fn policy(policy: &Policy) -> String {
    let engine = policy.engine.map(|engine| format!("commands by {engine}"));
    policy.layers.iter().map(layer).chain(engine).collect::<Vec<_>>().join("; ")
}

/// The hosts that commands may dial where containment can give a network; `None` where there are none.
pub(crate) fn hosts(policy: &Policy) -> Option<String> {
    /// Hosts that are shown.
    const MOST: usize = 8;
    if !policy.opens_network(Rung::R3) {
        return None;
    }
    let all = policy.allowed_hosts();
    let mut text: Vec<String> =
        all.iter().take(MOST).map(|host| format!("`{}`", visible(host, Lines::Escape))).collect();
    if all.len() > MOST {
        text.push(format!("{} more", all.len() - MOST));
    }
    if text.is_empty() {
        text.push("every public host".to_owned());
    }
    Some(text.join(", "))
}

/// A layer with the file it stands in, or, where it was typed, its rules.
fn layer(layer: &Layer) -> String {
    /// Rules that are shown.
    const MOST: usize = 8;
    let mut text = visible(&layer.name, Lines::Escape);
    if let Some(source) = &layer.source {
        text.push_str(&format!(" `{}`", visible(source, Lines::Escape)));
    } else if layer.name == COMMAND_LINE {
        let rules = layer.rules.iter().take(MOST);
        let rules: Vec<String> = rules
            .map(|rule| visible(&format!("`{} {}`", rule.effect, rule.pattern), Lines::Escape))
            .collect();
        text.push_str(&format!(" {}", rules.join(", ")));
        if layer.rules.len() > MOST {
            text.push_str(&format!(" and {} more", layer.rules.len() - MOST));
        }
    }
    text
}

/// Name of the layer that holds the rules of `--allow` and `--deny`.
pub(crate) const COMMAND_LINE: &str = "command line";

/// The bounds that are set.
pub(crate) fn budget(budget: &Budget) -> String {
    let bounds = [
        budget.steps.map(|steps| counted(steps, "step")),
        budget.tokens.map(|tokens| counted(tokens, "token")),
        budget.cost_micros.map(dollars),
        budget.time_ms.map(duration),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    if bounds.is_empty() { "none".to_owned() } else { bounds.join(", ") }
}

/// A model and whom it is asked of.
pub(crate) fn model(model: &ModelFact) -> String {
    let name = visible(&model.name, Lines::Escape);
    if model.replayed {
        return format!("{name} ({}, from a cassette: nobody is asked)", model.wire);
    }
    format!("{name} ({}, {})", model.wire, visible(&model.endpoint, Lines::Escape))
}

/// What a model costs, and where that is known from.
pub(crate) fn price(price: &Price) -> String {
    let rates = |rates: Rates| {
        let mut text = format!("${} in, ${} out", per_million(rates.input), per_million(rates.output));
        let cached = [(rates.cache_read, "read from the cache"), (rates.cache_write, "written to it")];
        for (each, what) in cached.into_iter().filter(|(each, _)| *each != rates.input) {
            text.push_str(&format!(", ${} {what}", per_million(each)));
        }
        text
    };
    let mut text = format!("{} per million tokens", rates(price.rates(0)));
    for tier in &price.tiers {
        text.push_str(&format!("; of prompts above {} {}", grouped(tier.above), rates(tier.rates)));
    }
    if let Some(from) = &price.from {
        text.push_str(&format!(" ({})", visible(&from.to_string(), Lines::Escape)));
    }
    text
}

/// What a vendor said of its limits at `at_ms`, milliseconds since the Unix epoch.
pub(crate) fn rate_limits(at_ms: u64, limits: &RateLimitFact) -> String {
    let window = |window: &WindowFact| {
        let of = window.limit.map_or(String::new(), |limit| format!(" of {}", grouped(limit)));
        let left = window.remaining.map_or("?".to_owned(), grouped);
        let counts = if window.counts.is_empty() { "calls" } else { &window.counts };
        let full =
            window.resets_in_ms.map_or(String::new(), |ms| format!(" (full again in {})", duration(ms)));
        format!("{left}{of} {}{full}", visible(counts, Lines::Escape))
    };
    let mut said: Vec<String> = limits.windows.iter().map(window).collect();
    if limits.extras.is_some() {
        said.push("more that is not understood".to_owned());
    }
    format!("{} left at {} UTC", said.join(", "), moment(at_ms))
}

/// Millionths of a US dollar as dollars, no digit more than there is: `3`, `0.25`.
pub(crate) fn per_million(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Millionths of a US dollar.
pub(crate) fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        // `date -u -d @SECONDS '+%F %H:%M'` gives these.
        let cases = [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_735_689_599, "2024-12-31 23:59"),
            (1_785_585_900, "2026-08-01 12:05"),
            (4_107_542_400, "2100-03-01 00:00"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(moment(seconds * 1_000), expected);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1_u32, "step"), "1 step");
        assert_eq!(counted(0_u32, "step"), "0 steps");
        assert_eq!(counted(1_234_u32, "act"), "1,234 acts");
    }

    #[test]
    fn what_is_cut_is_marked_once() {
        assert_eq!(first_line("one\ntwo", 10), "one…");
        assert_eq!(first_line("  a long first line\n", 10), "a long fi…");
        assert_eq!(first_line("short\n", 10), "short");
        assert_eq!(first_line("", 10), "");
    }
}
