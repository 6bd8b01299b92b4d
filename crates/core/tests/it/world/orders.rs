//! What a run begins with: its contract, its policy, its routes, its files, and the small facts that they are made of.

use super::*;

/// A digest that stands for content number `n`.
pub(crate) fn digest(n: u64) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Digest::new(bytes)
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

pub(crate) fn receipt(rung: Rung) -> Receipt {
    Receipt {
        rung,
        guarantees: BTreeMap::new(),
        kernel: "6.18".to_owned(),
        landlock_abi: None,
        image: None,
        engine: None,
        staged: None,
    }
}

/// The same, of a containment that stages changes.
pub(crate) fn staging(rung: Rung) -> Receipt {
    Receipt { guarantees: BTreeMap::from([(Guarantee::Staged, Strength::Enforced)]), ..receipt(rung) }
}

pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The file that policy protects, and one that it asks about.
pub(crate) const PROTECTED: &str = "guarded/key";
pub(crate) const ASKED: &str = "asked/file";
pub(super) const FREE: [&str; 3] = ["a", "src/lib.rs", "new/file"];

/// The policies of the worlds. Each denies writes beneath `guarded` and asks about those beneath `asked`. Compiled
/// once: globs are what takes time here.
static POLICIES: LazyLock<[Policy; 3]> = LazyLock::new(|| {
    let rules = || {
        Layer::named("world")
            .rule(Effect::Deny, "write guarded/")
            .and_then(|layer| layer.rule(Effect::Deny, "exec rm"))
            .and_then(|layer| layer.rule(Effect::Ask, "write asked/"))
            .and_then(|layer| layer.rule(Effect::Ask, "read asked/"))
            .and_then(|layer| layer.rule(Effect::Allow, "exec make*"))
            .and_then(|layer| layer.rule(Effect::Allow, "call post.mail"))
            .unwrap()
    };
    let mut contained = Policy::preset(Preset::Workspace).with(rules());
    contained.at_least = Rung::R1;
    let refuses_gate =
        Policy::preset(Preset::Workspace).with(rules().rule(Effect::Deny, "exec check").unwrap());
    [contained, Policy::preset(Preset::Strict).with(rules()), refuses_gate]
});

/// One of the policies; one in three has changes staged.
pub(super) fn policy(choices: &mut Choices) -> Policy {
    let mut policy = POLICIES[[0, 0, 1, 1, 2][choices.pick(5)]].clone();
    if choices.once_in(3) {
        let modes = [WorkspaceMode::staged(), WorkspaceMode::all_or_nothing()];
        policy.workspace = modes[choices.pick(2)].clone();
    }
    policy
}

/// A contract for a world.
/// What a vendor says of its limits.
pub(super) fn limits() -> RateLimitFact {
    let window = WindowFact {
        counts: "requests".to_owned(),
        limit: Some(50),
        remaining: Some(49),
        resets_in_ms: Some(1_200),
    };
    RateLimitFact { windows: vec![window], extras: Some(digest(6)) }
}

pub(super) fn contract(choices: &mut Choices) -> RunCreated {
    let budget = Budget {
        steps: Some([12, 6, 3, 1][choices.pick(4)]),
        tokens: [None, Some(9_000), Some(300)][choices.pick(3)],
        cost_micros: [None, Some(5_000), Some(200)][choices.pick(3)],
        time_ms: [None, Some(60_000), Some(2_000)][choices.pick(3)],
    };
    let rates = Rates { input: 300_000, output: 1_500_000, cache_read: 30_000, cache_write: 375_000 };
    let dear = Rates { input: 600_000, output: 2_250_000, cache_read: 60_000, cache_write: 750_000 };
    let mut price = Price::of_rates(rates).known_from(PriceFrom::Table { as_of: "2026-01-31".to_owned() });
    price.tiers.extend((choices.pick(2) == 0).then_some(Tier { above: 30, rates: dear }));
    let counted = [Counted::Not, Counted::AgainstBase][choices.pick(2)];
    let gate = Gate {
        counted,
        argv: words("check all"),
        limit_ms: 1000,
        attempts: choices.pick(3) as u32,
        ..Gate::command(words("check all"))
    };
    let policy = policy(choices);
    RunCreated {
        servers: servers::servers(choices, &policy),
        authorized: authorized(choices, &policy),
        provost: "0.0.0".to_owned(),
        goal: digest(1),
        system: digest(2),
        tools: digest(3),
        policy,
        budget,
        price: (budget.cost_micros.is_some() || choices.pick(2) == 0).then_some(price),
        gate: (!choices.once_in(3)).then_some(gate),
        limits: Limits { agents: agents::limits(choices), ..Limits::default() },
        model: model("m"),
        routing: routing(choices, &Price::of_rates(dear)).kept(),
        brief: None,
        source: Source::Directory { commit: None, scope: RelPath::root() },
        repository: None,
        root: "/w".to_owned(),
        tree: tree(&start()),
        files: 3,
        manifest: digest(4),
        forked: None,
    }
}

