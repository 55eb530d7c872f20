//! Where in the app the time went, by the stall ledger: without a profile. Verdicts are of means, and single calls can be slow all the same.

use crate::stalls::StallCost;

use super::{Unclear, Verdict};

/// Places that are named.
const PLACES_MAX: usize = 3;
/// A stall with more of its time on a CPU computes; one with less waits in a call.
const COMPUTES: f64 = 0.5;

/// A place of the stall ledger: its cost since the app was added, and when the last stall there began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    pub route: Option<&'a str>,
    pub function: Option<&'a str>,
    pub cost: &'a StallCost,
    pub last_at_ms: u64,
}

impl Place<'_> {
    fn is_known(&self) -> bool {
        self.route.is_some() || self.function.is_some()
    }

    fn computes(&self) -> bool {
        self.cost.cpu.as_secs_f64() > COMPUTES * self.cost.stalled.as_secs_f64()
    }

    /// Its last stall may have lasted into the time that begins then.
    fn reaches(&self, since_ms: u64) -> bool {
        self.last_at_ms.saturating_add(self.cost.longest.as_millis() as u64) >= since_ms
    }
}

impl Verdict {
    /// Whether the stall ledger may say where in the app the cause is.
    pub const fn is_of_stalls(self) -> bool {
        matches!(self, Self::CpuLongCallbacks | Self::SynchronousCall)
    }

    /// Whether places of the stall ledger are worth naming beside it: where they are its cause, or where it says nothing against them.
    pub const fn has_places(self) -> bool {
        self.is_of_stalls()
            || matches!(
                self,
                Self::Idle | Self::CpuContention | Self::Unclear(Unclear::NothingStandsOut | Unclear::Mixed)
            )
    }
}

/// The places that explain a verdict, in the given order, which is that of the ledger: the most expensive first. Only
/// those with a stall at this time or later, that compute or wait as the verdict says. A route without a function is
/// left out if a function of it is named before.
pub fn places<'a>(
    verdict: Verdict,
    ledger: impl IntoIterator<Item = Place<'a>>,
    since_ms: u64,
) -> Vec<Place<'a>> {
    let fits = |place: &Place<'_>| match verdict {
        Verdict::CpuLongCallbacks => place.computes(),
        Verdict::SynchronousCall => !place.computes(),
        other => other.has_places(),
    };
    let mut found: Vec<Place<'a>> = Vec::new();
    for place in ledger {
        let is_named = place.function.is_none() && found.iter().any(|named| named.route == place.route);
        if place.is_known() && place.reaches(since_ms) && fits(&place) && !is_named {
            found.push(place);
        }
        if found.len() == PLACES_MAX {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cost(stalled_ms: u64, cpu_ms: u64) -> StallCost {
        let ms = Duration::from_millis;
        StallCost {
            stalls: 2,
            stalled: ms(stalled_ms),
            longest: ms(300),
            cpu: ms(cpu_ms),
            ..StallCost::default()
        }
    }

    fn named<'a>(verdict: Verdict, ledger: &[Place<'a>], since_ms: u64) -> Vec<Option<&'a str>> {
        places(verdict, ledger.iter().copied(), since_ms).iter().map(|place| place.function).collect()
    }

    #[test]
    fn places_are_named_that_do_what_the_verdict_says() {
        let (computing, waiting) = (cost(600, 580), cost(500, 20));
        let place = |function, cost| Place { route: Some("GET /a"), function, cost, last_at_ms: 10_000 };
        let elsewhere = Place { route: Some("GET /b"), ..place(None, &computing) };
        let unknown = Place { route: None, function: None, cost: &computing, last_at_ms: 10_000 };
        let ledger = [
            unknown,
            place(Some("render"), &computing),
            place(Some("read"), &waiting),
            place(None, &computing),
            elsewhere,
        ];
        assert_eq!(named(Verdict::CpuLongCallbacks, &ledger, 9_000), [Some("render"), None]);
        assert_eq!(named(Verdict::SynchronousCall, &ledger, 9_000), [Some("read")]);
        for verdict in Verdict::CAUSES {
            assert_eq!(
                !named(verdict, &ledger, 9_000).is_empty(),
                verdict.has_places(),
                "{}",
                verdict.name()
            );
        }
    }

    #[test]
    fn stalls_of_before_are_no_evidence_and_the_names_are_few() {
        let computing = cost(600, 580);
        let at = |last_at_ms| Place { route: None, function: Some("render"), cost: &computing, last_at_ms };
        assert_eq!(named(Verdict::CpuLongCallbacks, &[at(8_699)], 9_000), []);
        assert_eq!(named(Verdict::CpuLongCallbacks, &[at(8_700)], 9_000).len(), 1, "it lasted 300 ms");
        assert_eq!(named(Verdict::CpuLongCallbacks, &[at(10_000); 9], 9_000).len(), PLACES_MAX);
    }
}
