//! An app and its clock; processes do what a test says.

use std::rc::Rc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use forkful_core::slot::{Event as SlotEvent, Exit, Generation, ReadySign, State, Verb};
use forkful_core::spec::{AppName, AppSpec, Mode, Runtime};
use forkful_core::supervisor::{
    AppId, AppSupervisor, Context, Effect, Event, FirstStates, JobId, Recall, ReloadOrder, Standing, Whom,
};
use forkful_core::{Time, snapshot};

/// A cluster-mode app of this name.
pub(crate) fn spec(name: &str, instances: u16) -> AppSpec {
    let mut spec = AppSpec::new(AppName::new(name).unwrap());
    spec.instances = instances;
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    spec
}

pub(crate) struct Driver {
    pub(crate) app: AppSupervisor,
    pub(crate) now: Time,
    pub(crate) others: Vec<Standing>,
    pub(crate) abandoned: Vec<JobId>,
    /// Another daemon goes on after each step.
    pub(crate) takes_over: bool,
    recall: Recall,
    last_job: u64,
}

impl Driver {
    /// An app that has been made, and nothing more.
    pub(crate) fn new(spec: AppSpec) -> (Self, Vec<Effect>) {
        Self::created_as(spec, FirstStates::default())
    }

    /// The same, with what an earlier daemon has saved.
    pub(crate) fn created_as(spec: AppSpec, first: FirstStates) -> (Self, Vec<Effect>) {
        // With hundreds of slots it takes a while, and shows nothing more.
        let takes_over = spec.instances <= 16;
        let mut driver = Self {
            app: AppSupervisor::new(spec, 7),
            now: Time::from_start(Duration::from_secs(100)),
            others: Vec::new(),
            abandoned: Vec::new(),
            takes_over,
            recall: Recall::default(),
            last_job: 0,
        };
        let job = driver.job();
        let effects = driver.step(Event::Create { first, job });
        (driver, effects)
    }

    /// An app whose workers all serve.
    pub(crate) fn online(spec: AppSpec) -> Self {
        let instances = spec.instances;
        let (mut driver, _) = Self::new(spec);
        for slot in 0..instances {
            driver.serve(slot, Generation(0));
        }
        driver
    }

    pub(crate) fn job(&mut self) -> JobId {
        self.last_job += 1;
        JobId(self.last_job)
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        let wall = self.wall();
        let context =
            Context { now: self.now, wall: &wall, others: &self.others, abandoned: &self.abandoned };
        let mut effects = Vec::new();
        self.app.step(event, &context, &mut effects);
        if self.takes_over {
            self.recall();
            self.take_over();
        }
        effects
    }

    /// The wall clock, which began with the monotonic one.
    pub(crate) fn wall(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + self.now.since_start()
    }

    /// What is copied from the step before is what there is now.
    fn recall(&mut self) {
        let recalled = serde_json::to_string(&self.recall.of(&self.app).unwrap()).unwrap();
        assert_eq!(recalled, serde_json::to_string(&self.app).unwrap());
    }

    /// Another daemon goes on from what this one has written: no test notices.
    fn take_over(&mut self) {
        let mut bytes = Vec::new();
        snapshot::write(&self.app, &mut bytes).unwrap();
        let (next, rest) = snapshot::read::<AppSupervisor>(&bytes).unwrap();
        assert_eq!((&next, rest.len()), (&self.app, 0));
        self.app = next;
    }

    pub(crate) fn slot(&mut self, slot: u16, event: SlotEvent) -> Vec<Effect> {
        self.step(Event::Slot(slot, event))
    }

    /// A process runs and listens.
    pub(crate) fn serve(&mut self, slot: u16, generation: Generation) -> Vec<Effect> {
        let mut effects = self.step(Event::Runs(slot, generation));
        effects.extend(self.step(Event::Listening { slot, generation, lacks_address: false }));
        effects
    }

    pub(crate) fn exit(&mut self, slot: u16, generation: Generation, code: i32) -> Vec<Effect> {
        self.slot(slot, SlotEvent::Exited(generation, Exit::Code(code)))
    }

    /// Time passes, and the supervisor is told whenever it wants to be.
    pub(crate) fn pass(&mut self, by: Duration) -> Vec<Effect> {
        let until = self.now + by;
        let mut effects = Vec::new();
        while let Some(at) = self.app.next_wake().filter(|at| *at <= until) {
            assert!(at >= self.now, "a wake in the past would never end");
            self.now = at;
            effects.extend(self.step(Event::Time));
        }
        self.now = until;
        effects
    }

    pub(crate) fn reload(&mut self, spec: Option<AppSpec>) -> (JobId, Vec<Effect>) {
        let job = self.job();
        let order = ReloadOrder { job: Some(job), spec: spec.map(Rc::new), whom: Whom::All };
        (job, self.step(Event::Reload(order)))
    }

    pub(crate) fn stop(&mut self, verb: Verb) -> (JobId, Vec<Effect>) {
        let job = self.job();
        let slots = self.app.slots().keys().copied().collect();
        (job, self.step(Event::Stop { slots, verb, first: [].into(), job }))
    }

    pub(crate) fn scale(&mut self, instances: u16) -> (JobId, Vec<Effect>) {
        let job = self.job();
        (job, self.step(Event::Scale { instances, job }))
    }

    pub(crate) fn state(&self, slot: u16) -> &State {
        &self.app.slot(slot).unwrap().slot.state
    }

    pub(crate) fn said_ready(&mut self, slot: u16, generation: Generation) -> Vec<Effect> {
        self.slot(slot, SlotEvent::Ready(generation, ReadySign::Message))
    }
}

/// Which processes are to be started.
pub(crate) fn spawned(effects: &[Effect]) -> Vec<(u16, u32)> {
    let spawn = |effect: &Effect| match effect {
        Effect::Spawn(slot, generation) => Some((*slot, generation.0)),
        _ => None,
    };
    effects.iter().filter_map(spawn).collect()
}

/// The commands that got one of their answers.
pub(crate) fn settled(effects: &[Effect]) -> Vec<JobId> {
    use forkful_core::supervisor::Asked;
    let settled = |effect: &Effect| match effect {
        Effect::Settled(job) => Some(*job),
        Effect::Answered(answer) => match answer.asked {
            Asked::Job(job, _) => Some(job),
            Asked::Reload | Asked::Load(_) => None,
        },
        _ => None,
    };
    effects.iter().filter_map(settled).collect()
}

pub(crate) fn standing(id: u32, name: &str, readiness: forkful_core::supervisor::Readiness) -> Standing {
    let is_ending = readiness != forkful_core::supervisor::Readiness::Failed;
    Standing { id: AppId(id), name: AppName::new(name).unwrap(), readiness, is_ending }
}
