//! What a run needs from the outside world, and its two entry points: start and resume.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::act::show_argv;
use provost_core::agents::AgentLimits;
use provost_core::containment::Rung;
use provost_core::contract::{Contract, Gate, Limits, Source};
use provost_core::digest::Digest;
use provost_core::event::{
    Body, DriverAttached, Event, MOST_RULES, ModelFact, RunCreated, RunFinished, Settlement, Verdict,
};
use provost_core::id::{ActId, AgentId, RunId};
use provost_core::path::RelPath;
use provost_core::policy::{Containment, Effect, Ordered, Policy};
use provost_core::price::MOST_TIERS;
use provost_core::route::RouteId;
use provost_core::server;
use provost_core::session::Authorized;
use provost_core::state::{OpenAct, RunState};
use provost_core::transcript::Stop;
use provost_evidence::content::Salt;
use provost_evidence::git::is_git_folder_name;
use provost_journal::{Head, Letter, Store, StoreError, Word as Letters};
use provost_model::{Prelude, Provider, RetryPolicy};
use provost_sandbox::image::{Image, ImageStore};
use provost_sandbox::{ByEngine, Changes, ImageRoot, Probe, Profile, RungChoice, Unavailable};
use provost_tools::command::HostEnvironment;
use provost_tools::mcp::{Client, Mcp};
use provost_tools::{Context, Exec, Registry, SeenState, Tool};

use crate::ahead::Ahead;
use crate::asking;
use crate::brief;
use crate::door::{Servers, dials};
use crate::driver::{Driver, Ending};
use crate::error::RunError;
use crate::executor::{Contained, Executor, Host};
use crate::files::{Files, Made};
use crate::host::{NO_RETRIES, command_environment, image_environment, outside_of, outside_of_by_name};
use crate::interrupt::Interrupt;
use crate::lease::Held;
use crate::mail::Mail;
use crate::mandate::{Mandate, Standing, check_time};
use crate::observe::{Always, Approver, Observer, Unobserved};
use crate::prompt;
use crate::queue;
use crate::recorder::Recorder;
use crate::rewind;
use crate::schema::Schema;
use crate::talk::{Asked, Talk};
use crate::tree::{Aside, Narrow};

/// Milliseconds since the Unix epoch.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a run needs from the outside world. It reads no environment, no home folder and no terminal: all of that is
/// passed in.
pub struct Runtime {
    /// Where runs are kept.
    pub store: Arc<dyn Store>,
    /// Who is asked for answers.
    pub provider: Arc<dyn Provider>,
    /// What the journal says of it.
    pub model: ModelFact,
    /// Who is asked in the place of each of the contract's other models, in their order.
    pub others: Vec<Arc<dyn Provider>>,
    /// The tools.
    pub tools: Registry,
    /// Where commands run.
    pub executor: Arc<dyn Executor>,
    /// Where policy asks.
    pub approver: Arc<dyn Approver>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// When a failed request is made again.
    pub retry: RetryPolicy,
    /// Longest that is waited before a request where the vendor has said that nothing is left of what it grants, and when
    /// there will be. Zero asks all the same, and waits when it is refused.
    pub pace: Duration,
    /// The host's environment, as far as commands may have it.
    pub host: HostEnvironment,
    /// Unpacked images, for policies that name one.
    pub images: ImageStore,
    /// The environment that says where a container engine's program, store and daemon are, for policies that name an
    /// engine. It gets nothing else of it, and commands get none.
    pub engines: BTreeMap<OsString, OsString>,
    /// Speaks with the contract's servers of tools.
    pub client: Arc<dyn Client>,
    /// The value of an environment variable that the contract names for a server. It is asked for no other.
    pub variables: Variables,
    /// Who knows whether the authorization of a governed session was revoked.
    pub mandate: Arc<dyn Mandate>,
    /// What becomes of tools that are not what they were when a run took them.
    pub drift: Drift,
    /// Folder for the records of running commands, beside the store and outside every workspace.
    pub spool: PathBuf,
    /// The clock.
    pub clock: Clock,
}

