//! Rotation of log files to and from the core.

use std::time::Duration;

use forkful_core::logs::{LogRotation, MinFree};

use super::{Check, DURATION_MS_MAX, DefinitionError, millis};
use crate::types::LogRotateDefinition;

impl From<&LogRotation> for LogRotateDefinition {
    fn from(rotation: &LogRotation) -> Self {
        Self {
            max_size_bytes: rotation.max_size,
            max_age_ms: rotation.max_age.map(millis),
            keep: rotation.keep,
            total_bytes: rotation.total,
            compress: rotation.compress,
            min_free_bytes: match rotation.min_free {
                MinFree::ByDisk => None,
                MinFree::Bytes(bytes) => Some(bytes),
            },
        }
    }
}

/// What a definition that does not speak of it means.
pub(crate) fn default_rotation() -> Option<LogRotateDefinition> {
    Some(LogRotateDefinition::from(&LogRotation::default()))
}

impl Check<'_> {
    pub(super) fn rotation(&self, definition: &LogRotateDefinition) -> Result<LogRotation, DefinitionError> {
        if let Some(size) = definition.max_size_bytes {
            self.range("log_rotate.max_size_bytes", size, LogRotation::MAX_SIZE_MIN, u64::MAX)?;
        }
        if let Some(age) = definition.max_age_ms {
            let least = millis(LogRotation::MAX_AGE_MIN);
            self.range("log_rotate.max_age_ms", age, least, DURATION_MS_MAX)?;
        }
        self.range("log_rotate.keep", definition.keep, 0, LogRotation::KEEP_MAX)?;
        Ok(LogRotation {
            max_size: definition.max_size_bytes,
            max_age: definition.max_age_ms.map(Duration::from_millis),
            keep: definition.keep,
            total: definition.total_bytes,
            compress: definition.compress,
            min_free: definition.min_free_bytes.map_or(MinFree::ByDisk, MinFree::Bytes),
        })
    }
}
