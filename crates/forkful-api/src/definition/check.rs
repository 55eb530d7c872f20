//! Checks of a definition's single values, each with a message that names app and field.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use super::{DURATION_MS_MAX, DefinitionError, ITEMS_MAX, millis, text};

/// Checks of one definition's values; knows the app's name for the messages.
pub(super) struct Check<'a> {
    pub(super) app: &'a str,
}

impl Check<'_> {
    pub(super) fn fault(&self, what: impl Display) -> DefinitionError {
        DefinitionError::Other(format!("app `{}`: {what}", self.app))
    }

    pub(super) fn range<N: Into<i128>>(
        &self,
        field: &'static str,
        value: N,
        min: N,
        max: N,
    ) -> Result<(), DefinitionError> {
        let (value, min, max) = (value.into(), min.into(), max.into());
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(DefinitionError::Range { app: self.app.to_owned(), field, value, min, max })
    }

    pub(super) fn duration(&self, field: &'static str, millis: u64) -> Result<Duration, DefinitionError> {
        self.range(field, millis, 0, DURATION_MS_MAX)?;
        Ok(Duration::from_millis(millis))
    }

    pub(super) fn optional_duration(
        &self,
        field: &'static str,
        millis: Option<u64>,
    ) -> Result<Option<Duration>, DefinitionError> {
        millis.map(|millis| self.duration(field, millis)).transpose()
    }

    /// A time limit, of which 0 is the default: so PM2 reads it.
    pub(super) fn timeout(
        &self,
        field: &'static str,
        millis: Option<u64>,
    ) -> Result<Option<Duration>, DefinitionError> {
        Ok(self.optional_duration(field, millis)?.filter(|timeout| !timeout.is_zero()))
    }

    pub(super) fn path(&self, field: &'static str, value: String) -> Result<PathBuf, DefinitionError> {
        self.text(field, &value)?;
        if !value.starts_with('/') {
            return Err(self.fault(format_args!("{field} must be an absolute path, but is {value:?}")));
        }
        Ok(PathBuf::from(value))
    }

    /// Refuses a duration of less than `least_ms` milliseconds; `None` is accepted.
    pub(super) fn within(
        &self,
        field: &'static str,
        duration: Option<Duration>,
        least_ms: u64,
    ) -> Result<(), DefinitionError> {
        duration.map_or(Ok(()), |duration| self.range(field, millis(duration), least_ms, DURATION_MS_MAX))
    }

    pub(super) fn paths(&self, field: &'static str, values: &[PathBuf]) -> Result<(), DefinitionError> {
        values.iter().try_for_each(|path| self.path(field, text(path)).map(drop))
    }

    pub(super) fn optional_path(
        &self,
        field: &'static str,
        value: Option<String>,
    ) -> Result<Option<PathBuf>, DefinitionError> {
        value.map(|value| self.path(field, value)).transpose()
    }

    pub(super) fn env(
        &self,
        env: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), DefinitionError> {
        self.count("env", env.len())?;
        for (name, value) in env {
            self.variable_name(name)?;
            self.text("env", value)?;
        }
        Ok(())
    }

    pub(super) fn variable_name(&self, name: &str) -> Result<(), DefinitionError> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(self.fault(format_args!("{name:?} cannot be the name of an environment variable")));
        }
        Ok(())
    }

    pub(super) fn texts(&self, field: &'static str, values: &[String]) -> Result<(), DefinitionError> {
        self.count(field, values.len())?;
        values.iter().try_for_each(|value| self.text(field, value))
    }

    pub(super) fn text(&self, field: &'static str, value: &str) -> Result<(), DefinitionError> {
        if value.contains('\0') {
            return Err(self.fault(format_args!("{field} holds a NUL byte")));
        }
        Ok(())
    }

    pub(super) fn count(&self, field: &'static str, items: usize) -> Result<(), DefinitionError> {
        self.range(field, items as u64, 0, ITEMS_MAX as u64)
    }
}
