//! Measures what an event costs the supervisor of an app: `cargo run --release -p forkful-core --example step`.
//!
//! Each round feeds the same streams of events to an app with a health check and a memory limit. A stream is what a real
//! daemon feeds: its reports each second, the replies to health checks, a worker that dies and is started again, a whole
//! reload. The figures are the median of all rounds and the range of the middle half, in nanoseconds for each event.

use std::error::Error;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use forkful_core::Time;
use forkful_core::slot::{Event as SlotEvent, Exit, Generation};
use forkful_core::spec::{AppName, AppSpec, HealthCheck, HealthProbe, Mode, Runtime};
use forkful_core::supervisor::{
    AppSupervisor, Context, Effect, Event, FirstStates, JobId, Observation, ReloadOrder, Whom,
};

const ROUNDS: usize = 400;

/// No app has a pattern that would read it.
const WALL: DateTime<Utc> = DateTime::UNIX_EPOCH;

/// An app, its clock, and how many events it has had.
struct Bench {
    app: AppSupervisor,
    now: Time,
    effects: Vec<Effect>,
    events: u32,
}

impl Bench {
    fn step(&mut self, event: Event) {
        self.effects.clear();
        let context = Context { now: self.now, wall: &WALL, others: &[], abandoned: &[] };
        self.app.step(event, &context, &mut self.effects);
        self.events += 1;
    }

    /// Time passes, as the daemon tells it: whenever the app wants to be told.
    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.app.next_wake().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.step(Event::Time);
        }
        self.now = until;
    }

    fn workers(&self) -> Vec<(u16, Generation)> {
        let online = self.app.slots().iter().filter_map(|(slot, record)| Some((*slot, record.online()?)));
        online.collect()
    }

    /// A second in which nothing happens but what is measured.
    fn second(&mut self) {
        self.pass(Duration::from_secs(1));
        let workers = self.workers();
        for (slot, generation) in workers.iter().copied() {
            self.step(Event::Requests { slot, generation, served: 1_000 });
        }
        let seen = |(slot, generation)| Observation { slot, generation, memory_bytes: 1 << 26, own: None };
        self.step(Event::Observed(workers.into_iter().map(seen).collect()));
    }

    /// The health check of each worker: a question and its answer.
    fn health(&mut self) {
        self.pass(Duration::from_secs(10));
        for (slot, generation) in self.workers() {
            self.step(Event::Health { slot, generation, answer: Ok(()) });
        }
    }

    /// The started processes run and listen, until nothing more is started.
    fn serve(&mut self) {
        loop {
            let spawned = self.effects.iter().find_map(|effect| match effect {
                Effect::Spawn(slot, generation) => Some((*slot, *generation)),
                _ => None,
            });
            let Some((slot, generation)) = spawned else { return };
            self.step(Event::Runs(slot, generation));
            self.step(Event::Listening { slot, generation, lacks_address: false });
        }
    }

    /// The first worker dies after a long life and is started again.
    fn crash(&mut self) {
        self.now = self.now + Duration::from_secs(3_600);
        if let Some((slot, generation)) = self.workers().first().copied() {
            self.step(Event::Slot(slot, SlotEvent::Exited(generation, Exit::Code(1))));
            self.serve();
        }
    }

    /// All workers are replaced, one after the other; each old one finishes its requests and exits.
    fn reload(&mut self) {
        self.now = self.now + Duration::from_secs(3_600);
        let mut old = self.workers();
        let order = ReloadOrder { job: Some(JobId(2)), spec: None, whom: Whom::All };
        self.step(Event::Reload(order));
        old.reverse();
        while let Some((slot, generation)) = old.pop() {
            self.serve();
            self.step(Event::Slot(slot, SlotEvent::Exited(generation, Exit::Code(0))));
        }
        self.serve();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("| workers | stream | events | ns for each event, median | middle half |");
    println!("| --- | --- | --- | --- | --- |");
    for workers in [1, 8, 100] {
        let streams: [(&str, fn(&mut Bench)); 4] = [
            ("a second of reports", Bench::second),
            ("a round of health checks", Bench::health),
            ("a crash and its restart", Bench::crash),
            ("a reload", Bench::reload),
        ];
        for (name, stream) in streams {
            let mut bench = online(workers)?;
            let mut rounds: Vec<u128> = Vec::with_capacity(ROUNDS);
            let mut events = 0;
            for _ in 0..ROUNDS {
                bench.events = 0;
                let began = Instant::now();
                stream(&mut bench);
                let elapsed = began.elapsed();
                events = bench.events;
                rounds.push(elapsed.as_nanos() / u128::from(events.max(1)));
            }
            assert_eq!(bench.workers().len(), usize::from(workers), "{name}: all workers serve at its end");
            rounds.sort_unstable();
            let at = |quarter: usize| rounds[rounds.len() * quarter / 4];
            println!("| {workers} | {name} | {events} | {} | {} to {} |", at(2), at(1), at(3));
        }
    }
    Ok(())
}

fn online(instances: u16) -> Result<Bench, Box<dyn Error>> {
    let mut spec = AppSpec::new(AppName::new("api")?);
    spec.instances = instances;
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    spec.launch.env =
        (0..40).map(|number| (format!("VARIABLE_{number}"), format!("value {number}"))).collect();
    spec.renewal.max_memory_bytes = Some(512 << 20);
    spec.health = Some(HealthCheck {
        probe: HealthProbe::Http { port: None, path: "/health".to_owned() },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        start_period: Duration::ZERO,
        failures_max: 3,
        stuck_limit: None,
    });
    let app = AppSupervisor::new(spec, 7);
    let now = Time::from_start(Duration::from_secs(987_654));
    let mut bench = Bench { app, now, effects: Vec::new(), events: 0 };
    bench.step(Event::Create { first: FirstStates::default(), job: JobId(1) });
    for slot in 0..instances {
        bench.step(Event::Runs(slot, Generation(0)));
        bench.step(Event::Listening { slot, generation: Generation(0), lacks_address: false });
    }
    Ok(bench)
}
