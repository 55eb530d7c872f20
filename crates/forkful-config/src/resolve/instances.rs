//! The number of workers.

use super::Context;
use crate::error::{ConfigError, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;
use crate::values::{Instances, parse_instances};

/// The number of workers that `instances` means on this machine, 1 when it is not given.
pub(super) fn count(
    options: &AppOptions,
    name: &str,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> Result<u16, ConfigError> {
    let Some(text) = &options.instances else { return Ok(1) };
    let place = options.place("instances");
    let wanted = parse_instances(&text.0).map_err(|expected| ConfigError::Value {
        place: place.clone(),
        value: quoted(&text.0),
        expected,
    })?;
    let usable = context.usable_cores.max(1);
    let count = match wanted {
        Instances::Count(count) => count,
        Instances::Max => usable,
        Instances::Less(less) => {
            u16::try_from(i64::from(usable) - i64::from(less)).unwrap_or_default().max(1)
        }
    };
    if count > usable {
        let cores = if usable == 1 { "core" } else { "cores" };
        let because = match &context.cores_reason {
            Some(reason) => format!(" (because {reason})"),
            None => String::new(),
        };
        warnings.push(Warning {
            place,
            message: format!(
                "gives {} {count} workers, but only {usable} {cores} can be used{because}: \
                 more workers than cores share the same time and answer no faster",
                quoted(name)
            ),
        });
    }
    Ok(count)
}
