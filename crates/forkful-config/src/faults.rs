//! Collects errors while reading continues, so that a user sees all of them at once.

use crate::error::ConfigError;

/// Maximum stored errors of a configuration; a file with more is wrong as a whole.
const FAULTS_MAX: usize = 100;

/// The errors so far, in the order of detection.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<ConfigError>,
}

impl Faults {
    /// Adds an error, unless it is already known.
    pub(crate) fn add(&mut self, fault: ConfigError) {
        let text = fault.to_string();
        if self.found.len() < FAULTS_MAX && self.found.iter().all(|known| known.to_string() != text) {
            self.found.push(fault);
        }
    }

    /// Returns the value, or `None` and adds its error.
    pub(crate) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|fault| self.add(fault)).ok()
    }

    /// The number of errors.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Removes the errors after the first `count`.
    pub(crate) fn since(&mut self, count: usize) -> Vec<ConfigError> {
        self.found.split_off(count.min(self.found.len()))
    }

    pub(crate) fn into_list(self) -> Vec<ConfigError> {
        self.found
    }

    /// The value if there is no error; otherwise the first error, which says whether there are more.
    pub(crate) fn or_value<T>(mut self, value: T) -> Result<T, ConfigError> {
        match self.found.len() {
            0 => Ok(value),
            1 => Err(self.found.remove(0)),
            _ => Err(ConfigError::several(self.found.remove(0))),
        }
    }
}
