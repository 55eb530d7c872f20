//! From options for existing apps to a change of them. Only the keys of given options are part of it; what depends on the
//! app, such as which paths are watched below its working directory, is left to the daemon.

use std::path::Path;

use forkful_api::types::{AppChange, AppDefinition, ByApp, Interpreter, WatchChange};
use forkful_core::spec::{AppName, Runtime, WatchIgnore};
use serde_json::{Map, Value};

use super::{
    Context, expand_home, given, instances, logs, mode, names, pid_file, program, script, working_directory,
};
use crate::error::ConfigError;
use crate::keys::{Change, KnownKey};
use crate::options::AppOptions;

/// Keys whose meaning depends on the app.
const BY_APP: [&str; 7] = [
    "interpreter",
    "node_args",
    "source_map_support",
    "watch",
    "ignore_watch",
    "watch_delay",
    "watch_options",
];

/// What these options change of existing apps; the caller adds variables of its environment and the block.
pub fn change(options: &AppOptions, context: &Context) -> Result<AppChange, ConfigError> {
    let options = options.clone().of_command_line();
    let by_app = by_app(&options, context)?;
    if by_app.new_app_only.is_some() {
        // Another name tells that a new app is meant.
        let name = options.text("name").map(|name| ("name".to_owned(), Value::from(name)));
        return Ok(AppChange { definition: name.into_iter().collect(), by_app, ..AppChange::default() });
    }
    let after = serde_json::to_value(after(&options, context)?);
    let Ok(Value::Object(after)) = after else { unreachable!("a definition is an object") };
    let fields: Vec<&str> =
        options.given().filter(|key| !BY_APP.contains(&key.name)).flat_map(fields).collect();
    let is_decided = |field: &str| {
        let depends_on_the_app = field == "log_file" && by_app.log_file_in.is_some();
        fields.contains(&field) && !depends_on_the_app
    };
    let definition: Map<String, Value> = after.into_iter().filter(|(field, _)| is_decided(field)).collect();
    let env = options.env.clone().into_iter().chain(options.port_variable()).collect();
    Ok(AppChange { definition, by_app, env, ..AppChange::default() })
}

