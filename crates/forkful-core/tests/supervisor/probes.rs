//! What a container's probes are told, from the first start to the stop.

use std::collections::BTreeSet;

use forkful_core::probes::{Answer, Probe, Probes, Seen};
use forkful_core::slot::Generation;
use forkful_core::supervisor::AppId;

use super::driver::{Driver, spec};

const FIRST: Generation = Generation(0);

/// A run, and what its probes remember.
struct Run {
    driver: Driver,
    probes: Probes,
    blocked: BTreeSet<u16>,
    is_stopping: bool,
}

impl Run {
    fn new(instances: u16) -> Self {
        let (driver, _) = Driver::new(spec("api", instances));
        Self { driver, probes: Probes::default(), blocked: BTreeSet::new(), is_stopping: false }
    }

    fn ask(&mut self, probe: Probe) -> Answer {
        let seen = Seen { id: AppId(0), supervisor: &self.driver.app, blocked: self.blocked.clone() };
        self.probes.answer(probe, [seen], self.is_stopping)
    }

    /// Whether it has started, is alive, and is ready.
    fn all(&mut self) -> [bool; 3] {
        [Probe::Started, Probe::Live, Probe::Ready].map(|probe| self.ask(probe).is_yes)
    }
}

#[test]
fn a_run_is_alive_while_it_starts_and_ready_once_one_worker_serves() {
    let mut run = Run::new(2);
    assert_eq!(run.all(), [false, true, false]);
    assert_eq!(run.ask(Probe::Ready).text, "api: 0 of 2 workers can serve, 2 starting\n");
    run.driver.serve(1, FIRST);
    assert_eq!(run.all(), [true, true, true]);
}

#[test]
fn a_start_that_fails_is_alive_until_it_is_given_up() {
    let mut run = Run::new(1);
    run.driver.exit(0, FIRST, 1);
    assert_eq!(run.all(), [false, true, false], "it is tried again at once");
    run.driver.exit(0, Generation(1), 1);
    assert_eq!(run.all(), [false, false, false]);
    assert_eq!(run.ask(Probe::Live).text, "api: 0 of 1 workers can serve, 1 waiting to be restarted\n");
}

#[test]
fn a_run_is_alive_as_long_as_one_worker_can_serve() {
    let mut run = Run::new(2);
    run.driver.serve(0, FIRST);
    run.driver.serve(1, FIRST);
    assert_eq!(run.all(), [true, true, true]);
    run.driver.exit(0, FIRST, 1);
    assert_eq!(run.all(), [true, true, true], "one serves");
    run.blocked.insert(1);
    assert_eq!(run.all(), [true, false, false], "that one is blocked");
    let text = run.ask(Probe::Live).text;
    assert_eq!(text, "api: 0 of 2 workers can serve, 1 blocked, 1 starting\n");
    run.blocked.clear();
    run.driver.exit(1, FIRST, 1);
    assert_eq!(run.all(), [true, false, false], "they start again, and none serves");
    run.driver.serve(0, Generation(1));
    assert_eq!(run.all(), [true, true, true]);
}

#[test]
fn a_run_that_is_stopped_is_not_ready_and_stays_alive_to_its_end() {
    let mut run = Run::new(1);
    run.driver.serve(0, FIRST);
    assert_eq!(run.all(), [true, true, true]);
    run.is_stopping = true;
    assert_eq!(run.all(), [true, true, false]);
    assert_eq!(run.ask(Probe::Ready).text, "a stop was asked for\napi: 1 of 1 workers can serve\n");
    run.driver.stop(forkful_core::slot::Verb::Stop);
    run.driver.exit(0, FIRST, 0);
    assert_eq!(run.all(), [true, true, false]);
}

#[test]
fn a_job_that_has_done_its_work_is_as_good_as_one_that_serves() {
    let mut job = spec("migrate", 1);
    job.restart.autorestart = false;
    let (driver, _) = Driver::new(job);
    let mut run = Run { driver, ..Run::new(1) };
    run.driver.serve(0, FIRST);
    run.driver.exit(0, FIRST, 0);
    assert_eq!(run.all(), [true, true, true]);
}
