//! Generates the tables of docs/SCALE.md.

use std::fmt::Write;
use std::time::Duration;

use forkful_core::spec::Balance;

use super::experiments::{Ends, Kept, Machine, Most, Rate, kept, machine, most, rate};

const BEGIN: &str = "<!-- table:simulated -->\n";
const END: &str = "<!-- /table:simulated -->";

/// The measured cost of a connection in the daemon with two workers, see "New connections a second" in
/// docs/SCALE.md.
const MEASURED: [(f64, u32); 5] = [(400.0, 123), (800.0, 97), (1_600.0, 79), (3_200.0, 65), (5_750.0, 56)];
const WORKERS: [u16; 5] = [8, 16, 32, 64, 128];
const HANDLERS_MS: [u64; 3] = [0, 1, 10];

/// Inserts the tables between their marks in a page.
pub fn into_page(page: &str, tables: &str) -> Option<String> {
    let begin = page.find(BEGIN)? + BEGIN.len();
    let end = begin + page[begin..].find(END)?;
    Some([&page[..begin], tables, &page[end..]].concat())
}

/// All tables as Markdown. Calls `told` for each completed part.
pub fn tables(mut told: impl FnMut(&str)) -> String {
    let mut text = String::new();
    for (name, table) in [
        ("new connections", new_connections as fn() -> String),
        ("direct", left_to_the_kernel),
        ("kept connections", kept_connections),
        ("the dispatcher itself", dispatcher),
        ("against measured", against_measured),
    ] {
        told(name);
        text += &table();
        text += "\n";
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn new_connections() -> String {
    let mut text = "**New connections a second, a request each: the most that holds** (99th percentile within 50 ms, no queue \
         full), and what ends first\n\n\
         | cores and workers | `exact`, empty handler | 1 ms | 10 ms | `direct`, empty handler | 1 ms | 10 ms |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for workers in WORKERS {
        let _ = write!(text, "| {workers} |");
        for balance in [Balance::Exact, Balance::Direct] {
            for handler in HANDLERS_MS {
                let Most { per_second, ends, .. } = most(workers, balance, Duration::from_millis(handler));
                let ends = match ends {
                    Ends::Daemon => "daemon",
                    Ends::Turns => "probes",
                    Ends::Workers => "workers",
                };
                let _ = write!(text, " {}, {ends} |", number(per_second));
            }
        }
        text += "\n";
    }
    text
}

fn left_to_the_kernel() -> String {
    let mut text = "**`direct` with half of the workers' time used** (handler of 1 ms): what the daemon does meanwhile\n\n\
         | cores and workers | connections a second | daemon, of its core | choices that the kernel was given, a second | 99th percentile |\n\
         | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for workers in WORKERS {
        let per_second = f64::from(workers) * 0.5 / 0.001_119;
        let Rate { daemon_share, steers, p99, .. } =
            rate(workers, Balance::Direct, Duration::from_millis(1), per_second, Duration::from_secs(1));
        let _ = writeln!(
            text,
            "| {workers} | {} | {:.1} % | {steers} | {} |",
            number(per_second),
            daemon_share * 100.0,
            time(p99)
        );
    }
    text
}

fn kept_connections() -> String {
    let mut text = "**Kept connections, and a reload**: each worker's clients come back at once, within 20 ms\n\n\
         | connections, workers | balance | CPU to open all | CPU of the reload | all back after | wait, 99th percentile | longest | first packets dropped | fullest worker / mean: opened, reloaded, 1 min, 10 min later | descriptors of the fullest |\n\
         | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (connections, workers) in [(10_000, 8), (100_000, 32), (1_000_000, 128)] {
        for (balance, per_second) in
            [(Balance::Exact, 10_000.0), (Balance::Auto, 50_000.0), (Balance::Direct, 50_000.0)]
        {
            let Kept { opening, reload, reload_took, p99, longest, dropped, uneven, most } =
                kept(workers, balance, connections, per_second);
            let [opened, reloaded, minute, later] = uneven;
            let _ = writeln!(
                text,
                "| {}, {workers} | `{balance}` | {} | {} | {} | {} | {} | {} | {opened:.2}, {reloaded:.2}, {minute:.2}, {later:.2} | {} |",
                number(connections as f64),
                time(opening),
                time(reload),
                time(reload_took),
                time(p99),
                time(longest),
                number(dropped as f64),
                number(most as f64),
            );
        }
    }
    text
}

fn dispatcher() -> String {
    let mut text = "**The dispatcher itself**: its own CPU time on this machine, without system calls\n\n\
         | workers | a connection, `exact`, 400 a second | 15,000 a second | `least`, 15,000 a second | a look at all queues | a question to all workers | a worker replaced |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for workers in [2, 8, 32, 128, 512] {
        let Machine { exact_slow, exact_rush, least_rush, look, question, replaced } = machine(workers);
        let _ = writeln!(
            text,
            "| {workers} | {} | {} | {} | {} | {} | {} |",
            time(exact_slow),
            time(exact_rush),
            time(least_rush),
            time(look),
            time(question),
            time(replaced)
        );
    }
    text
}

fn against_measured() -> String {
    let mut text = "**This model against what was measured**: two workers, `exact`, CPU time of the daemon for a connection\n\n\
         | connections a second | simulated | measured |\n\
         | ---: | ---: | ---: |\n"
        .to_owned();
    for (per_second, measured) in MEASURED {
        let Rate { daemon_each, .. } =
            rate(2, Balance::Exact, Duration::ZERO, per_second, Duration::from_secs(2));
        let _ = writeln!(text, "| {} | {} | {measured} µs |", number(per_second), time(daemon_each));
    }
    text
}

/// Three digits, with thousands separators.
fn number(value: f64) -> String {
    let digits = value.abs().max(1.0).log10().floor() as i32;
    let unit = 10_f64.powi((digits - 2).max(0));
    let rounded = ((value / unit).round() * unit) as u64;
    let text = rounded.to_string();
    let parts: Vec<&str> =
        text.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.join(",")
}

fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 0.5 {
        // The clock is not more precise.
        return "< 0.5 µs".to_owned();
    }
    let (value, unit) = match micros {
        ..1e3 => (micros, "µs"),
        1e3..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let decimals = usize::from(value < 10.0);
    format!("{value:.decimals$} {unit}")
}
