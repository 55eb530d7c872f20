//! Checks of the parts of a definition that have parts of their own.

use std::time::Duration;

use forkful_core::alerts::AlertPolicy;
use forkful_core::date_format::DateFormat;
use forkful_core::logs::{AnsiPolicy, LineFormat, LogRotation};
use forkful_core::otlp::OtlpPolicy;
use forkful_core::spec::{
    AppName, CronPattern, EnvBlocks, EnvSources, HealthCheck, HealthProbe, LogSpec, Namespace, Renewal,
    ResourceLimits, WARMUP_PATHS_MAX, WARMUP_REQUESTS_MAX, Warmup, Watch, WatchIgnore, WorkerVariables,
};

use super::{Check, DURATION_MS_MAX, DefinitionError, millis};
use crate::types::AppDefinition;

/// The most paths, patterns or dependencies in one definition.
const LIST_MAX: u64 = 4096;
/// Less memory holds no program: the kernel would kill each at its start.
const MEMORY_MAX_LEAST: u64 = 1 << 20;
/// The kernel's least share, in thousandths of a core.
const CPU_MAX_LEAST: u32 = 10;

impl Check<'_> {
    pub(super) fn namespace(&self, name: &str) -> Result<Namespace, DefinitionError> {
        Namespace::new(name).map_err(|fault| DefinitionError::name(name, fault))
    }

    pub(super) fn variables(&self, definition: &AppDefinition) -> Result<WorkerVariables, DefinitionError> {
        for name in std::iter::once(&definition.instance_var).chain(&definition.increment_var) {
            self.variable_name(name)?;
        }
        Ok(WorkerVariables {
            instance: definition.instance_var.clone(),
            increment: definition.increment_var.clone(),
        })
    }

    pub(super) fn env_sources(&self, sources: &EnvSources) -> Result<(), DefinitionError> {
        self.range("env_sources.files", sources.files.len() as u64, 0, LIST_MAX)?;
        self.paths("env_sources.files", &sources.files)?;
        let EnvBlocks { common, named } = &sources.blocks;
        self.range("env_sources.blocks", named.len() as u64, 0, LIST_MAX)?;
        named.values().chain([common]).try_for_each(|block| self.env(block))
    }

    pub(super) fn logs(&self, definition: &AppDefinition) -> Result<LogSpec, DefinitionError> {
        let date_format = definition.log_date_format.as_ref().map(|form| {
            DateFormat::new(form)
                .map_err(|fault| self.fault(format_args!("log_date_format is {form:?}: {fault}")))
        });
        definition.log_rotate.iter().try_for_each(|rotation| self.rotation(rotation))?;
        Ok(LogSpec {
            out_file: self.optional_path("out_file", definition.out_file.clone())?,
            error_file: self.optional_path("error_file", definition.error_file.clone())?,
            merge: definition.merge_logs,
            time: definition.time,
            date_format: date_format.transpose()?,
            combined_file: self.optional_path("log_file", definition.log_file.clone())?,
            line_format: if definition.log_json { LineFormat::Json } else { LineFormat::Raw },
            disabled: definition.disable_logs,
            ansi: if definition.log_strip_ansi { AnsiPolicy::Strip } else { AnsiPolicy::Keep },
            rotation: definition.log_rotate.clone(),
        })
    }

    pub(super) fn limits(&self, definition: &AppDefinition) -> Result<ResourceLimits, DefinitionError> {
        if let Some(bytes) = definition.memory_max_bytes {
            self.range("memory_max_bytes", bytes, MEMORY_MAX_LEAST, u64::MAX)?;
        }
        if let Some(millicores) = definition.cpu_max_millicores {
            self.range("cpu_max_millicores", millicores, CPU_MAX_LEAST, u32::MAX)?;
        }
        Ok(ResourceLimits {
            memory_bytes: definition.memory_max_bytes,
            millicores: definition.cpu_max_millicores,
        })
    }

    pub(super) fn renewal(&self, definition: &AppDefinition) -> Result<Renewal, DefinitionError> {
        for (field, value) in
            [("max_memory_bytes", definition.max_memory_bytes), ("max_requests", definition.max_requests)]
        {
            if let Some(value) = value {
                self.range(field, value, 1, u64::MAX)?;
            }
        }
        if let Some(age) = definition.max_age_ms {
            self.range("max_age_ms", age, 1, DURATION_MS_MAX)?;
        }
        let cron = definition.cron_restart.as_ref().map(|cron| {
            CronPattern::new(cron.as_str())
                .map_err(|fault| self.fault(format_args!("cron_restart is {cron:?}: {fault}")))
        });
        Ok(Renewal {
            max_memory_bytes: definition.max_memory_bytes,
            max_requests: definition.max_requests,
            max_age: definition.max_age_ms.map(Duration::from_millis),
            cron: cron.transpose()?,
        })
    }

    pub(super) fn watch(&self, watch: &Watch) -> Result<(), DefinitionError> {
        self.range("watch.paths", watch.paths.len() as u64, 1, LIST_MAX)?;
        self.range("watch.ignore", watch.ignore.len() as u64, 0, LIST_MAX)?;
        for WatchIgnore::Glob(pattern) | WatchIgnore::Regex(pattern) in &watch.ignore {
            self.text("watch.ignore", pattern)?;
        }
        self.paths("watch.paths", &watch.paths)?;
        self.within("watch.delay_ms", Some(watch.delay), 0)?;
        self.within("watch.polling_ms", watch.polling, 1)
    }

    /// What workers are asked.
    pub(super) fn requests(&self, definition: &AppDefinition) -> Result<(), DefinitionError> {
        definition.health.iter().try_for_each(|health| self.health(health))?;
        definition.alerts.iter().try_for_each(|alerts| self.alerts(alerts))?;
        definition.otlp.iter().try_for_each(|otlp| self.otlp(otlp))?;
        definition.warmup.iter().try_for_each(|warmup| self.warmup(warmup))
    }

    fn alerts(&self, alerts: &AlertPolicy) -> Result<(), DefinitionError> {
        self.range("alerts.command", alerts.command.len() as u64, 0, LIST_MAX)?;
        self.texts("alerts.command", &alerts.command)?;
        if alerts.command.is_empty() && alerts.webhook.is_none() {
            return Err(self.fault(format_args!("alerts has neither a command nor a webhook")));
        }
        if alerts.webhook.as_deref().is_some_and(|webhook| !AlertPolicy::is_webhook(webhook)) {
            return Err(
                self.fault(format_args!("alerts.webhook is no https URL, and no http URL of this machine"))
            );
        }
        self.range("alerts.on", alerts.on.len() as u64, 1, LIST_MAX)?;
        self.within("alerts.every_ms", Some(alerts.every), millis(AlertPolicy::EVERY_LEAST))?;
        self.range("alerts.timeout_ms", millis(alerts.timeout), 1, millis(AlertPolicy::TIMEOUT_MAX))
    }

    fn otlp(&self, otlp: &OtlpPolicy) -> Result<(), DefinitionError> {
        if !OtlpPolicy::is_endpoint(&otlp.endpoint) {
            return Err(self.fault(format_args!(
                "otlp.endpoint is no http or https URL without a password and a query"
            )));
        }
        self.within("otlp.interval_ms", Some(otlp.interval), millis(OtlpPolicy::INTERVAL_MIN))
    }

    fn warmup(&self, warmup: &Warmup) -> Result<(), DefinitionError> {
        self.range("warmup.paths", warmup.paths.len() as u64, 1, WARMUP_PATHS_MAX as u64)?;
        if let Some(path) = warmup.paths.iter().find(|path| !Warmup::is_path(path)) {
            return Err(self.fault(format_args!("warmup.paths has {path:?}, which is no path of a request")));
        }
        self.range("warmup.requests", warmup.requests, 1, WARMUP_REQUESTS_MAX)?;
        self.within("warmup.timeout_ms", Some(warmup.timeout), 1)
    }

    fn health(&self, health: &HealthCheck) -> Result<(), DefinitionError> {
        match &health.probe {
            HealthProbe::Http { path, .. } => drop(self.path("health.probe.http.path", path.clone())?),
            HealthProbe::Command { words } => {
                self.range("health.probe.command.words", words.len() as u64, 1, LIST_MAX)?;
                self.texts("health.probe.command.words", words)?;
            }
            HealthProbe::Tcp { .. } | HealthProbe::Loop => {}
        }
        self.within("health.interval_ms", Some(health.interval), 1)?;
        self.within("health.timeout_ms", Some(health.timeout), 1)?;
        self.range("health.failures_max", health.failures_max, 1, u32::MAX)?;
        self.within("health.stuck_limit_ms", health.stuck_limit, 1)?;
        self.within("health.start_period_ms", Some(health.start_period), 0)
    }

    pub(super) fn rotation(&self, rotation: &LogRotation) -> Result<(), DefinitionError> {
        if let Some(size) = rotation.max_size {
            self.range("log_rotate.max_size_bytes", size, LogRotation::MAX_SIZE_MIN, u64::MAX)?;
        }
        self.within("log_rotate.max_age_ms", rotation.max_age, millis(LogRotation::MAX_AGE_MIN))?;
        self.range("log_rotate.keep", rotation.keep, 0, LogRotation::KEEP_MAX)
    }

    pub(super) fn depends_on(&self, names: Vec<String>) -> Result<Vec<AppName>, DefinitionError> {
        self.range("depends_on", names.len() as u64, 0, LIST_MAX)?;
        names
            .into_iter()
            .map(|name| AppName::new(name.as_str()).map_err(|fault| DefinitionError::name(&name, fault)))
            .collect()
    }
}
