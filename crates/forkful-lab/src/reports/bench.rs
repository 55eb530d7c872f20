//! Two reports of `bench`: two single runs; the variation over their seconds gives the confidence of the
//! difference.

use forkful_load::report::spread::three_digits;
use serde_json::{Value, json};

use super::document::{Difference, Figure, Parts, ReportsDocument, Source};
use super::read::{ReportError, Saved, at};
use super::{Context, settings};
use crate::gate::Gate;
use crate::statistics::paired::Interval;
use crate::statistics::verdict::{Better, CONFIDENCE, Rule, Word, word_of};
use crate::statistics::welch::Sample;

/// Windows are averaged over this time to form one value, because neighbouring windows of 0.1 s are
/// correlated.
const BATCH_S_MIN: f64 = 1.0;

/// With fewer values an interval is meaningless.
const BATCHES_MIN: usize = 5;

/// More values do not improve the interval, and longer batches are less correlated.
const BATCHES_MAX: f64 = 30.0;

/// The usual difference between two runs of the same server after a restart; only a larger one is reported as
/// a difference.
const RUN_BAND: f64 = 0.05;

/// The same for medians of an open loop.
const RUN_BAND_MEDIAN: f64 = 0.25;

/// From this difference in the share of errors on, the figures describe different mixes.
const ERRORS_APART: f64 = 0.01;

const PERCENTILES: [(&str, &str); 5] =
    [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max")];

pub(super) fn compare(a: &Saved, b: &Saved, context: &Context) -> Result<ReportsDocument, ReportError> {
    let sources = Source::both(a, b)?;
    let differences = settings::of_bench(a, b);
    let runs = [Run::read(a)?, Run::read(b)?];
    let is_same_load = !differences.iter().any(|one| one.load);
    let is_open = runs.iter().all(|run| run.is_open);
    let is_comparable = is_same_load && beside_others(&sources).is_none();
    let figures = figures(&runs, is_comparable, is_open);
    let main = usize::from(is_open);
    let word = figures[main].verdict;
    let gate = gate(&runs, &sources, is_same_load, &figures);
    let headline = headline(&sources, &differences, &figures[main], is_open);
    let details = details(&runs, &sources, &figures[main], is_open);
    let plots = vec![plot(&sources, &runs)];
    Ok(ReportsDocument::of(
        Parts { sources, differences, figures, gate, word, headline, details, plots },
        context,
    ))
}

/// The data of a run.
struct Run {
    per_second: f64,
    is_open: bool,
    percentiles: [Option<f64>; PERCENTILES.len()],
    errors: f64,
    error_share: f64,
    cpu_per_request_us: Option<f64>,
    batches: Vec<Batch>,
}

/// A part of a run, at least a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Batch {
    at_s: f64,
    per_second: f64,
    /// Geometric mean of its windows' medians.
    median_ms: Option<f64>,
}

impl Run {
    fn read(saved: &Saved) -> Result<Self, ReportError> {
        let percentile = |(_, key): (&str, &str)| saved.number(&format!("latency_ms.{key}")).ok();
        Ok(Self {
            per_second: saved.number("requests.per_second")?,
            is_open: saved.told("plan.loop").as_deref() == Some("open"),
            percentiles: PERCENTILES.map(percentile),
            errors: saved.number("errors.total")?,
            error_share: saved.number("errors.share").unwrap_or(0.0),
            cpu_per_request_us: cpu_per_request(saved),
            batches: batches(saved)?,
        })
    }

    fn rates(&self) -> Option<Sample> {
        self.sample(|batch| Some(batch.per_second))
    }

    fn medians(&self) -> Option<Sample> {
        self.sample(|batch| batch.median_ms)
    }

    fn sample(&self, of: fn(&Batch) -> Option<f64>) -> Option<Sample> {
        let values: Vec<f64> = self.batches.iter().map(of).collect::<Option<_>>()?;
        if values.len() < BATCHES_MIN { None } else { Sample::of_series(&values) }
    }

    /// For how many of its seconds nothing was answered: what the others say is not the whole run.
    fn silent(&self) -> usize {
        self.batches.iter().filter(|batch| batch.per_second <= 0.0).count()
    }
}

/// CPU of the target's workers per request, if the report has it.
fn cpu_per_request(saved: &Saved) -> Option<f64> {
    let workers = saved.get("workers.workers")?.as_array()?;
    let seconds: Option<f64> =
        workers.iter().map(|worker| at(worker, "cpu_seconds").and_then(Value::as_f64)).sum();
    let answers = saved.number("requests.completed").ok().filter(|answers| *answers > 0.0)?;
    Some(seconds? * 1e6 / answers)
}

