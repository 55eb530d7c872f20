//! A snapshot of a supervisor: what is written, and how damaged bytes are refused. Every other test here also checks that a
//! supervisor continues in the same way after it was written and read again: see [`Driver::step`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_core::date_format::DateFormat;
use forkful_core::slot::{Event as SlotEvent, Exit, Generation};
use forkful_core::snapshot::{self, Fault, VERSION};
use forkful_core::spec::{
    AppName, AppSpec, CronPattern, HealthCheck, HealthProbe, Namespace, RestartDelay, RunAs, Watch,
    WatchIgnore,
};
use forkful_core::supervisor::{AppSupervisor, Effect, Event, ListenFault, Observation};

use crate::driver::{Driver, spec};
use crate::shape::Shape;

const FIRST: Generation = Generation(0);

fn bytes_of(app: &AppSupervisor) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot::write(app, &mut bytes).unwrap();
    bytes
}

/// A definition of which nothing is a default.
fn rich_spec() -> AppSpec {
    let text = |text: &str| text.to_owned();
    let mut spec = spec("api", 3);
    spec.namespace = Namespace::new("shop").unwrap();
    spec.launch.program = PathBuf::from("/usr/bin/node");
    spec.launch.script = Some(text("/srv/api.js"));
    spec.launch.args = vec![text("--port"), text("80\n€")];
    spec.launch.env = [(text("TOKEN"), text("s3cret"))].into();
    spec.launch.env_sources.inherited = [text("TOKEN")].into();
    spec.launch.env_sources.files = vec![PathBuf::from("/srv/.env")];
    spec.launch.env_sources.blocks.named = [(text("test"), [(text("A"), text("1"))].into())].into();
    spec.launch.run_as = Some(RunAs { uid: 1000, gid: 1000, groups: vec![4, 27] });
    spec.restart.delay = RestartDelay::Fixed(Duration::from_millis(1500));
    spec.readiness.listen_timeout = Some(Duration::from_secs(7));
    spec.logs.date_format = Some(DateFormat::new("YYYY-MM-DD [at] HH:mm").unwrap());
    spec.pid_file = Some(PathBuf::from("/run/api.pid"));
    spec.watch = Some(Watch {
        paths: vec![PathBuf::from("/srv")],
        ignore: vec![WatchIgnore::Glob(text("*.log")), WatchIgnore::Regex(text("tmp$"))],
        delay: Duration::from_millis(200),
        follow_links: true,
        polling: Some(Duration::from_secs(1)),
    });
    spec.renewal.max_memory_bytes = Some(1 << 30);
    spec.renewal.cron = Some(CronPattern::new("0 3 * * *").unwrap());
    spec.health = Some(HealthCheck {
        probe: HealthProbe::Http { port: Some(81), path: text("/health") },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        failures_max: 2,
        start_period: Duration::from_secs(5),
        stuck_limit: Some(Duration::from_secs(3)),
    });
    spec.depends_on = vec![AppName::new("db").unwrap()];
    spec.limits.memory_bytes = Some(1 << 31);
    spec.origins = [(text("instances"), text("app.config.js:4:5"))].into();
    spec
}

/// An app of which much is under way at once.
fn rich() -> AppSupervisor {
    let first = AppSpec { depends_on: Vec::new(), ..rich_spec() };
    let mut driver = Driver::online(first);
    driver.pass(Duration::from_secs(6));
    driver.step(Event::Observed(vec![Observation {
        slot: 1,
        generation: FIRST,
        memory_bytes: 1 << 29,
        own: None,
    }]));
    driver.step(Event::Requests { slot: 1, generation: FIRST, served: 77 });
    driver.step(Event::Health { slot: 1, generation: FIRST, answer: Err("status 503".to_owned()) });
    driver.exit(2, FIRST, 1);
    let fault = ListenFault { error: "EADDRINUSE".to_owned(), hint: None };
    driver.step(Event::ListenRefused(2, fault));
    driver.reload(Some(rich_spec()));
    driver.reload(None);
    driver.serve(0, Generation(1));
    driver.said_ready(1, Generation(1));
    driver.slot(0, SlotEvent::Disconnected(FIRST));
    driver.scale(5);
    driver.slot(3, SlotEvent::Exited(FIRST, Exit::SpawnFailed("no such file".to_owned())));
    driver.app
}

/// A file of this folder.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/supervisor/formats").join(name)
}

/// What belongs to the version of the format that is written, from its file. Each version has its own files: with
/// `UPDATE_DOCS` that of a new version is made, and those of earlier ones stay.
fn of_version(name: &str, now: &[u8]) -> Vec<u8> {
    let path = file(&format!("{name}-{VERSION}"));
    if std::env::var_os("UPDATE_DOCS").is_some() && !path.exists() {
        std::fs::write(&path, now).unwrap();
    }
    std::fs::read(&path).unwrap_or_default()
}

