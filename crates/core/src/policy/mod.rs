//! Policy: layers of rules over what an act touches. Deny beats ask beats allow, across all layers.
//!
//! A rule reads as it is written on the command line: `exec cargo test*`, `write src/**`, `net example.org:443`.
//! Where no rule matches, the access's default decides; where a layer sets no default, the stricter ones below it
//! stay. The decision names rule, layer and file.

mod examples;
mod file;
mod git;
mod net;
mod pattern;
mod preset;
mod staging;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use file::PolicyFileError;
pub use git::GitAccess;
pub use net::LOOKED_UP;
pub use pattern::{BadRule, Pattern};
pub use preset::Preset;
pub use staging::{Keep, WorkspaceMode};

use crate::act::{Access, Touch};
use crate::caps::Caps;
use crate::containment::{Engine, Guarantee, Receipt, Rung};
use crate::digest::Digest;
use crate::path::RelPath;
use crate::server::started_by;

/// What a decision says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It may happen.
    Allow,
    /// A person is asked first.
    Ask,
    /// It does not happen.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// What happens where no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Default {
    /// Allow.
    Allow,
    /// Allow while containment is at least R2, ask otherwise.
    Contained,
    /// Ask.
    Ask,
    /// Deny.
    Deny,
}

impl Default {
    fn effect(self, rung: Rung) -> Effect {
        match self {
            Self::Contained if rung >= Rung::R2 => Effect::Allow,
            Self::Allow => Effect::Allow,
            Self::Contained | Self::Ask => Effect::Ask,
            Self::Deny => Effect::Deny,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Contained => "contained",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One rule: an effect and the pattern it holds for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it says.
    pub effect: Effect,
    /// Of what.
    pub pattern: Pattern,
}

/// Rules and defaults from one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// What to call it: `preset workspace`, `command line`, a file's layer.
    pub name: String,
    /// The file it came from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its rules; their order means nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Its defaults; a later layer's default replaces an earlier one's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<Access, Default>,
}

impl Layer {
    /// An empty layer.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), source: None, rules: Vec::new(), defaults: BTreeMap::new() }
    }

    /// A layer that only denies.
    pub fn denying(name: &str, patterns: Vec<Pattern>) -> Self {
        let deny = |pattern| Rule { effect: Effect::Deny, pattern };
        Self { rules: patterns.into_iter().map(deny).collect(), ..Self::named(name) }
    }

    /// Adds a rule as it is written on the command line (`exec cargo test*`).
    pub fn rule(mut self, effect: Effect, text: &str) -> Result<Self, BadRule> {
        self.rules.push(Rule { effect, pattern: text.parse()? });
        Ok(self)
    }
}

/// How commands are contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// By the strongest rung this host has; `at_least` of the policy refuses weaker ones.
    Strongest,
    /// By limits only: the command has the caller's rights over files and network.
    LimitsOnly,
}

/// Layers of rules, and how commands are contained.
///
/// ```
/// use provost_core::policy::{Effect, Layer, Policy, Preset};
/// use provost_core::containment::Rung;
/// use provost_core::act::Touch;
///
/// let policy = Policy::preset(Preset::Strict)
///     .with(Layer::named("mine").rule(Effect::Allow, "exec cargo test*").unwrap());
/// let touch = Touch::Exec { argv: vec!["cargo".into(), "test".into(), "--offline".into()], program: None };
/// assert_eq!(policy.decide(&[touch], Rung::R3).effect, Effect::Allow);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Layers, from the most general to the most particular.
    pub layers: Vec<Layer>,
    /// How commands are contained.
    pub containment: Containment,
    /// Weakest rung that will do; a host without it does not start the run.
    pub at_least: Rung,
    /// Guarantees that containment has to enforce; a host that only watches one, or does not have it, does not start the
    /// run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub require: BTreeSet<Guarantee>,
    /// What the processes of each command may take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub caps: Caps,
    /// What becomes of commands' changes to the workspace.
    #[serde(default, skip_serializing_if = "WorkspaceMode::is_direct")]
    pub workspace: WorkspaceMode,
    /// What commands may do to the repository; set by [`with_git`](Self::with_git), which sees to the rules too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub git: GitAccess,
    /// Ports of the host's loopback that may lead to a background command.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub publish: BTreeSet<u16>,
    /// The image whose files commands have as their root, by the digest of its manifest; the host's without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Digest>,
    /// The container engine of the host's that commands run by, in that image; without one this program contains them
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
}