/// The windows of a run, combined into batches.
fn batches(saved: &Saved) -> Result<Vec<Batch>, ReportError> {
    let list = saved.list("windows")?;
    let mut windows = Vec::with_capacity(list.len());
    for (place, window) in list.iter().enumerate() {
        let number = |key: &str| {
            let wrong = || saved.wrong(&format!("windows.{place}.{key}"), "a number");
            at(window, key).and_then(Value::as_f64).ok_or_else(wrong)
        };
        windows.push((
            number("at_s")?,
            number("length_s")?,
            number("completed")?,
            at(window, "p50_ms").and_then(Value::as_f64),
        ));
    }
    let total: f64 = windows.iter().map(|(_, length, ..)| length).sum();
    let length_min = BATCH_S_MIN.max(total / BATCHES_MAX);
    let mut batches = Vec::new();
    let (mut seconds, mut answers, mut from) = (0.0, 0.0, 0.0);
    let mut medians = Vec::new();
    for (at_s, length, completed, median) in windows {
        if seconds == 0.0 {
            from = at_s;
        }
        seconds += length;
        answers += completed;
        medians.extend(median.filter(|median| *median > 0.0).map(f64::ln));
        // The last batch counts if it is complete, apart from rounding.
        if seconds >= length_min - 1e-6 {
            let median_ms = (!medians.is_empty()).then(|| crate::statistics::paired::mean(&medians).exp());
            batches.push(Batch { at_s: from, per_second: answers / seconds, median_ms });
            (seconds, answers) = (0.0, 0.0);
            medians.clear();
        }
    }
    Ok(batches)
}

/// The report that was measured beside other programs, if one was.
fn beside_others(sources: &[Source; 2]) -> Option<&Source> {
    sources.iter().find(|source| source.beside_others)
}

fn figures(runs: &[Run; 2], is_comparable: bool, is_open: bool) -> Vec<Figure> {
    const SECONDS: &str = "the seconds of both runs";
    let [a, b] = runs;
    let judged = |interval: Option<Interval>, rule: &Rule| {
        interval.filter(|_| is_comparable).map(|interval| word_of(&interval, rule, true))
    };
    let ratio = |samples: [Option<Sample>; 2]| match samples {
        [Some(a), Some(b)] => Some(b.over(&a, CONFIDENCE)),
        _ => None,
    };
    let rate = ratio([a.rates(), b.rates()]);
    let requests = Figure::new("requests/s", "requests/s", [Some(a.per_second), Some(b.per_second)]);
    let requests = if is_open {
        requests.noted("as many as were due")
    } else {
        // The ratio of the whole runs, to match the two figures next to it.
        let whole = requests.ratio;
        let mut found = requests.within(rate, SECONDS).judged(judged(rate, &rule(RUN_BAND, Better::Higher)));
        found.ratio = whole.or(found.ratio);
        found
    };
    let mut figures = vec![requests];
    for (place, (name, _)) in PERCENTILES.into_iter().enumerate() {
        let values = [a.percentiles[place], b.percentiles[place]];
        if values == [None, None] {
            continue;
        }
        let figure = Figure::new(name, "ms", values);
        figures.push(match (is_open, name) {
            (true, "p50") => {
                let interval = ratio([a.medians(), b.medians()]);
                let word = judged(interval, &rule(RUN_BAND_MEDIAN, Better::Lower));
                let whole = figure.ratio;
                let mut found = figure.within(interval, SECONDS).judged(word);
                found.ratio = whole.or(found.ratio);
                found
            }
            (true, _) => figure,
            (false, _) => figure.noted("not judged"),
        });
    }
    figures.push(Figure::new("errors", "%", runs.each_ref().map(|run| Some(run.error_share * 100.0))));
    let cpu = runs.each_ref().map(|run| run.cpu_per_request_us);
    if cpu.iter().any(Option::is_some) {
        figures.push(Figure::new("CPU of the workers/request", "µs", cpu));
    }
    figures
}

fn rule(band: f64, better: Better) -> Rule {
    Rule { better, band, resolvable: band, looks: 1 }
}

