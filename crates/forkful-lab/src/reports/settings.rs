//! Compares the settings and the environment of two runs: differences are listed before the figures.

use serde_json::Value;

use super::document::Difference;
use super::read::Saved;

/// The effect of a different setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The load differs: the figures answer different questions, so there is no verdict.
    Load,
    /// Place, time or version differ: perhaps the subject of the comparison, perhaps the explanation of a
    /// difference.
    Place,
}

/// Durations and body lengths within this share count as equal.
const ALIKE: f64 = 0.05;

/// Shares of the requests of a URL that differ by no more count as equal: a short run with weights varies.
const SHARES_ALIKE: f64 = 0.1;

/// URLs that are named where two lists differ.
const URLS_NAMED_MAX: usize = 3;

/// Keys of a report of `bench`, with names for people.
const BENCH: [(&str, &str, Weight); 16] = [
    ("plan.connections", "connections", Weight::Load),
    ("plan.keep_alive", "connections are kept", Weight::Load),
    ("plan.pipelining", "under way on a connection", Weight::Load),
    ("target.protocol", "protocol", Weight::Load),
    ("plan.warmup_s", "warm-up, s", Weight::Place),
    ("plan.timeout_s", "timeout, s", Weight::Place),
    ("target.tls", "TLS", Weight::Place),
    ("target.server", "Server header", Weight::Place),
    ("target.unix_socket", "unix socket", Weight::Place),
    ("workers.app", "app", Weight::Place),
    ("environment.cpu", "CPU", Weight::Place),
    ("environment.cpus", "cores", Weight::Place),
    ("environment.kernel", "kernel", Weight::Place),
    ("generator.engine", "load generator", Weight::Place),
    ("forkful", "version of Forkful", Weight::Place),
    ("stopped_early", "ended early", Weight::Place),
];

/// Keys of a report of `compare`, with names for people.
const COMPARE: [(&str, &str, Weight); 12] = [
    ("target.method", "method", Weight::Load),
    ("target.path", "path", Weight::Load),
    ("target.beside", "asked beside it", Weight::Load),
    ("plan.connections", "connections", Weight::Load),
    ("plan.keep_alive", "connections are kept", Weight::Load),
    ("target.script", "script", Weight::Place),
    ("machine.cores", "cores", Weight::Place),
    ("machine.cpu", "CPU", Weight::Place),
    ("machine.kernel", "kernel", Weight::Place),
    ("machine.node", "Node.js", Weight::Place),
    ("machine.governor", "frequency governor", Weight::Place),
    ("forkful", "version of Forkful", Weight::Place),
];

/// The differences of two reports of `bench`, those of the load first.
pub(crate) fn of_bench(a: &Saved, b: &Saved) -> Vec<Difference> {
    let mut found = Found::default();
    let request = |saved: &Saved| saved.told("target.name").map(|name| without_origin(&name).0);
    let origin = |saved: &Saved| saved.told("target.name").and_then(|name| without_origin(&name).1);
    found.note("request", Weight::Load, request(a), request(b));
    found.urls(&urls(a), &urls(b));
    found.note("kind of load", Weight::Load, kind_of_load(a), kind_of_load(b));
    found.keys(&BENCH, a, b);
    found.note("server", Weight::Place, origin(a), origin(b));
    found.near("bytes of an answer", Weight::Load, answer_bytes(a), answer_bytes(b));
    found.near("measured, s", Weight::Place, number(a, "duration_s"), number(b, "duration_s"));
    let workers = |saved: &Saved| {
        let list = saved.get("workers.workers").and_then(Value::as_array);
        list.map(|list| list.len().to_string())
    };
    found.note("workers", Weight::Place, workers(a), workers(b));
    found.sorted()
}

/// The differences of two reports of `compare`, those of the load first.
pub(crate) fn of_compare(a: &Saved, b: &Saved) -> Vec<Difference> {
    let mut found = Found::default();
    found.keys(&COMPARE, a, b);
    let memory = |saved: &Saved| number(saved, "machine.memory_bytes");
    found.near("memory of the machine, bytes", Weight::Place, memory(a), memory(b));
    let window = |saved: &Saved| number(saved, "plan.window_s");
    found.near("window at saturation, s", Weight::Place, window(a), window(b));
    found.sorted()
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn keys(&mut self, keys: &[(&str, &'static str, Weight)], a: &Saved, b: &Saved) {
        for (key, name, weight) in keys {
            self.note(name, *weight, a.told(key), b.told(key));
        }
    }

    fn note(&mut self, name: &'static str, weight: Weight, a: Option<String>, b: Option<String>) {
        if a != b {
            let told = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
            self.0.push(Difference {
                setting: name,
                load: weight == Weight::Load,
                baseline: told(a),
                other: told(b),
            });
        }
    }

    fn near(&mut self, name: &'static str, weight: Weight, a: Option<f64>, b: Option<f64>) {
        let is_near = match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= ALIKE * a.abs().max(b.abs()),
            (None, None) => true,
            _ => false,
        };
        if !is_near {
            let told = |value: Option<f64>| value.map(|value| format!("{}", (value * 100.0).round() / 100.0));
            self.note(name, weight, told(a), told(b));
        }
    }

    /// Lists of URLs: their names, and how the load was shared among them.
    fn urls(&mut self, a: &[(String, f64)], b: &[(String, f64)]) {
        // A report with a single URL has it in its target.
        if a.len() < 2 || b.len() < 2 {
            return;
        }
        let is_same = a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= SHARES_ALIKE);
        if !is_same {
            self.0.push(Difference {
                setting: "URLs",
                load: true,
                baseline: differing(a, b),
                other: differing(b, a),
            });
        }
    }

    fn sorted(mut self) -> Vec<Difference> {
        self.0.sort_by_key(|difference| !difference.load);
        self.0
    }
}

