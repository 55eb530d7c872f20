//! The number of workers.

use super::Context;
use crate::error::{ConfigError, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;
use crate::values::{Instances, parse_instances};

/// Whether a negative number takes all cores away. -1 on one core does not: it is a usual "all but one".
fn leaves_none(less: u32, usable: u16) -> bool {
    less > 1 && less >= u32::from(usable)
}

fn usable_cores(usable: u16) -> String {
    let cores = if usable == 1 { "core is" } else { "cores are" };
    format!("{usable} {cores} usable on this machine")
}

/// A negative number that leaves no core for a worker. An app is started all the same, as PM2 does, with one worker,
/// so that a configuration for a larger machine works on a smaller one; a check says that it is wrong here.
pub(crate) fn leaves_no_worker(options: &AppOptions, context: &Context) -> Option<ConfigError> {
    let text = options.text("instances")?;
    let usable = context.usable_cores.max(1);
    match parse_instances(text) {
        Ok(Instances::Less(less)) if leaves_none(less, usable) => {
            let expected = match usable {
                1 | 2 => format!("-1, \"max\", or a number from 1: {}", usable_cores(usable)),
                _ => format!("-1 to -{}, \"max\", or a number from 1: {}", usable - 1, usable_cores(usable)),
            };
            Some(ConfigError::value(options.place("instances"), text, &expected))
        }
        _ => None,
    }
}

/// The number of workers that `instances` means on this machine, 1 when it is not given.
pub(super) fn count(
    options: &AppOptions,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> Result<u16, ConfigError> {
    let Some(text) = options.text("instances") else { return Ok(1) };
    let place = options.place("instances");
    let wanted = parse_instances(text)
        .map_err(|expected| ConfigError::value(place.clone(), &quoted(text), &expected))?;
    let usable = context.usable_cores.max(1);
    let count = match wanted {
        Instances::Count(count) => count,
        Instances::Max => usable,
        Instances::Less(less) => {
            if leaves_none(less, usable) {
                let message = format!("is {}, and {}: 1 worker is started", text, usable_cores(usable));
                warnings.push(Warning { place: place.clone(), message });
            }
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
                "gives {count} workers, but only {usable} {cores} can be used{because}: \
                 more workers than cores share the same time and answer no faster"
            ),
        });
    }
    Ok(count)
}
