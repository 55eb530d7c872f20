//! Names of the target's workers from their response header, mapped to small numbers for the hot path.

/// Distinct workers that a thread tells apart.
pub(crate) const WORKERS_MAX: usize = crate::Report::WORKERS_MAX;
/// The head names no worker.
pub(crate) const NO_WORKER: u16 = u16::MAX;

/// The worker names that a thread has seen.
#[derive(Debug, Default)]
pub(crate) struct WorkerNames {
    names: Vec<String>,
}

impl WorkerNames {
    /// The number of a name; beyond [`WORKERS_MAX`] names, all new ones are `others`.
    pub(crate) fn index(&mut self, value: &[u8]) -> u16 {
        let name = String::from_utf8_lossy(value);
        if let Some(index) = self.names.iter().position(|known| *known == name) {
            return index as u16;
        }
        if self.names.len() == WORKERS_MAX {
            "others".clone_into(&mut self.names[WORKERS_MAX - 1]);
            return (WORKERS_MAX - 1) as u16;
        }
        self.names.push(name.into_owned());
        (self.names.len() - 1) as u16
    }

    /// Names by their number.
    pub(crate) fn as_slice(&self) -> &[String] {
        &self.names
    }
}
