//! Options of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory};
use forkful_dialects::{TOOLS, Tool};
use forkful_load::report::Threshold;

const HELP: &str = "\
Closed loop (the default): each connection sends its next request when the previous answer has arrived. This
measures the throughput of the target. Open loop (--rate): requests start on schedule, however slow the target
is, and latency counts from the scheduled time. This measures the latency that users see at that rate.

--search finds the highest rate at which latencies or errors stay within bounds: runs of 5 s (-d) at rates that
are doubled and halved. A rate is too high if two runs fail; the result is a rate that passed twice.

The first line says whether the results can be trusted; --verbose shows every check. docs/MEASURING.md explains
the checks. Percentiles with too few samples are left out: p99 needs 1,000, p99.9 needs 10,000.

A ws:// or wss:// URL sends messages on WebSockets: each received message answers the oldest unanswered one.
--sse reads server-sent events. Both reconnect if the server closes a connection, and count reconnects.

--as accepts the flags of ab, siege, loadtest, autocannon or wrk after `--` and prints that tool's report, with
notes on stderr if its own numbers would be wrong. --expect and the output files work with it; --json replaces
the tool's report on stdout.

A file of --urls-file has one request per line: [WEIGHT] [METHOD] URL [BODY|@FILE]; # begins a comment.
--har sends the requests of a recorded session to its first server, with their headers and cookies.

Exit codes of bench:
  0  measured, and every expectation was met
  1  the measurement failed
  2  the command line is wrong (with --as: the tool's exit code)
  5  measured, but an expectation was missed
  6  the results cannot be trusted (most answers were errors, for example), or an expectation cannot be judged
  7  the target cannot be reached
If several apply, the command exits with the largest.

Examples:
  forkful bench http://127.0.0.1:8000/fast
  forkful bench -c 200 -d 30s --warmup 5s http://127.0.0.1:8000/fast
  forkful bench --rate 2000 -d 1m --html result.html http://127.0.0.1:8000/fast
  forkful bench --search 'p99<50ms' --html search.html http://127.0.0.1:8000/fast
  forkful bench -n 10000 --expect 'p99<20ms' 'errors<0.1%' 'rps>1000' http://127.0.0.1:8000/
  forkful bench -m POST -H 'Content-Type: application/json' --body '{\"n\":{id}}' http://127.0.0.1:8000/items
  forkful bench --weights 9,1 http://127.0.0.1:8000/fast http://127.0.0.1:8000/slow
  forkful bench --har session.har http://127.0.0.1:8000
  forkful bench --json http://127.0.0.1:8000/ | jq .latency_ms.p99
  forkful bench --http2 -c 10 --streams 20 https://127.0.0.1:8443/ --cacert ca.pem
  forkful bench ws://127.0.0.1:3000/ -c 100 -d 5s --message '{\"n\":{id}}' --rate 1000
  forkful bench --sse http://127.0.0.1:3000/events -c 100 -d 10s
  forkful bench --as ab -- -k -n 5000 -c 500 http://127.0.0.1:8000/fast
  forkful bench --as wrk --expect 'p99<20ms' -- -t2 -c100 -d10s --latency http://127.0.0.1:8000/fast";

/// Headings of the options about the load and the requests.
const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const CONNECTION: &str = "Connection";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct BenchArgs {
    /// URLs to load. Several URLs of one server are requested in turn, or at random with --weights.
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Accept this tool's flags after `--` and print its report.
    #[arg(long = "as", value_name = "TOOL", value_parser = tool)]
    pub(crate) tool: Option<Tool>,
    /// Flags of that tool.
    #[arg(last = true, value_name = "FLAGS", allow_hyphen_values = true)]
    pub(crate) tool_args: Vec<String>,
    #[command(flatten)]
    pub(crate) load: BenchLoadArgs,
    #[command(flatten)]
    pub(crate) request: BenchRequestArgs,
    #[command(flatten)]
    pub(crate) connection: BenchConnectionArgs,
    #[command(flatten)]
    pub(crate) output: BenchOutputArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = LOAD)]
