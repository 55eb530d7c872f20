//! Which incidents are told, and where.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::alerts::{AlertBook, AlertKind, AlertPolicy, NotSent, UnderWay};
use forkful_core::incidents::IncidentKind;

fn at(secs: u64) -> Time {
    Time::default() + Duration::from_secs(secs)
}

/// The decision, with nothing under way.
fn step(book: &mut AlertBook, of: (&str, IncidentKind), alerts: &AlertPolicy, now: Time) -> Option<u64> {
    let policy = AlertPolicy { command: vec!["notify".to_owned()], ..alerts.clone() };
    book.step(of, &policy, &mut UnderWay::default(), now).ok()
}

#[test]
fn a_burst_is_told_once_and_counted() {
    let alerts = AlertPolicy { every: Duration::from_secs(60), ..AlertPolicy::of_all_faults() };
    let mut book = AlertBook::default();
    let mut step = |app, kind, secs| step(&mut book, (app, kind), &alerts, at(secs));
    assert_eq!(step("api", IncidentKind::Crash, 0), Some(0));
    for second in 1..20 {
        assert_eq!(step("api", IncidentKind::Crash, second), None);
    }
    assert_eq!(step("api", IncidentKind::CrashLoop, 20), Some(0), "another kind");
    assert_eq!(step("web", IncidentKind::Crash, 20), Some(0), "another app");
    assert_eq!(step("api", IncidentKind::Crash, 59), None);
    assert_eq!(step("api", IncidentKind::Crash, 60), Some(20));
    assert_eq!(step("api", IncidentKind::Crash, 120), Some(0));
}

#[test]
fn an_alert_that_reached_nobody_is_counted_in_the_next_one_which_comes_sooner() {
    let alerts = AlertPolicy::of_all_faults();
    let mut book = AlertBook::default();
    let crash = IncidentKind::Crash;
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(0)), Some(0));
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(3)), None);
    book.undelivered("api", crash, at(0), 0);
    assert_eq!(
        step(&mut book, ("api", crash), &alerts, at(5)),
        None,
        "a burst does not ask a dead receiver for each of its crashes"
    );
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(10)), Some(3));
    // The next one is lost, too, after a newer one was sent.
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(310)), Some(0));
    book.undelivered("api", crash, at(10), 3);
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(320)), None, "the newer one may have arrived");
    assert_eq!(step(&mut book, ("api", crash), &alerts, at(610)), Some(5));
}

#[test]
fn another_app_of_the_same_name_begins_anew() {
    let alerts = AlertPolicy::of_all_faults();
    let mut book = AlertBook::default();
    assert_eq!(step(&mut book, ("api", IncidentKind::Crash), &alerts, at(0)), Some(0));
    assert_eq!(step(&mut book, ("api", IncidentKind::Crash), &alerts, at(1)), None);
    book.forget("api");
    assert_eq!(step(&mut book, ("api", IncidentKind::Crash), &alerts, at(2)), Some(0));
}

#[test]
fn kinds_that_nobody_wants_are_neither_told_nor_counted() {
    let alerts = AlertPolicy {
        on: [AlertKind::Known(IncidentKind::CrashLoop)].into(),
        ..AlertPolicy::of_all_faults()
    };
    let mut book = AlertBook::default();
    assert_eq!(step(&mut book, ("api", IncidentKind::Crash), &alerts, at(0)), None);
    assert_eq!(step(&mut book, ("api", IncidentKind::CrashLoop), &alerts, at(0)), Some(0));
}

#[test]
fn ever_new_names_leave_a_bounded_book() {
    let alerts = AlertPolicy::of_all_faults();
    let mut book = AlertBook::default();
    for number in 0..5000 {
        assert_eq!(step(&mut book, (&format!("app-{number}"), IncidentKind::Crash), &alerts, at(0)), Some(0));
    }
    assert!(format!("{book:?}").matches("Told").count() <= 1025);
}