/// Looks an environment variable up.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What becomes of a server's tools that are not what they were when the run took them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Drift {
    /// They are not called.
    #[default]
    Refused,
    /// The person takes them as they are now.
    Accepted,
}

/// The system's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}

/// A run to start.
#[derive(Debug, Clone)]
pub struct Order {
    /// What is to be done.
    pub contract: Contract,
    /// The folder it is done in.
    pub workspace: PathBuf,
    /// Where that folder's files came from.
    pub source: Source,
    /// The repository that holds the source's objects, where there is one.
    pub repository: Option<PathBuf>,
}

/// A governed session that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name, which is the run's.
    pub run: RunId,
    /// What it is held to.
    pub authorized: Authorized,
}

/// A person's word on an act, given when a run is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The act.
    pub act: ActId,
    /// What is said of it.
    pub says: Says,
}

/// What a person says of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Whether an act that waits for approval may happen.
    Verdict(Verdict),
    /// What became of an act that started and whose end nobody saw.
    Settled(Settlement),
}

/// What became of a run that was taken up.
pub(crate) enum Taken {
    /// It was driven.
    Driven(Ending),
    /// It was over: by now, or before.
    Over(RunFinished),
}

/// What is made ready before a run exists.
struct Ready {
    files: Files,
    sandbox: Arc<dyn Contained>,
    /// How many files the workspace has.
    tracked: u64,
}

impl Runtime {
    /// A runtime with the standard tools, a fresh probe of this host, nobody who watches, and nobody who answers
    /// questions: a run that meets one parks. Each of these is a field and can be replaced.
    ///
    /// Images are looked for in the folder `images` beside `spool`.
    ///
    /// Commands find programs in the usual system folders only; set [`Runtime::host`] for more.
    pub fn new(store: Arc<dyn Store>, spool: PathBuf, provider: Arc<dyn Provider>, model: ModelFact) -> Self {
        Self::on(Probe::run(), store, spool, provider, model)
    }

    /// The same with a probe of this host that somebody has, such as one that was kept ([`provost_sandbox::ProbeCache`]).
    pub fn on(
        host: Probe,
        store: Arc<dyn Store>,
        spool: PathBuf,
        provider: Arc<dyn Provider>,
        model: ModelFact,
    ) -> Self {
        Self {
            store,
            provider,
            model,
            others: Vec::new(),
            tools: Registry::standard(),
            executor: Arc::new(Host(host)),
            approver: Arc::new(Always::LATER),
            observer: Arc::new(Unobserved),
            retry: RetryPolicy::default(),
            pace: Duration::ZERO,
            host: HostEnvironment::default(),
            images: ImageStore::new(spool.with_file_name("images")),
            engines: BTreeMap::new(),
            client: Arc::new(Mcp),
            variables: Arc::new(|_| None),
            mandate: Arc::new(Standing),
            drift: Drift::default(),
            spool,
            clock: system_clock(),
        }
    }

    /// Makes a run and drives it until it is over or pauses.
    pub async fn start(&self, order: Order, interrupt: Interrupt) -> Result<(RunId, Ending), RunError> {
        let run = new_run(&self.clock)?;
        let ending = self.start_as(run.clone(), order, None, interrupt).await?;
        Ok((run, ending))
    }

    /// Makes the run of a governed session, under the session's name, and drives it until it is over or pauses.
    ///
    /// Whether the order is what was signed is for the caller to see to; whoever verifies sees to it again.
    pub async fn start_session(
        &self,
        order: Order,
        session: Session,
        interrupt: Interrupt,
    ) -> Result<Ending, RunError> {
        self.start_as(session.run, order, Some(session.authorized), interrupt).await
    }

    async fn start_as(
        &self,
        run: RunId,
        order: Order,
        authorized: Option<Authorized>,
        interrupt: Interrupt,
    ) -> Result<Ending, RunError> {
        if let Some(authorized) = &authorized {
            check_time(authorized, (self.clock)())?;
        }
        let ready = self.make_ready(&order)?;
        let salt = self.take_name(&run, authorized.as_ref()).await?;
        let mut held = self.acquire(&run, &interrupt).await?;
        let recorder = self.recorder(salt, &held);
        // On the heap: callers need not hold all of a run's life in their own futures.
        let ending = Box::pin(self.begin(order, authorized, ready, recorder, &mut held)).await;
        held.give_back().await;
        ending
    }