fn is_default<T: std::default::Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A decision and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What it says.
    pub effect: Effect,
    /// Index of the touch that decided it; 0 where there was none.
    pub touch: u32,
    /// The rule that decided, as written, or `default exec = ask`.
    pub rule: String,
    /// The layer it stands in.
    pub layer: String,
    /// The file the layer came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: rule `{}` of layer `{}`", self.effect, self.rule, self.layer)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// What a contract itself orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ordered {
    /// The command of its verification gate.
    Gate,
    /// The start of a server of tools.
    Server,
}

impl Ordered {
    /// What it orders by an act of this tool that no call asks for.
    pub fn by(tool: &str) -> Self {
        if started_by(tool).is_some() { Self::Server } else { Self::Gate }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Gate => "the verification gate",
            Self::Server => "a server of tools",
        }
    }
}

impl Policy {
    /// One of the named policies.
    pub fn preset(preset: Preset) -> Self {
        preset::policy(preset)
    }

    /// Reads a policy file; `source` is the name that decisions give. See the module `file` for the format.
    pub fn from_toml(text: &str, source: &str) -> Result<Self, PolicyFileError> {
        file::parse(text, source)
    }

    /// This policy with one more layer.
    #[must_use]
    pub fn with(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// This policy with more guarantees that containment has to enforce. There is no way to ask for fewer.
    #[must_use]
    pub fn requiring(mut self, guarantees: impl IntoIterator<Item = Guarantee>) -> Self {
        self.require.extend(guarantees);
        self
    }

    /// Decides on all that an act touches: the strictest decision of any touch. `rung` is what contains commands.
    pub fn decide(&self, touches: &[Touch], rung: Rung) -> Decision {
        let mut strictest: Option<Decision> = None;
        let covering = touches.first().and_then(|touch| self.covering(touch, rung));
        for (index, touch) in touches.iter().enumerate() {
            let decision = self.decide_touch(touch, index as u32, rung);
            let decision = match &covering {
                Some(allows) if is_started(touch, touches) => self.decide_covered(touch, allows, decision),
                _ => decision,
            };
            if strictest.as_ref().is_none_or(|held| decision.effect > held.effect) {
                strictest = Some(decision);
            }
        }
        strictest.unwrap_or_else(|| Decision {
            effect: Effect::Allow,
            touch: 0,
            rule: "touches nothing".to_owned(),
            layer: "built in".to_owned(),
            source: None,
        })
    }

    /// How many rules it has, in all layers.
    pub fn rules(&self) -> usize {
        self.layers.iter().map(|layer| layer.rules.len()).sum()
    }

    /// Decides on what the contract itself orders: what policy asks about is answered by the order. A deny stays a deny.
    pub fn decide_ordered(&self, touches: &[Touch], rung: Rung, what: Ordered) -> Decision {
        let decision = self.decide(touches, rung);
        if decision.effect != Effect::Ask {
            return decision;
        }
        Decision {
            effect: Effect::Allow,
            touch: decision.touch,
            rule: what.words().to_owned(),
            layer: "contract".to_owned(),
            source: None,
        }
    }

    /// The allowance of a command that covers what the command starts, if there is one and it decides.
    fn covering(&self, command: &Touch, rung: Rung) -> Option<Decision> {
        if !matches!(command, Touch::Exec { .. })
            || self.decide_touch(command, 0, rung).effect != Effect::Allow
        {
            return None;
        }
        self.layers.iter().find_map(|layer| {
            let covers = |rule: &&Rule| {
                rule.effect == Effect::Allow
                    && rule.pattern.is_whole()
                    && rule.pattern.matches(command, Effect::Allow)
            };
            layer.rules.iter().find(covers).map(|rule| Decision {
                effect: Effect::Allow,
                touch: 0,
                rule: format!("allow {}", rule.pattern),
                layer: layer.name.clone(),
                source: layer.source.clone(),
            })
        })
    }

    /// What is covered is allowed unless a rule says otherwise; a mere default does not.
    fn decide_covered(&self, touch: &Touch, allows: &Decision, decision: Decision) -> Decision {
        let by_rule = match touch {
            Touch::Unclear { .. } | Touch::Untold { .. } => {
                return self
                    .restricting(touch.access(), |_| true)
                    .map_or_else(|| allows.clone(), |rule| asked(rule, decision.touch));
            }
            _ => self.has_rule(Effect::Deny, touch) || self.has_rule(Effect::Ask, touch),
        };
        if by_rule || decision.effect == Effect::Allow {
            return decision;
        }
        match touch {
            Touch::Expanded { argv, known, program } => {
                let may = |rule: &Rule| rule.pattern.may_match(argv, *known, program.as_deref());
                self.restricting(Access::Exec, may)
                    .map_or_else(|| allows.clone(), |rule| asked(rule, decision.touch))
            }
            _ => allows.clone(),
        }
    }

    fn decide_touch(&self, touch: &Touch, index: u32, rung: Rung) -> Decision {
        match touch {
            Touch::Unclear { of, .. } => return self.decide_unclear(*of, index, rung),
            Touch::Untold { of, .. } => return self.decide_untold(*of, index, rung),
            Touch::Outside { of, path } if rung < Rung::R2 || !is_scratch(path) => {
                return self.decide_unclear(*of, index, rung);
            }
            Touch::Outside { of, .. } => return self.decide_all(*of, index, rung),
            _ => {}
        }
        let decision = self.decide_known(touch, index, rung);
        match touch {
            // It may be what a rule denies or asks about.
            Touch::Expanded { argv, known, program } | Touch::Shell { argv, known: Some(known), program }
                if decision.effect == Effect::Allow =>
            {
                let may = |rule: &Rule| rule.pattern.may_match(argv, *known, program.as_deref());
                self.restricting(Access::Exec, may).map_or(decision, |rule| asked(rule, index))
            }
            _ => decision,
        }
    }

    /// Decides on what could not be told before it ran. That a command is contained is no reason to start one that nobody
    /// saw: only a rule for everything, or a default that allows without condition, says that it does not matter.
    fn decide_untold(&self, of: Access, index: u32, rung: Rung) -> Decision {
        let decision = self.decide_unclear(of, index, rung);
        if decision.effect == Effect::Allow
            && self.rule_for_all(of).is_none()
            && self.default_for(of).0 == Default::Contained
        {
            let all = if matches!(of, Access::Read | Access::Write) { "**" } else { "*" };
            let rule = format!("what cannot be told is asked about, unless a rule says `allow {of} {all}`");
            return Decision { effect: Effect::Ask, rule, ..decision };
        }
        decision
    }

    /// Decides on what may be anything of its kind: as on everything at once, but what is only perhaps denied is asked
    /// about.
    fn decide_unclear(&self, of: Access, index: u32, rung: Rung) -> Decision {
        let decision = self.decide_all(of, index, rung);
        if decision.effect != Effect::Allow {
            return decision;
        }
        self.restricting(of, |_| true).map_or(decision, |rule| asked(rule, index))
    }

    /// What a rule for everything says, or else the default.
    fn decide_all(&self, of: Access, index: u32, rung: Rung) -> Decision {
        match self.rule_for_all(of) {
            Some((layer, rule)) => Decision {
                effect: rule.effect,
                touch: index,
                rule: format!("{} {}", rule.effect, rule.pattern),
                layer: layer.name.clone(),
                source: layer.source.clone(),
            },
            None => self.decide_by_default(of, index, rung),
        }
    }

    /// The strictest rule for everything.
    fn rule_for_all(&self, of: Access) -> Option<(&Layer, &Rule)> {
        [Effect::Deny, Effect::Ask, Effect::Allow].into_iter().find_map(|effect| {
            self.layers.iter().find_map(|layer| {
                let all = |rule: &&Rule| {
                    rule.effect == effect && rule.pattern.access() == of && rule.pattern.is_everything()
                };
                layer.rules.iter().find(all).map(|rule| (layer, rule))
            })
        })
    }

    /// The strictest rule that denies or asks, of those that may hold.
    fn restricting(&self, of: Access, may: impl Fn(&Rule) -> bool) -> Option<(&Layer, &Rule)> {
        [Effect::Deny, Effect::Ask].into_iter().find_map(|effect| {
            self.layers.iter().find_map(|layer| {
                let held = |rule: &&Rule| rule.effect == effect && rule.pattern.access() == of && may(rule);
                layer.rules.iter().find(held).map(|rule| (layer, rule))
            })
        })
    }

    fn decide_known(&self, touch: &Touch, index: u32, rung: Rung) -> Decision {
        for effect in [Effect::Deny, Effect::Ask, Effect::Allow] {
            for layer in &self.layers {
                for rule in layer.rules.iter().filter(|rule| rule.effect == effect) {
                    if rule.pattern.matches(touch, effect) {
                        return Decision {
                            effect,
                            touch: index,
                            rule: format!("{effect} {}", rule.pattern),
                            layer: layer.name.clone(),
                            source: layer.source.clone(),
                        };
                    }
                }
            }
        }
        if matches!(touch, Touch::Shell { .. }) {
            return Decision {
                effect: Effect::Allow,
                touch: index,
                rule: "each command of the line is decided by itself".to_owned(),
                layer: "built in".to_owned(),
                source: None,
            };
        }
        self.decide_by_default(touch.access(), index, rung)
    }

    fn decide_by_default(&self, access: Access, index: u32, rung: Rung) -> Decision {
        let (default, layer) = self.default_for(access);
        Decision {
            effect: default.effect(rung),
            touch: index,
            rule: format!("default {access} = {}", default.word()),
            layer: layer.map_or_else(|| "built in".to_owned(), |layer| layer.name.clone()),
            source: layer.and_then(|layer| layer.source.clone()),
        }
    }

    /// The default, and the layer that set it.
    fn default_for(&self, access: Access) -> (Default, Option<&Layer>) {
        let set = |layer: &'_ Layer| layer.defaults.get(&access).copied();
        let found = self.layers.iter().rev().find_map(|layer| set(layer).map(|default| (default, layer)));
        found.map_or((Default::Ask, None), |(default, layer)| (default, Some(layer)))
    }

    /// Whether what contained a command, or is to contain commands, is what this policy takes.
    pub fn takes(&self, receipt: &Receipt) -> Result<(), &'static str> {
        if receipt.rung < self.at_least {
            return Err("its containment is weaker than the policy takes");
        }
        if receipt.image != self.image || (receipt.rung == Rung::R4) != self.image.is_some() {
            return Err("the root of its commands is not the image that the policy names");
        }
        if receipt.engine != self.engine {
            return Err("its commands do not run by the container engine that the policy names");
        }
        Ok(())
    }

