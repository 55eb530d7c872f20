//! Writes docs/METRICS.md from the table of metrics, and holds the page equal to it. `UPDATE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use forkful_core::metrics::{METRICS, Unit};

const HEAD: &str = "\
# What is measured in a worker

Generated from the table of metrics; `UPDATE_DOCS=1 cargo test -p forkful-core --test metrics` writes it again.

Forkful's agent measures in Node.js workers that have it (`agent`, on by default), and only while somebody looks: `describe`, `jlist`, `list --json`,
`monit` and `GET /v1/apps?measure=true` have it report once a second, until nobody has looked for 15 s. The first look shows what is known at once; values of the last
second follow with the next one. Nothing is measured otherwise, but where `max_requests` needs the number of requests: then agents report all the time.

`list --json`, `describe --json` and the API have the values in `metrics` of each worker. `jlist` has those that PM2 has too in `axm_monitor`, under PM2's name;
what an app reports of itself with `@pm2/io` under the same name comes first.

| in JSON | `describe` | unit | in `axm_monitor` | what it is |
| --- | --- | --- | --- | --- |
";

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ratio => "0 to 1",
        Unit::Milliseconds => "ms",
        Unit::MillisecondsPerSecond => "ms per second",
        Unit::PerSecond => "per second",
        Unit::Bytes => "bytes",
    }
}

#[test]
fn the_page_is_the_one_that_the_table_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let mut page = HEAD.to_owned();
    for metric in METRICS {
        let pm2 = metric.pm2.map_or_else(|| "–".to_owned(), |pm2| format!("{} ({})", pm2.name, pm2.unit));
        let (name, label, unit) = (metric.name, metric.label, unit(metric.unit));
        writeln!(page, "| `{name}` | {label} | {unit} | {pm2} | {} |", metric.meaning).unwrap();
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let update = "UPDATE_DOCS=1 cargo test -p forkful-core --test metrics";
    assert!(found == page, "docs/METRICS.md is stale: {update}");
}