pub(crate) struct BenchLoadArgs {
    /// Number of connections (50, or -n if that is less).
    #[arg(long, short, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) connections: Option<usize>,
    /// Number of requests.
    #[arg(long, short = 'n', value_name = "NUMBER")]
    pub(crate) requests: Option<u64>,
    /// Duration (10s). With -n: whichever ends first.
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Requests per second: an open loop.
    #[arg(long, value_name = "NUMBER", group = "open_loop")]
    pub(crate) rate: Option<f64>,
    /// Find the highest rate at which this holds, such as `p99<50ms` or `errors<0.1%`. Repeatable.
    #[arg(long, value_name = "EXPECTATION", group = "open_loop", conflicts_with_all = ["requests", "think", "expect", "csv", "hdr", "verbose", "tool"])]
    pub(crate) search: Vec<Threshold>,
    /// With --search: the highest rate to try.
    #[arg(long, value_name = "NUMBER", requires = "search", value_parser = rate)]
    pub(crate) rate_max: Option<f64>,
    /// With --rate or --search: random gaps, as with many independent users, instead of equal gaps.
    #[arg(long, requires = "open_loop")]
    pub(crate) poisson: bool,
    /// With --rate or --search: maximum connections when all are busy (10000).
    #[arg(long, value_name = "NUMBER", requires = "open_loop")]
    pub(crate) connections_max: Option<usize>,
    /// Full load before the measurement, not counted.
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true, value_parser = duration)]
    pub(crate) warmup: Duration,
    /// Increase to the full load over this time; not counted.
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true, value_parser = duration)]
    pub(crate) ramp: Duration,
    /// Pause between an answer and the next request: `100ms`, or `0-100ms` for random pauses.
    #[arg(long, value_name = "DURATION", value_parser = think, conflicts_with = "rate")]
    pub(crate) think: Option<forkful_load::Think>,
    /// Timeout of a request.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Stop when there are this many errors; looks ten times a second.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_errors: Option<u64>,
    /// Threads of the generator (one per eight cores).
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Seed of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = REQUEST)]
pub(crate) struct BenchRequestArgs {
    /// Method (GET, or POST with a body).
    #[arg(long, short, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header as `Name: value`. Repeatable.
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The body. `{id}` in it, in headers and in URLs is replaced by the number of the request.
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// The body, from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    pub(crate) body_file: Option<PathBuf>,
    /// Do not replace `{id}`.
    #[arg(long)]
    pub(crate) literal: bool,
    /// Basic authentication as user:password.
    #[arg(long, short, value_name = "USER:PASSWORD")]
    pub(crate) user: Option<String>,
    /// With a ws:// URL: the message to send; the server must answer each with a message (`hello`).
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["body", "body_file", "method"])]
    pub(crate) message: Option<String>,
    /// Server-sent events: each connection sends one request, and the time between events is measured.
    #[arg(long, conflicts_with_all = ["rate", "search", "think", "pipelining", "no_keepalive", "reconnect", "http2", "http10", "message", "expect_status", "expect_body", "expect_body_file", "worker_header"])]
    pub(crate) sse: bool,
    /// A file with requests, see below.
    #[arg(long, value_name = "FILE")]
    pub(crate) urls_file: Option<PathBuf>,
    /// Send the requests of a HAR file, as saved by browsers; a URL sends them to that server.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls_file", "method", "body", "body_file", "weights"])]
    pub(crate) har: Option<PathBuf>,
    /// Request URLs at random with these weights: `9,1`.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) weights: Vec<u32>,
    /// Statuses that count as success, such as 200,404 (all below 400).
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = status)]
    pub(crate) expect_status: Vec<u16>,
    /// Text that every body must contain.
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect_body: Option<String>,
    /// File that every body must equal.
    #[arg(long, value_name = "FILE", conflicts_with = "expect_body")]
    pub(crate) expect_body_file: Option<PathBuf>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, Args)]
