//! The parts of a definition that have parts of their own, to and from the core; towards the core checked.

use std::time::Duration;

use forkful_core::date_format::DateFormat;
use forkful_core::logs::{AnsiPolicy, LineFormat};
use forkful_core::spec::{
    AppName, CronPattern, EnvBlocks, EnvSources, HealthCheck, HealthProbe, LogSpec, Namespace, Renewal,
    ResourceLimits, RunAs, Watch, WatchIgnore, WatchPolling, WorkerVariables,
};

use super::{Check, DURATION_MS_MAX, DefinitionError, millis, text};
use crate::types::{
    AppDefinition, EnvBlocksDefinition, EnvSourcesDefinition, HealthDefinition, ProbeDefinition,
    RunAsDefinition, WatchDefinition, WatchIgnoreDefinition,
};

/// The most paths, patterns or dependencies in one definition.
const LIST_MAX: u64 = 4096;
/// Less memory holds no program: the kernel would kill each at its start.
const MEMORY_MAX_LEAST: u64 = 1 << 20;
/// The kernel's least share, in thousandths of a core.
const CPU_MAX_LEAST: u32 = 10;

impl From<&EnvSources> for EnvSourcesDefinition {
    fn from(sources: &EnvSources) -> Self {
        Self {
            inherited: sources.inherited.iter().cloned().collect(),
            from_files: sources.from_files.iter().cloned().collect(),
            files: sources.files.iter().map(text).collect(),
            keep_inherited: sources.keep_inherited,
            blocks: EnvBlocksDefinition {
                common: sources.blocks.common.clone(),
                named: sources.blocks.named.clone(),
            },
        }
    }
}

impl From<&RunAs> for RunAsDefinition {
    fn from(run_as: &RunAs) -> Self {
        Self { uid: run_as.uid, gid: run_as.gid, groups: run_as.groups.clone() }
    }
}

impl From<RunAsDefinition> for RunAs {
    fn from(run_as: RunAsDefinition) -> Self {
        Self { uid: run_as.uid, gid: run_as.gid, groups: run_as.groups }
    }
}

impl From<&Watch> for WatchDefinition {
    fn from(watch: &Watch) -> Self {
        Self {
            paths: watch.paths.iter().map(text).collect(),
            ignore: watch
                .ignore
                .iter()
                .map(|ignore| match ignore {
                    WatchIgnore::Glob(glob) => WatchIgnoreDefinition::Glob(glob.clone()),
                    WatchIgnore::Regex(regex) => WatchIgnoreDefinition::Regex(regex.clone()),
                })
                .collect(),
            delay_ms: millis(watch.delay),
            follow_links: watch.follow_links,
            polling_ms: watch.polling.map(|polling| millis(polling.interval)),
        }
    }
}

