//! Saves the results of `tune --save`: the file that `forkful export` reads.

use std::path::Path;

use forkful_export::measured::{Candidate, FILE, Measured, MeasuredFile, MeasuredMachine};
use forkful_lab::document::{CandidateDocument, TuneDocument};

use super::super::export::read_measured;
use crate::exit::{Exit, Failure};
use crate::output;

/// Readable by everybody, like a configuration.
const MODE: u32 = 0o644;

/// Adds the measurements of an app to those of other apps in the file.
pub(super) fn save(folder: &Path, app: &str, document: &TuneDocument) -> Result<(), Failure> {
    let path = folder.join(FILE);
    let mut file = MeasuredFile { apps: read_measured(&path)?, ..MeasuredFile::default() };
    file.apps.insert(app.to_owned(), measured(document));
    forkful_os::replace::replace(&path, MODE, file.text().as_bytes()).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("cannot write {}", path.display()));
        Failure::caused(Exit::Failed, error)
    })?;
    output::note(&format!("what was measured is in {}, for `forkful export`", path.display()));
    Ok(())
}

fn measured(document: &TuneDocument) -> Measured {
    let heading = &document.heading;
    let pool = document.choice.pool;
    let is_refused =
        |row: &CandidateDocument| document.refused.iter().any(|from| row.workers >= from.workers);
    let rows = document
        .table
        .iter()
        .filter(|row| row.pool == pool && row.per_second > 0.0 && row.memory_bytes > 0 && !is_refused(row));
    let mut candidates: Vec<Candidate> = rows.map(candidate).collect();
    candidates.sort_by_key(|one| one.workers);
    Measured {
        forkful: heading.forkful.clone(),
        created_at_ms: heading.created_at_ms,
        command: heading.command.clone(),
        route: format!("{} {}", heading.target.method, heading.target.path),
        machine: MeasuredMachine {
            cores: heading.machine.cores,
            cpu: heading.machine.cpu.clone(),
            node: heading.machine.node.clone(),
        },
        workers: document.choice.workers,
        pool,
        pool_matters: document.choice.pool_matters,
        candidates,
    }
}

fn candidate(row: &CandidateDocument) -> Candidate {
    let positive = |number: &f64| number.is_finite() && *number > 0.0;
    Candidate {
        workers: row.workers,
        per_second: row.per_second,
        cpu_per_request_us: row.cpu_per_request_us.filter(positive),
        memory_bytes: row.memory_bytes,
        p99_at_70_ms: row.p99_at_own_70_ms.filter(positive),
    }
}

#[cfg(test)]
mod tests {
    use forkful_export::measured::MeasuredFile;
    use forkful_lab::document::{
        Choice, Heading, Machine, PlanDocument, TargetDocument, Trust, TuneDocument, VERSION,
    };

    use super::*;

    fn row(workers: u16, pool: u32, per_second: f64, p99_at_own_70_ms: Option<f64>) -> CandidateDocument {
        CandidateDocument {
            workers,
            pool,
            per_second,
            ci95: None,
            best: false,
            relative_percent: 0.0,
            relative_ci95_percent: None,
            carries_70: true,
            p99_at_70_ms: Some(99.0),
            p95_at_70_ms: None,
            p90_at_70_ms: None,
            p99_at_own_70_ms,
            memory_bytes: 50 << 20,
            cpu_per_request_us: Some(2_000.0),
            rounds: 3,
            dropped_in_round: None,
            pareto: false,
            chosen: false,
            share_percent: 0.0,
            blocks: Vec::new(),
        }
    }

    fn document() -> TuneDocument {
        TuneDocument {
            kind: "tune".to_owned(),
            version: VERSION,
            heading: Heading {
                headline: String::new(),
                details: Vec::new(),
                forkful: "0.1.0".to_owned(),
                created_at_ms: 1,
                command: "forkful tune server.js".to_owned(),
                seed: 7,
                versions: Vec::new(),
                target: TargetDocument {
                    script: "server.js".to_owned(),
                    method: "GET".to_owned(),
                    path: "/heavy".to_owned(),
                    beside: None,
                },
                machine: Machine {
                    cores: 2,
                    cpu: "x".to_owned(),
                    kernel: "y".to_owned(),
                    node: "v24.1.0".to_owned(),
                    memory_bytes: 1 << 30,
                    governor: None,
                },
            },
            choice: Choice {
                workers: 2,
                pool: 4,
                pool_matters: false,
                stability: 1.0,
                sentence: String::new(),
            },
            trustworthy: true,
            plan: PlanDocument {
                budget_s: 120.0,
                took_s: 100.0,
                blocks: 3,
                looks: Vec::new(),
                connections: 64,
                keep_alive: true,
                warmup_s: 1.0,
                window_s: 1.0,
                latency_window_s: 1.5,
                restarts: String::new(),
            },
            // Best first, as in `tune`; includes a pool that was not chosen, and a candidate without time for
            // its own load.
            table: vec![row(2, 4, 880.0, Some(12.5)), row(1, 16, 470.0, Some(1.0)), row(1, 4, 460.0, None)],
            usl: None,
            refused: Vec::new(),
            patch: None,
            trust: Trust::default(),
        }
    }

    #[test]
    fn what_was_measured_with_the_pool_of_the_choice_is_kept_beside_other_apps() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), "api", &document()).unwrap();
        save(folder.path(), "web", &document()).unwrap();
        let text = fs_err::read_to_string(folder.path().join(FILE)).unwrap();
        let apps = MeasuredFile::parse(&text).unwrap().apps;
        assert_eq!(apps.keys().collect::<Vec<_>>(), ["api", "web"]);
        let api = &apps["api"];
        let found: Vec<_> = api.candidates.iter().map(|one| (one.workers, one.p99_at_70_ms)).collect();
        assert_eq!(found, [(1, None), (2, Some(12.5))]);
        assert_eq!((api.route.as_str(), api.workers, api.pool), ("GET /heavy", 2, 4));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join(FILE), "mine").unwrap();
        assert!(save(folder.path(), "api", &document()).is_err());
        assert_eq!(fs_err::read_to_string(folder.path().join(FILE)).unwrap(), "mine");
    }
}
