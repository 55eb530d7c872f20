//! The Universal Scalability Law (Gunther, 1993): X(N) = λN ÷ (1 + σ(N − 1) + κN(N − 1)), fitted by weighted
//! non-linear least squares (Levenberg and Marquardt) with λ > 0, σ ≥ 0 and κ ≥ 0.
//!
//! It explains a curve and never decides: σ is the share of work that cannot run in parallel, κ is the
//! coordination cost between workers.

use serde::Serialize;

/// Maximum steps of the fit; it converges within 20 on real curves.
const STEPS_MAX: usize = 200;

/// With fewer distinct worker counts, three parameters explain nothing.
pub(crate) const COUNTS_MIN: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub workers: f64,
    pub throughput: f64,
    /// The inverse of the variance of the throughput, up to a common factor.
    pub weight: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usl {
    /// Throughput of one worker.
    pub lambda: f64,
    pub sigma: f64,
    pub kappa: f64,
    /// The share of the points' variance explained by the law.
    pub r_squared: f64,
}

impl Usl {
    pub fn throughput(&self, workers: f64) -> f64 {
        self.lambda * workers / self.denominator(workers)
    }

    /// The number of workers with the highest throughput; `None` if throughput grows without limit.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 1e-12).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    fn denominator(&self, workers: f64) -> f64 {
        1.0 + self.sigma * (workers - 1.0) + self.kappa * workers * (workers - 1.0)
    }
}

