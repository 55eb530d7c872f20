//! `forkful bench --as …` compared with the real tools, if installed: line by line with masked numbers, and
//! the counts that do not depend on time by value. Without the tools, snapshots in `forkful-load` check the
//! layouts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::http::{Server, WAIT};
use crate::sandbox::{Sandbox, output_within};

/// After this time a real tool is hung. siege does so: at the end of a timed run it cancels its threads
/// wherever they are, also where they hold a lock.
const HUNG: Duration = Duration::from_secs(60);
/// How often a tool is run that hangs.
const RUNS_MAX: usize = 3;

/// Both outputs of a tool's run; `None` with a message if it is not installed, or always hangs. Tools from npm
/// may be those of the benchmarks (`npm ci` in bench).
fn real(tool: &str, args: &[&str], sandbox: &Sandbox) -> Option<Output> {
    let of_npm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/node_modules/.bin").join(tool);
    let program = if of_npm.exists() { of_npm } else { PathBuf::from(tool) };
    let mut why = "hangs";
    for _ in 0..RUNS_MAX {
        let mut command = Command::new(&program);
        command.args(args).current_dir(sandbox.work()).stdin(Stdio::null());
        match output_within(&mut command, HUNG) {
            Ok(Some(output)) => return Some(output),
            Ok(None) => {}
            Err(_) => {
                why = "is not installed";
                break;
            }
        }
    }
    // Bypasses the test harness, which hides the output of passing tests.
    let _ = writeln!(std::io::stderr(), "\n!! {tool} {why}: NOTHING stands beside `bench --as {tool}`");
    None
}

fn ours(tool: &str, args: &[&str], sandbox: &Sandbox) -> Output {
    sandbox.run(&[&["bench", "--as", tool, "--"][..], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines with every number as `N`, units that depend on its size as `U`, and runs of spaces and of table
/// borders as one.
fn masked(text: &str) -> Vec<String> {
    text.lines().map(mask).filter(|line| !line.is_empty()).collect()
}

fn mask(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let word: String = word.chars().map(|c| if c == '─' { '-' } else { c }).collect();
        let mut out = String::new();
        for c in word.chars() {
            let c = if c.is_ascii_digit() { 'N' } else { c };
            let is_part = matches!(c, '.' | ',') && out.ends_with('N');
            if !(is_part || (c == 'N' && out.ends_with('N')) || (c == '-' && out.ends_with('-'))) {
                out.push(c);
            }
        }
        for unit in ["Nus", "Nms", "Ns", "Nm", "Nk", "NM", "NKB", "NMB", "NB", "NGB"] {
            if out == unit {
                "N".clone_into(&mut out);
            }
        }
        if !matches!(out.as_str(), "kB" | "MB" | "B" | "GB") {
            words.push(out);
        }
    }
    words.join(" ")
}

/// The text after a label.
fn field(text: &str, label: &str) -> String {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label:?} in {text}")).trim().to_owned()
}

#[test]
fn as_ab_every_line_and_every_count_is_ab_s() {
    for (flags, path) in [
        (&["-n", "300", "-c", "10"][..], "/"),
        (&["-n", "200", "-c", "10", "-k"], "/"),
        (&["-n", "120", "-c", "4", "-l"], "/pid"),
        (&["-n", "100", "-c", "5"], "/error"),
        (&["-S", "-n", "50"], "/"),
        (&["-d", "-q", "-n", "50"], "/"),
        (&["-p", "body", "-T", "text/plain", "-n", "40", "-c", "4"], "/echo"),
    ] {
        let (sandbox, server) = (Sandbox::new(), Server::start());
        sandbox.write("body", "x=1");
        let url = server.url(path);
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real("ab", &args, &sandbox) else { return };
        let before = server.answered();
        let ours = ours("ab", &args, &sandbox);
        let (theirs_text, ours_text) = (text(&theirs.stdout), text(&ours.stdout));
        // Without the three lines of the banner, and ab's warning about its own spread.
        let report = |text: &str| -> Vec<String> {
            let lines = masked(text).into_iter().skip(3);
            lines
                .filter(|line| {
                    !["WARNING", "ERROR", "These", "deviation apart"].iter().any(|w| line.starts_with(w))
                })
                .collect()
        };
        assert_eq!(report(&ours_text), report(&theirs_text), "{flags:?} {path}\n{ours_text}");
        let labels = [
            "Document Length:",
            "Concurrency Level:",
            "Complete requests:",
            "Failed requests:",
            "HTML transferred:",
        ];
        for label in labels {
            if label == "HTML transferred:" && path != "/" {
                continue;
            }
            assert_eq!(field(&ours_text, label), field(&theirs_text, label), "{flags:?} {path}");
        }
        let asked: u64 = field(&ours_text, "Complete requests:").parse().unwrap();
        assert_eq!(server.answered() - before, asked, "{flags:?}");
        let told: Vec<String> = masked(&text(&theirs.stderr));
        assert_eq!(masked(&text(&ours.stderr))[..told.len()], told, "{flags:?}: progress");
    }
}

#[test]
fn as_ab_a_body_that_changes_is_no_failure_and_a_note_says_why() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let output = ours("ab", &["-n", "120", "-c", "4", &server.url("/pid")], &sandbox);
    assert_eq!(field(&text(&output.stdout), "Failed requests:"), "0");
    let notes = text(&output.stderr);
    assert!(notes.contains("ab would have counted 80 of these answers as failed (Length)"), "{notes}");
}