/// The URLs of a report, each with its share of the requests.
fn urls(saved: &Saved) -> Vec<(String, f64)> {
    let list = saved.get("urls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let started = |url: &Value| url["started"].as_f64().unwrap_or_default();
    let all = list.iter().map(started).sum::<f64>().max(1.0);
    list.iter().map(|url| (url["name"].as_str().unwrap_or_default().to_owned(), started(url) / all)).collect()
}

/// The first URLs of a list that are not at the same place of another list with the same share.
fn differing(list: &[(String, f64)], other: &[(String, f64)]) -> String {
    let is_other = |(place, url): &(usize, &(String, f64))| {
        other.get(*place).is_none_or(|other| other.0 != url.0 || (other.1 - url.1).abs() > SHARES_ALIKE)
    };
    let differing: Vec<String> = list
        .iter()
        .enumerate()
        .filter(is_other)
        .map(|(_, (name, share))| format!("{name} ({:.0} %)", share * 100.0))
        .collect();
    let more = if differing.len() > URLS_NAMED_MAX { ", …" } else { "" };
    let named = differing[..differing.len().min(URLS_NAMED_MAX)].join(", ");
    if named.is_empty() { format!("{} URLs", list.len()) } else { format!("{named}{more}") }
}

fn number(saved: &Saved, key: &str) -> Option<f64> {
    saved.number(key).ok()
}

/// `GET http://host:1/path` as `GET /path` and `http://host:1`.
fn without_origin(name: &str) -> (String, Option<String>) {
    let Some(scheme) = name.find("://") else { return (name.to_owned(), None) };
    let from = name[..scheme].rfind(' ').map_or(0, |blank| blank + 1);
    let end = name[scheme + 3..].find('/').map_or(name.len(), |slash| scheme + 3 + slash);
    (format!("{}{}", &name[..from], &name[end..]), Some(name[from..end].to_owned()))
}

/// `closed loop with 100ms of thought`, `open loop at 200 requests/s`.
fn kind_of_load(saved: &Saved) -> Option<String> {
    let told = saved.told("plan.description").unwrap_or_default();
    let part = told.split(", ").find(|part| part.contains(" loop") || part.contains("subscri"));
    part.map(str::to_owned).or_else(|| saved.told("plan.loop"))
}

/// Mean length of a body.
fn answer_bytes(saved: &Saved) -> Option<f64> {
    let answers = number(saved, "requests.completed")? + number(saved, "requests.late").unwrap_or(0.0);
    Some(
        number(saved, "bytes.received_bodies").or_else(|| number(saved, "bytes.received"))?
            / answers.max(1.0),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A report of a run with these URLs and numbers of requests.
    fn of_urls(urls: &[(&str, u64)]) -> Saved {
        let list: Vec<Value> =
            urls.iter().map(|(name, started)| json!({"name": name, "started": started})).collect();
        let name = format!("{} requests at http://127.0.0.1:1", urls.len());
        let report = json!({"kind": "bench", "version": 1, "target": {"name": name}, "urls": list});
        Saved::read("a.json", &report.to_string()).unwrap()
    }

    #[test]
    fn lists_of_urls_are_part_of_the_load() {
        let known = of_urls(&[("GET /a", 50), ("GET /b", 52)]);
        let differences = |urls: &[(&str, u64)]| of_bench(&known, &of_urls(urls));
        assert_eq!(differences(&[("GET /a", 5_000), ("GET /b", 5_100)]), []);
        let other_url = differences(&[("GET /a", 50), ("GET /c", 50)]);
        let [found] = other_url.as_slice() else { panic!("{other_url:?}") };
        let told = (found.setting, found.load, found.baseline.as_str(), found.other.as_str());
        assert_eq!(told, ("URLs", true, "GET /b (51 %)", "GET /c (50 %)"));
        let other_weights = differences(&[("GET /a", 90), ("GET /b", 10)]);
        let [found] = other_weights.as_slice() else { panic!("{other_weights:?}") };
        assert_eq!(found.other, "GET /a (90 %), GET /b (10 %)");
    }

    #[test]
    fn a_target_is_its_request_and_its_server() {
        let table = [
            ("GET http://127.0.0.1:3000/a?b=http://c/", "GET /a?b=http://c/", Some("http://127.0.0.1:3000")),
            ("3 requests at https://h", "3 requests at ", Some("https://h")),
            ("nothing", "nothing", None),
        ];
        for (name, request, origin) in table {
            let found = without_origin(name);
            assert_eq!((found.0.as_str(), found.1.as_deref()), (request, origin), "{name}");
        }
    }
}