/// The fields of a definition that a key decides. The version of Node.js is known to the daemon.
fn fields(key: &'static KnownKey) -> impl Iterator<Item = &'static str> {
    key.fields.iter().copied().filter(|field| *field != "node_major")
}

/// A definition with the values of the options, in which what was not given means nothing.
fn after(options: &AppOptions, context: &Context) -> Result<AppDefinition, ConfigError> {
    let mut ignored = Vec::new();
    let name = names::name(options, "app", context)?;
    let cwd = working_directory(options, context)?;
    let mut spec = given::spec(options, &name, None)?;
    spec.namespace = names::namespace(options)?;
    let workers = instances::workers(options, context, &mut ignored)?;
    (spec.instances, spec.autoscale) = (workers.instances, workers.autoscale);
    spec.mode = mode(options, Runtime::Node, &mut ignored);
    spec.restart.restart_finished = options.flag("autorestart") == Some(true);
    logs::complete(&mut spec.logs, options, &name, spec.mode, &cwd, context);
    spec.pid_file = pid_file(options, &cwd, context);
    spec.depends_on = depends_on(options, &name)?;
    spec.launch.args = options.texts("args").unwrap_or_default();
    spec.launch.cwd = cwd;
    Ok(AppDefinition::from(&spec))
}

fn depends_on(options: &AppOptions, name: &AppName) -> Result<Vec<AppName>, ConfigError> {
    // Without a new name, only the daemon knows which apps these are.
    names::depends_on(options, options.get("name").map(|_| name))
}

fn by_app(options: &AppOptions, context: &Context) -> Result<ByApp, ConfigError> {
    let log_folder = options.flag("log_file").filter(|is_on| *is_on).map(|_| &context.logs_folder);
    let origins = options.origins().into_iter().filter(|(key, _)| key != "env").collect();
    Ok(ByApp {
        interpreter: interpreter(options, context)?,
        node_args: options.texts("node_args"),
        source_maps: options.flag("source_map_support"),
        watch: watch(options, context),
        log_file_in: log_folder.map(|folder| folder.to_string_lossy().into_owned()),
        new_app_only: new_app_only(options),
        origins,
    })
}

/// An option that determines how an app is started and that the daemon does not report.
fn new_app_only(options: &AppOptions) -> Option<String> {
    let key = options.given().find(|key| key.change == Change::NewApp).map(|key| match key.option {
        Some(_) => format!("--{}", key.name.replace('_', "-")),
        // From JavaScript, where every key of a configuration can be given.
        None => key.name.to_owned(),
    });
    key.or_else(|| (!options.env_blocks.is_empty()).then(|| "an `env_<name>` block".to_owned()))
}

fn interpreter(options: &AppOptions, context: &Context) -> Result<Option<Interpreter>, ConfigError> {
    let Some(name) = options.text("interpreter") else { return Ok(None) };
    if name == "none" {
        return Ok(Some(Interpreter { program: None, runtime: Runtime::Other, version: None }));
    }
    let mut env = context.caller_env.clone();
    env.extend(options.env.clone());
    let cwd = working_directory(options, context)?;
    let path = script::interpreter(options, &[name], &cwd, &env)?;
    let runtime = if program::is_node(&path) { Runtime::Node } else { Runtime::Other };
    // The daemon knows whether the script needs a certain version.
    let version = if runtime == Runtime::Node { program::version(&path, &cwd, &env).ok() } else { None };
    Ok(Some(Interpreter { program: Some(path.to_string_lossy().into_owned()), runtime, version }))
}

fn watch(options: &AppOptions, context: &Context) -> Option<WatchChange> {
    let paths = options.get("watch").map(|watch| match watch {
        Value::Bool(true) => vec![".".to_owned()],
        Value::Array(paths) => {
            let path = |path: &str| expand_home(Path::new(path), context).to_string_lossy().into_owned();
            paths.iter().filter_map(Value::as_str).map(path).collect()
        }
        _ => Vec::new(),
    });
    let ignore = options.get("ignore_watch").cloned();
    let change = WatchChange {
        paths,
        ignore: ignore.and_then(|ignore| serde_json::from_value::<Vec<WatchIgnore>>(ignore).ok()),
        delay_ms: options.get("watch_delay").and_then(Value::as_u64),
        ..WatchChange::default()
    };
    (change != WatchChange::default()).then_some(change)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use forkful_core::spec::LogRotation;
    use serde_json::json;

    use super::*;

    fn context() -> Context {
        Context {
            caller_cwd: PathBuf::from("/"),
            caller_env: [("HOME".to_owned(), "/me".to_owned())].into(),
            own_program: PathBuf::from("/forkful"),
            logs_folder: PathBuf::from("/logs"),
            log_rotation: LogRotation::default(),
            env_name: None,
            usable_cores: 4,
            cores_reason: None,
            is_elsewhere: false,
        }
    }

    fn changed(options: &[(&str, &str)]) -> Result<Value, ConfigError> {
        let mut given = AppOptions::default();
        for (key, text) in options {
            given.set(key, text)?;
        }
        let mut change = change(&given, &context())?;
        change.by_app.origins.clear();
        Ok(serde_json::to_value(change).unwrap())
    }

    /// A change with these parts.
    fn parts(definition: Value, by_app: Value) -> Value {
        let mut change = serde_json::to_value(AppChange::default()).unwrap();
        change["definition"] = definition;
        if let Some(own) = by_app.as_object() {
            change["by_app"] = serde_json::to_value(ByApp::default()).unwrap();
            change["by_app"].as_object_mut().unwrap().extend(own.clone());
        }
        change
    }

    #[test]
    fn only_what_is_given_is_changed() {
        for (options, definition, by_app) in [
            (vec![], json!({}), Value::Null),
            (vec![("kill_timeout", "9s")], json!({ "kill_timeout_ms": 9000 }), Value::Null),
            (vec![("instances", "max")], json!({ "instances": 4, "autoscale": null }), Value::Null),
            (vec![("out_file", "logs/a.log")], json!({ "out_file": "/logs/a.log" }), Value::Null),
            (vec![("log_file", "true")], json!({}), json!({ "log_file_in": "/logs" })),
            (vec![("source_map_support", "false")], json!({}), json!({ "source_maps": false })),
            (
                vec![("watch", "~/lib"), ("watch_delay", "2s")],
                json!({}),
                json!({ "watch": { "paths": ["/me/lib"], "ignore": null, "delay_ms": 2000 } }),
            ),
        ] {
            assert_eq!(changed(&options).unwrap(), parts(definition, by_app), "{options:?}");
        }
    }

    #[test]
    fn what_only_a_new_app_can_have_is_named_as_it_was_written() {
        let change = changed(&[("env_file", ".env")]).unwrap();
        assert_eq!(change["by_app"]["new_app_only"], "--env-file");
        assert_eq!(changed(&[("name_prefix", "eu")]).unwrap()["by_app"]["new_app_only"], "name_prefix");
    }

    #[test]
    fn what_is_wrong_is_refused_before_the_daemon_is_asked() {
        let told = |options: &[(&str, &str)]| changed(options).unwrap_err().to_string();
        assert!(told(&[("cwd", "/no/such/folder")]).contains("does not exist"));
        assert!(
            told(&[("interpreter", "/no/such/program")])
                .contains("--interpreter \"/no/such/program\" does not exist")
        );
        assert!(told(&[("name", "all")]).contains("cannot be \"all\""));
    }
}
