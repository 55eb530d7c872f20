//! The time windows of a run as CSV, for spreadsheets.

use std::fmt::Write as _;
use std::time::Duration;

use crate::Report;

/// A header and a line for each window. Times are in seconds and milliseconds; an empty field means unknown.
pub fn csv(report: &Report) -> String {
    let mut out =
        "seconds,length_s,completed,requests_per_second,errors,received_bytes,p50_ms,p99_ms,max_ms,\
                   open_connections,backlog,generator_cpu_seconds\n"
            .to_owned();
    let ms = |time: Option<Duration>| {
        time.map_or(String::new(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
    };
    for window in &report.windows {
        let length = window.length.as_secs_f64();
        let rate = if length > 0.0 { window.completed as f64 / length } else { 0.0 };
        writeln!(
            out,
            "{:.3},{length:.6},{},{rate:.1},{},{},{},{},{},{},{},{:.6}",
            window.start.as_secs_f64(),
            window.completed,
            window.errors,
            window.received,
            ms(window.p50),
            ms(window.p99),
            ms(window.max),
            window.open_connections,
            window.backlog,
            window.cpu_seconds,
        )
        .expect("a String takes everything");
    }
    out
}
