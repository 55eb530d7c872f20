//! Plans for different specifications and measurements.

use forkful_core::spec::AppName;

use super::*;
use crate::measured::tests::measured;

/// An app with a port and a given number of workers, in the configuration `forkful.config.json`.
pub(crate) fn app() -> (AppSpec, Request) {
    let mut spec = AppSpec::new(AppName::new("api").unwrap());
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    spec.launch.env.insert("PORT".to_owned(), "3000".to_owned());
    let request = Request {
        run: ["forkful.config.json", "--only", "api"].map(str::to_owned).to_vec(),
        file: "forkful.config.json".to_owned(),
        image: Some("registry.example.com/api:1.4.0".to_owned()),
        ..Request::default()
    };
    (spec, request)
}

pub(crate) fn planned(spec: &AppSpec, request: &Request, measured: Option<&Measured>) -> Plan {
    plan(spec, request, measured).unwrap()
}

fn refused(change: impl FnOnce(&mut AppSpec, &mut Request)) -> String {
    let (mut spec, mut request) = app();
    change(&mut spec, &mut request);
    plan(&spec, &request, None).expect_err("something is missing").to_string()
}

#[test]
fn the_grace_period_is_the_platforms_delay_and_the_longest_stop() {
    let (mut spec, mut request) = app();
    spec.stop.kill_timeout = Duration::from_millis(29_500);
    spec.origins.insert("kill_timeout".to_owned(), "forkful.config.json:4:5".to_owned());
    let plan = planned(&spec, &request, None);
    assert_eq!(
        plan.grace(),
        Figure::new(
            40,
            "5 s of preStop + 30 s until SIGKILL (kill_timeout, forkful.config.json:4:5) + 5 s for Forkful to end"
        )
    );
    request.shutdown_delay = Some(Duration::ZERO);
    assert_eq!(planned(&spec, &request, None).grace().value, 35);
    request = Request { no_port: true, shutdown_delay: None, ..request };
    assert_eq!(planned(&spec, &request, None).grace().value, 35, "nobody sends requests to it");
}

#[test]
fn explicit_numbers_of_workers_come_first_then_measured_ones() {
    let (mut spec, mut request) = app();
    let measured = measured();
    assert_eq!(planned(&spec, &request, None).workers.value, 1);
    spec.instances = 16;
    spec.origins.insert("instances".to_owned(), "forkful.config.json:4:5".to_owned());
    assert_eq!(
        planned(&spec, &request, None).workers.value,
        2,
        "`max` of this machine says nothing of a pod"
    );
    assert_eq!(planned(&spec, &request, Some(&measured)).workers.value, 2);
    request.configured_workers = Some(4);
    let plan = planned(&spec, &request, Some(&measured));
    assert_eq!(plan.workers, Figure::new(4, "workers: instances, forkful.config.json:4:5"));
    request.workers = Some(3);
    let plan = planned(&spec, &request, Some(&measured));
    assert_eq!(plan.workers.value, 3);
    assert_eq!(plan.cpu, Figure::new(2850, "2.81 cores at saturation, scaled from 2 workers measured"));
    assert!(plan.tradeoff[0].contains("was not measured: its numbers are scaled"), "{:?}", plan.tradeoff);
}

#[test]
fn sizes_are_measured_or_configured_or_said_to_be_assumed() {
    let (mut spec, mut request) = app();
    request.workers = Some(2);
    let measured = measured();
    let plan = planned(&spec, &request, Some(&measured));
    assert_eq!(plan.cpu, Figure::new(1900, "1.87 cores at saturation, measured"));
    assert_eq!(plan.memory, Figure::new(160 << 20, "1.5 x 100 MiB at saturation, measured"));
    let plan = planned(&spec, &request, None);
    assert_eq!(plan.cpu, Figure::new(2000, "assumed: a core for each worker; not measured"));
    assert_eq!(plan.memory, Figure::new(544 << 20, "assumed: 2 x 256 MiB + Forkful; not measured"));
    spec.renewal.max_memory_bytes = Some(300 << 20);
    let plan = planned(&spec, &request, Some(&measured));
    assert_eq!(plan.memory.value, 784 << 20, "{}", plan.memory.source);
    spec.limits.memory_bytes = Some(1 << 30);
    spec.limits.millicores = Some(1500);
    let plan = planned(&spec, &request, Some(&measured));
    assert_eq!((plan.memory.value, plan.cpu.value), (1 << 30, 1500));
    assert_eq!(plan.cpu_max.map(|cpu| cpu.value), Some(1500));
}

#[test]
fn replicas_follow_a_rate_that_was_measured() {
    let (spec, mut request) = app();
    request.workers = Some(2);
    let measured = measured();
    let replicas = |request: &Request| {
        let plan = planned(&spec, request, Some(&measured));
        (plan.replicas.value, plan.replicas_max.value)
    };
    assert_eq!(replicas(&request), (2, 8));
    request.rate = Some(3000);
    assert_eq!(replicas(&request), (5, 20), "616 requests/s for each pod at 70 %");
    request.rate = Some(10);
    assert_eq!(replicas(&request), (2, 8), "a lost pod must not end the app");
    request.rate = Some(100_000_000);
    let error = plan(&spec, &request, Some(&measured)).unwrap_err();
    assert_eq!(error.to_string(), "--rate 100000000 needs 162338 pods of app `api`, more than 1000");
    request = Request { rate: None, replicas: Some(3), replicas_max: Some(2), ..request };
    let error = plan(&spec, &request, None).unwrap_err();
    assert_eq!(error.to_string(), "--max-replicas 2 is less than --replicas 3");
    request = Request { rate: Some(5), replicas: None, replicas_max: None, ..request };
    assert!(matches!(plan(&spec, &request, None), Err(ExportError::RateUnmeasured { .. })));
}