    /// Whether something that this policy requires is not enforced by what contained a command. `exempt` is for a command
    /// that a guarantee has no meaning for.
    pub fn lacks(&self, receipt: &Receipt, exempt: &[Guarantee]) -> bool {
        self.require.iter().any(|required| !exempt.contains(required) && !receipt.enforces(*required))
    }

    /// Whether writing at `path` is denied, or asked about by a rule of its own. Commands are kept from such paths: a
    /// person was to be asked about each write there. (A mere default of `ask` guards no path by name.)
    pub fn guards_writing(&self, path: &RelPath) -> bool {
        let touch = Touch::Write { path: path.clone() };
        self.has_rule(Effect::Deny, &touch) || self.has_rule(Effect::Ask, &touch) || {
            let decision = self.decide(std::slice::from_ref(&touch), Rung::R3);
            decision.effect == Effect::Deny && !self.forbids_all_writes()
        }
    }

    /// Whether a rule, not a mere default, denies writing at `path`: no change there has a place in a run's result,
    /// whoever made it.
    pub fn denies_writing_by_rule(&self, path: &RelPath) -> bool {
        self.has_rule(Effect::Deny, &Touch::Write { path: path.clone() })
    }

    fn has_rule(&self, effect: Effect, touch: &Touch) -> bool {
        let mut rules = self.layers.iter().flat_map(|layer| &layer.rules);
        rules.any(|rule| rule.effect == effect && rule.pattern.matches(touch, effect))
    }

