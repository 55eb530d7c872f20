//! When a reload by a configuration file leaves a running app alone.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use forkful_core::spec::{AppName, AppSpec, Mode, RunningSince, lowest_port, may_stay, start_by_clock};

fn spec() -> AppSpec {
    let mut spec = AppSpec::new(AppName::new("api").unwrap());
    spec.instances = 2;
    spec.mode = Mode::Cluster;
    spec.launch.env.insert("PORT".to_owned(), "3000".to_owned());
    spec.launch.env.insert("SHLVL".to_owned(), "1".to_owned());
    spec
}

const SINCE: RunningSince = RunningSince { oldest_start_ms: Some(2_000), code_changed_ms: Some(1_000) };

#[test]
fn an_app_stays_when_neither_its_definition_nor_its_code_has_changed() {
    let mut same = spec();
    same.instances = 4;
    same.launch.env.insert("SHLVL".to_owned(), "2".to_owned());
    same.launch.env_sources.inherited.insert("TERM".to_owned());
    same.origins.insert("port".to_owned(), "app.config.js:9".to_owned());
    assert!(may_stay(&spec(), &same, SINCE));
}

#[test]
fn a_clock_that_was_set_back_does_not_hide_new_code() {
    let hour = 3_600_000;
    // Started two hours ahead of the true time; half an hour later the clock is right.
    let started = start_by_clock(7 * hour, hour / 2, 5 * hour + hour / 2);
    assert_eq!(started, 5 * hour);
    let since = RunningSince { oldest_start_ms: Some(started), code_changed_ms: Some(5 * hour + 1) };
    assert!(!may_stay(&spec(), &spec(), since));
    assert_eq!(start_by_clock(5 * hour, hour, 6 * hour + 20), 5 * hour, "no clock is exact");
    assert_eq!(start_by_clock(5 * hour, hour, 9 * hour), 5 * hour, "set forward, or the machine slept");
}

#[test]
fn any_other_difference_is_a_change() {
    let changes: [fn(&mut AppSpec); 4] = [
        |spec| drop(spec.launch.env.insert("PORT".to_owned(), "3001".to_owned())),
        |spec| spec.launch.args.push("--verbose".to_owned()),
        |spec| spec.stop.whole_tree = false,
        |spec| spec.agent = false,
    ];
    for change in changes {
        let mut after = spec();
        change(&mut after);
        assert!(!may_stay(&spec(), &after, SINCE), "{after:?}");
    }
}

#[test]
fn what_is_not_known_counts_as_changed() {
    let stays = |oldest_start_ms, code_changed_ms| {
        may_stay(&spec(), &spec(), RunningSince { oldest_start_ms, code_changed_ms })
    };
    assert!(!stays(None, Some(1_000)), "a worker does not serve");
    assert!(!stays(Some(2_000), None), "nobody knows when the code changed");
    assert!(!stays(Some(2_000), Some(2_000)), "code that changed in the moment of the start may be newer");
    assert!(!stays(Some(2_000), Some(3_000)));
}

#[test]
fn only_an_app_of_another_user_is_kept_from_low_ports_until_they_are_allowed() {
    let allowed = AppSpec { low_ports: true, ..spec() };
    assert_eq!(lowest_port(&spec(), true, 1024), 1024);
    assert_eq!(lowest_port(&spec(), true, 0), 0, "a system where every user may bind every port");
    assert_eq!(lowest_port(&allowed, true, 1024), 0);
    assert_eq!(lowest_port(&spec(), false, 1024), 0, "the kernel judges the daemon's own user");
}