impl From<&HealthCheck> for HealthDefinition {
    fn from(health: &HealthCheck) -> Self {
        Self {
            probe: match &health.probe {
                HealthProbe::Http { port, path } => ProbeDefinition::Http { port: *port, path: path.clone() },
                HealthProbe::Tcp { port } => ProbeDefinition::Tcp { port: *port },
                HealthProbe::Command { words } => ProbeDefinition::Command { words: words.clone() },
                HealthProbe::Loop => ProbeDefinition::Loop,
            },
            interval_ms: millis(health.interval),
            timeout_ms: millis(health.timeout),
            start_period_ms: millis(health.start_period),
            failures_max: health.failures_max,
            stuck_limit_ms: health.stuck_limit.map(millis),
        }
    }
}

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

    pub(super) fn env_sources(&self, sources: EnvSourcesDefinition) -> Result<EnvSources, DefinitionError> {
        self.range("env_sources.files", sources.files.len() as u64, 0, LIST_MAX)?;
        let EnvBlocksDefinition { common, named } = sources.blocks;
        self.range("env_sources.blocks", named.len() as u64, 0, LIST_MAX)?;
        named.values().chain([&common]).try_for_each(|block| self.env(block))?;
        let files = sources.files.into_iter().map(|file| self.path("env_sources.files", file));
        Ok(EnvSources {
            files: files.collect::<Result<_, _>>()?,
            inherited: sources.inherited.into_iter().collect(),
            from_files: sources.from_files.into_iter().collect(),
            keep_inherited: sources.keep_inherited,
            blocks: EnvBlocks { common, named },
        })
    }

    pub(super) fn logs(&self, definition: &AppDefinition) -> Result<LogSpec, DefinitionError> {
        let date_format = definition.log_date_format.as_ref().map(|form| {
            DateFormat::new(form)
                .map_err(|fault| self.fault(format_args!("log_date_format is {form:?}: {fault}")))
        });
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
            rotation: definition.log_rotate.as_ref().map(|rotation| self.rotation(rotation)).transpose()?,
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

    pub(super) fn watch(&self, watch: WatchDefinition) -> Result<Watch, DefinitionError> {
        self.range("watch.paths", watch.paths.len() as u64, 1, LIST_MAX)?;
        self.range("watch.ignore", watch.ignore.len() as u64, 0, LIST_MAX)?;
        let ignore = watch.ignore.into_iter().map(|ignore| match ignore {
            WatchIgnoreDefinition::Glob(glob) => {
                self.text("watch.ignore", &glob).map(|()| WatchIgnore::Glob(glob))
            }
            WatchIgnoreDefinition::Regex(regex) => {
                self.text("watch.ignore", &regex).map(|()| WatchIgnore::Regex(regex))
            }
        });
        if let Some(interval) = watch.polling_ms {
            self.range("watch.polling_ms", interval, 1, DURATION_MS_MAX)?;
        }
        Ok(Watch {
            ignore: ignore.collect::<Result<_, _>>()?,
            paths: watch
                .paths
                .into_iter()
                .map(|path| self.path("watch.paths", path))
                .collect::<Result<_, _>>()?,
            delay: self.duration("watch.delay_ms", watch.delay_ms)?,
            follow_links: watch.follow_links,
            polling: watch
                .polling_ms
                .map(|interval| WatchPolling { interval: Duration::from_millis(interval) }),
        })
    }

    pub(super) fn health(&self, health: HealthDefinition) -> Result<HealthCheck, DefinitionError> {
        let probe = match health.probe {
            ProbeDefinition::Http { port, path } => {
                self.path("health.probe.http.path", path.clone())?;
                HealthProbe::Http { port, path }
            }
            ProbeDefinition::Tcp { port } => HealthProbe::Tcp { port },
            ProbeDefinition::Command { words } => {
                self.range("health.probe.command.words", words.len() as u64, 1, LIST_MAX)?;
                self.texts("health.probe.command.words", &words)?;
                HealthProbe::Command { words }
            }
            ProbeDefinition::Loop => HealthProbe::Loop,
        };
        self.range("health.interval_ms", health.interval_ms, 1, DURATION_MS_MAX)?;
        self.range("health.timeout_ms", health.timeout_ms, 1, DURATION_MS_MAX)?;
        self.range("health.failures_max", health.failures_max, 1, u32::MAX)?;
        if let Some(limit) = health.stuck_limit_ms {
            self.range("health.stuck_limit_ms", limit, 1, DURATION_MS_MAX)?;
        }
        Ok(HealthCheck {
            probe,
            interval: Duration::from_millis(health.interval_ms),
            timeout: Duration::from_millis(health.timeout_ms),
            start_period: self.duration("health.start_period_ms", health.start_period_ms)?,
            failures_max: health.failures_max,
            stuck_limit: health.stuck_limit_ms.map(Duration::from_millis),
        })
    }

    pub(super) fn depends_on(&self, names: Vec<String>) -> Result<Vec<AppName>, DefinitionError> {
        self.range("depends_on", names.len() as u64, 0, LIST_MAX)?;
        names
            .into_iter()
            .map(|name| AppName::new(name.as_str()).map_err(|fault| DefinitionError::name(&name, fault)))
            .collect()
    }
}
