//! Two reports of `compare`: each arm compared with itself, by blocks that each had a fresh server.

use forkful_load::report::spread::three_digits;
use serde_json::{Value, json};

use super::document::{Figure, Parts, ReportsDocument, Source};
use super::read::{ReportError, Saved, at};
use super::{Context, settings};
use crate::gate::Gate;
use crate::statistics::paired::Interval;
use crate::statistics::verdict::{CONFIDENCE, Rule, Word, word_of};
use crate::statistics::welch::Sample;

/// Rates that differ by more are not equal loads.
const RATES_ALIKE: f64 = 0.05;

const BLOCKS: &str = "the blocks of both";

pub(super) fn compare(a: &Saved, b: &Saved, context: &Context) -> Result<ReportsDocument, ReportError> {
    let sources = Source::both(a, b)?;
    let differences = settings::of_compare(a, b);
    let runs = [Run::read(a)?, Run::read(b)?];
    let is_same_load = !differences.iter().any(|one| one.load);
    let common: Vec<&str> =
        runs[0].names().filter(|name| runs[1].names().any(|other| other == *name)).collect();
    if common.is_empty() {
        let names = |run: &Run| run.names().collect::<Vec<_>>().join(", ");
        return Err(ReportError::Arms {
            first: a.path.clone(),
            second: b.path.clone(),
            first_arms: names(&runs[0]),
            second_arms: names(&runs[1]),
        });
    }
    let figures = figures(&runs, &common, is_same_load);
    let throughputs: Vec<&Figure> = figures.iter().filter(|figure| figure.unit == "requests/s").collect();
    let word = overall(throughputs.iter().filter_map(|figure| figure.verdict));
    let headline = headline(&sources, &throughputs, word, is_same_load);
    let gate = gate(&sources, &figures, word, is_same_load);
    let plots = vec![plot(&sources, &runs, &common)];
    let details = vec![
        "the blocks of each report were made in turns, but the two reports one after the other: what changed on the \
         machine in between is in these ratios, and in no interval. `forkful compare --git` and `forkful compare old.js \
         new.js` measure both in turns; `cluster ÷ single` of two reports does not mind a machine that changed"
            .to_owned(),
    ];
    Ok(ReportsDocument::of(
        Parts { sources, differences, figures, gate, word, headline, details, plots },
        context,
    ))
}

/// The data of a comparison.
struct Run {
    arms: Vec<Arm>,
    /// Counted blocks.
    blocks: Vec<Value>,
}

struct Arm {
    name: String,
    per_second: f64,
    /// `[load, rate, p50, p99]` of each window at a fixed rate.
    latency: Vec<(f64, f64, Option<f64>, Option<f64>)>,
    cpu_us: Option<f64>,
}

impl Run {
    fn read(saved: &Saved) -> Result<Self, ReportError> {
        let mut arms = Vec::new();
        for (place, arm) in saved.list("arms")?.iter().enumerate() {
            let key = |key: &str| format!("arms.{place}.{key}");
            let name = saved.told(&key("name")).ok_or_else(|| saved.wrong(&key("name"), "a text"))?;
            let number = |value: &Value, key: &str| at(value, key).and_then(Value::as_f64);
            let latency = at(arm, "latency").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let latency = latency.iter().filter(|one| at(one, "overloaded") != Some(&Value::Bool(true)));
            let latency = latency.filter_map(|one| {
                Some((
                    number(one, "load")?,
                    number(one, "rate")?,
                    number(one, "p50_ms"),
                    number(one, "p99_ms"),
                ))
            });
            arms.push(Arm {
                name,
                per_second: saved.number(&key("throughput.per_second"))?,
                latency: latency.collect(),
                cpu_us: number(arm, "cpu_per_request_us"),
            });
        }
        let is_counted = |block: &&Value| at(block, "counted") != Some(&Value::Bool(false));
        let blocks = saved.list("blocks")?.iter().filter(is_counted).cloned().collect();
        Ok(Self { arms, blocks })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.arms.iter().map(|arm| arm.name.as_str())
    }