    /// Makes a run with an empty journal. The name of a session is given with it, and a driver may have died between its
    /// making and its first event: then it is there.
    async fn take_name(&self, run: &RunId, authorized: Option<&Authorized>) -> Result<Salt, RunError> {
        let salt = Salt::new(random()?);
        match self.store.create(run, salt.clone(), (self.clock)()).await {
            Ok(()) => Ok(salt),
            Err(StoreError::Exists { .. })
                if authorized.is_some() && self.store.head(run).await? == Head::empty() =>
            {
                let salt = self.store.salt(run).await?;
                salt.ok_or_else(|| RunError::Gone("the salt of the run".to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at all that a run needs before it exists: what cannot be is refused before anything is on record.
    fn make_ready(&self, order: &Order) -> Result<Ready, RunError> {
        check(&order.contract)?;
        self.check_routes(order.contract.routing.others.len())?;
        let asked = brief::fact(&order.contract.brief, |_| Digest::ZERO);
        brief::check_carried(asked.as_deref(), self.providers())?;
        let mut files =
            Files::open(&order.workspace, order.repository.as_deref(), &order.source, &self.host)?;
        let tracked = files.scan_base()?;
        files.show_servers(&order.contract.servers, &self.host);
        let sandbox = self.contain(&order.contract.policy, &Narrow::root(), &mut files)?;
        self.check_commands(&order.contract, sandbox.receipt().rung, &files)?;
        Ok(Ready { files, sandbox, tracked })
    }

    /// Looks at the commands that the contract itself orders.
    fn check_commands(&self, contract: &Contract, rung: Rung, files: &Files) -> Result<(), RunError> {
        if contract.gate.is_none() && contract.servers.is_empty() {
            return Ok(());
        }
        let image = self.image(&contract.policy)?;
        let root = image.as_ref().map(Image::root);
        let ctx = Context {
            workspace: files.workspace(),
            limits: &contract.limits,
            seen: &|_, _| SeenState::Unseen,
            readable: &|_| true,
            environment: &self.environment(files, image.as_ref()),
            image: root.as_deref(),
        };
        if let Some(gate) = &contract.gate {
            check_gate(gate, contract, rung, &ctx)?;
            check_beside(gate, files)?;
        }
        contract.servers.iter().try_for_each(|server| check_server(server, contract, rung, &ctx))
    }

    async fn begin(
        &self,
        order: Order,
        authorized: Option<Authorized>,
        ready: Ready,
        mut recorder: Recorder,
        held: &mut Held,
    ) -> Result<Ending, RunError> {
        let Ready { mut files, sandbox, tracked } = ready;
        let manifest = files.keep_base(&mut recorder)?;
        let specs = match order.contract.limits.agents {
            AgentLimits::NONE => self.tools.without("delegate").specs(),
            _ => self.tools.specs(),
        };
        let tools = serde_json::to_vec(&specs).map_err(|error| RunError::Internal(error.to_string()))?;
        let system = prompt::system(&order.contract, files.root(), sandbox.receipt());
        let contract = order.contract;
        let asked = brief::fact(&contract.brief, |bytes| recorder.content(bytes));
        let created = RunCreated {
            provost: env!("CARGO_PKG_VERSION").to_owned(),
            goal: recorder.content(contract.goal.as_bytes()),
            system: recorder.content(system.as_bytes()),
            tools: recorder.content(tools),
            policy: contract.policy,
            budget: contract.budget,
            price: contract.price,
            gate: contract.gate,
            limits: contract.limits,
            model: recorder.state().queued().map_or(&self.model, |queued| &queued.model).clone(),
            routing: contract.routing.kept(),
            servers: contract.servers,
            brief: asked,
            source: order.source,
            repository: order.repository.map(|path| path.display().to_string()),
            root: files.root().display().to_string(),
            tree: files.tree()?,
            files: tracked,
            manifest,
            forked: None,
            authorized: authorized.map(Box::new),
        };
        let limits = created.limits;
        recorder.record(Body::RunCreated(Box::new(created)))?;
        attach(&mut recorder, sandbox.as_ref())?;
        let mut prelude =
            Prelude { system, tools: specs, max_output: limits.answer_tokens, ..Prelude::default() };
        let fact = recorder.state().created().and_then(|created| created.brief.as_deref());
        brief::tell(&mut prelude, fact, contract.brief.schema.as_deref())?;
        let driver = self.driver(recorder, files, sandbox, prelude, limits, held.mail.clone())?;
        self.drive(driver, held).await
    }

    /// Takes up a run where its journal ends, and begins one that is queued. `answers` are words on acts that wait.
    ///
    /// Policy, budget, gate and limits come from the journal; nothing here widens them.
    pub async fn resume(
        &self,
        run: &RunId,
        answers: &[Answer],
        interrupt: Interrupt,
    ) -> Result<Ending, RunError> {
        match self.take(run, answers, interrupt).await? {
            Taken::Driven(ending) => Ok(ending),
            Taken::Over(finished) => Ok(Ending::Over(finished)),
        }
    }

    /// The rest of a journal of which `events` were read before the lease was taken: whoever held it until then may have
    /// written in between, and nobody has since.
    async fn read_on(&self, run: &RunId, mut events: Vec<Event>) -> Result<Vec<Event>, RunError> {
        let read = Head {
            next: events.len() as u64,
            hash: events.last().map_or(Head::empty().hash, |event| event.hash),
        };
        if self.store.head(run).await? == read {
            return Ok(events);
        }
        let rest = self.store.events(run, read.next).await?;
        if rest.first().is_none_or(|event| event.prev != read.hash) {
            // Not what those that were read led to: the store says what is wrong with it.
            return Ok(self.store.events(run, 0).await?);
        }
        events.extend(rest);
        Ok(events)
    }

    /// The same, and tells whether there was anything to drive.
    pub(crate) async fn take(
        &self,
        run: &RunId,
        answers: &[Answer],
        interrupt: Interrupt,
    ) -> Result<Taken, RunError> {
        let events = self.store.events(run, 0).await?;
        check_answers(run, &events, answers)?;
        check_letters(answers, &self.store.letters(run).await?)?;
        // Its end need not be its last event: files may have been put back since.
        let end = events.iter().rev().find_map(|event| match &event.body {
            Body::RunFinished(finished) => Some(finished.clone()),
            _ => None,
        });
        if let Some(finished) = end {
            return Ok(Taken::Over(finished));
        }
        let mut held = self.acquire(run, &interrupt).await?;
        let taken = Box::pin(self.go_on(run, events, answers, &mut held)).await;
        held.give_back().await;
        taken
    }

    async fn go_on(
        &self,
        run: &RunId,
        events: Vec<Event>,
        answers: &[Answer],
        held: &mut Held,
    ) -> Result<Taken, RunError> {
        let salt =
            self.store.salt(run).await?.ok_or_else(|| RunError::Gone("the salt of the run".to_owned()))?;
        let events = self.read_on(run, events).await?;
        let mut recorder = self.recorder(salt, held);
        recorder.take_up(&events).await?;
        if let Some(finished) = recorder.state().outcome() {
            // Whoever had the lease before brought it to its end.
            return Ok(Taken::Over(finished.clone()));
        }
        let Some(created) = recorder.state().created().cloned() else {
            // Of its own, and not a part of every future that goes on with a run.
            return Box::pin(self.begin_queued(recorder, held)).await.map(Taken::Driven);
        };
        self.check_routes(created.routing.as_ref().map_or(0, |routing| routing.others.len()))?;
        brief::check_carried(created.brief.as_deref(), self.providers())?;
        let repository = created.repository.as_deref().map(Path::new);
        let mut files = Files::open(Path::new(&created.root), repository, &created.source, &self.host)?;
        // Before anybody looks at the files: what a rewind had yet to put back is not drift.
        rewind::carry_to_the_end(files.workspace(), &recorder, &events).await?;
        let asked = Asked::of(&events);
        drop(events);
        files.restore(&created, &recorder).await?;
        files.show_servers(&created.servers, &self.host);
        let state = recorder.state();
        if state.open_processes().is_empty() && !state.open_acts().values().any(OpenAct::is_under_way) {
            // No command was under way: what is there now is a person's.
            files.know_again();
        }
        let sandbox = self.contain(&created.policy, &Narrow::root(), &mut files)?;
        let system = String::from_utf8_lossy(&recorder.bytes(&created.system).await?).into_owned();
        let specs = serde_json::from_slice(&recorder.bytes(&created.tools).await?)
            .map_err(|error| RunError::Gone(format!("the tool list does not parse: {error}")))?;

        attach(&mut recorder, sandbox.as_ref())?;
        asking::account(&mut recorder, &self.spool)?;
        let mut prelude =
            Prelude { system, tools: specs, max_output: created.limits.answer_tokens, ..Prelude::default() };
        let schema = brief::schema_text(created.brief.as_deref(), &recorder).await?;
        brief::tell(&mut prelude, created.brief.as_deref(), schema.as_deref())?;
        let mut driver = self.driver(recorder, files, sandbox, prelude, created.limits, held.mail.clone())?;
        driver.accept_drift()?;
        driver.recorder.commit().await?;
        asking::done(&driver.recorder, &self.spool);
        driver.take_tools().await?;
        driver.open_talk()?;
        driver.aside.asked = asked;
        driver.turn().await?;
        if driver.agent == AgentId::ROOT {
            driver.read_back().await?;
        }
        driver.take_letters().await?;
        driver.take_answers(answers)?;
        self.drive(driver, held).await.map(Taken::Driven)
    }

    /// Begins a run that is queued, exactly as it was queued.
    async fn begin_queued(&self, recorder: Recorder, held: &mut Held) -> Result<Ending, RunError> {
        let run = recorder.state().stream().to_string();
        if let Some(cancelled) = recorder.state().cancelled() {
            return Err(RunError::Dropped { run, by: cancelled.by.clone() });
        }
        let Some(queued) = recorder.state().queued().cloned() else {
            return Err(RunError::Gone(format!("`{run}` was never started: its journal is empty")));
        };
        let goal = String::from_utf8_lossy(&recorder.bytes(&queued.goal).await?).into_owned();
        let brief = brief::read(queued.brief.as_deref(), &recorder).await?;
        let order = queue::order(&queued, goal, brief)?;
        let ready = self.make_ready(&order)?;
        Box::pin(self.begin(order, None, ready, recorder, held)).await
    }

    fn recorder(&self, salt: Salt, held: &Held) -> Recorder {
        Recorder::new(self.store.clone(), self.observer.clone(), self.clock.clone(), salt, held.lease.clone())
    }

    fn driver(
        &self,
        recorder: Recorder,
        files: Files,
        sandbox: Arc<dyn Contained>,
        prelude: Prelude,
        limits: Limits,
        mail: Mail,
    ) -> Result<Driver<'_>, RunError> {
        let created = recorder.state().created();
        let image = created.map_or(Ok(None), |created| self.image(&created.policy))?;
        let mut environment = self.environment(&files, image.as_ref());
        let receipt = sandbox.receipt();
        let opens =
            recorder.state().created().is_some_and(|created| created.policy.opens_network(receipt.rung));
        if !opens || !receipt.can_dial() {
            for (name, value) in NO_RETRIES {
                environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        if recorder.state().created().is_some_and(|created| created.policy.lets_commit()) {
            environment.extend(files.identity(&self.host)?);
        }
        // A fork has the salt of the run that it goes on with, and that run's prompt.
        let affinity = recorder.salt().digest(b"affinity").to_string()[..32].to_owned();
        let prelude = Prelude { affinity: Some(affinity), ..prelude };
        let schema =
            prelude.schema.as_ref().map(|asked| Schema::read(&asked.schema.to_string())).transpose()?;
        let route = recorder.state().route().unwrap_or_default();
        let own_specs = prelude.tools.clone();
        Ok(Driver {
            runtime: self,
            image,
            talk: Talk::open(route, self.asked(route)?.as_ref(), prelude.clone(), recorder.salt()),
            root_prelude: prelude.clone(),
            prelude,
            agent: AgentId::ROOT,
            aside: Aside::default(),
            narrow: Narrow::root(),
            schema,
            files,
            sandbox,
            limits,
            interrupt: mail.interrupt().clone(),
            mail,
            answer: None,
            stop: Stop::End,
            ahead: Ahead::default(),
            environment,
            recorder,
            stale: Vec::new(),
            background: BTreeMap::new(),
            tools: self.tools.clone(),
            own_specs,
            servers: Servers::default(),
            dials: dials(),
        })
    }

    /// Who is asked in the place of this model of the contract.
    pub(crate) fn asked(&self, route: RouteId) -> Result<&Arc<dyn Provider>, RunError> {
        let other = usize::from(route.0).checked_sub(1);
        other
            .map_or(Some(&self.provider), |other| self.others.get(other))
            .ok_or_else(|| RunError::Internal(format!("nobody is there to be asked as model {route}")))
    }

    /// Everybody who may be asked.
    fn providers(&self) -> impl Iterator<Item = &dyn Provider> {
        std::iter::once(&self.provider).chain(&self.others).map(AsRef::as_ref)
    }

    fn check_routes(&self, others: usize) -> Result<(), RunError> {
        if self.others.len() == others {
            return Ok(());
        }
        Err(RunError::Contract(format!(
            "the contract names {others} models beside the first, and {} are there to be asked",
            self.others.len()
        )))
    }

    /// The image that is the root of commands, where the policy names one.
    fn image(&self, policy: &Policy) -> Result<Option<Image>, RunError> {
        Ok(policy.image.map(|digest| self.images.open(digest)).transpose()?)
    }

    fn environment(&self, files: &Files, image: Option<&Image>) -> BTreeMap<String, String> {
        let (mut environment, outside): (_, fn(&Path, &str) -> String) = match image {
            Some(image) => (image_environment(&self.host, image), outside_of_by_name),
            None => (command_environment(&self.host), outside_of),
        };
        if let Some(path) = environment.get_mut("PATH") {
            *path = outside(files.root(), path);
        }
        environment
    }

    async fn acquire(&self, run: &RunId, interrupt: &Interrupt) -> Result<Held, RunError> {
        Held::acquire(self.store.clone(), run, self.clock.clone(), interrupt, self.mandate.clone()).await
    }

    /// Drives until the run is over or pauses, or until somebody else has it.
    async fn drive(&self, mut driver: Driver<'_>, held: &mut Held) -> Result<Ending, RunError> {
        let result = tokio::select! {
            result = driver.drive() => result,
            error = held.lost() => Err(error),
        };
        if result.is_ok() {
            driver.discard_stale();
        }
        result
    }

    /// Contains commands in the workspace. `narrow` holds them to less than the run's policy does.
    pub(crate) fn contain(
        &self,
        policy: &Policy,
        narrow: &Narrow,
        files: &mut Files,
    ) -> Result<Arc<dyn Contained>, RunError> {
        let mut profile = files.profile(policy, &self.host)?;
        narrow.apply(&mut profile, files);
        let sandbox = match self.sandbox(policy, profile.clone()) {
            Err(RunError::Containment(Unavailable::Staging { .. })) => {
                // No layer is to be had: a copy may be.
                if let Changes::Staged { copy, .. } = &mut profile.changes {
                    *copy = Some(self.clear_copy(files)?);
                }
                self.sandbox(policy, profile.clone())?
            }
            other => other?,
        };
        let is_direct = profile.changes == Changes::Direct;
        if is_direct && sandbox.receipt().rung == Rung::R2 && files.make_build_folder(&profile)? == Made::Now
        {
            // What R2 grants is bound to the folders that are there.
            return self.sandbox(policy, profile);
        }
        Ok(sandbox)
    }

    /// Contains commands in `profile` as strongly as the policy asks for.
    pub(crate) fn sandbox(
        &self,
        policy: &Policy,
        mut profile: Profile,
    ) -> Result<Arc<dyn Contained>, RunError> {
        profile.image = self.image(policy)?.map(|image| ImageRoot {
            folder: image.root(),
            digest: image.digest,
            by: policy.engine.map(|engine| ByEngine::new(engine, &self.engines, image.known_as)),
        });
        let rungs = match policy.containment {
            Containment::LimitsOnly => RungChoice::Exactly(Rung::R1),
            Containment::Strongest => RungChoice::Strongest { at_least: policy.at_least },
        };
        Ok(self.executor.contain(profile, rungs)?)
    }
}

fn attach(recorder: &mut Recorder, sandbox: &dyn Contained) -> Result<(), RunError> {
    let body = DriverAttached {
        generation: recorder.lease.generation,
        host: recorder.lease.owner.host.clone(),
        pid: std::process::id(),
        containment: sandbox.receipt().clone(),
    };
    recorder.record(Body::DriverAttached(body))
}

/// A number from 0 to 1 that spreads retries. Randomness that decides nothing.
pub(crate) fn jitter() -> f64 {
    random::<4>().map_or(0.5, |bytes| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

/// A name that no run has.
pub(crate) fn new_run(clock: &Clock) -> Result<RunId, RunError> {
    Ok(RunId::from_parts(clock(), random()?))
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], RunError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| RunError::Internal(format!("no randomness: {error}")))?;
    Ok(bytes)
}

/// A gate whose program is not there, or that the policy denies, is refused before the work begins, not after it.
fn check_gate(gate: &Gate, contract: &Contract, rung: Rung, ctx: &Context<'_>) -> Result<(), RunError> {
    let args = serde_json::json!({ "argv": gate.argv });
    let cannot = |why: String| RunError::Contract(format!("the verification command cannot be run: {why}"));
    let touches = Exec::default().touches(&args, ctx).map_err(|bad| cannot(bad.to_string()))?;
    let decision = contract.policy.decide_ordered(&touches, rung, Ordered::Gate);
    if decision.effect == Effect::Deny {
        return Err(RunError::GateDenied { command: show_argv(&gate.argv), decision });
    }
    Exec::default().prepare(&args, ctx).map(drop).map_err(|failure| cannot(failure.to_string()))
}

/// A server that the policy does not let start is refused before the work begins.
fn check_server(
    server: &server::Server,
    contract: &Contract,
    rung: Rung,
    ctx: &Context<'_>,
) -> Result<(), RunError> {
    let cannot =
        |why: String| RunError::Contract(format!("the server `{}` cannot be started: {why}", server.name));
    let touches = Exec::default()
        .touches(&serde_json::json!({ "argv": server.argv }), ctx)
        .map_err(|bad| cannot(bad.to_string()))?;
    let decision = contract.policy.decide_ordered(&touches, rung, Ordered::Server);
    if decision.effect == Effect::Deny {
        return Err(RunError::ServerDenied { server: server.name.clone(), decision });
    }
    Ok(())
}

/// What is to be shown beside the tree must be no part of it: then the gate would judge what is not exported.
fn check_beside(gate: &Gate, files: &Files) -> Result<(), RunError> {
    let refuse = |path: &RelPath, why: &str| {
        Err(RunError::Contract(format!("`{path}` cannot be shown to the verification: {why}")))
    };
    for path in &gate.with {
        if path.is_root() {
            return refuse(path, "it is the whole workspace; name the ignored folders that are needed");
        }
        if path.to_bytes().split(|byte| *byte == b'/').any(is_git_folder_name) {
            return refuse(path, "the history is shown already");
        }
        if files.has_beneath(path) {
            return refuse(
                path,
                "it is part of the tree, which is shown already; only ignored files are not",
            );
        }
    }
    Ok(())
}

/// Words on acts that do not wait are refused before the run is touched.
fn check_answers(run: &RunId, events: &[Event], answers: &[Answer]) -> Result<(), RunError> {
    if answers.is_empty() {
        return Ok(());
    }
    let state = RunState::fold(run.clone(), events)
        .map_err(|violation| RunError::Unsound { run: run.to_string(), violation })?;
    let waiting: Vec<ActId> = state.waiting_acts().collect();
    let undecided = state.indeterminate_act();
    let names = || waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for (index, answer) in answers.iter().enumerate() {
        if matches!(answer.says, Says::Settled(_)) && undecided != Some(answer.act) {
            return Err(RunError::Contract(match undecided {
                Some(act) => format!("what became of act {} is known; of act {act} it is not", answer.act),
                None => format!(
                    "of each act of this run it is known what became of it; resume it to find out about act {}",
                    answer.act
                ),
            }));
        }
        if matches!(answer.says, Says::Verdict(_)) && !waiting.contains(&answer.act) {
            let which =
                if waiting.is_empty() { "none does".to_owned() } else { format!("waiting: {}", names()) };
            return Err(RunError::Contract(format!(
                "act {} does not wait for an answer; {which}",
                answer.act
            )));
        }
        if answers[..index].iter().any(|other| other.act == answer.act) {
            return Err(RunError::Contract(format!("act {} is answered twice", answer.act)));
        }
    }
    Ok(())
}

/// Whoever answered first by letter was told that it counts.
fn check_letters(answers: &[Answer], letters: &[Letter]) -> Result<(), RunError> {
    for answer in answers {
        let Says::Verdict(given) = answer.says else { continue };
        let first = letters.iter().find_map(|letter| match letter.says {
            Letters::Verdict { act, verdict } if act == answer.act => Some((verdict, &letter.by)),
            _ => None,
        });
        if let Some((verdict, by)) = first.filter(|(verdict, _)| *verdict != given) {
            let word = if verdict == Verdict::Approved { "approved" } else { "denied" };
            return Err(RunError::Contract(format!("act {} was {word} by {by} before", answer.act)));
        }
    }
    Ok(())
}

pub(crate) fn check(contract: &Contract) -> Result<(), RunError> {
    let refuse = |why: &str| Err(RunError::Contract(why.to_owned()));
    if contract.goal.trim().is_empty() {
        return refuse("the goal is empty: say what is to be done");
    }
    if contract.policy.rules() > MOST_RULES {
        return refuse("the policy has more rules than can be decided on in time");
    }
    if let (Some(engine), None) = (contract.policy.engine, contract.policy.image) {
        return refuse(&format!(
            "commands are to run by {engine}, and no image is named for them: name one with `--image`, or `image` in the \
             policy file"
        ));
    }
    if let Some(engine) = contract.policy.engine {
        let policy = &contract.policy;
        let asked = [
            (!policy.allowed_hosts().is_empty(), "hosts of the network (`allow net`)"),
            (!policy.publish.is_empty(), "published ports (`publish`)"),
            (policy.lets_commit(), "commits (`git = \"commit\"`)"),
        ];
        let asked: Vec<&str> = asked.into_iter().filter(|(asked, _)| *asked).map(|(_, what)| what).collect();
        if !asked.is_empty() {
            return refuse(&format!(
                "commands that run by {engine} cannot have what the policy grants: {}; take it out of the policy, or name no \
                 engine",
                asked.join(", ")
            ));
        }
    }
    let others = contract.routing.others.iter().map(|route| &route.price);
    let mut prices = others.chain([&contract.price]);
    if contract.budget.cost_micros.is_some() && prices.any(Option::is_none) {
        return refuse(
            "a bound on cost needs a price of each model: without one the cost is unknown, not zero",
        );
    }
    let priced = contract.routing.others.iter().filter_map(|route| route.price.as_ref());
    if priced.chain(&contract.price).any(|price| price.tiers.len() > MOST_TIERS) {
        return Err(RunError::Contract(format!(
            "a price has more than {MOST_TIERS} tiers, which is more than any vendor's"
        )));
    }
    server::check(&contract.servers).map_err(RunError::Contract)?;
    if !contract.servers.is_empty() && contract.policy.workspace.is_staged() {
        return refuse(
            "changes are staged, and nobody would see what a server of tools changes: leave the servers out, or work directly",
        );
    }
    contract.limits.agents.check().map_err(RunError::Contract)?;
    contract.routing.check().map_err(|why| RunError::Contract(format!("the routing cannot be: {why}")))?;
    brief::check(&contract.brief)?;
    if contract.gate.as_ref().is_some_and(|gate| gate.argv.is_empty()) {
        return refuse("the verification command is empty");
    }
    Ok(())
}
