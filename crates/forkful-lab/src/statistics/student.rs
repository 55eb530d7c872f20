//! Student's t distribution, used for intervals over a few blocks. Computed from the regularised incomplete
//! beta function with Lentz's continued fraction (Press et al., Numerical Recipes, §6.4), to 10 digits.

/// Maximum terms of the continued fraction; it converges within 60 for the arguments of a t distribution.
const TERMS_MAX: usize = 300;

/// Maximum bisections in the search for a quantile; 60 exhaust the precision of a double.
const HALVINGS: usize = 60;

/// The natural logarithm of the gamma function for positive arguments (Lanczos, g = 7).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let base = x + 7.5;
    let sum = COEFFICIENTS
        .iter()
        .enumerate()
        .skip(1)
        .fold(COEFFICIENTS[0], |sum, (index, coefficient)| sum + coefficient / (x + index as f64));
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// The regularised incomplete beta function `I_x(a, b)`.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut above = 1.0;
    let mut below = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut result = below;
    for term in 1..TERMS_MAX {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        below = 1.0 / away(1.0 + even * below);
        above = away(1.0 + even / above);
        result *= below * above;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        below = 1.0 / away(1.0 + odd * below);
        above = away(1.0 + odd / above);
        let step = below * above;
        result *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// The probability that a t-distributed value with `freedom` degrees of freedom is at most `t`.
pub(crate) fn probability(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The value that a t-distributed variable with `freedom` degrees of freedom does not exceed with
/// `probability` (between 0 and 1, exclusive).
pub(crate) fn quantile(probability: f64, freedom: f64) -> f64 {
    if probability < 0.5 {
        return -quantile(1.0 - probability, freedom);
    }
    let mut high = 1.0;
    while self::probability(high, freedom) < probability && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if self::probability(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The factor of a two-sided interval: how many standard errors the mean of `blocks` values may be off with
/// this confidence. `None` for fewer than 2 blocks.
pub(crate) fn two_sided(confidence: f64, blocks: usize) -> Option<f64> {
    (blocks >= 2).then(|| quantile(f64::midpoint(confidence, 1.0), blocks as f64 - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        let table = [
            (0.975, 1.0, 12.706_205),
            (0.975, 2.0, 4.302_653),
            (0.975, 5.0, 2.570_582),
            (0.975, 9.0, 2.262_157),
            (0.975, 30.0, 2.042_272),
            (0.8, 5.0, 0.919_544),
            (0.995, 5.0, 4.032_143),
            (0.975, 1e7, 1.959_964),
        ];
        for (p, freedom, expected) in table {
            let found = quantile(p, freedom);
            assert!((found - expected).abs() < 2e-6, "{p} {freedom}: {found}");
            assert!((quantile(1.0 - p, freedom) + expected).abs() < 2e-6);
        }
        assert!(two_sided(0.95, 1).is_none());
    }

    #[test]
    fn probabilities_invert_quantiles_and_are_symmetric() {
        for freedom in [1.0, 3.0, 11.0, 200.0] {
            for p in [0.01, 0.2, 0.5, 0.77, 0.999] {
                let t = quantile(p, freedom);
                assert!((probability(t, freedom) - p).abs() < 1e-10);
                assert!((probability(-t, freedom) - (1.0 - p)).abs() < 1e-10);
            }
        }
        // With one degree of freedom it is the Cauchy distribution.
        assert!((probability(1.0, 1.0) - 0.75).abs() < 1e-12);
    }
}