/// Fits the law to all blocks; `None` with fewer than [`COUNTS_MIN`] worker counts, or if a value is not a
/// positive number.
pub(crate) fn fit(points: &[Point]) -> Option<Usl> {
    let mut counts: Vec<u64> = points.iter().map(|point| point.workers.to_bits()).collect();
    counts.sort_unstable();
    counts.dedup();
    let is_usable = |point: &Point| {
        [point.workers, point.throughput, point.weight].iter().all(|value| value.is_finite() && *value > 0.0)
    };
    if counts.len() < COUNTS_MIN || !points.iter().all(is_usable) {
        return None;
    }
    let mut law = first_guess(points);
    let mut damping = 1e-3;
    let mut best = loss(points, &law);
    for _ in 0..STEPS_MAX {
        let candidate = step(points, &law, damping);
        let found = loss(points, &candidate);
        if found < best {
            let is_settled = best - found < 1e-14 * best;
            (law, best, damping) = (candidate, found, damping / 3.0);
            if is_settled {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    Some(Usl { r_squared: r_squared(points, &law), ..law })
}

/// λ from the smallest count, no contention: close enough to start the damped steps.
fn first_guess(points: &[Point]) -> Usl {
    let smallest = points.iter().map(|point| point.workers).fold(f64::INFINITY, f64::min);
    let at_smallest: Vec<f64> = points
        .iter()
        .filter(|point| point.workers <= smallest)
        .map(|point| point.throughput / point.workers)
        .collect();
    Usl { lambda: super::paired::mean(&at_smallest), sigma: 0.05, kappa: 0.001, r_squared: 0.0 }
}

fn loss(points: &[Point], law: &Usl) -> f64 {
    points.iter().map(|point| point.weight * (point.throughput - law.throughput(point.workers)).powi(2)).sum()
}

/// One damped Gauss–Newton step, limited to the valid range of λ, σ and κ. A parameter at its bound that the
/// step would push outwards is excluded, so that the others still move.
fn step(points: &[Point], law: &Usl, damping: f64) -> Usl {
    let mut free = [true; 3];
    for _ in 0..3 {
        let change = solve_step(points, law, damping, free);
        let wanted = [law.lambda + change[0], law.sigma + change[1], law.kappa + change[2]];
        let at_bound = [false, law.sigma <= 0.0, law.kappa <= 0.0];
        let blocked = (0..3).find(|index| free[*index] && at_bound[*index] && wanted[*index] < 0.0);
        match blocked {
            Some(index) => free[index] = false,
            None => {
                return Usl {
                    lambda: wanted[0].max(law.lambda / 10.0),
                    sigma: wanted[1].max(0.0),
                    kappa: wanted[2].max(0.0),
                    r_squared: 0.0,
                };
            }
        }
    }
    *law
}

fn solve_step(points: &[Point], law: &Usl, damping: f64, free: [bool; 3]) -> [f64; 3] {
    let mut normal = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for point in points {
        let (n, denominator) = (point.workers, law.denominator(point.workers));
        let by_denominator = -law.lambda * n / (denominator * denominator);
        let slopes = [n / denominator, by_denominator * (n - 1.0), by_denominator * n * (n - 1.0)];
        let residual = point.throughput - law.throughput(n);
        for row in 0..3 {
            right[row] += point.weight * slopes[row] * residual;
            for column in 0..3 {
                normal[row][column] += point.weight * slopes[row] * slopes[column];
            }
        }
    }
    for row in 0..3 {
        if !free[row] {
            normal[row] = [0.0; 3];
            right[row] = 0.0;
            for line in &mut normal {
                line[row] = 0.0;
            }
        }
        let diagonal = normal[row][row];
        normal[row][row] = if diagonal > 0.0 { diagonal * (1.0 + damping) } else { 1.0 };
    }
    solve(normal, right)
}

/// Solves three equations (Gaussian elimination with pivoting); a singular system gives no change.
fn solve(mut matrix: [[f64; 3]; 3], mut right: [f64; 3]) -> [f64; 3] {
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))
            .expect("the range is not empty");
        if matrix[pivot][column].abs() < 1e-300 {
            return [0.0; 3];
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..3 {
            let factor = matrix[row][column] / matrix[column][column];
            let pivot_row = matrix[column];
            for (value, of_pivot) in matrix[row].iter_mut().zip(pivot_row) {
                *value -= factor * of_pivot;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut result = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|index| matrix[row][index] * result[index]).sum();
        result[row] = (right[row] - known) / matrix[row][row];
    }
    result
}

fn r_squared(points: &[Point], law: &Usl) -> f64 {
    let weight: f64 = points.iter().map(|point| point.weight).sum();
    let mean = points.iter().map(|point| point.weight * point.throughput).sum::<f64>() / weight;
    let total: f64 = points.iter().map(|point| point.weight * (point.throughput - mean).powi(2)).sum();
    if total > 0.0 { 1.0 - loss(points, law) / total } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_core::random::Random;

    fn curve(law: &Usl, counts: &[f64], noise: f64, blocks: usize) -> Vec<Point> {
        let mut random = Random::new(21);
        let mut points = Vec::new();
        for workers in counts {
            for _ in 0..blocks {
                let exact = law.throughput(*workers);
                let deviation = (exact * noise.max(1e-6)).powi(2);
                let throughput = exact * (1.0 + noise * random.normal());
                points.push(Point { workers: *workers, throughput, weight: 1.0 / deviation });
            }
        }
        points
    }

    const COUNTS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];

    #[test]
    fn known_parameters_are_found_again() {
        for (lambda, sigma, kappa) in [
            (5000.0, 0.03, 0.001),
            (100.0, 0.3, 0.02),
            (40_000.0, 0.0, 0.0),
            (7.0, 0.0, 0.05),
            (900.0, 0.1, 0.0),
        ] {
            let law = Usl { lambda, sigma, kappa, r_squared: 1.0 };
            let found = fit(&curve(&law, &COUNTS, 0.0, 1)).unwrap();
            assert!((found.lambda / lambda - 1.0).abs() < 1e-4, "{law:?} {found:?}");
            assert!(
                (found.sigma - sigma).abs() < 1e-4 && (found.kappa - kappa).abs() < 1e-5,
                "{law:?} {found:?}"
            );
            assert!(found.r_squared > 0.999_99);
        }
    }

    #[test]
    fn noise_moves_the_peak_only_a_little() {
        let law = Usl { lambda: 1000.0, sigma: 0.02, kappa: 0.01, r_squared: 1.0 };
        let found = fit(&curve(&law, &COUNTS, 0.03, 6)).unwrap();
        assert!((found.peak().unwrap() - law.peak().unwrap()).abs() < 1.0, "{found:?}");
        assert!((law.peak().unwrap() - 9.899).abs() < 1e-3);
        let endless = Usl { kappa: 0.0, ..law };
        assert_eq!(endless.peak(), None);
    }

    #[test]
    fn what_cannot_be_fitted_is_not() {
        let law = Usl { lambda: 1000.0, sigma: 0.02, kappa: 0.01, r_squared: 1.0 };
        assert!(fit(&curve(&law, &[1.0, 2.0], 0.0, 5)).is_none());
        assert!(fit(&[]).is_none());
        let mut broken = curve(&law, &COUNTS, 0.0, 1);
        broken[2].throughput = f64::NAN;
        assert!(fit(&broken).is_none());
        // Flat throughput: the fit must not return negative parameters.
        let flat: Vec<Point> =
            [1.0, 2.0, 3.0, 4.0].map(|workers| Point { workers, throughput: 500.0, weight: 1.0 }).to_vec();
        let found = fit(&flat).unwrap();
        assert!(found.sigma >= 0.0 && found.kappa >= 0.0 && found.lambda > 0.0);
        assert!((found.throughput(3.0) - 500.0).abs() < 5.0, "{found:?}");
    }
}