fn gate(runs: &[Run; 2], sources: &[Source; 2], is_same_load: bool, figures: &[Figure]) -> Gate {
    if sources.iter().any(|source| !source.trustworthy) {
        return Gate::Unknown("a report cannot be trusted");
    }
    if !is_same_load {
        return Gate::Unknown("the loads were not the same");
    }
    if beside_others(sources).is_some() {
        return Gate::Unknown("a run was made beside other programs that used the CPU");
    }
    if (runs[1].error_share - runs[0].error_share).abs() > ERRORS_APART {
        return Gate::Unknown(
            "the shares of errors are not the same, so that the figures are of different answers",
        );
    }
    if runs.iter().any(|run| run.silent() > 0) {
        return Gate::Unknown("a run has seconds without an answer");
    }
    let judged = figures.iter().find_map(|figure| Some((figure.name.as_str(), figure.verdict?)));
    match judged {
        Some(("requests/s", Word::Slower)) => Gate::Slower(vec!["requests per second"]),
        Some((_, Word::Slower)) => Gate::Slower(vec!["the median latency at equal load"]),
        Some((_, Word::Inconclusive)) => Gate::Unknown("the comparison is inconclusive"),
        Some(_) => Gate::Pass,
        None => Gate::Unknown("the runs are too short for an interval"),
    }
}

/// How both runs are named in a sentence, and how they differ.
fn headline(sources: &[Source; 2], differences: &[Difference], figure: &Figure, is_open: bool) -> String {
    let [a, b] = [&sources[0].name, &sources[1].name];
    let Some(ratio) = figure.ratio else {
        return format!("{a} or {b} has no figure to compare");
    };
    let says = if is_open {
        format!("the median latency of {b} is {} × that of {a}", three_digits(ratio))
    } else {
        format!("{b} answers {} × as many requests per second as {a}", three_digits(ratio))
    };
    let loads: Vec<&str> = differences.iter().filter(|one| one.load).map(|one| one.setting).collect();
    if !loads.is_empty() {
        let names = loads.join(", ");
        return format!("not known: the loads differ ({names}); {says}, which is not a comparison");
    }
    if let Some(source) = beside_others(sources) {
        return format!(
            "not known: other programs used the CPU that {} needed; {says}, which may be their doing",
            source.name
        );
    }
    match (figure.ci95, figure.verdict) {
        (Some([low, high]), Some(word)) => format!(
            "{}: {says} (95 %, between these two runs: {} to {})",
            word.as_str(),
            three_digits(low),
            three_digits(high)
        ),
        _ => format!("not known: {says}, without an interval"),
    }
}

fn details(runs: &[Run; 2], sources: &[Source; 2], figure: &Figure, is_open: bool) -> Vec<String> {
    let mut details = Vec::new();
    let counts = runs.each_ref().map(|run| run.batches.len());
    let band = if is_open { RUN_BAND_MEDIAN } else { RUN_BAND } * 100.0;
    if figure.ci95.is_some() {
        details.push(format!(
            "these are two single runs: the interval comes from their seconds ({} and {} values) and says how sure the \
             difference between these two is. What a fresh start of the server, or another hour on a shared machine, \
             makes is not in it, so that only more than {band:.0} % is called a difference; `forkful compare` measures in \
             turns and settles smaller ones",
            counts[0], counts[1]
        ));
    } else if let Some((source, run)) = sources.iter().zip(runs).find(|(_, run)| run.silent() > 0) {
        details.push(format!(
            "nothing was answered in {} of {} parts of {}, each a second or more: there is no interval for a server \
             that stood still",
            run.silent(),
            run.batches.len(),
            source.name
        ));
    } else {
        details.push(format!(
            "an interval needs {BATCHES_MIN} seconds of each run, and there are {} and {}; `-d 10s` makes longer ones",
            counts[0], counts[1]
        ));
    }
    if is_open {
        details.push("the tail of a single run has no interval, only a ratio".to_owned());
    } else {
        details.push(
            "latencies of a closed loop are connections ÷ rate and say nothing more; `--rate` with one rate for both \
             makes them comparable"
                .to_owned(),
        );
    }
    let [a, b] = runs.each_ref().map(|run| run.errors);
    if a + b > 0.0 {
        let share = |run: &Run| format!("{:.2} %", run.error_share * 100.0);
        details.push(format!(
            "errors: {a:.0} ({}) in {}, {b:.0} ({}) in {}",
            share(&runs[0]),
            sources[0].name,
            share(&runs[1]),
            sources[1].name
        ));
    }
    details
}

/// Answers per second over the time of both runs.
fn plot(sources: &[Source; 2], runs: &[Run; 2]) -> Value {
    let series: Vec<Value> = sources
        .iter()
        .zip(runs)
        .map(|(source, run)| {
            let points: Vec<[f64; 2]> =
                run.batches.iter().map(|batch| [batch.at_s, batch.per_second]).collect();
            json!({ "name": source.name, "points": points })
        })
        .collect();
    json!({
        "type": "lines", "title": "Requests per second", "note": "Each point is a second, or more of a long run.",
        "x": { "label": "time", "unit": "s", "log": false },
        "y": { "label": "rate", "unit": "requests/s", "log": false }, "series": series,
    })
}

#[cfg(test)]
#[path = "bench/tests.rs"]
mod tests;