    /// Whether a rule denies all writing, or nothing at all may be written by default.
    pub fn denies_all_writes(&self) -> bool {
        let all = |rule: &Rule| {
            rule.effect == Effect::Deny
                && rule.pattern.access() == Access::Write
                && rule.pattern.is_everything()
        };
        self.forbids_all_writes() || self.layers.iter().flat_map(|layer| &layer.rules).any(all)
    }

    /// Whether nothing at all may be written: commands then see the workspace read-only.
    pub fn forbids_all_writes(&self) -> bool {
        let allows = self
            .layers
            .iter()
            .flat_map(|layer| &layer.rules)
            .any(|rule| rule.pattern.access() == Access::Write && rule.effect != Effect::Deny);
        let default = self.layers.iter().rev().find_map(|layer| layer.defaults.get(&Access::Write));
        !allows && default == Some(&Default::Deny)
    }
}

/// Asked, since it may be what a rule speaks of.
fn asked((layer, rule): (&Layer, &Rule), index: u32) -> Decision {
    Decision {
        effect: Effect::Ask,
        touch: index,
        rule: format!("perhaps {} {}", rule.effect, rule.pattern),
        layer: layer.name.clone(),
        source: layer.source.clone(),
    }
}

/// Whether a touch is what the first one starts, not the first one under another name.
fn is_started(touch: &Touch, touches: &[Touch]) -> bool {
    match (touches.first(), touch) {
        (Some(Touch::Exec { argv: first, .. }), Touch::Exec { argv, .. }) => first.get(1..) != argv.get(1..),
        (_, Touch::Expanded { .. } | Touch::Hidden { .. }) => true,
        (_, Touch::Unclear { of, .. } | Touch::Untold { of, .. }) => *of == Access::Exec,
        _ => false,
    }
}

/// Folders that a command contained by namespaces has for itself alone, and that one contained by Landlock cannot write.
fn is_scratch(path: &str) -> bool {
    let beneath = ["/tmp/", "/dev/shm/"].iter().any(|folder| path.starts_with(folder));
    beneath && !path.split('/').any(|part| part == "..")
}
