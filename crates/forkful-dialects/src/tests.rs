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
fn numbers_of_any_size_are_refused_or_taken() {
    let report = report();
    for tool in &TOOLS {
        let names = [tool.options.values, tool.options.attached].map(str::split_whitespace);
        let names = names.into_iter().flatten().flat_map(|names| names.split('|'));
        let options = names.map(|name| if name.len() > 1 { format!("--{name}") } else { format!("-{name}") });
        for option in options {
            for number in ["18446744073709551615", "9223372036854775807", "4294967296", "1e300", "1e20", "0"]
            {
                for line in [
                    format!("{option} {number} http://h/"),
                    format!("{option} [ -c 1 -d {number} ] http://h/"),
                ] {
                    let Ok(dialect) = parsed(tool, &line) else { continue };
                    let _ = (dialect.plan(), dialect.opening());
                    let _ = (dialect.footnotes(&report), dialect.report(&report));
                }
            }
        }
    }
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