    fn arm(&self, name: &str) -> &Arm {
        self.arms.iter().find(|arm| arm.name == name).expect("only arms of both are asked for")
    }

    /// A figure of an arm in each block that has it.
    fn values(&self, arm: &str, of: &dyn Fn(&Value) -> Option<f64>) -> Vec<f64> {
        let in_block = |block: &Value| block.get("arms")?.get(arm).and_then(of);
        self.blocks.iter().filter_map(in_block).collect()
    }

    /// The ratio of two arms in each block.
    fn ratios(&self, arm: &str, baseline: &str) -> Vec<f64> {
        let rate = |block: &Value, arm: &str| block.get("arms")?.get(arm)?.get("per_second")?.as_f64();
        let ratio = |block: &Value| Some(rate(block, arm)? / rate(block, baseline)?);
        self.blocks.iter().filter_map(ratio).collect()
    }
}

fn figures(runs: &[Run; 2], common: &[&str], is_same_load: bool) -> Vec<Figure> {
    let judged = |figure: Figure, values: [Vec<f64>; 2], rule: &Rule| {
        let interval = interval(&values);
        let word = interval.filter(|_| is_same_load).map(|interval| word_of(&interval, rule, true));
        figure.within(interval, BLOCKS).judged(word)
    };
    let mut figures = Vec::new();
    for name in common {
        let [a, b] = runs.each_ref().map(|run| run.arm(name));
        let rate = |value: &Value| value.get("per_second")?.as_f64();
        let figure = Figure::new(
            format!("{name}: requests/s"),
            "requests/s",
            [Some(a.per_second), Some(b.per_second)],
        );
        let values = runs.each_ref().map(|run| run.values(name, &rate));
        figures.push(judged(figure, values, &Rule::throughput(1)));
        for (load, rate_a, p50_a, p99_a) in &a.latency {
            let other = b.latency.iter().find(|other| (other.0 - load).abs() < 1e-9);
            let Some((_, rate_b, p50_b, p99_b)) = other else { continue };
            let is_alike = (rate_a - rate_b).abs() <= RATES_ALIKE * rate_a.max(*rate_b);
            let both = [("p50", "p50_ms", [*p50_a, *p50_b]), ("p99", "p99_ms", [*p99_a, *p99_b])];
            for (title, key, shown) in both {
                let figure = Figure::new(format!("{name}: {title} at {:.0} %", load * 100.0), "ms", shown);
                if shown == [None, None] {
                    continue;
                }
                if !is_alike {
                    figures.push(figure.noted("not judged: the rates differ"));
                    continue;
                }
                let of = |value: &Value| at_load(value, *load)?.get(key)?.as_f64();
                let values = runs.each_ref().map(|run| run.values(name, &of));
                figures.push(judged(figure, values, &Rule::latency(1)));
            }
        }
        let cpu = |value: &Value| value.get("cpu_per_request_us")?.as_f64();
        let figure = Figure::new(format!("{name}: CPU/request"), "µs", [a.cpu_us, b.cpu_us]);
        if figure.ratio.is_some() {
            let values = runs.each_ref().map(|run| run.values(name, &cpu));
            figures.push(figure.within(interval(&values), BLOCKS));
        }
    }
    if let [baseline, others @ ..] = common {
        for arm in others {
            let values = runs.each_ref().map(|run| run.ratios(arm, baseline));
            let shown = values.each_ref().map(|values| {
                let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
                (!logs.is_empty()).then(|| crate::statistics::paired::mean(&logs).exp())
            });
            figures.push(judged(
                Figure::new(format!("{arm} ÷ {baseline}"), "", shown),
                values,
                &Rule::throughput(1),
            ));
        }
    }
    figures
}

fn interval(values: &[Vec<f64>; 2]) -> Option<Interval> {
    let [a, b] = values.each_ref().map(|values| Sample::of(values));
    Some(b?.over(&a?, CONFIDENCE))
}

