//! The number of workers.

use forkful_core::autoscale::ScaleBounds;
use forkful_core::scale::oversubscription;
use forkful_core::spec::{AppSpec, Mode, Runtime};
use forkful_core::words;

use super::Context;
use crate::error::{ConfigError, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;
use crate::values::{Instances, Number, parse_instances};

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
        Ok(Instances::Fixed(Number::Less(less))) if leaves_none(less, usable) => {
            let expected = match usable {
                1 | 2 => format!("-1, \"max\", or a number from 1: {}", usable_cores(usable)),
                _ => format!("-1 to -{}, \"max\", or a number from 1: {}", usable - 1, usable_cores(usable)),
            };
            Some(ConfigError::value(options.place("instances"), text, &expected))
        }
        _ => None,
    }
}

/// How many workers an app has.
pub(super) struct Workers {
    /// How many it starts with.
    pub(super) instances: u16,
    /// Between which numbers that number follows the load.
    pub(super) autoscale: Option<ScaleBounds>,
}

/// The number of workers that `instances` means on this machine, 1 when it is not given.
pub(super) fn workers(
    options: &AppOptions,
    context: &Context,
    warnings: &mut Vec<Warning>,
) -> Result<Workers, ConfigError> {
    let fixed = |instances| Workers { instances, autoscale: None };
    let Some(text) = options.text("instances") else { return Ok(fixed(1)) };
    let place = options.place("instances");
    let wanted = parse_instances(text)
        .map_err(|expected| ConfigError::value(place.clone(), &quoted(text), &expected))?;
    let mut warn = |message| warnings.push(Warning { place: place.clone(), message });
    let usable = context.usable_cores.max(1);
    let (least, most) = match wanted {
        Instances::Fixed(number) => (None, number),
        Instances::Between(least, most) => (Some(least), most),
    };
    let count = match most {
        Number::Count(count) => count,
        Number::Max => usable,
        Number::Less(less) => {
            if least.is_none() && leaves_none(less, usable) {
                warn(format!("is {}, and {}: 1 worker is started", text, usable_cores(usable)));
            }
            u16::try_from(i64::from(usable) - i64::from(less)).unwrap_or_default().max(1)
        }
    };
    if let Some(told) = oversubscription(count, usable, context.cores_reason.as_deref()) {
        let gives = if least.is_some() { "gives up to" } else { "gives" };
        warn(format!("{gives} {told}"));
    }
    let Some(least) = least else { return Ok(fixed(count)) };
    let min = least.min(count);
    if min == count {
        let one = if count == 1 { "is" } else { "are" };
        warn(format!("has no room: there {one} always {}", words::count(usize::from(count), "worker")));
    }
    Ok(Workers { instances: min, autoscale: Some(ScaleBounds { min, max: count }) })
}

/// Workers of a Node.js app in fork mode do not share its port.
pub(super) fn warn_of_fork_mode(
    options: &AppOptions,
    spec: &AppSpec,
    runtime: Runtime,
    warnings: &mut Vec<Warning>,
) {
    if spec.autoscale.is_some() && spec.mode == Mode::Fork && runtime == Runtime::Node {
        warnings.push(Warning {
            place: options.place("instances"),
            message: "adds workers that do not share the app's port, because it runs in fork mode: use \
                      `exec_mode: \"cluster\"`"
                .to_owned(),
        });
    }
}