#[test]
fn the_format_of_a_version_does_not_change() {
    let mut shape = Shape::default();
    shape.add::<(AppSupervisor, Vec<Effect>)>();
    let now = shape.text();
    let committed = String::from_utf8(of_version("shape", now.as_bytes())).unwrap();
    assert!(
        now == committed,
        "The format of snapshots is not that of version {VERSION}. Raise `VERSION` in src/snapshot.rs as its head says, and \
         make the files of the new version: UPDATE_DOCS=1 cargo test -p forkful-core snapshot. What has changed:\n{}",
        now.lines().filter(|line| !committed.contains(line)).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn what_earlier_versions_have_written_is_read() {
    let now = rich();
    of_version("api", &bytes_of(&now));
    let earlier = without_clock(&now);
    for version in 1..=VERSION {
        let bytes = std::fs::read(file(&format!("api-{version}"))).unwrap();
        let (before, rest) = snapshot::read::<AppSupervisor>(&bytes).unwrap();
        let expected = if version < CLOCK_SINCE { &earlier } else { &now };
        assert!(before == *expected && rest.is_empty(), "version {version}");
    }
}

/// The first version in which supervisors have a clock.
const CLOCK_SINCE: u16 = 14;

/// The supervisor as an earlier version has written it.
fn without_clock(app: &AppSupervisor) -> AppSupervisor {
    let mut json = serde_json::to_value(app).unwrap();
    assert!(json["cron"].take().is_object());
    serde_json::from_value(json).unwrap()
}

#[test]
fn the_time_that_an_earlier_version_has_planned_is_kept() {
    let mut driver = Driver::new(AppSpec { depends_on: Vec::new(), ..rich_spec() }).0;
    let planned = driver.app.next_strike_ms().unwrap();
    let mut before = without_clock(&driver.app);
    before.resume_clock(planned - 1000, driver.now);
    driver.app = before;
    driver.step(Event::TakenOver(Vec::new()));
    assert_eq!(driver.app.next_strike_ms(), Some(planned - 1000));
    driver.app = without_clock(&driver.app);
    driver.step(Event::TakenOver(Vec::new()));
    assert_eq!(driver.app.next_strike_ms(), Some(planned), "the next point, where none was planned");
}

#[test]
fn one_follows_another() {
    let (first, second) = (rich(), Driver::online(spec("web", 2)).app);
    let bytes = [bytes_of(&first), bytes_of(&second), vec![0; 100]].concat();
    let (read, rest) = snapshot::read::<AppSupervisor>(&bytes).unwrap();
    assert_eq!(read, first);
    let (read, rest) = snapshot::read::<AppSupervisor>(rest).unwrap();
    assert_eq!(read, second);
    assert_eq!(snapshot::read::<AppSupervisor>(rest), Err(Fault::NoSnapshot));
}

#[test]
fn what_is_cut_or_changed_is_refused() {
    let bytes = bytes_of(&Driver::online(spec("web", 2)).app);
    for length in 0..bytes.len() {
        let fault = snapshot::read::<AppSupervisor>(&bytes[..length]).unwrap_err();
        assert!(matches!(fault, Fault::NoSnapshot | Fault::Cut { .. }), "{length}: {fault}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(snapshot::read::<AppSupervisor>(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_reader_says_what_does_not_match() {
    let mut bytes = Vec::new();
    snapshot::write(&"s3cret", &mut bytes).unwrap();
    let fault = snapshot::read::<AppSupervisor>(&bytes).unwrap_err();
    assert_eq!(fault, Fault::Misfit { at: 8 });
    assert_eq!(fault.to_string(), "byte 8 of its content does not fit what is expected there");
    let next = VERSION + 1;
    bytes[10..12].copy_from_slice(&next.to_le_bytes());
    bytes[8..10].copy_from_slice(&next.to_le_bytes());
    let fault = snapshot::read::<AppSupervisor>(&bytes).unwrap_err();
    assert_eq!(fault, Fault::Newer { version: next });
    bytes[10] = 1;
    assert_eq!(snapshot::read::<AppSupervisor>(&bytes), Err(Fault::Garbled));
    bytes[12] += 1;
    assert_eq!(snapshot::read::<AppSupervisor>(&bytes), Err(Fault::Cut { has: 32, needs: 33 }));
}

#[test]
fn fields_that_are_not_known_are_left_out() {
    let app = Driver::online(spec("web", 2)).app;
    let mut value = serde_json::to_value(&app).unwrap();
    value["from_a_later_version"] = true.into();
    value["slots"]["0"]["also"] = "text".into();
    let mut bytes = Vec::new();
    snapshot::write(&value, &mut bytes).unwrap();
    assert_eq!(snapshot::read(&bytes), Ok((app, &[][..])));
}

#[test]
fn a_value_that_cannot_be_written_leaves_the_bytes_as_they_were() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut spec = spec("web", 1);
    spec.pid_file = Some(PathBuf::from(std::ffi::OsStr::from_bytes(b"/run/\xff")));
    let mut bytes = b"before".to_vec();
    assert_eq!(snapshot::write(&spec, &mut bytes), Err(Fault::Unwritable));
    assert_eq!(bytes, b"before");
}