#[test]
fn as_wrk_every_line_is_wrk_s() {
    for (flags, path) in
        [(&["-t2", "-c10", "-d1s", "--latency"][..], "/"), (&["-t1", "-c3", "-d1"], "/error")]
    {
        let (sandbox, server) = (Sandbox::new(), Server::start());
        let url = server.url(path);
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real("wrk", &args, &sandbox) else { return };
        let ours = ours("wrk", &args, &sandbox);
        let (theirs, ours) = (text(&theirs.stdout), text(&ours.stdout));
        assert_eq!(masked(&ours), masked(&theirs), "{flags:?} {path}\n{ours}\n{theirs}");
    }
}

#[test]
fn as_siege_every_line_and_every_count_is_siege_s() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    sandbox.write("rc", "json_output = false\nquiet = false\nverbose = false\nparser = false\ncolor = off\n");
    for (flags, path) in [
        (&["-R", "rc", "-c", "4", "-r", "10", "-b"][..], "/"),
        (&["-R", "rc", "-c", "5", "-r", "20", "-b"], "/error"),
        (&["-R", "rc", "-j", "-c", "4", "-r", "10", "-b"], "/"),
        (&["-R", "rc", "-c", "2", "-t", "1S", "-b"], "/"),
    ] {
        let url = server.url(path);
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real("siege", &args, &sandbox) else { return };
        let ours = ours("siege", &args, &sandbox);
        let is_json = flags.contains(&"-j");
        let pick = |output: &Output| {
            let text = text(if is_json { &output.stdout } else { &output.stderr });
            // Without siege's banner, its lines about single hits, and our notes.
            let kept: Vec<&str> = text
                .lines()
                .filter(|line| {
                    !line.starts_with("** ") && !line.contains("==>") && !line.starts_with("note:")
                })
                .collect();
            kept.join("\n")
        };
        let (theirs, ours) = (pick(&theirs), pick(&ours));
        let ours = ours.split("warning:").next().unwrap_or_default().to_owned();
        assert_eq!(masked(&ours), masked(&theirs), "{flags:?}\n{ours}\n{theirs}");
        if !is_json && !flags.contains(&"-t") && path == "/" {
            for label in
                ["Transactions:", "Availability:", "Successful transactions:", "Failed transactions:"]
            {
                assert_eq!(field(&ours, label), field(&theirs, label), "{flags:?}");
            }
        }
    }
}

#[test]
fn as_loadtest_every_line_and_every_count_is_loadtest_s() {
    for (flags, path) in [
        (&["-n", "300", "-c", "10", "-k", "--cores", "1"][..], "/"),
        (&["-n", "100", "-c", "5", "--cores", "1"], "/"),
        (&["-t", "1", "-c", "2", "--cores", "1"], "/"),
    ] {
        let (sandbox, server) = (Sandbox::new(), Server::start());
        let url = server.url(path);
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real("loadtest", &args, &sandbox) else { return };
        let ours = ours("loadtest", &args, &sandbox);
        let (theirs, ours) = (text(&theirs.stdout), text(&ours.stdout));
        // A run of more than 5 s has a progress line.
        let lines = |text: &str| {
            let mut lines = masked(text);
            lines.retain(|line| !line.starts_with("Requests: "));
            lines
        };
        assert_eq!(lines(&ours), lines(&theirs), "{flags:?}\n{ours}\n{theirs}");
        for label in ["Target URL:", "Concurrent clients:", "Agent:", "Total errors:"] {
            assert_eq!(field(&ours, label), field(&theirs, label), "{flags:?}");
        }
    }
}

