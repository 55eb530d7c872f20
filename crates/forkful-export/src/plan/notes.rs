//! Notes for readers of a manifest that no field expresses.

use forkful_core::spec::AppSpec;
use forkful_core::words::count;

use super::{Plan, Request};
use crate::measured::Measured;
use crate::tradeoff;

pub(super) fn of(spec: &AppSpec, request: &Request, measured: Option<&Measured>) -> Vec<String> {
    let mut notes = vec![format!("{}: made by `forkful export` from {}.", spec.name, request.file)];
    match measured {
        Some(measured) => notes.extend(of_measured(measured)),
        None => notes.push(format!(
            "Nothing was measured, so that what is marked \"assumed\" is a guess: `forkful tune {} --path / --save` measures.",
            request.file
        )),
    }
    if spec.watch.is_some() {
        notes.push("`watch` replaces workers when files change, which they do not in an image.".to_owned());
    }
    if spec.logs.out_file.is_some() || spec.logs.error_file.is_some() {
        notes.push(
            "The configuration writes logs to files; in a container leave `out_file` and `error_file` out, so that they go to stdout."
                .to_owned(),
        );
    }
    if !spec.launch.env_sources.files.is_empty() {
        notes.push("Variables of `env_file` are read from the image.".to_owned());
    }
    notes
}

fn of_measured(measured: &Measured) -> [String; 2] {
    let day = forkful_core::date_format::utc(measured.created_at_ms, "%Y-%m-%d");
    let machine = &measured.machine;
    [
        format!(
            "Measured on {day} with {} on {} of {} with Node.js {}:",
            measured.route,
            count(usize::from(machine.cores), "core"),
            machine.cpu,
            machine.node
        ),
        format!("  {}", measured.command),
    ]
}

/// The comparison of few pods against many, with its conditions; empty without measurements.
pub(super) fn of_tradeoff(measured: Option<&Measured>, plan: &Plan) -> Vec<String> {
    let Some(measured) = measured else { return Vec::new() };
    let workers = count(usize::from(plan.workers.value), "worker");
    let rows = tradeoff::rows(measured, plan.workers.value, plan.replicas.value);
    if rows.is_empty() {
        return vec![format!("A pod with {workers} was not measured: its numbers are scaled.")];
    }
    let pods = count(usize::from(plan.replicas.value), "pod");
    let heading = format!("Workers in each pod against pods, at the capacity of {pods} with {workers}:");
    std::iter::once(heading).chain(tradeoff::table(&rows)).collect()
}
