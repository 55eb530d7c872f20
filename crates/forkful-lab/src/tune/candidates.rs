//! The candidates of `tune`: numbers of workers, and sizes of the thread pool if they make a difference.
//! Pure.

use super::race::Candidate;
use crate::LabError;
use crate::arms::POOL_MAX;
use forkful_core::spec::INSTANCES_MAX;

/// Node's default pool size.
pub(crate) const POOL_DEFAULT: u32 = 4;

/// Maximum candidates of a race.
const CANDIDATES_MAX: usize = 32;

/// The pool matters if throughputs of pool sizes differ by more than this.
const POOL_MATTERS: f64 = 0.10;

/// Numbers of workers to try with this many cores: doubling, then around the number of cores, then twice as
/// many.
pub(crate) fn default_workers(cores: u16) -> Vec<u16> {
    let cores = cores.max(1);
    let doubling = std::iter::successors(Some(1_u16), |workers| workers.checked_mul(2));
    let mut workers: Vec<u16> = doubling.take_while(|workers| *workers <= cores).collect();
    workers.extend([cores.saturating_sub(1).max(1), cores, cores + 1, cores.saturating_mul(2)]);
    sorted(workers)
}

/// Pool sizes that show, with one worker, whether the size matters at all.
pub(crate) fn scan_pools(present: u32) -> Vec<u32> {
    sorted(vec![1, POOL_DEFAULT, 16, present])
}

/// Whether the pool size makes a difference. The throughputs of the scan are by pool size, each with one
/// worker.
pub(crate) fn pool_matters(throughputs: &[f64]) -> bool {
    let highest = throughputs.iter().copied().fold(0.0, f64::max);
    let lowest = throughputs.iter().copied().fold(f64::INFINITY, f64::min);
    throughputs.len() >= 2 && lowest < highest * (1.0 - POOL_MATTERS)
}

/// The smallest pool size of a scan (pool, throughput) that is close to the best.
pub(crate) fn smallest_good_pool(scan: &[(u32, f64)]) -> Option<u32> {
    let highest = scan.iter().map(|(_, throughput)| *throughput).fold(0.0, f64::max);
    scan.iter().filter(|(_, at)| *at >= highest * (1.0 - POOL_MATTERS)).map(|(pool, _)| *pool).min()
}

/// More pool sizes to try if the size matters. If 16 is no better than the default, the optimum is at or
/// below the default; computing work needs a pool as large as the number of cores. If 16 is better, the work
/// mostly waits, and larger sizes are tried.
pub(crate) fn more_pools(cores: u16, at_default: f64, at_16: f64) -> Vec<u32> {
    let grows = at_16 > at_default * (1.0 + POOL_MATTERS);
    let cores = u32::from(cores).max(2);
    sorted(if grows { vec![8, cores, 32, 64, 128] } else { vec![2, cores] })
}

/// Numbers of workers to try first with the best pool: the next one, and one per core. If these gain nothing,
/// no other number will.
pub(crate) fn first_with_best_pool(workers: &[u16], cores: u16) -> Vec<u16> {
    let next = workers.get(1).copied();
    next.into_iter()
        .chain(workers.iter().copied().filter(|workers| *workers == cores && *workers > 1))
        .collect()
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Parses `1,2,4`, `1-8`, or a mix of both.
pub(crate) fn parse_list(what: &str, text: &str, max: u32) -> Result<Vec<u32>, LabError> {
    let refuse = |part: &str| LabError::Plan {
        reason: format!(
            "`--{what} {text}` has `{part}`, where a number from 1 to {max} or a range as 1-8 was expected"
        ),
        hint: "write it as 1,2,4 or 1-8",
    };
    let number = |part: &str, text: &str| match text.trim().parse::<u32>() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(refuse(part)),
    };
    let mut values = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (number(part, from)?, number(part, to)?);
                if from > to || to - from >= CANDIDATES_MAX as u32 {
                    return Err(refuse(part));
                }
                values.extend(from..=to);
            }
            None => values.push(number(part, part)?),
        }
    }
    let values = sorted(values);
    if values.len() > CANDIDATES_MAX {
        return Err(LabError::Plan {
            reason: format!("`--{what} {text}` has {} values, more than {CANDIDATES_MAX}", values.len()),
            hint: "try a coarse list first, as 1,2,4,8",
        });
    }
    Ok(values)
}

/// `--workers`.
pub fn parse_workers(text: &str) -> Result<Vec<u16>, LabError> {
    let values = parse_list("workers", text, u32::from(INSTANCES_MAX))?;
    Ok(values.into_iter().map(|workers| workers as u16).collect())
}

/// `--pools`.
pub fn parse_pools(text: &str) -> Result<Vec<u32>, LabError> {
    parse_list("pools", text, POOL_MAX)
}

/// One worker with each pool size, and each number of workers with the current pool size: a star, because the
/// whole grid would spend the budget on candidates that would not be chosen.
pub(crate) fn star(workers: &[u16], pools: &[u32], center: Candidate) -> Vec<Candidate> {
    let along_workers = workers.iter().map(|workers| Candidate { workers: *workers, pool: center.pool });
    let along_pools = pools.iter().map(|pool| Candidate { workers: center.workers, pool: *pool });
    sorted(along_workers.chain(along_pools).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_double_and_then_surround_the_cores() {
        assert_eq!(default_workers(1), [1, 2]);
        assert_eq!(default_workers(2), [1, 2, 3, 4]);
        assert_eq!(default_workers(8), [1, 2, 4, 7, 8, 9, 16]);
        assert_eq!(default_workers(0), [1, 2]);
    }

    #[test]
    fn pools_are_looked_at_only_as_far_as_they_may_matter() {
        assert_eq!(scan_pools(4), [1, 4, 16]);
        assert_eq!(scan_pools(6), [1, 4, 6, 16]);
        assert!(pool_matters(&[10.0, 19.0, 19.5]));
        assert!(!pool_matters(&[100.0, 102.0, 99.0]));
        assert!(!pool_matters(&[100.0]));
        assert_eq!(more_pools(2, 20.0, 20.1), [2]);
        assert_eq!(more_pools(8, 20.0, 20.1), [2, 8]);
        assert!(more_pools(2, 20.0, 60.0).contains(&128));
        assert_eq!(smallest_good_pool(&[(1, 10.0), (4, 19.0), (16, 20.0)]), Some(4));
        assert_eq!(smallest_good_pool(&[]), None);
        assert_eq!(first_with_best_pool(&[1, 2, 3, 4], 2), [2, 2]);
        assert_eq!(first_with_best_pool(&[1, 2, 4, 8, 16], 8), [2, 8]);
        assert!(first_with_best_pool(&[1], 2).is_empty());
    }

    #[test]
    fn lists_have_numbers_and_ranges() {
        assert_eq!(parse_workers("1,2,4").unwrap(), [1, 2, 4]);
        assert_eq!(parse_workers("1-3,8").unwrap(), [1, 2, 3, 8]);
        assert_eq!(parse_pools("16,1,1").unwrap(), [1, 16]);
        for bad in ["", "0", "a", "1-", "3-1", "1-100", "1,,2", "2000"] {
            assert!(parse_workers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_star_has_both_axes_once() {
        let center = Candidate { workers: 1, pool: 4 };
        let star = star(&[1, 2], &[1, 4, 16], center);
        let pairs: Vec<(u16, u32)> =
            star.iter().map(|candidate| (candidate.workers, candidate.pool)).collect();
        assert_eq!(pairs, [(1, 1), (1, 4), (1, 16), (2, 4)]);
    }
}
