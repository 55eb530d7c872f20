//! The order of the rows.

use std::cmp::Ordering;
use std::str::FromStr;

use forkful_api::types::{AppRows, WorkerRow};
use forkful_core::spec::Named as _;

/// A field and a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sort {
    field: Field,
    descending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Field {
    #[default]
    Id,
    Name,
    Namespace,
    Pid,
    Cpu,
    Memory,
    Uptime,
    Status,
    Restarts,
}

/// The names for users: PM2's, and restarts.
const FIELDS: [(&str, Field); 9] = [
    ("id", Field::Id),
    ("name", Field::Name),
    ("namespace", Field::Namespace),
    ("pid", Field::Pid),
    ("cpu", Field::Cpu),
    ("memory", Field::Memory),
    ("uptime", Field::Uptime),
    ("status", Field::Status),
    ("restarts", Field::Restarts),
];

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, order) = text.split_once(':').unwrap_or((text, "asc"));
        let field = FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let descending = match order {
            "asc" => Some(false),
            "desc" => Some(true),
            _ => None,
        };
        match (field, descending) {
            (Some(field), Some(descending)) => Ok(Self { field, descending }),
            (None, _) => {
                let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                Err(format!("expected one of {}", names.join(", ")))
            }
            (Some(_), None) => Err(format!("expected {name}:asc or {name}:desc")),
        }
    }
}

impl Sort {
    /// Sorts rows; equal rows are sorted by id.
    pub(crate) fn apply(self, rows: &mut [(&AppRows, &WorkerRow)], now_ms: u64) {
        rows.sort_by_key(|(_, worker)| worker.pm_id);
        rows.sort_by(|left, right| {
            let order = self.field.compare(*left, *right, now_ms);
            if self.descending { order.reverse() } else { order }
        });
    }
}

impl Field {
    fn compare(
        self,
        (left_app, left): (&AppRows, &WorkerRow),
        (right_app, right): (&AppRows, &WorkerRow),
        now_ms: u64,
    ) -> Ordering {
        // A worker that is not running has no uptime.
        let uptime = |worker: &WorkerRow| {
            let started = worker.started_at_ms.filter(|_| worker.pid.is_some());
            started.map_or(0, |started| now_ms.saturating_sub(started))
        };
        match self {
            Self::Id => left.pm_id.cmp(&right.pm_id),
            Self::Name => left_app.name.cmp(&right_app.name),
            Self::Namespace => left_app.namespace.cmp(&right_app.namespace),
            Self::Pid => left.pid.cmp(&right.pid),
            Self::Cpu => left.cpu_percent.total_cmp(&right.cpu_percent),
            Self::Memory => left.memory_bytes.cmp(&right.memory_bytes),
            Self::Uptime => uptime(left).cmp(&uptime(right)),
            Self::Status => left.status.name().cmp(right.status.name()),
            Self::Restarts => left.restarts.cmp(&right.restarts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_perhaps_an_order() {
        assert_eq!("cpu".parse(), Ok(Sort { field: Field::Cpu, descending: false }));
        assert_eq!("name:asc".parse(), Ok(Sort { field: Field::Name, descending: false }));
        assert_eq!("memory:desc".parse(), Ok(Sort { field: Field::Memory, descending: true }));
        let names = "expected one of id, name, namespace, pid, cpu, memory, uptime, status, restarts";
        assert_eq!("size".parse::<Sort>(), Err(names.to_owned()));
        assert_eq!("cpu:up".parse::<Sort>(), Err("expected cpu:asc or cpu:desc".to_owned()));
    }
}
