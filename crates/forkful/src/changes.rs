//! Options of `restart` and `reload` for apps that exist: what they change, as the daemon takes it. The
//! options go through the same resolution as those of a new app; of what comes out, only the keys that
//! belong to an option that was given are sent.

use std::collections::{BTreeMap, BTreeSet};

use forkful_api::types::{AppChange, AppDefinition, AppView, ModeKind, RuntimeKind};
use forkful_config::{AppOptions, WatchOption};
use forkful_core::spec::environment::is_for_other_users;
use serde_json::{Map, Value};

use crate::cli::AppOptionArgs;
use crate::exit::{Exit, Failure};
use crate::specs::Specs;

/// Node's flag for `source_map_support`, which stands among the interpreter's arguments.
const SOURCE_MAPS: &str = "--enable-source-maps";

/// What to change of apps, as the command line says it.
pub(crate) struct Wanted<'a> {
    /// Who says it.
    pub(crate) specs: &'a Specs,
    /// What it says.
    pub(crate) options: &'a AppOptions,
    /// The caller's environment is added to the app's.
    pub(crate) update_env: bool,
    /// The block of its configuration that an app gets, where it has one of that name.
    pub(crate) env_name: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// What the options of a command line say.
    pub(crate) fn of_command_line(specs: &'a Specs, options: &'a AppOptions, args: &AppOptionArgs) -> Self {
        Self { specs, options, update_env: args.accepted.update_env, env_name: specs.env_name() }
    }

    /// Whether there is nothing to change.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.update_env && self.env_name.is_none() && *self.options == AppOptions::default()
    }

    /// Refuses a block that none of the apps has, where they have others: the name is misspelt. Apps that have none at
    /// all are told so, one by one.
    pub(crate) fn check_block(&self, apps: &[AppView]) -> Result<(), Failure> {
        let Some(name) = self.env_name else { return Ok(()) };
        let blocks = apps.iter().flat_map(|app| app.definition.env_sources.blocks.named.keys());
        let known: BTreeSet<&str> = blocks.map(String::as_str).collect();
        if known.is_empty() || known.contains(name) {
            return Ok(());
        }
        let names: Vec<&str> = apps.iter().map(|app| app.definition.name.as_str()).collect();
        let error = format!("{} has no `env_{name}`", names.join(", "));
        let known: Vec<String> = known.into_iter().map(|name| format!("env_{name}")).collect();
        Err(Failure::new(Exit::WrongUse, error).hint(format!("there is {}", known.join(", "))))
    }

    /// The block that an app gets.
    fn block(&self, present: &AppDefinition) -> Option<String> {
        let name = self.env_name?;
        if present.env_sources.blocks.named.contains_key(name) {
            return Some(name.to_owned());
        }
        crate::output::warn(&format!("{} has no `env_{name}`: it keeps its environment", present.name));
        None
    }

    /// The change of one app. `present` is as the daemon shows it, without the environment.
    pub(crate) fn of(&self, present: &AppDefinition) -> Result<AppChange, Failure> {
        refuse_unchangeable(self.options, &present.name)?;
        let mut options = as_options(present);
        options.overlay(self.options.clone());
        if options.watch.is_none() && refine_watch(&options) {
            options.watch = Some(WatchOption::Directory);
        }
        let after = AppDefinition::from(&self.specs.quietly(&options)?);
        let mut definition = Map::new();
        if let Ok(Value::Object(after)) = serde_json::to_value(&after) {
            let named = keys(self.options, present);
            definition.extend(after.into_iter().filter(|(key, _)| named.contains(&key.as_str())));
        }
        let given = after.origins.iter().filter(|(key, _)| key.as_str() != "env");
        let origins: BTreeMap<&String, &String> = present.origins.iter().chain(given).collect();
        if !definition.is_empty() {
            definition.insert("origins".to_owned(), serde_json::json!(origins));
        }
        if let Some(watch) = watch(self.options, present, &after)? {
            definition.insert("watch".to_owned(), watch);
        }
        Ok(AppChange {
            name: present.name.clone(),
            definition,
            env: self.env(),
            env_name: self.block(present),
            caller_env: self.caller_env(present),
        })
    }

    /// What an app gets of the caller's environment.
    fn caller_env(&self, present: &AppDefinition) -> BTreeMap<String, String> {
        let mut env = if self.update_env { self.specs.caller_env().clone() } else { BTreeMap::new() };
        if present.is_of_another_user(rustix::process::geteuid().as_raw()) {
            env.retain(|name, _| is_for_other_users(name));
        }
        env
    }

    /// The variables that are written for the app.
    fn env(&self) -> BTreeMap<String, String> {
        let port = self.options.port.map(|port| ("PORT".to_owned(), port.to_string()));
        self.options.env.clone().into_iter().chain(port).collect()
    }
}

/// An app that exists, as far as other options are resolved against it.
fn as_options(present: &AppDefinition) -> AppOptions {
    let script = present.script.clone().unwrap_or_else(|| present.program.clone());
    let is_file = script.starts_with('/') && present.script.is_some();
    let is_node = present.runtime == RuntimeKind::Node;
    let node_args = || present.program_args.iter().filter(|word| *word != SOURCE_MAPS).cloned().collect();
    AppOptions {
        script: Some(script),
        name: Some(present.name.clone()),
        cwd: Some(present.cwd.clone().into()),
        interpreter: is_file.then(|| present.program.clone()),
        node_args: is_node.then(node_args),
        source_map_support: Some(present.program_args.iter().any(|word| word == SOURCE_MAPS)),
        ..AppOptions::default()
    }
}

