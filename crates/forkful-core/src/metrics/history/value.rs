//! Encodes a value in one byte; 0 means unknown. Shares have equal steps; other values have a zero and steps
//! of equal ratio between a minimum and a maximum, so that they are precise to a few percent.

use crate::metrics::table::Unit;

/// Number of steps of a share.
const STEPS: f64 = 254.0;
/// Steps between the minimum and the maximum.
const RATIOS: f64 = 253.0;

/// The minimum and maximum of a unit; for a share its whole.
fn range(unit: Unit) -> Result<(f64, f64), f64> {
    match unit {
        Unit::Ratio => Err(1.0),
        Unit::MillisecondsPerSecond => Err(1000.0),
        Unit::Milliseconds => Ok((0.05, 600_000.0)),
        Unit::PerSecond => Ok((0.1, 1e6)),
        Unit::Bytes => Ok((f64::from(1 << 20), 64.0 * f64::from(1 << 30))),
        Unit::Count => Ok((1.0, 1e6)),
        Unit::Cores => Ok((0.001, 1000.0)),
        Unit::Seconds => Ok((0.001, 1e6)),
    }
}

pub(super) fn encode(unit: Unit, value: Option<f64>) -> u8 {
    let Some(value) = value.filter(|value| *value >= 0.0) else { return 0 };
    let code = match range(unit) {
        Err(whole) => 1.0 + (value / whole * STEPS).round().min(STEPS),
        Ok((least, _)) if value < least / 2.0 => 1.0,
        Ok((least, most)) => {
            2.0 + (RATIOS * (value / least).ln() / (most / least).ln()).round().clamp(0.0, RATIOS)
        }
    };
    code as u8
}

pub(super) fn decode(unit: Unit, code: u8) -> Option<f64> {
    let value = match (code, range(unit)) {
        (0, _) => return None,
        (code, Err(whole)) => f64::from(code - 1) / STEPS * whole,
        (1, Ok(_)) => 0.0,
        (code, Ok((least, most))) => least * (most / least).powf(f64::from(code - 2) / RATIOS),
    };
    Some(short(value))
}

/// Four digits are more than its precision.
fn short(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let digits = 3 - value.log10().floor() as i32;
    let scale = 10_f64.powi(digits.abs());
    if digits >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: [Unit; 8] = [
        Unit::Ratio,
        Unit::Milliseconds,
        Unit::MillisecondsPerSecond,
        Unit::PerSecond,
        Unit::Bytes,
        Unit::Count,
        Unit::Cores,
        Unit::Seconds,
    ];

    #[test]
    fn what_is_not_known_is_not_0() {
        for unit in UNITS {
            assert_eq!((encode(unit, None), encode(unit, Some(-1.0))), (0, 0));
            assert_eq!((encode(unit, Some(0.0)), decode(unit, 1)), (1, Some(0.0)));
            assert_eq!(decode(unit, 0), None);
            assert_eq!(encode(unit, Some(1e300)), 255);
        }
    }

    #[test]
    fn every_code_is_read_back_as_itself() {
        for unit in UNITS {
            for code in 1..=255 {
                let value = decode(unit, code).unwrap();
                assert_eq!(encode(unit, Some(value)), code, "{unit:?} {value}");
            }
        }
    }

    #[test]
    fn shares_are_right_to_half_a_step_and_others_to_4_percent() {
        for share in [0.003, 0.15, 0.5, 0.904, 1.0] {
            let read = decode(Unit::Ratio, encode(Unit::Ratio, Some(share))).unwrap();
            assert!((read - share).abs() <= 0.002, "{share}: {read}");
        }
        for (unit, value) in [
            (Unit::Bytes, 123_456_789.0),
            (Unit::Milliseconds, 0.26),
            (Unit::Milliseconds, 7_300.0),
            (Unit::PerSecond, 31_415.9),
            (Unit::Count, 7.0),
            (Unit::Cores, 0.37),
        ] {
            let read = decode(unit, encode(unit, Some(value))).unwrap();
            assert!((read / value - 1.0).abs() <= 0.04, "{value}: {read}");
        }
    }
}
