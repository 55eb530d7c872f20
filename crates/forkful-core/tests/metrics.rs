//! Writes docs/METRICS.md from the table of metrics, and holds the page equal to it. `UPDATE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use forkful_core::metrics::history::{COLUMNS, Ring};
use forkful_core::metrics::{Instrument, Kind, METRICS, Metric, OtelMetric, Source, Unit};

const HEAD: &str = "\
# What is measured in a worker

Generated from the table of metrics; `UPDATE_DOCS=1 cargo test -p forkful-core --test metrics` writes it again.

Forkful measures each worker once a second, from two sides: its agent inside (`agent`, on by default, Node.js only), and the daemon from outside, which needs
nothing in the worker. An agent reports once a second while its worker has requests or uses more than 2 % of its event loop, and every 10 s otherwise.
The agent counts requests from the first connection on. It measures everything else from one to two seconds after the app listens, or after four seconds if it does not listen, so that many
workers that start together are ready sooner. It begins at once when `describe`, `list --json`, `jlist`, `monit` or the dashboard ask. With `agent: false` there is no agent.

- `list --json`, `describe --json` and the API have the values in `metrics` of each worker; `describe` shows the most useful ones.
- `jlist` has those that PM2 has too in `axm_monitor`, under PM2's name; what an app reports of itself with `@pm2/io` under the same name comes first.
- `forkful metrics` prints the page for Prometheus; see below.
- [`GET /v1/history`](API.md#get-v1history) and the plots of the [dashboard](DASHBOARD.md) have the values of the last week. The column `history` says which of them are kept, and for how long:
  `hour` is each second of an hour, `day` is also each 10 s of a day, `week` is also each minute of a week. `slow` values are measured every 10 s: each 10 s of an hour and each 10 min of a week are kept.

Requests over HTTP/2 count as those over HTTP/1 do, each stream as a request; a WebSocket or a tunnel does not count. The stall ledger does not know requests over HTTP/2: it names no routes
for them, does not count those that waited, and can miss short stalls of a worker that has only such requests.

The kernel is asked through `/proc` and control groups: a value is missing if the kernel does not provide it. Busy threads of the pool are known by their name on Node.js 24 and
later; before, the threads that come after those of the start are taken for them.

## Values of the last second
| in JSON | `describe` | unit | measured by | history | in `axm_monitor` | for Prometheus | what it is |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

const COUNTERS: &str = "
## Counters
They continue over all processes of a slot: a worker's counts are kept when it exits. A worker that drains, as at a
reload, reports its last counts; one that is stopped or restarted, or crashes, loses those after its last report: at most the last second with requests.
Health checks by `http` and warm-up requests are requests like others: they count in requests, errors, latency and `max_requests`.

| in JSON | unit | measured by | for Prometheus | what it is |
| --- | --- | --- | --- | --- |
";

const PAGE: &str = "
## The page for Prometheus
`forkful metrics [APP]` prints it, `forkful metrics --listen 127.0.0.1:9100` serves it under `/metrics`, and the daemon has it at `GET /v1/metrics` of its socket: in
Prometheus' text format, or in OpenMetrics for clients that accept `application/openmetrics-text`. Each sample has the labels `app` and `worker`, which is the number of
the slot. Names are those of prom-client where it has one, so that dashboards for it work (see [below](#prom-clients-default-metrics)). Beside the columns above:

| name | what it is |
| --- | --- |
| `forkful_http_request_duration_seconds` | histogram: time from an HTTP request to the end of its response |
| `nodejs_gc_duration_seconds` | histogram by `kind`: pauses of the garbage collector; with more than 20 a second, one second of five is measured and the others are estimated from it, except while `describe` or `doctor` looks at the app |
| `nodejs_version_info`, `process_start_time_seconds` | of the worker's process |
| `forkful_worker_up`, `forkful_worker_blocked_seconds` | whether a worker is online; for how long its event loop has not answered |
| `forkful_worker_state` | 1, with the worker's `state`: `online`, `launching`, `stopping`, `stopped`, `finished`, `errored` (given up), `waiting restart` |
| `forkful_app_workers`, `forkful_app_reloads_total` | of the app; reloads by `result`, those that begin by themselves (`watch`, `cron_restart`, limits) among them |
| `forkful_connections_handed_over_total`, `forkful_connections_rescued_total`, `forkful_connections_lost_total`, `forkful_workers_suspected_total`, `forkful_steering_changes_total` | by `address`, see [BALANCE.md](BALANCE.md) |
| `forkful_outgoing_connections` | by `host`, such as `db:5432`: connections that a worker has opened itself; at most 16 hosts of a worker, those with most connections |
| `forkful_build_info` | the version of Forkful |
| `forkful_app_metrics_left_out` | metrics and samples of the app's prom-client that are not on the page, see below |

### prom-client's default metrics
All names of prom-client's `collectDefaultMetrics()` are on the page, for each worker, with the same meaning and unit. Values that cost more to read, such as
`process_virtual_memory_bytes`, are measured twice a minute and missing in the first seconds of a process. Three groups need a list of what the process holds, so workers
are asked for them at each scrape, and the history does not have them:

| name | what it is |
| --- | --- |
| `nodejs_active_resources`, `nodejs_active_handles`, `nodejs_active_requests` | by `type`: what is active in the event loop of the worker; at most 60 types, and `other` for the rest |
| `nodejs_active_resources_total`, `nodejs_active_handles_total`, `nodejs_active_requests_total` | the same, of all types together |
| `nodejs_heap_space_size_total_bytes`, `nodejs_heap_space_size_used_bytes`, `nodejs_heap_space_size_available_bytes` | by `space` of V8's heap |

## Metrics of the app itself: prom-client
An app that uses [prom-client](https://github.com/siimon/prom-client) has its metrics on the page, too, without a line of code for it: one value for all its workers, with the label `app`
and without `worker`.

- At a scrape the agent of each worker reads prom-client's default registry (`register.getMetricsAsJSON()`). Between two scrapes nothing is done.
- Values are merged by prom-client's rules: what the `aggregator` of a metric says (`sum`, which is the default, `first`, `min`, `max`, `average`, `omit`); histograms and
  summaries as well. `first` is the worker that was started first.
- A worker that does not answer within 1 s, because its event loop is blocked, counts with its last answer. It is asked again after 30 s, and waited for again once it has answered.
- Each scrape resets what prom-client measures since the last one: `collectDefaultMetrics()` reports the event loop's lag over the time between two scrapes. With two scrapers, each sees
  only a part of that time.
- Sums do not fall when workers end: counters, histograms, and the sums and counts of summaries stay, over reloads, crashes and the death of the daemon. A worker that is asked to
  leave reports its counts; a worker that crashes loses its counts since the last scrape. For another daemon, about 1,000 to 2,000 series of ended workers are kept (192 KB); with the last
  counts of living workers 256 KB. Of more series, the sums fall when the daemon dies; a histogram is kept whole or not at all.
- Metrics whose names Forkful has itself, such as `process_cpu_seconds_total` of `collectDefaultMetrics()`, are left out: the page has them for each worker. A label `app` becomes `exported_app`.
- At most 10,000 series and 1,000 metrics of an app. A worker's answer has at most 480 KB: its largest metrics are left out when it would be longer. What is left out, and what makes no sense, is
  counted in `forkful_app_metrics_left_out`; so is an answer that cannot be read, such as one of a metric whose `collect` throws: then the last answer counts.
- Not seen: registries that the app has made itself (`new Registry()`), prom-client within a bundle, and apps with `agent: false`.

### At the app's own route: `metrics: \"merge\"`
An app that serves `register.metrics()` itself gives, in a cluster, the values of the worker that happens to answer: rates and sums in Prometheus are wrong. With `metrics: \"merge\"` in
the configuration, or `--metrics merge`, a scrape of the app's own port gives the values of all workers together, by the rules above. Neither the app nor Prometheus need a change.

- `registry.metrics()` of prom-client 13 and later is merged: the default registry, registries that the app has made, and those that `Registry.merge` gives. The text is in prom-client's own
  form, also as OpenMetrics (without exemplars). `getMetricsAsJSON()`, `getSingleMetricAsString()` and what push gateways are sent stay the worker's own.
- A registry that the app has made is known by the name of its first metric, and by its place among registries with the same one; at most 16 in a worker. So all workers must make them in
  the same order. Others give the worker's own values.
- A registry that the app has merged of several workers (`AggregatorRegistry`) is left alone.
- A scrape takes as long as the slowest worker needs to say what it has, and at most 1 s longer than before. Scrapes that come together share the work.
- Where the daemon does not answer within 5 s, or all metrics together are longer than 500 KB, the scrape gives the worker's own values; the daemon's log and `forkful list` say so once.
- A label that differs in each worker (a process id as a default label) makes a series for each worker, and those of workers that have ended stay: leave it out.

## OpenTelemetry
With `otlp: \"http://localhost:4318\"` in the configuration of an app, or `--otlp URL`, Forkful sends its metrics to a receiver of OTLP over HTTP (OpenTelemetry's Collector, or a product
that takes OTLP), as JSON. `otlp: { endpoint, interval }` says how often: each 60 s by default, at least 1 s apart. `/v1/metrics` is added to the URL unless its path ends so.

- Headers, such as an API key, come from `OTEL_EXPORTER_OTLP_METRICS_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS` in the app's environment (`name=value,name=value`), which no list and no
  log shows. With headers, the receiver has to be at an https URL, or on the same machine. Put them in an `env_file`: inherited variables that may be secrets are not saved.
- Each slot of an app is an instance: `service.name` is the app, `service.namespace` its namespace, `service.instance.id` is `HOST:APP:SLOT`. Further attributes: `host.name`,
  `process.runtime.name`, `process.runtime.version`. Counters are cumulative, and go on over restarts of workers.
- Names are those of OpenTelemetry's semantic conventions where they have one, and begin with `forkful.` otherwise. Beside the table below: the histograms `http.server.request.duration`
  and `v8js.gc.duration` (by `v8js.gc.type`), and `process.uptime`.
- A request takes at most 10 s, and one is under way at a time. When the receiver is not there, nothing is kept: the next export has the newer sums. The daemon's log says so once, and once
  when it works again; `forkful list` says it as long as it lasts. What a receiver rejects of a request that it accepts (`partialSuccess`) is told likewise. A receiver that
  answers `Retry-After` with a number of seconds gets nothing until they are over, at most an hour.
- An app that is deleted, and a daemon or a `forkful run` that ends, sends the last sums at once; the daemon waits for them at most 2 s, and not at an update. A receiver that has asked
  for a pause does not get them. They have the sums of slots that `forkful scale` has removed, and may arrive while a regular export is under way.
- The app's own metrics (prom-client) are not sent.

| in JSON | in OpenTelemetry | unit | instrument |
| --- | --- | --- | --- |
";

const GRAFANA: &str = "
## Grafana and alerts
- [grafana/forkful.json](grafana/forkful.json) is a dashboard: import it in Grafana, and choose the data source of Prometheus. Crashes and reloads are
  marked on its plots.
- [grafana/alerts.yml](grafana/alerts.yml) has alerts for Prometheus (`rule_files`): workers that are not online, crash, stand still or are saturated, HTTP errors, memory, CPU quotas,
  pressure on CPU, memory and storage, reloads that failed. Adapt the bounds to your apps.
";

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ratio => "0 to 1",
        Unit::Milliseconds => "ms",
        Unit::MillisecondsPerSecond => "ms per second",
        Unit::PerSecond => "per second",
        Unit::Bytes => "bytes",
        Unit::Count => "number",
        Unit::Cores => "cores",
        Unit::Seconds => "s",
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Agent => "agent",
        Source::Kernel => "daemon",
    }
}

/// For how long its values are kept.
fn kept(metric: &Metric) -> &'static str {
    let Some(at) = COLUMNS.iter().position(|name| *name == metric.name) else { return "–" };
    let is_in = |ring: Ring| ring.columns().contains(&at);
    match () {
        () if is_in(Ring::SlowTenSeconds) => "slow",
        () if is_in(Ring::Minutes) => "week",
        () if is_in(Ring::TenSeconds) => "day",
        () => "hour",
    }
}

fn exported(metric: &Metric) -> String {
    let names = metric.exported.iter().map(|exported| match exported.label {
        None => format!("`{}`", exported.name),
        Some((label, value)) => format!("`{}{{{label}=\"{value}\"}}`", exported.name),
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

fn in_otel(otel: &OtelMetric) -> String {
    match otel.attribute {
        None => format!("`{}`", otel.name),
        Some((key, value)) => format!("`{}` (`{key}`: {value})", otel.name),
    }
}

fn instrument(instrument: Instrument) -> &'static str {
    match instrument {
        Instrument::Gauge => "gauge",
        Instrument::Counter => "counter",
        Instrument::UpDownCounter => "up-down counter",
    }
}

#[test]
fn the_page_is_the_one_that_the_table_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let mut page = HEAD.to_owned();
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Gauge) {
        let pm2 = metric.pm2.map_or_else(|| "–".to_owned(), |pm2| format!("{} ({})", pm2.name, pm2.unit));
        let (name, label, unit) = (metric.name, metric.label.unwrap_or("–"), unit(metric.unit));
        let (by, kept) = (source(metric.source), kept(metric));
        let (exported, meaning) = (exported(metric), metric.meaning);
        writeln!(page, "| `{name}` | {label} | {unit} | {by} | {kept} | {pm2} | {exported} | {meaning} |")
            .unwrap();
    }
    page.push_str(COUNTERS);
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Counter) {
        let (name, unit, by) = (metric.name, unit(metric.unit), source(metric.source));
        let (exported, meaning) = (exported(metric), metric.meaning);
        writeln!(page, "| `{name}` | {unit} | {by} | {exported} | {meaning} |").unwrap();
    }
    page.push_str(PAGE);
    for (metric, otel) in METRICS.iter().flat_map(|metric| metric.otel.iter().map(move |otel| (metric, otel)))
    {
        let (name, unit, instrument) = (in_otel(otel), otel.unit, instrument(otel.instrument));
        writeln!(page, "| `{}` | {name} | `{unit}` | {instrument} |", metric.name).unwrap();
    }
    page.push_str(GRAFANA);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let update = "UPDATE_DOCS=1 cargo test -p forkful-core --test metrics";
    assert!(found == page, "docs/METRICS.md is stale: {update}");
}

/// The names of `collectDefaultMetrics()` of prom-client 15 that the table has; those of the process's start, its version and garbage
/// collection are not of the table. The page lists what is missing.
const PROM_CLIENT: [&str; 19] = [
    "process_cpu_user_seconds_total",
    "process_cpu_system_seconds_total",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_heap_bytes",
    "process_open_fds",
    "process_max_fds",
    "nodejs_eventloop_lag_seconds",
    "nodejs_eventloop_lag_min_seconds",
    "nodejs_eventloop_lag_max_seconds",
    "nodejs_eventloop_lag_mean_seconds",
    "nodejs_eventloop_lag_stddev_seconds",
    "nodejs_eventloop_lag_p50_seconds",
    "nodejs_eventloop_lag_p90_seconds",
    "nodejs_eventloop_lag_p99_seconds",
    "nodejs_heap_size_total_bytes",
    "nodejs_heap_size_used_bytes",
    "nodejs_external_memory_bytes",
];

#[test]
fn the_default_metrics_of_prom_client_have_its_names() {
    let exported = || METRICS.iter().flat_map(|metric| metric.exported);
    for name in PROM_CLIENT {
        assert!(exported().any(|exported| exported.name == name && exported.label.is_none()), "{name}");
    }
}
