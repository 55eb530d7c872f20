//! From the command line to complete apps: options into [`AppOptions`], config files loaded and
//! overlaid, everything resolved against this machine and this environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_config::{AppOptions, Context, NodeEvaluator, Resolved, Warning};
use forkful_core::spec::AppSpec;

use crate::cli::{AppArgs, LogFileArgs, ReadyArgs, RestartPolicyArgs, StopArgs};
use crate::exit::{Exit, Failure};
use crate::output;

/// Builds specs from what the caller says, in the caller's directory and environment.
pub(crate) struct Specs {
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    env_name: Option<String>,
    added_env: BTreeMap<String, String>,
    only: Vec<String>,
}

impl Specs {
    /// Looks at the caller. `env` are the values of `--env`, `only` those of `--only`.
    pub(crate) fn new(env: &[String], only: &[String]) -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(|e| {
            Failure::caused(
                Exit::WrongUse,
                anyhow::Error::new(e).context("cannot tell the working directory"),
            )
        })?;
        let (caller_env, warnings) = forkful_config::caller_environment();
        tell(&warnings);
        let mut specs = Self {
            cwd,
            env: caller_env,
            env_name: None,
            added_env: BTreeMap::new(),
            only: only.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
        };
        env.iter().try_for_each(|text| specs.take_env(text))?;
        Ok(specs)
    }

    fn take_env(&mut self, text: &str) -> Result<(), Failure> {
        match text.split_once('=') {
            Some(("", _)) => {
                let error = format!("--env {text:?} has no name before the `=`");
                return Err(Failure::new(Exit::WrongUse, error).hint("write it as --env KEY=VALUE"));
            }
            Some((name, value)) => {
                self.added_env.insert(name.to_owned(), value.to_owned());
            }
            None => {
                if let Some(first) = self.env_name.replace(text.to_owned()) {
                    let error = format!("--env chooses a block of the config twice: {first} and {text}");
                    return Err(Failure::new(Exit::WrongUse, error)
                        .hint("to set a variable, write it as --env KEY=VALUE"));
                }
            }
        }
        Ok(())
    }

    /// The caller's working directory.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The apps of a config file that `--only` leaves, with the command line's options over them.
    pub(crate) fn apps_of_config(&self, path: &Path, over: &AppOptions) -> Result<Vec<AppSpec>, Failure> {
        let evaluator = NodeEvaluator::new(self.cwd.clone(), self.env.clone());
        let file = forkful_config::load(path, &evaluator)?;
        if !file.output.is_empty() {
            output::talk(&output::format::visible(&file.output));
        }
        tell(&file.warnings);
        let mut apps = file.apps;
        for app in &mut apps {
            app.overlay(over.clone());
        }
        let resolved = forkful_config::resolve_all(&apps, &self.context(self.env_name.clone()))?;
        self.select(path, resolved)
    }

    /// One app from the command line alone. Without a config there are no blocks to choose from, so
    /// that `--env NAME` asks for nothing; PM2's users pass it all the same.
    pub(crate) fn app_of_command_line(&self, script: &str, options: &AppOptions) -> Result<AppSpec, Failure> {
        if let Some(name) = &self.env_name {
            output::warn(&format!("--env {name} chooses a block of a config file; `{script}` is none"));
        }
        let mut options = options.clone();
        options.script = Some(script.to_owned());
        let resolved = forkful_config::resolve(&options, &self.context(None))?;
        Ok(told(resolved))
    }

    /// Options of the command line as the config crate knows them.
    pub(crate) fn options(&self, args: &AppArgs) -> Result<AppOptions, Failure> {
        let AppArgs { logs, ready, stop, restart, .. } = args;
        let LogFileArgs { output, error, merge_logs, time } = logs;
        let ReadyArgs { wait_ready, listen_timeout } = ready;
        let StopArgs { kill_timeout, kill_signal, drain_timeout } = stop;
        let RestartPolicyArgs {
            no_autorestart,
            max_restarts,
            min_uptime,
            restart_delay,
            exp_backoff_restart_delay,
            stop_exit_codes,
        } = restart;
        Ok(AppOptions {
            name: args.name.clone(),
            args: given(&args.args),
            cwd: args.cwd.clone(),
            instances: args.instances.clone().map(Into::into),
            interpreter: args.interpreter.clone(),
            node_args: args.node_args.as_deref().map(split_words).transpose()?,
            balance: args.balance.map(Into::into),
            agent: args.no_agent.then_some(false),
            out_file: output.clone(),
            error_file: error.clone(),
            merge_logs: merge_logs.then_some(true),
            time: time.then_some(true),
            wait_ready: wait_ready.then_some(true),
            listen_timeout: *listen_timeout,
            kill_timeout: *kill_timeout,
            kill_signal: *kill_signal,
            drain_timeout: *drain_timeout,
            autorestart: no_autorestart.then_some(false),
            max_restarts: *max_restarts,
            min_uptime: *min_uptime,
            restart_delay: *restart_delay,
            exp_backoff_restart_delay: *exp_backoff_restart_delay,
            stop_exit_codes: given(stop_exit_codes),
            env: self.added_env.clone(),
            ..AppOptions::default()
        })
    }

    /// Options that hold nothing but `--env`.
    pub(crate) fn only_env(&self) -> AppOptions {
        AppOptions { env: self.added_env.clone(), ..AppOptions::default() }
    }

    fn context(&self, env_name: Option<String>) -> Context {
        let cores = forkful_os::cores::usable_cores();
        Context {
            caller_cwd: self.cwd.clone(),
            caller_env: self.env.clone(),
            env_name,
            usable_cores: cores.count,
            cores_reason: cores.limits.first().map(|limit| format!("of a {limit}")),
        }
    }

    fn select(&self, path: &Path, resolved: Vec<Resolved>) -> Result<Vec<AppSpec>, Failure> {
        let names: Vec<&str> = resolved.iter().map(|app| app.spec.name.as_str()).collect();
        if let Some(missing) = self.only.iter().find(|name| !names.contains(&name.as_str())) {
            let error = format!("{} has no app `{missing}`", path.display());
            return Err(Failure::new(Exit::WrongUse, error).hint(format!("there is {}", names.join(", "))));
        }
        let is_wanted = |app: &Resolved| {
            self.only.is_empty() || self.only.iter().any(|name| name == app.spec.name.as_str())
        };
        Ok(resolved.into_iter().filter(is_wanted).map(told).collect())
    }
}

/// Tells the warnings and keeps the spec.
fn told(resolved: Resolved) -> AppSpec {
    tell(&resolved.warnings);
    resolved.spec
}

fn tell(warnings: &[Warning]) {
    for warning in warnings {
        output::warn(&warning.to_string());
    }
}

fn given<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

fn split_words(text: &str) -> Result<Vec<String>, Failure> {
    shell_words::split(text).map_err(|_| {
        Failure::new(Exit::WrongUse, format!("--node-args {text:?} has a quote that is not closed"))
    })
}