#[test]
fn what_is_missing_is_named() {
    let none = refused(|spec, _| drop(spec.launch.env.remove("PORT")));
    assert_eq!(none, "app `api` has no port, so that nothing can send requests to it");
    let inherited = refused(|spec, _| spec.launch.env_sources.inherited = ["PORT".to_owned()].into());
    assert_eq!(inherited, none, "the shell of whoever exports is not in the image");
    let secret = refused(|_, request| drop(request.env.insert("API_KEY".to_owned(), "x".to_owned())));
    assert!(secret.starts_with("`--env API_KEY` looks like a secret"), "{secret}");
    let strange = refused(|_, request| drop(request.env.insert("A B".to_owned(), "x".to_owned())));
    assert_eq!(strange, "`--env A B` is not a valid name of a variable");
    let unnamed = refused(|spec, _| spec.name = AppName::new("ü").unwrap());
    assert!(unnamed.contains("no letter or digit"), "{unnamed}");
}

#[test]
fn two_apps_of_one_name_are_refused_and_dependencies_outside_are_left_out() {
    let (mut one, request) = app();
    one.depends_on = ["db", "cache"].map(|name| AppName::new(name).unwrap()).to_vec();
    let named = |name: &str| {
        let mut other = one.clone();
        other.name = AppName::new(name).unwrap();
        other.depends_on.clear();
        (other, request.clone())
    };
    let all = [(one.clone(), request.clone()), named("db")];
    assert_eq!(plans(&all, &BTreeMap::new()).unwrap()[0].depends_on, ["db"]);
    let same = [(one.clone(), request.clone()), named("API")];
    let error = plans(&same, &BTreeMap::new()).unwrap_err();
    assert_eq!(error.to_string(), "apps `api` and `API` are both called `api` in a manifest");
}

#[test]
fn a_machine_has_the_workers_of_its_configuration_unless_others_were_measured() {
    let (spec, mut request) = app();
    let of_machine = |request: &Request, measured: Option<&Measured>| {
        planned(&spec, request, measured).workers_of_machine.map(|workers| workers.value)
    };
    assert_eq!(of_machine(&request, None), None);
    assert_eq!(of_machine(&request, Some(&measured())), Some(2));
    request.configured_workers = Some(3);
    assert_eq!(of_machine(&request, Some(&measured())), None);
    request.workers = Some(5);
    assert_eq!(of_machine(&request, Some(&measured())), Some(5));
}

#[test]
fn probes_are_open_to_the_platform_or_to_the_container_alone() {
    let (spec, request) = app();
    let plan = planned(&spec, &request, None);
    let line = |probes| {
        let words: Vec<String> = plan.command(probes).into_iter().map(|word| word.value).collect();
        words.join(" ")
    };
    let run = "forkful run forkful.config.json --only api -i 1 --probes";
    assert_eq!(line(Probes::Open), format!("{run} :9640 --shutdown-delay 0s"));
    assert_eq!(line(Probes::Local), format!("{run} 9640 --shutdown-delay 0s"));
}

#[test]
fn given_variables_win_over_the_configuration() {
    let (spec, mut request) = app();
    request.port = Some(8088);
    request.env.insert("GREETING".to_owned(), "hello".to_owned());
    let plan = planned(&spec, &request, None);
    // The configuration has PORT, which would win over a variable of the platform.
    assert_eq!(plan.run, ["forkful.config.json", "--only", "api", "--env", "PORT=8088"]);
    assert_eq!(plan.port, Some(Figure::new(8088, "--port")));
    assert_eq!(plan.env["GREETING"], Figure::new("hello".to_owned(), "--env"));
    assert_eq!(plan.env["PORT"].source, "--port; also in the command, because the configuration sets it");
    request.port = None;
    request.env.insert("PORT".to_owned(), "1234".to_owned());
    let plan = planned(&spec, &request, None);
    assert_eq!(plan.port, Some(Figure::new(1234, "--env PORT")));
    assert_eq!(plan.run.last().unwrap(), "PORT=1234");
    let two = refused(|_, request| {
        request.port = Some(80);
        request.env.insert("PORT".to_owned(), "1234".to_owned());
    });
    assert_eq!(two, "--port 80 and --env PORT=1234 give the app two ports");
}

#[test]
fn containers_are_told_that_limits_of_the_configuration_prevent_the_start() {
    let (mut spec, request) = app();
    let noted = |spec: &AppSpec| {
        let plan = planned(spec, &request, None);
        let host = crate::systemd::Host {
            program: "/bin/forkful".into(),
            folder: "/srv".into(),
            user: None,
            path: String::new(),
        };
        [
            crate::kubernetes::manifest(&plan).unwrap(),
            crate::nomad::job(&plan).unwrap(),
            crate::quadlet::container(&plan).unwrap(),
            crate::compose::file(std::slice::from_ref(&plan)).unwrap(),
            crate::systemd::unit(&plan, &host),
        ]
        .map(|text| text.contains(OWN_LIMITS))
    };
    assert_eq!(noted(&spec), [false; 5]);
    spec.limits.memory_bytes = Some(1 << 30);
    assert_eq!(noted(&spec), [true, true, true, true, false], "systemd lets the service create groups");
}
