//! The tables.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::bare::Bare;
use crate::case::{Case, Kind, OTHER_FILES, Via};
use crate::meter::Step;
use crate::wrap::Written;

/// Steps in a window.
const WINDOW: usize = 20;

/// The machine, and where the stores lie.
pub(crate) fn head(dir: &Path) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("processor    {} ({cores} cores usable)", cpu.trim_start_matches(['\t', ' ', ':']));
    println!("kernel       {}", read("/proc/sys/kernel/osrelease").trim());
    println!("load before  {}", read("/proc/loadavg").trim());
    println!("stores in    {} ({})", dir.display(), file_system(dir));
    println!("workspace    a git repository of {} files\n", OTHER_FILES + 2);
}

/// Type and device of the file system that holds `dir`.
fn file_system(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
            dir.starts_with(at).then_some((at.len(), format!("{kind} on {device}")))
        })
        .max();
    match mount {
        Some((_, found)) if found.starts_with("tmpfs") => {
            format!("{found}: NOT A DISK, appends cost nothing")
        }
        Some((_, found)) => found,
        None => "unknown file system".to_owned(),
    }
}

/// Nearest-rank percentile, in milliseconds.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// First and last step (from 1) of each window: the first steps, those around 100 (or the middle), the last.
fn windows(steps: usize) -> Vec<(usize, usize)> {
    if steps < 3 * WINDOW {
        return vec![(1, steps)];
    }
    let middle = (steps / 2).min(100);
    vec![(1, WINDOW), (middle - WINDOW / 2 + 1, middle + WINDOW / 2), (steps - WINDOW + 1, steps)]
}

/// The table of one case.
pub(crate) fn case(case: &Case, steps: &[Step], bare: &Bare, written: &Written, grown: u64, peak_kb: u64) {
    let warm_up = case.kind.warm_up();
    let (what, aim) = match case.kind {
        Kind::Read => ("reading steps (1 kB and 10 kB alternating)", "one append + 1 ms"),
        Kind::Edit => ("editing steps (one line of a 1 kB file)", "two appends"),
        Kind::Command => ("command steps (`true`, contained)", "two appends + one contained spawn + 5 ms"),
    };
    let via = match case.via {
        Via::Scripted => "provider in process",
        Via::Loopback(_) => "rehearsal server over loopback, in its own process",
    };
    println!("## {} {what}, {via}", case.steps);
    println!("aim: {aim}; at the last step as at step 10. Milliseconds.\n");
    println!(
        "| steps | step p50 | p90 | bare append p50 | p90 | step − {} bare | step − its appends | model | encode | own | \
         its appends |",
        case.kind.appends()
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut spawns = Vec::new();
    for (first, last) in windows(case.steps) {
        let (from, to) = (first - 1 + warm_up, last + warm_up);
        let window = &steps[from..to];
        let of = |part: fn(&Step) -> Duration| window.iter().map(part).collect::<Vec<_>>();
        let total = of(|step| step.total);
        let append = percentile(&bare.appends[from..to], 50);
        let over = percentile(&total, 50) - f64::from(case.kind.appends()) * append;
        println!(
            "| {first}–{last} | {:.2} | {:.2} | {append:.2} | {:.2} | {over:+.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            percentile(&total, 50),
            percentile(&total, 90),
            percentile(&bare.appends[from..to], 90),
            percentile(&of(|step| step.total.saturating_sub(step.store)), 50),
            percentile(&of(|step| step.model), 50),
            percentile(&of(|step| step.push), 50),
            percentile(&of(Step::own), 50),
            percentile(&of(|step| step.store), 50),
        );
        if let Some((strongest, times)) = bare.contained.last() {
            let plain = percentile(&bare.plain[from..to], 50);
            let rungs: Vec<String> = bare
                .contained
                .iter()
                .map(|(rung, times)| {
                    let time = percentile(&times[from..to], 50);
                    format!("{rung} {time:.2} ({:.1} × plain)", time / plain)
                })
                .collect();
            let bare = percentile(&times[from..to], 50);
            let without = percentile(&of(|step| step.total.saturating_sub(step.store)), 50);
            spawns.push(format!(
                "steps {first}–{last}: bare spawn plain {plain:.2}, contained {}; step − 2 bare appends − bare {strongest}: \
                 {:+.2}; step − its appends − bare {strongest}: {:+.2}",
                rungs.join(", "),
                over - bare,
                without - bare,
            ));
        }
    }
    println!();
    for line in spawns {
        println!("{line}");
    }
    if (case.kind, &case.via) == (Kind::Read, &Via::Scripted) {
        bound_by_appends(&steps[warm_up..], &bare.appends[warm_up..]);
    }
    totals(case, &steps[warm_up..], written, grown, peak_kb);
}

/// The whole run beside what its fsyncs alone cost: as many bare appends as it made, measured between its steps.
fn bound_by_appends(steps: &[Step], bare: &[Duration]) {
    let seconds = |times: &mut dyn Iterator<Item = Duration>| times.sum::<Duration>().as_secs_f64();
    let whole = seconds(&mut steps.iter().map(|step| step.total));
    let stored = seconds(&mut steps.iter().map(|step| step.store));
    let floor = seconds(&mut bare.iter().copied());
    println!(
        "the whole run {whole:.2} s, its appends {stored:.2} s, as many bare appends {floor:.2} s: {:.2} times its \
         fsyncs alone (aim: 1.5)",
        whole / floor
    );
}

fn totals(case: &Case, steps: &[Step], written: &Written, grown: u64, peak_kb: u64) {
    let count = steps.len() as f64;
    let per = |n: u64| n as f64 / count;
    let sum = |part: fn(&Step) -> u64| steps.iter().map(part).sum::<u64>();
    println!(
        "appends a step {:.3}, commits of the store a step {:.3}",
        per(sum(|s| s.appends)),
        per(sum(|s| s.commits))
    );
    println!(
        "store: {} kB for {} steps; content {} kB; growth beyond content {:.0} bytes a step, of which the {} events \
         are {:.0} (aim: 2,048)",
        grown / 1024,
        steps.len(),
        written.blob_bytes / 1024,
        (grown as f64 - written.blob_bytes as f64) / count,
        written.events,
        per(written.event_bytes),
    );
    let kinds: Vec<String> = written
        .kinds
        .iter()
        .map(|(kind, (count, bytes))| format!("{kind} {count} × {}", bytes / count))
        .collect();
    println!("events, mean bytes: {}", kinds.join(", "));
    match case.via {
        Via::Scripted => println!(),
        Via::Loopback(_) => {
            println!("peak memory of the agent (VmHWM): {:.1} MB (aim: 30)\n", peak_kb as f64 / 1024.0);
        }
    }
}