#[command(next_help_heading = CONNECTION)]
pub(crate) struct BenchConnectionArgs {
    /// Open a new connection for each request.
    #[arg(long, visible_alias = "no-keep-alive")]
    pub(crate) no_keepalive: bool,
    /// Open a new connection after this number of requests.
    #[arg(long, value_name = "NUMBER", conflicts_with = "no_keepalive")]
    pub(crate) reconnect: Option<u32>,
    /// Concurrent requests on a connection.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) pipelining: usize,
    /// Read each answer immediately, even if the target is the bottleneck and answers could be read in batches.
    #[arg(long)]
    pub(crate) no_gathering: bool,
    /// Use HTTP/2: by ALPN over TLS, with prior knowledge without TLS.
    #[arg(long)]
    pub(crate) http2: bool,
    /// With --http2: concurrent streams on a connection (1).
    #[arg(long, value_name = "NUMBER", requires = "http2", conflicts_with = "pipelining")]
    pub(crate) streams: Option<usize>,
    /// Use HTTP/1.0.
    #[arg(long, conflicts_with = "http2")]
    pub(crate) http10: bool,
    /// Connect to this unix socket; the URL only sets the request.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long, short = 'k')]
    pub(crate) insecure: bool,
    /// Trust these authorities (PEM).
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// The client's certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The client's key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// The server name to request and to verify in the certificate.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct BenchOutputArgs {
    /// Expectations that must be met: `p99<20ms` `errors<0.1%` `rps>1000`.
    #[arg(long, value_name = "EXPECTATION", num_args = 1..)]
    pub(crate) expect: Vec<String>,
    /// Print the whole report: all percentiles, connections, workers and checks.
    #[arg(long, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a CSV line for each 0.1 s of the run; `-` is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the percentiles in `HdrHistogram`'s text format; `-` is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write an HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Count by worker, named in this response header.
    #[arg(long, value_name = "NAME")]
    pub(crate) worker_header: Option<String>,
    /// Show no progress.
    #[arg(long)]
    pub(crate) no_progress: bool,
}

impl BenchArgs {
    /// Separates URLs and expectations: `--expect` takes everything that follows it, and no URL contains `<`
    /// or `>`.
    pub(crate) fn sorted(&self) -> Result<(Vec<String>, Vec<Threshold>), forkful_load::report::BadThreshold> {
        let (texts, behind): (Vec<&String>, Vec<&String>) =
            self.output.expect.iter().partition(|text| text.contains(['<', '>']) || !looks_like_url(text));
        let urls = self.urls.iter().chain(behind).cloned().collect();
        let thresholds = texts.into_iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Ok((urls, thresholds))
    }
}

/// The typed options about load, requests and connections, such as `--connections`.
pub(crate) fn typed_load_options() -> Vec<String> {
    let command = crate::cli::Cli::command();
    let matches = command.clone().try_get_matches_from(std::env::args_os());
    let Some(("bench", typed)) = matches.as_ref().ok().and_then(ArgMatches::subcommand) else {
        return Vec::new();
    };
    let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
    let options = command.find_subcommand("bench").into_iter().flat_map(clap::Command::get_arguments);
    options
        .filter(|option| matches!(option.get_help_heading(), Some(LOAD | REQUEST | CONNECTION)))
        .filter(|option| is_typed(option.get_id().as_str()))
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect()
}

fn looks_like_url(text: &str) -> bool {
    text.contains(['/', ':'])
}

fn tool(text: &str) -> Result<Tool, String> {
    TOOLS.into_iter().find(|tool| tool.name == text).ok_or_else(|| {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        format!("expected {}", names.join(", "))
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("a time needs a unit: {text}s or {text}ms?"));
    }
    forkful_config::parse_duration(text).ok_or_else(|| "expected a time as 500ms, 10s, 2m or 1h".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (0.1..=1e9).contains(rate))
        .ok_or_else(|| "expected requests per second".to_owned())
}

fn think(text: &str) -> Result<forkful_load::Think, String> {
    match text.split_once('-') {
        Some(("0" | "0s" | "0ms", most)) => Ok(forkful_load::Think::UpTo(duration(most)?)),
        Some(_) => Err("expected a pause as 100ms, or as 0-100ms".to_owned()),
        None => Ok(forkful_load::Think::Fixed(duration(text)?)),
    }
}

fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..=999).contains(status));
    status.ok_or_else(|| "expected statuses, each a number, as in 200,404".to_owned())
}