#[test]
fn as_autocannon_every_line_is_autocannon_s() {
    for (flags, path) in [
        (&["-c", "5", "-a", "200", "-l", "--renderStatusCodes"][..], "/error"),
        (&["-c", "4", "-d", "2", "-p", "2"], "/"),
    ] {
        let (sandbox, server) = (Sandbox::new(), Server::start());
        let url = server.url(path);
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real("autocannon", &args, &sandbox) else { return };
        let ours = ours("autocannon", &args, &sandbox);
        let report = |output: &Output| {
            let text = text(&output.stderr);
            let end = ["note:", "warning:"].into_iter().filter_map(|word| text.find(word)).min();
            let end = end.unwrap_or(text.len());
            text[..end].to_owned()
        };
        let (theirs, ours) = (report(&theirs), report(&ours));
        assert_eq!(masked(&ours), masked(&theirs), "{flags:?}\n{ours}\n{theirs}");
    }
}

/// Number `nth` after a label, in seconds if it has a unit of time.
fn quantity(text: &str, label: &str, nth: usize) -> f64 {
    let line =
        text.lines().map(|line| line.trim_start_matches([' ', '│'])).find(|line| line.starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no {label:?} in {text}"));
    let words: Vec<&str> =
        line[label.len()..].split([' ', '│', '[', ']']).filter(|word| !word.is_empty()).collect();
    let number = |word: &str| {
        let unit = word.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).unwrap_or(word.len());
        word[..unit].replace(',', "").parse::<f64>().ok().map(|number| (number, word[unit..].to_owned()))
    };
    let mut numbers = words.iter().enumerate().filter_map(|(at, word)| number(word).map(|found| (at, found)));
    let (at, (value, unit)) = numbers.nth(nth).unwrap_or_else(|| panic!("no number {nth} in {line:?}"));
    let unit = if unit.is_empty() { words.get(at + 1).copied().unwrap_or_default() } else { &unit };
    value
        * match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            _ => 1.0,
        }
}

#[test]
fn times_and_rates_are_the_tools_own_with_their_units() {
    // ab's percentiles have no unit; they are milliseconds.
    let (wait, rate) = (WAIT.as_secs_f64(), 2.0 / WAIT.as_secs_f64());
    let table: [(&str, &[&str], &[(&str, usize, f64)]); 5] = [
        (
            "ab",
            &["-q", "-n", "20", "-c", "2"],
            &[("Time per request:", 0, wait), ("50%", 0, wait * 1e3), ("Requests per second:", 0, rate)],
        ),
        (
            "wrk",
            &["-t1", "-c2", "-d2s", "--latency"],
            &[("Latency  ", 0, wait), ("50%", 0, wait), ("Requests/sec:", 0, rate)],
        ),
        (
            "siege",
            &["-R", "rc", "-b", "-c", "2", "-r", "10"],
            &[("Response time:", 0, wait), ("Transaction rate:", 0, rate)],
        ),
        (
            "loadtest",
            &["-n", "20", "-c", "2", "-k", "--cores", "1"],
            &[("Mean latency:", 0, wait), ("50%", 0, wait), ("Effective rps:", 0, rate)],
        ),
        (
            "autocannon",
            &["-c", "2", "-d", "2"],
            &[("Latency", 1, wait), ("Latency", 4, wait), ("Req/Sec", 4, rate)],
        ),
    ];
    let (sandbox, server) = (Sandbox::new(), Server::start());
    sandbox.write("rc", "json_output = false\nquiet = false\nverbose = false\nparser = false\ncolor = off\n");
    let url = server.url("/wait");
    for (tool, flags, fields) in table {
        let args = [flags, &[url.as_str()]].concat();
        let Some(theirs) = real(tool, &args, &sandbox) else { continue };
        let both = |output: &Output| format!("{}\n{}", text(&output.stdout), text(&output.stderr));
        let (theirs, ours) = (both(&theirs), both(&ours(tool, &args, &sandbox)));
        for (label, nth, limit) in fields {
            let [theirs_is, ours_is] = [&theirs, &ours].map(|report| quantity(report, label, *nth));
            let told = format!("{tool} {label:?}: {ours_is}, and {theirs_is} of its own\n{ours}\n{theirs}");
            // No answer arrives before the server's delay is over, so times have a lower bound and rates an
            // upper bound on every machine. A busy machine changes the other side, but less than a wrong unit
            // would.
            for found in [ours_is, theirs_is] {
                let slowness =
                    if (limit - rate).abs() < f64::EPSILON { limit / found } else { found / limit };
                assert!((0.9..=100.0).contains(&slowness), "{limit} at best: {told}");
            }
        }
    }
}

