//! Faults that are collected while reading goes on, so that a user sees all of them at once.

use crate::error::ConfigError;

/// The most faults that are kept of one configuration; a file with more is wrong as a whole.
const FAULTS_MAX: usize = 100;

/// What was found to be wrong so far, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<ConfigError>,
}

impl Faults {
    /// Notes a fault, unless it is known already.
    pub(crate) fn add(&mut self, fault: ConfigError) {
        let text = fault.to_string();
        if self.found.len() < FAULTS_MAX && self.found.iter().all(|known| known.to_string() != text) {
            self.found.push(fault);
        }
    }

    /// The value, or `None` with its fault noted.
    pub(crate) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|fault| self.add(fault)).ok()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Removes those that came after the first `count`.
    pub(crate) fn since(&mut self, count: usize) -> Vec<ConfigError> {
        self.found.split_off(count.min(self.found.len()))
    }

    pub(crate) fn into_list(self) -> Vec<ConfigError> {
        self.found
    }

    /// The value when nothing is wrong; else the first fault, with the number of all.
    pub(crate) fn or_value<T>(mut self, value: T) -> Result<T, ConfigError> {
        match self.found.len() {
            0 => Ok(value),
            1 => Err(self.found.remove(0)),
            count => Err(ConfigError::several(self.found.remove(0), count)),
        }
    }
}
