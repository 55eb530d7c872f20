//! Compares candidates by throughput, latency and memory: which percentile to use, and which candidate is
//! worse in all three. Pure.

use std::cmp::Ordering;

use crate::document::CandidateDocument;

/// A percentile of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) short: &'static str,
    pub(super) long: &'static str,
    pub(crate) of: fn(&CandidateDocument) -> Option<f64>,
}

const TAILS: [Tail; 3] = [
    Tail { short: "p99", long: "99th percentile", of: |row| row.p99_at_70_ms },
    Tail { short: "p95", long: "95th percentile", of: |row| row.p95_at_70_ms },
    Tail { short: "p90", long: "90th percentile", of: |row| row.p90_at_70_ms },
];

/// The highest percentile that is known for all candidates with a known latency; others are not comparable.
pub(crate) fn tail(table: &[CandidateDocument]) -> Tail {
    let known: Vec<&CandidateDocument> =
        table.iter().filter(|row| TAILS.iter().any(|tail| (tail.of)(row).is_some())).collect();
    let is_of_all = |tail: &&Tail| known.iter().all(|row| (tail.of)(row).is_some());
    *TAILS.iter().find(is_of_all).unwrap_or(&TAILS[0])
}

/// A candidate's latency at the load, as far as known.
#[derive(Debug, Clone, Copy)]
enum AtLoad {
    Ms(f64),
    /// It has the capacity, but there was no time or there were too few requests.
    Unknown,
    CannotCarry,
}

impl AtLoad {
    /// `Less` is better; `None` if unknown.
    fn against(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Ms(a), Self::Ms(b)) => Some(a.total_cmp(&b)),
            (Self::Unknown, Self::Unknown) | (Self::CannotCarry, Self::CannotCarry) => Some(Ordering::Equal),
            (_, Self::CannotCarry) => Some(Ordering::Less),
            (Self::CannotCarry, _) => Some(Ordering::Greater),
            (Self::Ms(_), Self::Unknown) | (Self::Unknown, Self::Ms(_)) => None,
        }
    }
}

/// Marks candidates for which no other is better in throughput, latency or memory without being worse in
/// another. A candidate that cannot sustain the load is worse than all that can; a candidate that was not
/// measured is unknown.
pub(super) fn mark_pareto(table: &mut [CandidateDocument]) {
    let tail = tail(table);
    let figures: Vec<(f64, AtLoad, u64)> = table
        .iter()
        .map(|row| {
            let at_load = match (tail.of)(row) {
                Some(ms) => AtLoad::Ms(ms),
                None if row.carries_70 => AtLoad::Unknown,
                None => AtLoad::CannotCarry,
            };
            (row.per_second, at_load, row.memory_bytes)
        })
        .collect();
    let beats = |one: &(f64, AtLoad, u64), other: &(f64, AtLoad, u64)| {
        let Some(at_load) = one.1.against(other.1) else { return false };
        one.0 >= other.0
            && one.2 <= other.2
            && at_load.is_le()
            && (one.0 > other.0 || one.2 < other.2 || at_load.is_lt())
    };
    for (index, row) in table.iter_mut().enumerate() {
        row.pareto = !figures.iter().any(|other| beats(other, &figures[index]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(per_second: f64, p99: Option<f64>, memory: u64) -> CandidateDocument {
        CandidateDocument {
            workers: 1,
            pool: 4,
            per_second,
            ci95: None,
            best: false,
            relative_percent: 0.0,
            relative_ci95_percent: None,
            carries_70: p99.is_some(),
            p99_at_70_ms: p99,
            p95_at_70_ms: p99.map(|p99| p99 / 2.0),
            p90_at_70_ms: p99.map(|p99| p99 / 3.0),
            p99_at_own_70_ms: None,
            memory_bytes: memory,
            cpu_per_request_us: None,
            rounds: 3,
            dropped_in_round: None,
            pareto: false,
            chosen: false,
            share_percent: 0.0,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn what_is_beaten_in_everything_is_not_on_the_front() {
        let mut table = vec![
            row(100.0, None, 50),
            row(200.0, Some(5.0), 90),
            row(199.0, Some(6.0), 130),
            row(201.0, Some(9.0), 170),
        ];
        mark_pareto(&mut table);
        let front: Vec<bool> = table.iter().map(|row| row.pareto).collect();
        assert_eq!(front, [true, true, false, true]);
    }

    #[test]
    fn of_who_was_not_measured_nobody_knows_that_it_is_beaten() {
        let mut unknown = row(199.0, None, 130);
        unknown.carries_70 = true;
        let mut table = vec![row(200.0, Some(5.0), 90), unknown, row(150.0, None, 95)];
        mark_pareto(&mut table);
        let front: Vec<bool> = table.iter().map(|row| row.pareto).collect();
        assert_eq!(front, [true, true, false], "the last one cannot carry the load");
    }

    #[test]
    fn the_tail_is_the_highest_percentile_that_all_have() {
        let mut few = row(100.0, Some(9.0), 50);
        few.p99_at_70_ms = None;
        let table = [row(200.0, Some(5.0), 90), few.clone(), row(10.0, None, 20)];
        assert_eq!(tail(&table[..1]).short, "p99");
        assert_eq!((tail(&table).short, (tail(&table).of)(&table[1])), ("p95", Some(4.5)));
        few.p95_at_70_ms = None;
        assert_eq!(tail(&[few]).short, "p90");
        assert_eq!(tail(&[]).short, "p99");
    }
}