/// One in two runs whose changes are staged is under an authorization, which never expires.
pub(super) fn authorized(choices: &mut Choices, policy: &Policy) -> Option<Box<Authorized>> {
    let authorized = policy.workspace.is_staged() && choices.once_in(2);
    let rollbacks = 1;
    authorized.then(|| {
        Box::new(Authorized { payload: digest(8), not_before_ms: 0, expires_ms: u64::MAX, rollbacks })
    })
}

pub(super) fn model(name: &str) -> ModelFact {
    ModelFact::new("scripted", name, "http://localhost")
}

/// One in three has other models: a fallback, a stronger one and a cheaper one.
pub(super) fn routing(choices: &mut Choices, price: &Price) -> Routing {
    if !choices.once_in(3) {
        return Routing::default();
    }
    let route = |name| Route { model: model(name), price: Some(price.clone()) };
    let some = |choices: &mut Choices| choices.pick(2) == 0;
    Routing {
        others: vec![route("fallback"), route("stronger"), route("cheaper")],
        fallback: vec![RouteId(1)],
        begin: choices.of(&[Begin::Chosen, Begin::Anyone]),
        unresolved: choices.of(&[Unresolved::AskAgain, Unresolved::GoOn]),
        escalate: some(choices).then_some(Escalate { after: 1, to: RouteId(2) }),
        downshift: some(choices).then_some(Downshift { below_bytes: 2, to: RouteId(3) }),
    }
}

/// A run that was queued as `created` then is.
pub(crate) fn queued(created: &RunCreated) -> RunQueued {
    let created = created.clone();
    RunQueued {
        provost: created.provost,
        goal: created.goal,
        policy: created.policy,
        budget: created.budget,
        price: created.price.clone(),
        gate: created.gate,
        limits: created.limits,
        model: created.model,
        routing: created.routing,
        servers: created.servers,
        brief: created.brief,
        key_env: Some("KEY".to_owned()),
        root: created.root,
        repository: created.repository,
        questions: Questions::Wait,
    }
}

pub(super) fn as_queued(created: &mut RunCreated, queued: &RunQueued) {
    // A session is not queued.
    created.authorized = None;
    let queued = queued.clone();
    created.policy = queued.policy;
    created.budget = queued.budget;
    created.price = queued.price.clone();
    created.routing = queued.routing;
    created.servers = queued.servers;
    created.gate = queued.gate;
    created.limits = queued.limits;
}

pub(crate) fn held() -> Body {
    Body::RunHeld(RunHeld { by: "somebody".to_owned(), why: digest(9) })
}

pub(crate) fn cancelled() -> Body {
    Body::RunCancelled(RunCancelled::by("somebody"))
}

pub(super) type Files = BTreeMap<RelPath, FileFact>;

pub(super) fn fact(content: Digest) -> FileFact {
    FileFact { mode: "100644".to_owned(), size: 1, content, kept: true }
}

/// The files at the start of every world.
pub(crate) fn start() -> Files {
    ["a", PROTECTED, ASKED].into_iter().zip(10..).map(|(name, n)| (path(name), fact(digest(n)))).collect()
}

/// Names files by what is in them; a stand-in for git's tree ids.
pub(crate) fn tree(files: &Files) -> TreeDigest {
    // FNV-1a, four times with different starts: no cryptography, but no accident either.
    let text = format!("{files:?}");
    let mut bytes = [0; 32];
    for (salt, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        chunk.copy_from_slice(&hash.to_be_bytes());
    }
    TreeDigest { sha1: "0".repeat(40), sha256: Digest::new(bytes) }
}
