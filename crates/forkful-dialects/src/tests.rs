//! Properties of all dialects.

use forkful_load::report::{Level, Trust};

use super::TOOLS;
use super::testing::{parsed, report};

/// A command line of each tool.
fn command_lines() -> [(&'static str, &'static [&'static str]); 5] {
    [
        ("ab", &["-n 2000 -c 10 http://h/", "-l -n 2000 -c 10 -k http://h/"]),
        ("siege", &["-b -c 10 -r 200 http://h/"]),
        ("loadtest", &["-n 2000 -c 10 http://h/"]),
        ("autocannon", &["-a 2000 -c 10 http://h/", "-d 2 -c 10 http://h/"]),
        ("wrk", &["-t 2 -c 10 -d 2s http://h/"]),
    ]
}

#[test]
fn a_run_of_errors_is_trusted_in_no_dialect() {
    assert_eq!(command_lines().map(|(name, _)| name), TOOLS.each_ref().map(|tool| tool.name));
    for (tool, (dialect, lines)) in TOOLS.iter().zip(command_lines()) {
        for line in lines {
            let plan = parsed(tool, line).unwrap().plan().unwrap();
            let level = |statuses: &[(u16, u64)]| {
                let mut report = report();
                report.statuses = statuses.to_vec();
                let trust = Trust::of(&plan, &report);
                let check = trust.check("errors").unwrap();
                (check.level(), trust.trustworthy(), trust.sentence())
            };
            for statuses in [&[(500, 2_000)][..], &[(200, 900), (503, 1_100)], &[(404, 2_000)]] {
                let (errors, trustworthy, sentence) = level(statuses);
                assert_eq!((errors, trustworthy), (Level::Fault, false), "{dialect} {line}: {statuses:?}");
                assert!(sentence.starts_with("not trustworthy"), "{dialect} {line}: {sentence}");
            }
            assert_eq!(level(&[(200, 2_000)]).0, Level::Fine, "{dialect} {line}");
        }
    }
}
