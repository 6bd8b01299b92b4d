//! What a fact that does not hold costs, and how the host can be mended. Pure: facts and surroundings in, words out.

use provost_core::containment::Rung;
use serde::Serialize;

use crate::probe::{Fact, Probe, fact, needed};
use crate::surroundings::Surroundings;

/// Advice on one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The facts that do not hold for it.
    pub facts: Vec<String>,
    /// What is missing for it.
    pub costs: String,
    /// What is wrong, as far as can be told.
    pub cause: String,
    /// What to do, any one of these; empty where nothing is known.
    pub mend: Vec<String>,
}

/// What to do about the facts that do not hold, each cause once.
pub fn advice(probe: &Probe, around: &Surroundings, program: &str) -> Vec<Advice> {
    let mut all: Vec<Advice> = Vec::new();
    let has_groups = probe.facts.iter().any(|fact| fact.name == fact::CONTROL_GROUP && fact.holds);
    for fact in probe.facts.iter().filter(|fact| !fact.holds) {
        if fact.name == fact::PROCESSES && has_groups {
            // Bounded otherwise.
            continue;
        }
        let (cause, mend) = remedy(fact, around, program);
        let costs = costs(&fact.name);
        match all.iter_mut().find(|advice| advice.cause == cause && advice.costs == costs) {
            Some(advice) => advice.facts.push(fact.name.clone()),
            None => all.push(Advice { facts: vec![fact.name.clone()], costs, cause, mend }),
        }
    }
    for disabled in &probe.disabled {
        all.push(Advice {
            facts: vec!["self-test".to_owned()],
            costs: format!("{} is not taken", disabled.rung),
            cause: format!("these attacks worked or could not be tried: {}", disabled.attacks.join(", ")),
            mend: vec![
                "update the kernel or Provost".to_owned(),
                format!("`provost sandbox selftest --rung {:?}` looks again, and takes the rung back where it holds", disabled.rung),
            ],
        });
    }
    all
}

/// The weakest rung that needs a fact, or the guarantee that does.
fn costs(name: &str) -> String {
    for rung in [Rung::R1, Rung::R2, Rung::R3, Rung::R4] {
        if needed(rung).contains(&name) {
            let stronger = if rung == Rung::R1 { ", like everything above R0," } else { "" };
            return format!("{rung}{stronger} needs it");
        }
    }
    match name {
        fact::LANDLOCK_SIBLINGS => "`protected` under R2 needs it".to_owned(),
        fact::BROKER => {
            "`unix-sockets` under R2, and a network of named hosts there, need it: unix sockets are open by path, and the \
             network is closed altogether"
                .to_owned()
        }
        fact::FILE_SIZE => "`cap-file-size` needs it".to_owned(),
        fact::OPEN_FILES => "`cap-open-files` needs it".to_owned(),
        fact::OVERLAY => "staged changes and a cap on the disk need it".to_owned(),
        fact::PROCESSES => "`cap-processes` is watched instead of enforced under R3".to_owned(),
        fact::CONTROL_GROUP => {
            "`cap-memory` and `cap-processes` are watched instead of enforced without it".to_owned()
        }
        _ => "nothing is known to need it".to_owned(),
    }
}

fn remedy(fact: &Fact, around: &Surroundings, program: &str) -> (String, Vec<String>) {
    let no = |cause: &str| (cause.to_owned(), Vec::new());
    let detail = fact.detail.as_str();
    let is_namespace =
        needed(Rung::R3).contains(&fact.name.as_str()) && !needed(Rung::R2).contains(&fact.name.as_str());
    if fact.name == fact::PROCESSES && detail.contains("exempts uid 0") {
        return no("the kernel exempts uid 0 from a bound on processes; run as another user");
    }
    if fact.name == fact::CONTROL_GROUP {
        return control_group(detail, program);
    }
    if detail.contains("no answer in 500 ms") {
        return no(
            "the operation did not end in 500 ms: a dead network file system, or a machine under heavy load",
        );
    }
    if detail.contains("no scratch folder") {
        return (
            "the probe cannot write to /tmp".to_owned(),
            vec!["make /tmp writable for this user".to_owned()],
        );
    }
    if fact.name.starts_with("landlock") && detail.contains("no Landlock") {
        return (
            "the kernel has no Landlock, or it is off".to_owned(),
            vec!["use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, and `landlock` in the boot parameter `lsm=`".to_owned()],
        );
    }
    if is_namespace {
        return namespaces(detail, around, program);
    }
    no(detail)
}

/// Why commands have no control groups of their own.
fn control_group(detail: &str, program: &str) -> (String, Vec<String>) {
    let mend = if detail.contains("version 1") || detail.contains("version 2 are mounted") {
        vec![
            "boot with `systemd.unified_cgroup_hierarchy=1`; without systemd, with `cgroup_no_v1=all`"
                .to_owned(),
        ]
    } else if detail.contains("upwards") || detail.contains("busy") {
        vec![
            format!("systemd-run --user --scope {program} …"),
            "in a unit of systemd's: `Delegate=yes` and `DelegateSubgroup=main` (systemd 254 or later)"
                .to_owned(),
        ]
    } else {
        Vec::new()
    };
    (detail.to_owned(), mend)
}

/// Why namespaces, or mounts in them, are refused.
fn namespaces(detail: &str, around: &Surroundings, program: &str) -> (String, Vec<String>) {
    let refused = ["ermitted", "ermission denied"].iter().any(|word| detail.contains(word));
    if around.switch("user/max_user_namespaces") == Some(0) || detail.contains("No space left") {
        return (
            "user namespaces are used up, or their number is 0 (user.max_user_namespaces)".to_owned(),
            vec!["sysctl -w user.max_user_namespaces=15000".to_owned()],
        );
    }
    if around.switch("kernel/unprivileged_userns_clone") == Some(0) && refused {
        return (
            "ordinary users may make no user namespace (kernel.unprivileged_userns_clone)".to_owned(),
            vec!["sysctl -w kernel.unprivileged_userns_clone=1".to_owned()],
        );
    }
    if around.switch("kernel/apparmor_restrict_unprivileged_userns") == Some(1) && refused {
        return (
            "AppArmor gives user namespaces no rights (kernel.apparmor_restrict_unprivileged_userns)"
                .to_owned(),
            vec![
                format!(
                    "write `abi <abi/4.0>, profile provost {program} flags=(unconfined) {{ userns, }}` to \
                     /etc/apparmor.d/provost and run `apparmor_parser -r /etc/apparmor.d/provost`"
                ),
                "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0".to_owned(),
            ],
        );
    }
    if detail.contains("mount-proc") && refused {
        return (
            "the host's /proc is covered in part, so the kernel gives no new one: a container".to_owned(),
            vec![
                "docker run --security-opt systempaths=unconfined …".to_owned(),
                "podman run --security-opt unmask=ALL …".to_owned(),
            ],
        );
    }
    if around.is_filtered() && refused {
        return (
            "a filter of system calls is on this process, as a container's: it refuses namespaces or mounts".to_owned(),
            vec![
                "docker run --security-opt seccomp=PROFILE --security-opt systempaths=unconfined …, with a profile that \
                 allows clone and unshare with namespaces, mount, umount2, pivot_root and their newer calls"
                    .to_owned(),
                "podman run --security-opt unmask=ALL …, whose own profile allows them".to_owned(),
            ],
        );
    }
    (detail.to_owned(), Vec::new())
}
