//! Candidates that cannot be measured: a host, such as a database, refuses connections because it has too many, or the app
//! fails with them, such as by running out of memory.

use std::collections::BTreeMap;

use forkful_core::outgoing::HostLoad;

use super::Raced;
use crate::LabError;
use crate::arms::workers_text;
use crate::compare::{Setup, Trial, pilot};
use crate::error::refusal;
use crate::progress::Observer;

/// Runs the pilot. When a host refuses connections of its largest arm, one worker is enough for it, and that
/// number of workers is returned. One worker is also enough when the app fails with the largest arm: the race finds out
/// with which numbers it does.
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
        (Err(error), [one, .., most]) if app_failed_in(&error).is_some_and(|arm| arm == most.name) => {
            observer.note(&format!("the pilot has one worker only: {}", brief(&error)));
            let alone = Setup { arms: vec![one.clone()], ..setup.clone() };
            Ok((pilot::run(&alone, observer)?, BTreeMap::new()))
        }
        (found, _) => Ok((found?, BTreeMap::new())),
    }
}

/// The trial of an entry of the race; `None` if the entry cannot be measured, and others are left that may be.
pub(super) fn unless_unfit(
    trial: Result<Trial, LabError>,
    index: usize,
    raced: &mut Raced,
) -> Result<Option<Trial>, LabError> {
    let candidate = raced.race.entries()[index].candidate;
    match trial {
        Err(LabError::Errors { refused: Some(load), .. }) => {
            raced.refused.insert(candidate.workers, *load);
            Ok(None)
        }
        Err(error) if app_failed_in(&error).is_some() && raced.race.survivors().len() > 1 => {
            raced.failed.push(brief(&error));
            raced.race.withdraw(index);
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// The arm in which the app failed; `None` if the experiment did.
fn app_failed_in(error: &LabError) -> Option<&str> {
    match error {
        LabError::Failed { arm, .. }
        | LabError::NotListening { arm, .. }
        | LabError::NoAnswer { arm, .. }
        | LabError::Errors { arm, .. } => Some(arm),
        _ => None,
    }
}

/// What happened, without the app's output.
fn brief(error: &LabError) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_suffix("; its last output was:").unwrap_or(line).to_owned()
}

/// Says which candidates are left out.
pub(super) fn note_failed(failed: &[String], observer: &mut dyn Observer) {
    for text in failed {
        observer.note(&format!("{text}; it is left out"));
    }
}

/// Numbers of workers with which a host refused connections are not measured again, and never chosen.
pub(super) fn forbid_refused(raced: &mut Raced, observer: &mut dyn Observer) {
    let Some((workers, load)) = raced.refused.first_key_value() else { return };
    if raced.race.forbid_from(*workers) {
        observer.note(&format!("{} and more are out: {}", workers_text(*workers), refusal(load)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::race::Candidate;

    #[test]
    fn a_candidate_with_which_the_app_fails_is_left_out_while_there_are_others() {
        let list = vec![Candidate { workers: 1, pool: 4 }, Candidate { workers: 2, pool: 4 }];
        let mut raced = Raced::new(list, false, None);
        let failed = |arm: &str| {
            Err(LabError::Failed {
                arm: arm.to_owned(),
                what: "the app ended by SIGKILL while it was measured".to_owned(),
                tail: vec!["out of memory".to_owned()],
            })
        };
        assert!(unless_unfit(failed("2 workers"), 1, &mut raced).unwrap().is_none());
        assert_eq!(raced.failed, ["2 workers: the app ended by SIGKILL while it was measured"]);
        assert_eq!(raced.race.survivors(), [0]);
        assert!(unless_unfit(failed("1 worker"), 0, &mut raced).is_err(), "the last one");
        let system = LabError::System { what: "a file".to_owned(), source: std::io::Error::other("full") };
        let mut raced = Raced::new(vec![Candidate { workers: 1, pool: 4 }; 2], false, None);
        assert!(unless_unfit(Err(system), 0, &mut raced).is_err(), "not the app's fault");
    }
}
