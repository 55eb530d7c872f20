//! Numbers of workers with which a host, such as a database, refuses connections because it has too many.

use std::collections::BTreeMap;

use forkful_core::outgoing::HostLoad;

use super::Raced;
use super::race::Candidate;
use crate::LabError;
use crate::arms::workers_text;
use crate::compare::{Setup, Trial, pilot};
use crate::error::refusal;
use crate::progress::Observer;

/// Runs the pilot. When a host refuses connections of its largest arm, one worker is enough for it, and that
/// number of workers is returned.
pub(super) fn piloted(
    setup: &Setup,
    observer: &mut dyn Observer,
) -> Result<(pilot::Pilot, BTreeMap<u16, HostLoad>), LabError> {
    match (pilot::run(setup, observer), setup.arms.as_slice()) {
        (Err(LabError::Errors { refused: Some(load), .. }), [one, .., most]) => {
            let workers = most.runner.workers();
            observer.note(&format!("the pilot has one worker only: {}", refusal(&load)));
            let alone = Setup { arms: vec![one.clone()], ..setup.clone() };
            Ok((pilot::run(&alone, observer)?, BTreeMap::from([(workers, *load)])))
        }
        (found, _) => Ok((found?, BTreeMap::new())),
    }
}

/// The trial; `None` if the app answered with errors because a host refused connections of this many workers.
pub(super) fn unless_refused(
    trial: Result<Trial, LabError>,
    candidate: Candidate,
    raced: &mut Raced,
) -> Result<Option<Trial>, LabError> {
    match trial {
        Err(LabError::Errors { refused: Some(load), .. }) => {
            raced.refused.insert(candidate.workers, *load);
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Numbers of workers with which a host refused connections are not measured again, and never chosen.
pub(super) fn forbid_refused(raced: &mut Raced, observer: &mut dyn Observer) {
    let Some((workers, load)) = raced.refused.first_key_value() else { return };
    if raced.race.forbid_from(*workers) {
        observer.note(&format!("{} and more are out: {}", workers_text(*workers), refusal(load)));
    }
}
