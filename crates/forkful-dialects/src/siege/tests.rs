//! siege's options and quirks, and its exact report.

use insta::assert_snapshot;

use super::*;
use crate::Dialect;
use crate::testing::{parsed, parsed_with, report};

const URL: &str = "http://127.0.0.1:8000/fast";

fn invocation(line: &str) -> Box<dyn Dialect> {
    parsed(&TOOL, line).unwrap()
}

#[test]
fn times_have_units_and_are_minutes_without_one() {
    for (text, seconds) in [("-t20s", 20), ("-t 20S", 20), ("-t2", 120), ("--time=1H", 3_600)] {
        let plan = invocation(&format!("-c50 {text} {URL}")).plan().unwrap();
        assert_eq!(plan.stop, Stop::Duration(Duration::from_secs(seconds)), "{text}");
        assert_eq!((plan.connections, plan.reuse), (50, Reuse::Never));
    }
}

#[test]
fn repetitions_are_for_each_user_and_delays_random() {
    let plan = invocation(&format!("-c 5 -r 20 -d 1.5 {URL}")).plan().unwrap();
    assert_eq!(plan.stop, Stop::Requests(100));
    assert_eq!(plan.load, Load::Closed { think: Think::UpTo(Duration::from_millis(1_500)) });
}

#[test]
fn files_of_urls_have_bodies_and_variables() {
    let files = [
        ("urls.txt", "H=127.0.0.1:8000\nhttp://$(H)/a\nhttp://$(H)/b POST x=1\nhttp://$(H)/c PUT <body\n"),
        ("body", "{}"),
    ];
    let plan = parsed_with(&TOOL, "-i -f urls.txt -r 1", &files, &[]).unwrap().plan().unwrap();
    let told: Vec<String> = plan
        .requests
        .iter()
        .map(|request| {
            format!("{} {} {}", request.method, request.url, String::from_utf8_lossy(&request.body))
        })
        .collect();
    assert_eq!(
        told,
        [
            "GET http://127.0.0.1:8000/a ",
            "POST http://127.0.0.1:8000/b x=1",
            "PUT http://127.0.0.1:8000/c {}"
        ]
    );
    assert_eq!(plan.order, Order::Weighted { seed: 1 });
    let plan = parsed_with(&TOOL, "-f urls.txt -c 5 --reps=once", &files, &[]).unwrap().plan().unwrap();
    assert_eq!(plan.stop, Stop::Requests(15), "each of three URLs once for each user");
}

#[test]
fn several_blanks_may_stand_between_the_parts_of_a_line() {
    let files = [("urls.txt", "http://h/a \t POST   x=1  y\nhttp://h/b  \nhttp://h/c   PUT\n")];
    let plan = parsed_with(&TOOL, "-f urls.txt -r 1", &files, &[]).unwrap().plan().unwrap();
    let told: Vec<_> =
        plan.requests.iter().map(|request| (request.method.as_str(), request.body.as_slice())).collect();
    assert_eq!(told, [("POST", &b"x=1  y"[..]), ("GET", b""), ("PUT", b"")]);
}

#[test]
fn a_login_of_the_configuration_file_may_name_a_realm() {
    for login in ["ann:pass:realm", "ann:pass", "ann:pass:a:b"] {
        let file = format!("login = {login}\nreps = once\n");
        let files = [("conf", file.as_str())];
        let plan = parsed_with(&TOOL, &format!("-R conf {URL}"), &files, &[]).unwrap().plan().unwrap();
        assert_eq!(plan.requests[0].basic_auth, Some(BasicAuth::of("ann:pass")), "{login}");
        assert_eq!(plan.stop, Stop::Requests(25));
    }
}

#[test]
fn its_configuration_file_is_heeded_and_flags_go_first() {
    let file = "# comment\njson_output = true\nconcurrent = 7\nconnection = keep-alive\nlimit = 10\nuser-agent = me\n";
    let files = [("/srv/ann/.siege/siege.conf", file)];
    let invocation = parsed_with(&TOOL, &format!("-r1 -c 8 {URL}"), &files, &[("HOME", "/srv/ann")]).unwrap();
    let plan = invocation.plan().unwrap();
    assert_eq!((plan.connections, plan.reuse), (8, Reuse::Always));
    assert!(plan.requests[0].headers.contains(&("User-Agent".to_owned(), "me".to_owned())));
    assert!(invocation.report(&report()).stdout.starts_with("{\t\"transactions\":"));
    let missing = parsed(&TOOL, &format!("-R nofile {URL}")).unwrap_err();
    assert!(missing.stderr.starts_with("siege: cannot read nofile"));
}

#[test]
fn faults_are_told() {
    let faults = [
        ("", ""),
        ("--foo http://h/", "siege: unrecognized option '--foo'"),
        ("-c x http://h/", "siege: --concurrent: `x` is no number"),
        ("-r twice http://h/", "siege: --reps: `twice` is neither a number nor `once`"),
        ("-c 0 http://h/", "siege: --concurrent must be 1 or more"),
        ("-t 5X http://h/", "siege: `5X` is no time like 30S, 2M or 1H"),
        ("-g http://h/", "siege: --get is not supported by `forkful bench --as siege`"),
    ];
    for (line, what) in faults {
        let printed = parsed(&TOOL, line).unwrap_err();
        assert_eq!((printed.stderr.trim_end(), printed.exit), (what, 1), "{line}");
    }
}

#[test]
fn the_report_has_siege_s_lines() {
    let invocation = invocation(&format!("-c 10 -t 2S {URL}"));
    let printed = invocation.report(&report());
    assert_eq!(printed.stdout, "");
    assert_snapshot!(format!("{}{}", invocation.opening().stderr, printed.stderr));
}

#[test]
fn the_json_has_siege_s_tabs() {
    assert_snapshot!(invocation(&format!("-j -r 1 {URL}")).report(&report()).stdout);
}

#[test]
fn the_log_gets_a_line_and_its_heading_once() {
    let invocation = invocation(&format!("--log=s.log -m mark -r 1 {URL}"));
    assert_eq!(invocation.log(), Some("s.log".as_ref()));
    let lines = invocation.log_lines(&report(), true);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("      Date & Time,  Trans,"));
    assert_eq!(lines[1], "**** mark ****");
    assert!(lines[2].ends_with(",   1600,       2.00,           0,       0.01,      800.00,        0.01,       10.25,    1600,     400"), "{}", lines[2]);
    assert_eq!(invocation.log_lines(&report(), false).lines().count(), 2);
}
