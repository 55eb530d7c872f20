//! One report of several, by the rules of prom-client's `AggregatorRegistry.aggregate`: samples of the same name and labels become
//! one, in the way that the family's aggregator says.

use std::collections::HashMap;

use super::report::{Aggregator, AppFamily, AppReport, Part, SERIES_MAX, Sample, SampleKind, point_value};

/// What tells samples of a family apart.
type Key<'a> = (Part, &'a [(String, String)], Option<&'a str>);

/// A family under way.
struct Merging<'a> {
    first: &'a AppFamily,
    samples: Vec<Tally<'a>>,
    places: HashMap<Key<'a>, usize>,
}

/// A sample under way.
struct Tally<'a> {
    sample: &'a Sample,
    value: f64,
    count: u32,
}

fn key_of(sample: &Sample) -> Key<'_> {
    (sample.part, sample.labels.as_slice(), sample.point.as_deref())
}

/// What the new samples of one label set take. They are taken together or left out together: a histogram without its last bucket and
/// its count is worse than none.
#[derive(Default)]
struct Need {
    series: usize,
    bytes: usize,
    /// Whether there was room, once that is known.
    fits: Option<bool>,
}

impl Need {
    fn fits(&mut self, room: &mut Room) -> bool {
        *self.fits.get_or_insert_with(|| {
            let fits = room.series >= self.series && room.takes(self.bytes);
            room.series -= if fits { self.series } else { 0 };
            fits
        })
    }
}

/// What is left of the bounds of a report under way.
struct Room {
    series: usize,
    bytes: usize,
    left_out: u32,
}

/// The most that the merged report of an app takes, as [`Sample::bytes`] and [`AppFamily::head_bytes`] count.
const MERGED_BYTES_MAX: usize = 4 << 20;

/// Merges reports. A family is as the first report has it; another kind or aggregator under its name is left out.
pub fn merge<'a>(reports: impl IntoIterator<Item = &'a AppReport>) -> AppReport {
    merge_within(reports, MERGED_BYTES_MAX)
}

/// The same, with at most this number of bytes. Series of earlier reports are kept before those of later reports.
pub(super) fn merge_within<'a>(reports: impl IntoIterator<Item = &'a AppReport>, bytes: usize) -> AppReport {
    let mut families: Vec<Merging<'a>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut room = Room { series: SERIES_MAX, bytes, left_out: 0 };
    let mut left_out_before = 0;
    for report in reports {
        // Each worker leaves out the same, as a rule.
        left_out_before = report.left_out.max(left_out_before);
        for family in report.families.iter().filter(|family| family.aggregator != Aggregator::Omit) {
            let place = match places.get(&(family.registry.as_str(), family.name.as_str())) {
                Some(place) => *place,
                None if room.takes(family.head_bytes()) => {
                    places.insert((&family.registry, &family.name), families.len());
                    families.push(Merging { first: family, samples: Vec::new(), places: HashMap::new() });
                    families.len() - 1
                }
                None => {
                    room.leave_out(family.samples.len());
                    continue;
                }
            };
            let merging = &mut families[place];
            if (merging.first.kind, merging.first.aggregator) == (family.kind, family.aggregator) {
                merging.add(family, &mut room);
            } else {
                room.leave_out(1);
            }
        }
    }
    let families = families.into_iter().map(Merging::finish).collect();
    AppReport { families, left_out: room.left_out.saturating_add(left_out_before) }
}

