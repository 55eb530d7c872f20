//! Whether a measurement was undisturbed: drift over its thirds, and CPU used by others. Both rules are fixed
//! before a result is known.

use std::time::Duration;

use super::paired::{Interval, t_interval};

/// A smaller drift does not matter.
pub(crate) const DRIFT_MIN: f64 = 0.02;

/// With a larger drift, a figure depends on when it was measured.
pub(crate) const DRIFT_MAX: f64 = 0.2;

/// If the hypervisor takes a larger share of the cores' time, a block counts as disturbed.
pub(crate) const STOLEN_MAX: f64 = 0.01;

/// If unrelated processes take a larger share, a block counts as disturbed.
pub(crate) const FOREIGN_MAX: f64 = 0.05;

/// The change from the first third of a window to its last, as a ratio over several windows with a 95 %
/// interval.
///
/// Each window is a list of rates at equal intervals; windows with fewer than three values are left out.
pub(crate) fn drift(windows: &[Vec<f64>]) -> Option<Interval> {
    let changes: Vec<f64> = windows.iter().filter_map(|rates| change_over_thirds(rates)).collect();
    t_interval(&changes, super::verdict::CONFIDENCE)
}

/// Whether the drift is certain and large enough to matter: the app is still warming up, or throttled.
pub(crate) fn is_drifting(drift: &Interval) -> bool {
    let is_certain = drift.low() > 1.0 || drift.high() < 1.0;
    is_certain && (drift.ratio - 1.0).abs() > DRIFT_MIN
}

/// ln(last third ÷ first third).
fn change_over_thirds(rates: &[f64]) -> Option<f64> {
    let third = rates.len() / 3;
    if third == 0 {
        return None;
    }
    let first = super::paired::mean(&rates[..third]);
    let last = super::paired::mean(&rates[rates.len() - third..]);
    (first > 0.0 && last > 0.0).then(|| (last / first).ln())
}

/// CPU time of all cores together during a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MachineUse {
    /// Wall time × cores.
    pub capacity: Duration,
    /// Time that the cores worked for any process of this machine.
    pub busy: Duration,
    /// Time that the hypervisor gave to other machines.
    pub stolen: Duration,
    /// Time of the server's process tree and of the load generator: the experiment itself.
    pub own: Duration,
}

impl MachineUse {
    /// Adds another window.
    pub(crate) fn add(&mut self, other: &Self) {
        self.capacity += other.capacity;
        self.busy += other.busy;
        self.stolen += other.stolen;
        self.own += other.own;
    }
}

/// Why a block does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Disturbance {
    /// The host took this share of the cores' time.
    Stolen(f64),
    /// Other processes took this share.
    Foreign(f64),
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stolen(share) => write!(f, "the host took {:.1} % of the CPU time", share * 100.0),
            Self::Foreign(share) => write!(f, "other processes took {:.1} % of the CPU time", share * 100.0),
        }
    }
}

/// Applies the rule to one window.
pub(crate) fn disturbance(used: &MachineUse) -> Option<Disturbance> {
    if used.capacity.is_zero() {
        return None;
    }
    let share = |time: Duration| time.as_secs_f64() / used.capacity.as_secs_f64();
    let stolen = share(used.stolen);
    let foreign = share(used.busy.saturating_sub(used.own));
    if stolen > STOLEN_MAX {
        Some(Disturbance::Stolen(stolen))
    } else if foreign > FOREIGN_MAX {
        Some(Disturbance::Foreign(foreign))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_core::random::Random;

    #[test]
    fn warming_up_is_a_drift_and_noise_is_none() {
        let mut random = Random::new(2);
        let warming: Vec<Vec<f64>> = (0..6)
            .map(|_| {
                (0..15).map(|n| (1000.0 + 12.0 * f64::from(n)) * (1.0 + 0.02 * random.normal())).collect()
            })
            .collect();
        let found = drift(&warming).unwrap();
        assert!(is_drifting(&found), "{found:?}");
        assert!((1.08..1.18).contains(&found.ratio));
        let steady: Vec<Vec<f64>> =
            (0..6).map(|_| (0..15).map(|_| 1000.0 * (1.0 + 0.03 * random.normal())).collect()).collect();
        assert!(!is_drifting(&drift(&steady).unwrap()));
        assert!(drift(&[vec![1.0, 2.0], vec![0.0, 1.0, 1.0]]).is_none());
        let slight = Interval { ratio: 1.01, bounds: [1.005, 1.015] };
        assert!(!is_drifting(&slight), "certain, but too small to matter");
    }

    #[test]
    fn disturbances_are_named_with_their_share() {
        let ms = Duration::from_millis;
        let quiet = MachineUse { capacity: ms(4000), busy: ms(3900), stolen: ms(20), own: ms(3800) };
        assert_eq!(disturbance(&quiet), None);
        let stolen = disturbance(&MachineUse { stolen: ms(120), ..quiet }).unwrap();
        assert_eq!(stolen.to_string(), "the host took 3.0 % of the CPU time");
        let foreign = disturbance(&MachineUse { own: ms(3500), ..quiet }).unwrap();
        assert_eq!(foreign.to_string(), "other processes took 10.0 % of the CPU time");
        assert_eq!(disturbance(&MachineUse { own: ms(4200), ..quiet }), None, "clocks that differ a little");
        assert_eq!(disturbance(&MachineUse::default()), None);
    }
}