#[test]
fn a_webhook_is_encrypted_or_stays_on_the_machine() {
    for fine in [
        "https://hooks.example.com/services/a?b=c",
        "http://127.0.0.1:8080/x",
        "http://localhost/",
        "http://[::1]:9/x",
    ] {
        assert!(AlertPolicy::is_webhook(fine), "{fine}");
    }
    for bad in [
        "http://example.com/",
        "http://127.0.0.1@example.com/",
        "http://127.0.0.1.example.com/",
        "ftp://localhost/",
        "https://",
        "https://user:word@example.com/",
        "https://a b/",
        "https://127.0.0.1:99999/a",
        "https://hooks.example.com:0/a",
        "http://[::1:9/x",
        "https://hooks.example.com/[redacted]",
        "/notify.sh",
    ] {
        assert!(!AlertPolicy::is_webhook(bad), "{bad}");
    }
    for (url, shown) in [
        ("https://hooks.example.com/services/secret", "https://hooks.example.com/[redacted]"),
        ("https://hooks.example.com?key=secret", "https://hooks.example.com/[redacted]"),
        ("https://user:secret@hooks.example.com:8443/", "https://hooks.example.com:8443/[redacted]"),
        ("https://user:sec/ret@hooks.example.com/", "https://[redacted]"),
        ("https://hooks.example.com/a@secret", "https://hooks.example.com/[redacted]"),
        ("http://[::1]:9/secret", "http://[::1]:9/[redacted]"),
        ("hooks.example.com/secret", "[redacted]"),
    ] {
        assert_eq!(AlertPolicy::shown_webhook(url), shown);
    }
}

#[test]
fn an_app_whose_alerts_hang_takes_no_room_from_others() {
    let mut under_way = UnderWay::default();
    let begun = (0..100).filter(|_| under_way.begin("hangs", 1)).count();
    assert_eq!(begun, UnderWay::OF_APP_MAX);
    assert!(under_way.begin("api", 2));
    under_way.end("hangs");
    assert!(!under_way.begin("hangs", 2), "a webhook and a command need room for both");
    assert!(under_way.begin("hangs", 1));
    // However many hang, each app has its first alert.
    for number in 0..20 {
        while under_way.begin(&format!("hangs-{number}"), 1) {}
    }
    assert!(!under_way.begin("api", 1));
    assert!(under_way.begin("web", 2));
    for _ in 0..2 {
        under_way.end("web");
    }
    assert_eq!(under_way.of("web"), 0);
    assert!(format!("{under_way:?}").len() < 2000 && !format!("{under_way:?}").contains("web"));
}

#[test]
fn an_alert_without_room_is_counted_and_one_that_nobody_wants_needs_none() {
    let alerts = AlertPolicy {
        on: [AlertKind::Known(IncidentKind::CrashLoop), AlertKind::Known(IncidentKind::Crash)].into(),
        command: vec!["notify".to_owned()],
        ..AlertPolicy::of_all_faults()
    };
    let (mut book, mut under_way) = (AlertBook::default(), UnderWay::default());
    while under_way.begin("api", 1) {}
    let mut step =
        |kind, secs, under_way: &mut UnderWay| book.step(("api", kind), &alerts, under_way, at(secs));
    let no_room = Err(NotSent::NoRoom(UnderWay::OF_APP_MAX));
    assert_eq!(step(IncidentKind::Unhealthy, 0, &mut under_way), Err(NotSent::Unwanted));
    assert_eq!(step(IncidentKind::Crash, 0, &mut under_way), no_room);
    assert_eq!(step(IncidentKind::Crash, 1, &mut under_way), no_room, "it has started no pause");
    under_way.end("api");
    assert_eq!(step(IncidentKind::Crash, 2, &mut under_way), Ok(2), "the two are counted");
    assert_eq!(step(IncidentKind::Crash, 3, &mut under_way), Err(NotSent::TooSoon), "and need no room");
    assert_eq!(step(IncidentKind::CrashLoop, 3, &mut under_way), no_room);
}