impl Room {
    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    fn leave_out(&mut self, count: usize) {
        self.left_out = self.left_out.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

impl<'a> Merging<'a> {
    fn add(&mut self, family: &'a AppFamily, room: &mut Room) {
        let mut new = Vec::new();
        let mut needs: HashMap<&[(String, String)], Need> = HashMap::new();
        for sample in &family.samples {
            if !self.tally(family.aggregator, sample) {
                let need = needs.entry(&sample.labels).or_default();
                (need.series, need.bytes) = (need.series + 1, need.bytes + sample.bytes());
                new.push(sample);
            }
        }
        for sample in new {
            if self.tally(family.aggregator, sample) {
                continue;
            }
            let fits = needs.get_mut(sample.labels.as_slice()).is_some_and(|need| need.fits(room));
            if fits {
                self.places.insert(key_of(sample), self.samples.len());
                self.samples.push(Tally { sample, value: sample.value, count: 1 });
            } else {
                room.leave_out(1);
            }
        }
    }

    /// Adds a sample to the tally of its key. Returns false if the key has no tally yet.
    fn tally(&mut self, aggregator: Aggregator, sample: &Sample) -> bool {
        let place = self.places.get(&key_of(sample));
        let Some(tally) = place.and_then(|place| self.samples.get_mut(*place)) else { return false };
        tally.add(aggregator, sample.value);
        true
    }

    fn finish(self) -> AppFamily {
        let AppFamily { kind, aggregator, .. } = self.first;
        let samples = self.samples.iter().map(|tally| Sample {
            value: if *aggregator == Aggregator::Average {
                tally.value / f64::from(tally.count)
            } else {
                tally.value
            },
            ..tally.sample.clone()
        });
        let mut samples: Vec<Sample> = samples.collect();
        if matches!(kind, SampleKind::Histogram | SampleKind::Summary) {
            put_together(&mut samples);
        }
        self.first.with(samples)
    }
}

impl Tally<'_> {
    fn add(&mut self, aggregator: Aggregator, value: f64) {
        self.count += 1;
        match aggregator {
            Aggregator::Sum | Aggregator::Average => self.value += value,
            Aggregator::Min => self.value = self.value.min(value),
            Aggregator::Max => self.value = self.value.max(value),
            Aggregator::First | Aggregator::Omit => {}
        }
    }
}

/// A histogram has its samples together, buckets first and in order: workers of two versions of an app may have other buckets.
fn put_together(samples: &mut [Sample]) {
    let mut groups: HashMap<Vec<(String, String)>, usize> = HashMap::new();
    for sample in samples.iter() {
        let next = groups.len();
        groups.entry(sample.labels.clone()).or_insert(next);
    }
    samples.sort_by(|a, b| {
        let place = |sample: &Sample| (groups.get(&sample.labels).copied(), sample.part);
        let point = |sample: &Sample| sample.point.as_deref().map_or(0.0, point_value);
        place(a).cmp(&place(b)).then(point(a).total_cmp(&point(b)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(aggregator: &str, kind: &str, values: &str) -> AppReport {
        let text = format!(
            r#"[{{"name":"m","help":"h","type":"{kind}","aggregator":"{aggregator}","values":[{values}]}}]"#
        );
        AppReport::read(&text).unwrap()
    }

    fn values(report: &AppReport) -> Vec<(String, f64)> {
        let samples = report.families.iter().flat_map(|family| &family.samples);
        let name = |sample: &Sample| {
            let labels: Vec<_> =
                sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!(
                "{}{}{}",
                sample.part.suffix(),
                labels.join(","),
                sample.point.as_deref().unwrap_or_default()
            )
        };
        samples.map(|sample| (name(sample), sample.value)).collect()
    }

    #[test]
    fn each_aggregator_does_what_prom_client_does() {
        let table = [
            ("sum", &[("", 9.0), ("a=1", 1.0)][..]),
            ("first", &[("", 4.0), ("a=1", 1.0)]),
            ("min", &[("", 2.0), ("a=1", 1.0)]),
            ("max", &[("", 4.0), ("a=1", 1.0)]),
            ("average", &[("", 3.0), ("a=1", 1.0)]),
            ("omit", &[]),
        ];
        for (aggregator, expected) in table {
            let reports =
                [r#"{"value":4}"#, r#"{"value":2},{"value":1,"labels":{"a":"1"}}"#, r#"{"value":3}"#]
                    .map(|values| report(aggregator, "gauge", values));
            let expected: Vec<_> =
                expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            assert_eq!(values(&merge(&reports)), expected, "{aggregator}");
        }
    }

    #[test]
    fn histograms_have_their_buckets_in_order_whatever_workers_have() {
        let one = r#"{"metricName":"m_bucket","labels":{"le":"1"},"value":1},{"metricName":"m_bucket","labels":{"le":"+Inf"},"value":2},
            {"metricName":"m_sum","value":3.5},{"metricName":"m_count","value":2}"#;
        let other = r#"{"metricName":"m_count","labels":{"r":"x"},"value":1},{"metricName":"m_bucket","labels":{"le":"0.5"},"value":1},
            {"metricName":"m_bucket","labels":{"le":"+Inf"},"value":1},{"metricName":"m_sum","value":0.5},{"metricName":"m_count","value":1}"#;
        let merged = merge(&[report("sum", "histogram", one), report("sum", "histogram", other)]);
        let expected = [
            ("_bucket0.5", 1.0),
            ("_bucket1", 1.0),
            ("_bucket+Inf", 3.0),
            ("_sum", 4.0),
            ("_count", 3.0),
            ("_countr=x", 1.0),
        ];
        assert_eq!(values(&merged), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn each_registry_has_its_own_families() {
        let of = |registry: &str, value: u32| {
            let text = format!(
                r#"[{{"name":"hits","registry":"{registry}","type":"counter","values":[{{"value":{value}}}]}}]"#
            );
            AppReport::read(&text).unwrap()
        };
        let merged = merge(&[of("", 1), of("a#0", 2), of("", 4), of("a#0", 8), of("a#1", 16)]);
        let values: Vec<_> =
            merged.families.iter().map(|family| (&*family.registry, family.samples[0].value)).collect();
        assert_eq!(values, [("", 5.0), ("a#0", 10.0), ("a#1", 16.0)]);
        assert_eq!(AppReport::read(&merged.write()), Some(merged));
    }

    #[test]
    fn another_kind_of_the_same_name_and_what_is_beyond_the_bound_are_counted() {
        let merged =
            merge(&[report("sum", "counter", r#"{"value":1}"#), report("sum", "gauge", r#"{"value":5}"#)]);
        assert_eq!((values(&merged), merged.left_out), (vec![(String::new(), 1.0)], 1));
        let many = |from: usize| {
            let samples: Vec<_> = (from..from + SERIES_MAX)
                .map(|n| format!(r#"{{"value":1,"labels":{{"n":"{n}"}}}}"#))
                .collect();
            report("sum", "gauge", &samples.join(","))
        };
        let merged = merge(&[many(0), many(2)]);
        assert_eq!((merged.families[0].samples.len(), merged.left_out), (SERIES_MAX, 2));
    }

    #[test]
    fn what_is_beyond_the_bytes_is_left_out_and_counted() {
        let long = "x".repeat(1000);
        let samples: Vec<_> =
            (0..10).map(|n| format!(r#"{{"value":1,"labels":{{"n":"{long}{n}"}}}}"#)).collect();
        let reports = [report("sum", "counter", &samples.join(",")), report("sum", "counter", &samples[0])];
        let merged = merge_within(&reports, 3500);
        assert_eq!((merged.families[0].samples.len(), merged.left_out), (3, 7));
        assert!((merged.families[0].samples[0].value - 2.0).abs() < 1e-9, "what is there goes on counting");
        let nothing = merge_within(&reports[..1], 10);
        assert_eq!((nothing.families.len(), nothing.left_out), (0, 10));
    }
}
