//! What `tune --save` keeps of a result: the file that `forkful export` reads.

use std::path::Path;

use forkful_export::measured::{Candidate, FILE, Measured, MeasuredFile, MeasuredMachine};
use forkful_lab::document::{CandidateDocument, TuneDocument};

use super::super::export::read_measured;
use crate::exit::{Exit, Failure};
use crate::output;

/// Readable by everybody, as a configuration is.
const MODE: u32 = 0o644;

/// Puts what was measured of an app beside what is there of others.
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
    let rows =
        document.table.iter().filter(|row| row.pool == pool && row.per_second > 0.0 && row.memory_bytes > 0);
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
