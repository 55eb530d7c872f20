//! Few pods with many workers, or many pods with few: the cost of each at equal capacity, from measurements.

use crate::measured::Measured;

/// Target load of a pod as a share of its capacity: latencies were measured at it, and the autoscaler aims
/// for it.
pub const LOAD: f64 = 0.7;

/// One way to provide the capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Workers per pod.
    pub workers: u16,
    pub pods: u32,
    /// Memory of all pods.
    pub memory_bytes: u64,
    /// 99th percentile when each pod runs at [`LOAD`].
    pub p99_ms: Option<f64>,
    /// Share of the capacity that is lost with a pod, in percent.
    pub lost_percent: f64,
    /// Load of the remaining pods after a pod is lost, if they ran at [`LOAD`] before; `None` if none remain.
    /// Above 100 %, requests queue.
    pub load_after_percent: Option<f64>,
    pub chosen: bool,
}

/// Every measured number of workers, at the capacity of `pods` pods with `workers` workers each; empty if
/// that number was not measured.
pub fn rows(measured: &Measured, workers: u16, pods: u16) -> Vec<Row> {
    let Some(chosen) = measured.candidate(workers) else { return Vec::new() };
    let capacity = chosen.per_second * f64::from(pods);
    let row = |one: &crate::measured::Candidate| {
        // The chosen candidate keeps exactly its number of pods, independent of rounding.
        let pods = (capacity / one.per_second - 1e-9).ceil().clamp(1.0, 1e9) as u32;
        let left = f64::from(pods - 1) * one.per_second;
        Row {
            workers: one.workers,
            pods,
            memory_bytes: u64::from(pods) * one.memory_bytes,
            p99_ms: one.p99_at_70_ms,
            lost_percent: 100.0 / f64::from(pods),
            load_after_percent: (pods > 1).then(|| 100.0 * LOAD * capacity / left),
            chosen: one.workers == workers,
        }
    };
    measured.candidates.iter().map(row).collect()
}

/// The rows as a table of lines, with a heading.
pub fn table(rows: &[Row]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>11}  {:>4}  {:>10}  {:>11}  {}",
        "workers/pod", "pods", "memory", "p99 at 70 %", "a lost pod takes"
    )];
    for row in rows {
        let p99 = row.p99_ms.map_or_else(|| "unknown".to_owned(), |p99| format!("{p99:.1} ms"));
        let after = row.load_after_percent.map_or_else(
            || "and nothing is left".to_owned(),
            |load| format!("the rest goes from 70 to {load:.0} % load"),
        );
        lines.push(format!(
            "{:>11}  {:>4}  {:>6.0} MiB  {:>11}  {:.0} % of the capacity, {after}{}",
            row.workers,
            row.pods,
            row.memory_bytes as f64 / 1_048_576.0,
            p99,
            row.lost_percent,
            if row.chosen { "  <- this manifest" } else { "" },
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::measured;

    #[test]
    fn each_way_reaches_the_capacity_of_the_one_that_was_chosen() {
        let rows = rows(&measured(), 2, 2);
        let found: Vec<(u16, u32, u64, bool)> =
            rows.iter().map(|row| (row.workers, row.pods, row.memory_bytes >> 20, row.chosen)).collect();
        // 1: 460/s, 2: 880/s, 4: 900/s; two pods with two workers have 1,760/s.
        assert_eq!(found, [(1, 4, 4 * 55, false), (2, 2, 2 * 100, true), (4, 2, 2 * 190, false)]);
        assert!((rows[0].lost_percent - 25.0).abs() < 1e-9);
        assert!((rows[1].load_after_percent.unwrap() - 140.0).abs() < 1e-9);
    }

    #[test]
    fn a_single_pod_takes_everything_with_it() {
        let rows = rows(&measured(), 4, 1);
        let alone = rows.iter().find(|row| row.workers == 4).unwrap();
        assert_eq!((alone.pods, alone.load_after_percent), (1, None));
        assert!(table(&rows).last().unwrap().contains("and nothing is left"));
    }

    #[test]
    fn what_was_not_measured_has_no_table() {
        assert_eq!(rows(&measured(), 3, 2), []);
    }
}
