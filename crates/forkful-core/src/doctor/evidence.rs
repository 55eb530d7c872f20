//! The measurements behind a verdict.

/// A measurement and its comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Its name, completing "the …".
    pub label: &'static str,
    pub value: f64,
    pub quantity: Quantity,
    /// The rule's limit.
    pub bound: Option<Bound>,
}

/// A limit of a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    Above(f64),
    Below(f64),
}

/// The unit of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// From 0 to 1.
    Share,
    Milliseconds,
    PerSecond,
    Count,
    /// 1 is a whole core.
    Cores,
    Bytes,
}

impl Quantity {
    /// The unit's name in JSON.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Milliseconds => "ms",
            Self::PerSecond => "per second",
            Self::Count => "count",
            Self::Cores => "cores",
            Self::Bytes => "bytes",
        }
    }

    /// A value, for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.0} %", value * 100.0),
            Self::Milliseconds if value >= 10.0 => format!("{value:.0} ms"),
            Self::Milliseconds => format!("{value:.1} ms"),
            Self::PerSecond if value >= 10.0 => format!("{value:.0}/s"),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::Count if value >= 10.0 => format!("{value:.0}"),
            Self::Count => format!("{value:.1}"),
            Self::Cores => format!("{value:.2} cores"),
            Self::Bytes => format!("{:.0} MiB", value / (1024.0 * 1024.0)),
        }
    }
}

impl Evidence {
    /// `value (over 90 %)`.
    pub fn shown(&self) -> String {
        let value = self.quantity.shown(self.value);
        match self.bound {
            None => value,
            Some(Bound::Above(bound)) => format!("{value} (over {})", self.quantity.shown(bound)),
            Some(Bound::Below(bound)) => format!("{value} (under {})", self.quantity.shown(bound)),
        }
    }
}

/// Collects the known measurements.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<Evidence>);

impl Rows {
    pub(super) fn row(self, label: &'static str, quantity: Quantity, value: Option<f64>) -> Self {
        self.push(label, quantity, value, None)
    }

    pub(super) fn above(
        self,
        label: &'static str,
        quantity: Quantity,
        value: Option<f64>,
        bound: f64,
    ) -> Self {
        self.push(label, quantity, value, Some(Bound::Above(bound)))
    }

    pub(super) fn below(
        self,
        label: &'static str,
        quantity: Quantity,
        value: Option<f64>,
        bound: f64,
    ) -> Self {
        self.push(label, quantity, value, Some(Bound::Below(bound)))
    }

    /// A limit is shown only if the measurement satisfies it: a rule with alternatives matches by one of
    /// them.
    fn push(
        mut self,
        label: &'static str,
        quantity: Quantity,
        value: Option<f64>,
        bound: Option<Bound>,
    ) -> Self {
        let keeps = |value: f64| match bound {
            Some(Bound::Above(bound)) => value > bound,
            Some(Bound::Below(bound)) => value < bound,
            None => true,
        };
        self.0.extend(value.map(|value| Evidence {
            label,
            value,
            quantity,
            bound: bound.filter(|_| keeps(value)),
        }));
        self
    }

    pub(super) fn list(self) -> Vec<Evidence> {
        self.0
    }
}