#[test]
fn a_tool_s_usage_goes_where_the_tool_sends_it() {
    let sandbox = Sandbox::new();
    for (tool, args, code) in [
        ("ab", &["-n", "1"][..], 22),
        ("wrk", &[], 1),
        ("siege", &["--foo"], 1),
        ("loadtest", &["--foo"], 255),
        ("autocannon", &["-c"], 1),
    ] {
        assert_eq!(ours(tool, args, &sandbox).status.code(), Some(code), "{tool}");
    }
}

#[test]
fn a_run_of_error_pages_is_not_trusted_whosever_flags_say_the_load() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/broken");
    for tool in ["ab", "siege", "loadtest", "autocannon", "wrk"] {
        let ran = ours(tool, &[load_of(tool), &[url.as_str()]].concat(), &sandbox);
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(6), "{tool}: {told}");
        assert!(told.contains("NOT TRUSTWORTHY: "), "{tool}: {told}");
        assert!(told.contains("of the answers were errors (500)"), "{tool}: {told}");
    }
}

/// A short load in a tool's flags.
fn load_of(tool: &str) -> &'static [&'static str] {
    match tool {
        "ab" => &["-n", "1500", "-c", "3", "-k"],
        "siege" => &["-c", "3", "-r", "500", "-b"],
        "loadtest" => &["-n", "1500", "-c", "3", "-k"],
        "autocannon" => &["-a", "1500", "-c", "3"],
        _ => &["-t", "1", "-c", "3", "-d", "1s"],
    }
}

#[test]
fn what_is_expected_is_judged_whosever_flags_say_the_load() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/error");
    for tool in ["ab", "siege", "loadtest", "autocannon", "wrk"] {
        let run = |expected: &[&str]| {
            let ours = [&["bench", "--as", tool, "--expect"][..], expected, &["--"]].concat();
            sandbox.run(&[&ours, load_of(tool), &[url.as_str()]].concat())
        };
        let missed = run(&["5xx<1%", "p50<60s"]);
        let told = text(&missed.stderr);
        // An untrustworthy result, as on a busy machine, is reported before a missed expectation.
        let untrusted = told.contains("NOT TRUSTWORTHY");
        assert_eq!(missed.status.code(), Some(if untrusted { 6 } else { 5 }), "{tool}: {told}");
        // wrk has a duration but no number of requests.
        let missed =
            if tool == "wrk" { "warning: 5xx<1% missed (" } else { "warning: 5xx<1% missed (20.000 %)" };
        assert!(told.contains(missed), "{tool}: {told}");
        assert!(told.contains("note: p50<60s kept ("), "{tool}: {told}");
        let kept = run(&["5xx<=30%"]);
        let told = text(&kept.stderr);
        let untrusted = told.contains("NOT TRUSTWORTHY");
        assert_eq!(kept.status.code(), Some(if untrusted { 6 } else { 0 }), "{tool}: {told}");
    }
}

#[test]
fn documents_are_written_whosever_flags_say_the_load() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    let tool = ["--", "-q", "-n", "300", "-c", "3", "-A", "me:secret", &url];
    let files = ["bench", "--as", "ab", "--csv", "r.csv", "--hdr", "r.hdr", "--html", "r.html"];
    let output = sandbox.run(&[&files[..], &tool].concat());
    assert_eq!(field(&text(&output.stdout), "Complete requests:"), "300", "the tool's report is there, too");
    let read = |name: &str| fs_err::read_to_string(sandbox.work().join(name)).unwrap();
    let rows = read("r.csv");
    let completed = rows.lines().skip(1).map(|row| row.split(',').nth(2).unwrap().parse::<u64>().unwrap());
    assert_eq!(completed.sum::<u64>(), 300);
    assert!(read("r.hdr").contains("#[Max     =") && read("r.html").contains(&format!("GET {url}")));
    assert!(!read("r.html").contains("secret"));
    let json =
        sandbox.run(&[&["bench", "--as", "ab", "--json", "--expect", "requests>=300"][..], &tool].concat());
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (
            &document["requests"]["completed"],
            &document["plan"]["connections"],
            &document["thresholds"][0]["kept"]
        ),
        (&300.into(), &3.into(), &true.into())
    );
}
