//! How many workers a `scale` asks for: a number, a change of the present number, or one for each core.
//!
//! The daemon resolves it against the number that the app has at that moment, so that two changes at a time both count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::autoscale::ScaleBounds;
use crate::spec::INSTANCES_MAX;

/// What a `scale` asks for. In JSON a number, or one of the texts `+2`, `-1` and `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub enum ScaleTarget {
    Exactly(u16),
    By(i32),
    /// As many workers as there are cores that the daemon may use.
    Max,
}

/// A number of workers that no app can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    pub wanted: i64,
    /// Those of an app whose number of workers follows the load.
    pub bounds: Option<ScaleBounds>,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, bounds } = self;
        match bounds {
            Some(ScaleBounds { min, max }) => {
                write!(f, "the app has {min} to {max} workers by its load, but this would make {wanted}")
            }
            None => write!(f, "an app has 1 to {INSTANCES_MAX} workers, but this would make {wanted}"),
        }
    }
}

impl std::error::Error for OutOfRange {}

/// A text that is no number of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTarget(String);

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid worker count `{}`", self.0)
    }
}

impl std::error::Error for InvalidTarget {}

/// What to write instead of an invalid text.
pub const SCALE_HINT: &str = "write a number from 1, `max`, or a change as +2 or -1";

impl ScaleTarget {
    /// The number of workers, for an app that has `present` on a machine with `cores`, and whose number follows the load within
    /// `bounds`.
    pub fn resolve(self, present: u16, cores: u16, bounds: Option<ScaleBounds>) -> Result<u16, OutOfRange> {
        let wanted = match self {
            Self::Exactly(number) => i64::from(number),
            Self::By(change) => i64::from(present) + i64::from(change),
            Self::Max => i64::from(cores.min(INSTANCES_MAX)),
        };
        let is_possible = |wanted: &u16| match bounds {
            Some(bounds) => bounds.allow(*wanted),
            None => (1..=INSTANCES_MAX).contains(wanted),
        };
        u16::try_from(wanted).ok().filter(is_possible).ok_or(OutOfRange { wanted, bounds })
    }
}

/// What it means when an app gets more workers than there are cores; `None` when there are enough cores. `because`: why no more cores can
/// be used.
pub fn oversubscription(workers: u16, usable: u16, because: Option<&str>) -> Option<String> {
    let cores = if usable == 1 { "core" } else { "cores" };
    let because = because.map_or_else(String::new, |because| format!(" (because {because})"));
    (workers > usable).then(|| {
        format!(
            "{workers} workers, but only {usable} {cores} can be used{because}: \
             more workers than cores share the same time and answer no faster"
        )
    })
}

impl FromStr for ScaleTarget {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let parsed = match text {
            "max" => Some(Self::Max),
            _ if text.starts_with(['+', '-']) => text.parse().ok().map(Self::By),
            _ => text.parse().ok().map(Self::Exactly),
        };
        parsed.ok_or_else(|| InvalidTarget(text.to_owned()))
    }
}

impl fmt::Display for ScaleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(number) => write!(f, "{number}"),
            Self::By(change) => write!(f, "{change:+}"),
            Self::Max => f.write_str("max"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of workers, `max`, or a change as \"+2\"")]
enum Wire {
    Number(u16),
    Text(String),
}

impl TryFrom<Wire> for ScaleTarget {
    type Error = InvalidTarget;

    fn try_from(wire: Wire) -> Result<Self, InvalidTarget> {
        match wire {
            Wire::Number(number) => Ok(Self::Exactly(number)),
            Wire::Text(text) => text.parse(),
        }
    }
}

impl From<ScaleTarget> for Wire {
    fn from(target: ScaleTarget) -> Self {
        match target {
            ScaleTarget::Exactly(number) => Self::Number(number),
            ScaleTarget::By(_) | ScaleTarget::Max => Self::Text(target.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workers_than_cores_are_told() {
        assert_eq!(oversubscription(2, 2, None), None);
        let told = oversubscription(3, 1, Some("of a quota")).unwrap();
        assert!(
            told.starts_with("3 workers, but only 1 core can be used (because of a quota): more"),
            "{told}"
        );
    }

    #[test]
    fn a_number_a_change_or_max() {
        let parsed = ["4", "+2", "-1", "max"].map(|text| text.parse().ok());
        let (exactly, by) = (ScaleTarget::Exactly, ScaleTarget::By);
        assert_eq!(parsed, [Some(exactly(4)), Some(by(2)), Some(by(-1)), Some(ScaleTarget::Max)]);
        for text in ["", "x", "1.5", "+", "70000", "max "] {
            assert!(text.parse::<ScaleTarget>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_change_counts_from_what_there_is() {
        let refused = |wanted| Err(OutOfRange { wanted, bounds: None });
        assert_eq!(ScaleTarget::By(2).resolve(2, 8, None), Ok(4));
        assert_eq!(ScaleTarget::By(-3).resolve(2, 8, None), refused(-1));
        assert_eq!(ScaleTarget::By(i32::MAX).resolve(2, 8, None), refused(2_147_483_649));
        assert_eq!(ScaleTarget::Exactly(0).resolve(2, 8, None), refused(0));
        assert_eq!(ScaleTarget::Max.resolve(2, 8, None), Ok(8));
    }

    #[test]
    fn an_app_whose_number_follows_the_load_stays_within_its_bounds() {
        let bounds = Some(ScaleBounds { min: 2, max: 4 });
        assert_eq!(ScaleTarget::Exactly(4).resolve(2, 8, bounds), Ok(4));
        let refused = ScaleTarget::By(-1).resolve(2, 8, bounds).unwrap_err();
        assert_eq!(refused.to_string(), "the app has 2 to 4 workers by its load, but this would make 1");
    }

    #[test]
    fn it_is_a_number_or_a_text_in_json() {
        for text in ["4", r#""+2""#, r#""-1""#, r#""max""#] {
            let target: ScaleTarget = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&target).unwrap(), text);
        }
        assert_eq!(serde_json::from_str::<ScaleTarget>(r#""3""#).unwrap(), ScaleTarget::Exactly(3));
        let error = serde_json::from_str::<ScaleTarget>(r#""few""#).unwrap_err();
        assert!(error.to_string().contains("invalid worker count `few`"), "{error}");
    }
}
