//! Measures the cost of writing and reading an app's supervisor: `cargo run --release -p forkful-core
//! --example snapshot`.
//!
//! The app is a typical one: 40 variables, a health check, a memory limit; all its workers are online.

use std::error::Error;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use forkful_core::slot::Generation;
use forkful_core::spec::{AppName, AppSpec, HealthCheck, HealthProbe, Mode, Runtime};
use forkful_core::supervisor::{AppSupervisor, Context, Event, FirstStates, JobId, Observation};
use forkful_core::{Time, snapshot};

const ROUNDS: usize = 2000;

/// The app has no pattern that would read it.
const WALL: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn main() -> Result<(), Box<dyn Error>> {
    for workers in [1, 8, 100] {
        let app = online(workers)?;
        let mut bytes = Vec::new();
        let write = median(|| {
            bytes.clear();
            snapshot::write(&app, &mut bytes).expect("all of it is text");
        });
        let read = median(|| drop(snapshot::read::<AppSupervisor>(&bytes).expect("it was written")));
        let (read_back, _) = snapshot::read::<AppSupervisor>(&bytes)?;
        assert_eq!(read_back, app);
        println!("{workers:3} workers: {:6} bytes, written in {write:?}, read in {read:?}", bytes.len());
    }
    Ok(())
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn online(instances: u16) -> Result<AppSupervisor, Box<dyn Error>> {
    let mut spec = AppSpec::new(AppName::new("api")?);
    spec.instances = instances;
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    spec.launch.script = Some("/srv/api/dist/server.js".to_owned());
    let variable = |number: u32| {
        (format!("VARIABLE_{number}"), format!("/srv/a/value/of/fifty/characters/or/so/{number}"))
    };
    spec.launch.env = (0..40).map(variable).collect();
    spec.launch.env_sources.inherited = spec.launch.env.keys().cloned().collect();
    spec.renewal.max_memory_bytes = Some(512 << 20);
    spec.health = Some(HealthCheck {
        probe: HealthProbe::Http { port: None, path: "/health".to_owned() },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        start_period: Duration::from_secs(5),
        failures_max: 3,
        stuck_limit: None,
    });
    let mut app = AppSupervisor::new(spec, 7);
    let now = Time::from_start(Duration::from_secs(987_654));
    let mut step =
        |event| app.step(event, &Context { now, wall: &WALL, others: &[], abandoned: &[] }, &mut Vec::new());
    step(Event::Create { first: FirstStates::default(), job: JobId(1) });
    for slot in 0..instances {
        step(Event::Runs(slot, Generation(0)));
        step(Event::Listening { slot, generation: Generation(0), lacks_address: false });
    }
    let seen = |slot| Observation { slot, generation: Generation(0), memory_bytes: 123_456_789, own: None };
    step(Event::Observed((0..instances).map(seen).collect()));
    Ok(app)
}