/// The window at a load; the key is the load as text.
fn at_load(value: &Value, load: f64) -> Option<&Value> {
    let windows = value.get("latency")?.as_object()?;
    let is_it = |key: &str| key.parse::<f64>().is_ok_and(|found| (found - load).abs() < 1e-9);
    windows.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
}

/// One verdict for all arms: the worst certain one.
fn overall(words: impl Iterator<Item = Word>) -> Option<Word> {
    let rank = |word: &Word| match word {
        Word::NoDifference => 0,
        Word::Faster => 1,
        Word::Inconclusive => 2,
        Word::Slower => 3,
    };
    words.max_by_key(rank)
}

fn headline(sources: &[Source; 2], figures: &[&Figure], word: Option<Word>, is_same_load: bool) -> String {
    let [a, b] = [&sources[0].name, &sources[1].name];
    let one = |figure: &&Figure| {
        let name = figure.name.split(": requests/s").next().unwrap_or(&figure.name);
        let ratio = figure.ratio.map_or("–".to_owned(), three_digits);
        match (figure.ci95, figure.verdict) {
            (Some([low, high]), word) => format!(
                "{name} {ratio} × (95 %: {} to {}){}",
                three_digits(low),
                three_digits(high),
                word.map_or(String::new(), |word| format!(", {}", word.as_str()))
            ),
            _ => format!("{name} {ratio} ×"),
        }
    };
    let all = figures.iter().map(one).collect::<Vec<_>>().join("; ");
    let begin = match word {
        Some(word) if is_same_load => word.as_str(),
        _ if !is_same_load => "not known, because the loads were not the same",
        _ => "not known, because there are too few blocks",
    };
    format!("{begin}: requests per second of {b} against {a}: {all}")
}

fn gate(sources: &[Source; 2], figures: &[Figure], word: Option<Word>, is_same_load: bool) -> Gate {
    if sources.iter().any(|source| !source.trustworthy) {
        return Gate::Unknown("a report cannot be trusted");
    }
    if !is_same_load {
        return Gate::Unknown("the loads were not the same");
    }
    let is_slower = |wanted: fn(&Figure) -> bool| {
        figures.iter().any(|figure| figure.verdict == Some(Word::Slower) && wanted(figure))
    };
    let kinds: [(bool, &str); 3] = [
        (is_slower(|figure| figure.unit == "requests/s"), "requests per second"),
        (is_slower(|figure| figure.name.contains(": p50")), "the median latency at equal load"),
        (is_slower(|figure| figure.name.contains(": p99")), "the slowest requests at equal load"),
    ];
    let slower: Vec<&'static str> =
        kinds.into_iter().filter(|(is_slower, _)| *is_slower).map(|(_, name)| name).collect();
    match word {
        _ if !slower.is_empty() => Gate::Slower(slower),
        Some(Word::Inconclusive) => Gate::Unknown("the comparison is inconclusive"),
        Some(_) => Gate::Pass,
        None => Gate::Unknown("there are too few blocks for an interval"),
    }
}

/// Answers per second in each block.
fn plot(sources: &[Source; 2], runs: &[Run; 2], common: &[&str]) -> Value {
    let mut series = Vec::new();
    for name in common {
        for (source, run) in sources.iter().zip(runs) {
            let rates = run.values(name, &|value| value.get("per_second")?.as_f64());
            let points: Vec<[f64; 2]> = (1..).map(f64::from).zip(rates).map(|(x, y)| [x, y]).collect();
            series.push(json!({ "name": format!("{name}, {}", source.name), "points": points }));
        }
    }
    json!({
        "type": "lines", "title": "Requests per second of each block", "note": "Each block had a fresh server.",
        "x": { "label": "block", "unit": "", "log": false },
        "y": { "label": "rate", "unit": "requests/s", "log": false }, "series": series,
    })
}

#[cfg(test)]
#[path = "compared/tests.rs"]
mod tests;