/// What decides how an app begins, and cannot be told from what the daemon shows of it.
fn refuse_unchangeable(options: &AppOptions, name: &str) -> Result<(), Failure> {
    let refused = [
        ("--env-file", options.env_file.is_some()),
        ("--filter-env", options.filter_env.is_some()),
        ("--uid", options.uid.is_some()),
        ("--gid", options.gid.is_some()),
        // From JavaScript, where every key of a configuration can be written.
        ("script", options.script.is_some()),
        ("name_prefix", options.name_prefix.is_some()),
        ("append_env_to_name", options.append_env_to_name.is_some()),
        ("save_env", options.save_env.is_some()),
        ("watch_options", options.watch_options.is_some()),
        ("an `env_<name>` block", !options.env_blocks.is_empty()),
    ];
    match refused.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            let error = format!("{option} cannot be changed of an app that exists");
            Err(Failure::new(Exit::WrongUse, error).hint(format!(
                "`forkful delete {name}` and start it again, or restart it with a config file that changes it"
            )))
        }
    }
}

/// The keys of a definition that the options decide.
fn keys(options: &AppOptions, present: &AppDefinition) -> Vec<&'static str> {
    macro_rules! given {
        ($($option:ident => $($key:literal),+;)*) => {{
            let mut keys = Vec::new();
            $(if options.$option.is_some() { keys.extend([$($key),+]); })*
            keys
        }};
    }
    let mut keys = given! {
        name => "name";
        args => "args";
        cwd => "cwd";
        instances => "instances";
        interpreter => "program", "program_args", "script", "runtime";
        node_args => "program_args";
        source_map_support => "program_args";
        execute_command => "mode";
        exec_mode => "mode";
        balance => "balance";
        agent => "agent";
        kill_timeout => "kill_timeout_ms";
        kill_signal => "kill_signal";
        drain_timeout => "drain_timeout_ms";
        listen_timeout => "listen_timeout_ms";
        wait_ready => "wait_ready";
        autorestart => "autorestart", "restart_finished";
        max_restarts => "max_restarts";
        min_uptime => "min_uptime_ms";
        restart_delay => "restart_delay_ms", "exp_backoff_restart_delay_ms";
        exp_backoff_restart_delay => "restart_delay_ms", "exp_backoff_restart_delay_ms";
        stop_exit_codes => "stop_exit_codes";
        out_file => "out_file";
        error_file => "error_file";
        merge_logs => "merge_logs";
        time => "time";
        log_file => "log_file";
        log_type => "log_json";
        log_date_format => "log_date_format";
        log_rotate => "log_rotate";
        log_ansi => "log_strip_ansi";
        instance_var => "instance_var";
        increment_var => "increment_var";
        disable_logs => "disable_logs";
        namespace => "namespace";
        low_ports => "low_ports";
        autostart => "autostart";
        pid_file => "pid_file";
        shutdown_with_message => "shutdown_with_message";
        treekill => "treekill";
        max_memory_restart => "max_memory_bytes";
        memory_max => "memory_max_bytes";
        cpu_max => "cpu_max_millicores";
        max_requests => "max_requests";
        max_age => "max_age_ms";
        cron_restart => "cron_restart";
        health => "health";
        depends_on => "depends_on";
    };
    // A single process that becomes several shares its port from then on, as with `start -i`; one whose
    // configuration has several independent processes keeps its mode.
    let is_single = present.mode == ModeKind::Fork && present.instances == 1;
    if options.instances.is_some() && is_single && present.runtime == RuntimeKind::Node {
        keys.push("mode");
    }
    keys
}

/// Whether options say more about what is watched than whether.
fn refine_watch(options: &AppOptions) -> bool {
    options.ignore_watch.is_some() || options.watch_delay.is_some()
}

/// What is watched from now on (null for nothing), when an option is about that: what was not given stays.
fn watch(
    options: &AppOptions,
    present: &AppDefinition,
    after: &AppDefinition,
) -> Result<Option<Value>, Failure> {
    match (&options.watch, &present.watch) {
        (None, _) if !refine_watch(options) => Ok(None),
        (None, None) => Err(Failure::new(
            Exit::WrongUse,
            format!("`{}` is not watched, so there is nothing to ignore or to wait for", present.name),
        )
        .hint("add `--watch`")),
        (Some(WatchOption::Off), _) => Ok(Some(Value::Null)),
        (given, before) => {
            let mut watch = after.watch.clone();
            if let (Some(watch), Some(before)) = (&mut watch, before) {
                if given.is_none() {
                    watch.paths.clone_from(&before.paths);
                    watch.follow_links = before.follow_links;
                    watch.polling_ms = before.polling_ms;
                }
                if options.ignore_watch.is_none() {
                    watch.ignore.clone_from(&before.ignore);
                }
                if options.watch_delay.is_none() {
                    watch.delay_ms = before.delay_ms;
                }
            }
            let watch = serde_json::to_value(watch).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
            Ok(Some(watch))
        }
    }
}
