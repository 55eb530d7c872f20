//! Shared by the dialects' tests: surroundings from a table of files and variables, and synthetic reports.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use forkful_load::{FirstResponse, Report, Window};

use crate::{Dialect, Printed, Surroundings, Tool};

/// Parses a command line, split at spaces, with some files and variables.
pub(super) fn parsed_with(
    tool: &Tool,
    line: &str,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> Result<Box<dyn Dialect>, Printed> {
    read_with(line, files, variables, tool.parse)
}

/// The same without files and variables.
pub(super) fn parsed(tool: &Tool, line: &str) -> Result<Box<dyn Dialect>, Printed> {
    parsed_with(tool, line, &[], &[])
}

/// The same with a function that parses.
pub(super) fn read_with<T>(
    line: &str,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
    parse: impl FnOnce(&[String], &Surroundings) -> T,
) -> T {
    let owned = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let (files, variables) = (owned(files), owned(variables));
    let read = |path: &Path| {
        files
            .get(path.to_string_lossy().as_ref())
            .map(|text| text.clone().into_bytes())
            .ok_or_else(|| io::Error::from_raw_os_error(2))
    };
    let variable = |name: &str| variables.get(name).cloned();
    let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    parse(&argv, &Surroundings { read: &read, variable: &variable, cores: 8 })
}

/// A report of 2,000 answers in 2 s: 1,600 with status 200 and 400 with 500, 0.5 to 20 ms, 0.5 ms to connect.
pub(super) fn report() -> Report {
    let mut report = Report::empty("test");
    report.elapsed = Duration::from_secs(2);
    report.counts.started = 2_000;
    report.counts.completed = 2_000;
    report.statuses = vec![(200, 1_600), (500, 400)];
    for number in 0..2_000_u64 {
        let nanoseconds = 500_000 + (number % 40) * 500_000;
        for histogram in
            [&mut report.response, &mut report.total, &mut report.service, &mut report.first_byte]
        {
            histogram.record(nanoseconds).unwrap();
        }
    }
    for _ in 0..10 {
        report.connect.record(500_000).unwrap();
    }
    report.bytes.sent = 160_000;
    report.bytes.received = 260_000;
    report.bytes.received_bodies = 12_000;
    report.connections.asked = 10;
    report.connections.reached = 10;
    report.connections.opened = 10;
    report.first_response = Some(FirstResponse {
        status: 200,
        server: Some("test/1".to_owned()),
        head_bytes: 124,
        body_bytes: 6,
        version: "HTTP/1.1",
        tls: None,
        kept_alive: true,
    });
    report.windows = (0..20_u64)
        .map(|number| Window {
            start: Duration::from_millis(number * 100),
            length: Duration::from_millis(100),
            started: 100,
            completed: 100,
            completed_by_thread: vec![50, 50],
            errors: 20,
            received: 13_000,
            p50: None,
            p99: None,
            max: None,
            open_connections: 10,
            backlog: 0,
            cpu_seconds: 0.0,
        })
        .collect();
    report
}
