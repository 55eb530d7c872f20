//! Changes some keys of an app's definition; all other keys stay as they are.

mod by_app;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use forkful_core::alerts::AlertPolicy;
use forkful_core::interpreter::CannotRun;
use forkful_core::spec::EnvBlocks;
use forkful_core::spec::environment::{is_for_other_users, is_harmless};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AppDefinition, ErrorCode, ErrorReply};

pub use by_app::{ByApp, Interpreter, WatchChange};

/// Keys that have their own fields in a change.
const OWN_FIELDS: [&str; 2] = ["env", "env_sources"];

/// New values for existing apps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AppChange {
    /// The app's current name; without it, the change is for all apps of the request's targets, with all their workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Keys of its [`AppDefinition`] with their new values; not `env` and `env_sources`.
    #[serde(default)]
    pub definition: Map<String, Value>,
    /// Values whose meaning depends on the app.
    #[serde(default, skip_serializing_if = "ByApp::is_empty")]
    pub by_app: ByApp,
    /// Variables to add or change; written for the app.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The same for variables of the caller's environment, whose values are not saved. An app that runs as another user
    /// gets only the locale, PATH and a few others of them.
    #[serde(default)]
    pub caller_env: BTreeMap<String, String>,
    /// The block of the app's configuration to use from now on, between `caller_env` and `env`. Without `name`, apps
    /// that do not have it keep their environment, with a warning.
    #[serde(default)]
    pub env_name: Option<String>,
}

impl AppChange {
    /// Whether it names only kinds of incidents that this version knows.
    pub(super) fn check_kinds(&self) -> Result<(), String> {
        // Alerts of another form are refused when the change is applied.
        let alerts = self.definition.get("alerts").map(AlertPolicy::deserialize);
        alerts.and_then(Result::ok).map_or(Ok(()), |alerts| alerts.check_kinds())
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self { name: self.name.clone(), ..Self::default() }
    }

    /// Checks a change of all these apps, which have no environment values; yields what it does not change, as warnings.
    pub fn check_all(&self, apps: &[AppDefinition]) -> Result<Vec<String>, ErrorReply> {
        if self.definition.contains_key("name") && apps.len() > 1 {
            let error = format!("--name would give {} apps the same name", apps.len());
            let hint = Some("rename them one by one".to_owned());
            return Err(ErrorReply { hint, ..ErrorReply::new(ErrorCode::BadRequest, error, None) });
        }
        let Some(block) = &self.env_name else { return Ok(Vec::new()) };
        let lacks = |app: &&AppDefinition| !app.env_sources.blocks.named.contains_key(block);
        let warning = |app: &AppDefinition| {
            let known = app.env_sources.blocks.named.keys().map(|name| format!("env_{name}"));
            let known: Vec<String> = known.collect();
            let there =
                if known.is_empty() { String::new() } else { format!(" (there is {})", known.join(", ")) };
            format!("{} has no `env_{block}`{there}: it keeps its environment", app.name)
        };
        Ok(apps.iter().filter(lacks).map(warning).collect())
    }

    /// Whether what it means depends on files: see [`Self::runs_itself`] and [`Self::paths_to_watch`].
    pub fn depends_on_files(&self) -> bool {
        self.wants_scripts_to_run_themselves() || self.by_app.watch.is_some()
    }

    /// The paths to watch of an app that lead up, whose symbolic links are to be known before the change is applied.
    pub fn paths_to_watch(&self, present: &AppDefinition) -> Vec<PathBuf> {
        let paths = self.by_app.watch.iter().flat_map(|watch| watch.paths.iter().flatten());
        let cwd = Path::new(self.definition.get("cwd").and_then(Value::as_str).unwrap_or(&present.cwd));
        let leads_up = |path: &PathBuf| path.components().any(|component| component == Component::ParentDir);
        paths.map(|path| cwd.join(path)).filter(leads_up).collect()
    }

    /// Whether no interpreter is to run the scripts of the apps from now on.
    fn wants_scripts_to_run_themselves(&self) -> bool {
        self.by_app.interpreter.as_ref().is_some_and(|new| new.program.is_none())
    }

    /// The file of an app that has to be executable, because nothing else is to run it. A command line has none.
    pub fn runs_itself<'a>(&self, present: &'a AppDefinition) -> Option<&'a str> {
        let file = present.script.as_deref().unwrap_or(&present.program);
        Some(file).filter(|file| self.wants_scripts_to_run_themselves() && file.starts_with('/'))
    }

    /// Applies the change. `present` is complete, with its environment; `own_uid` is the daemon's user.
    pub fn apply(self, present: &AppDefinition, own_uid: u32) -> Result<AppDefinition, ErrorReply> {
        let refuse = |what: String| {
            let error = format!("app `{}` cannot be changed so: {what}", present.name);
            ErrorReply::new(ErrorCode::BadRequest, error, None)
        };
        if let Some(key) = OWN_FIELDS.iter().find(|key| self.definition.contains_key(**key)) {
            return Err(refuse(format!("`{key}` is no key of a change's `definition`")));
        }
        if self.name.is_some() && !self.by_app.is_empty() {
            return Err(refuse("`by_app` belongs to a change without `name`".to_owned()));
        }
        self.by_app.check(&present.name)?;
        let mut fields = self.definition;
        if self.name.is_none() {
            self.by_app.complete(&mut fields, present)?;
        }
        let mut changed = present.with(fields).map_err(|fault| refuse(fault.to_string()))?;
        if changed.program != present.program {
            changed.env_sources.in_path = None;
        }
        let is_others = present.is_of_another_user(own_uid);
        for (name, value) in self.caller_env {
            if (!is_others || is_for_other_users(&name)) && changed.env_sources.filter.admits(&name) {
                changed.take_variable(&name, value);
                changed.env_sources.inherited.insert(name);
            }
        }
        match &self.env_name {
            Some(name) if self.name.is_some() || present.env_sources.blocks.named.contains_key(name) => {
                changed.choose_block(name).ok_or_else(|| refuse(format!("it has no `env_{name}`")))?;
            }
            _ => {}
        }
        for (name, value) in self.env {
            changed.take_variable(&name, value);
        }
        self.by_app.check_interpreter(&changed).map_err(|fault| cannot_run(present, &fault))?;
        Ok(changed)
    }
}

/// The refusal of a change after which a program would not run an app's script.
pub fn cannot_run(present: &AppDefinition, fault: &CannotRun) -> ErrorReply {
    let error = format!("app `{}` cannot be changed so: {fault}", present.name);
    ErrorReply::new(ErrorCode::BadRequest, error, fault.hint())
}

impl AppDefinition {
    /// The definition with new values for some of its fields.
    pub fn with(&self, fields: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let mut all = serde_json::to_value(self)?;
        if let Value::Object(all) = &mut all {
            all.extend(fields);
        }
        crate::strict::from_value(&all)
    }

    /// Applies a block to the environment. Variables of another block are removed, or get the app's value
    /// without a block; a harmless variable stays, because the caller's value is no longer known.
    fn choose_block(&mut self, name: &str) -> Option<()> {
        let EnvBlocks { common, named } = self.env_sources.blocks.clone();
        let chosen = named.get(name)?;
        let others = named.iter().filter(|(other, _)| *other != name).flat_map(|(_, block)| block);
        for (variable, value) in others {
            match common.get(variable) {
                _ if self.env.get(variable) != Some(value) => {}
                Some(before) => self.take_variable(variable, before.clone()),
                None if is_harmless(variable) => {}
                None => drop(self.env.remove(variable)),
            }
        }
        for (variable, value) in chosen {
            self.take_variable(variable, value.clone());
        }
        Some(())
    }

    /// Sets a variable that was written for the app, whatever the origin of its previous value.
    fn take_variable(&mut self, name: &str, value: String) {
        self.env_sources.inherited.remove(name);
        self.env_sources.from_files.remove(name);
        self.env.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn present() -> AppDefinition {
        serde_json::from_value(serde_json::json!({
            "name": "api", "program": "/usr/bin/node", "program_args": [], "script": "/srv/app.js",
            "args": [], "cwd": "/srv", "env": { "A": "1", "B": "2", "C": "3" }, "runtime": "node",
            "env_sources": { "inherited": ["A", "B"], "from_files": ["C"], "files": [], "keep_inherited": false },
            "mode": "cluster", "instances": 2, "balance": "exact", "autorestart": true, "max_restarts": 3,
            "restart_window_ms": 60_000, "min_uptime_ms": 500, "restart_delay_ms": null,
            "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [], "wait_ready": true, "listen_timeout_ms": null,
            "kill_signal": 15, "kill_timeout_ms": 1600, "drain_timeout_ms": 9000, "out_file": null,
            "error_file": null, "merge_logs": true, "time": true, "agent": false,
        }))
        .unwrap()
    }

    fn change(definition: Value) -> AppChange {
        serde_json::from_value(serde_json::json!({ "name": "api", "definition": definition })).unwrap()
    }

    #[test]
    fn what_is_not_named_stays() {
        assert_eq!(change(serde_json::json!({})).apply(&present(), 0), Ok(present()));
        let changed =
            change(serde_json::json!({ "max_memory_bytes": 9, "watch": null })).apply(&present(), 0);
        assert_eq!(changed, Ok(AppDefinition { max_memory_bytes: Some(9), ..present() }));
    }

    #[test]
    fn variables_are_merged_and_it_is_noted_where_they_came_from() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let change = AppChange {
            env: map(&[("A", "own"), ("D", "4")]),
            caller_env: map(&[("A", "caller's"), ("C", "caller's"), ("E", "5")]),
            ..change(serde_json::json!({}))
        };
        let changed = change.apply(&present(), 0).unwrap();
        assert_eq!(changed.env, map(&[("A", "own"), ("B", "2"), ("C", "caller's"), ("D", "4"), ("E", "5")]));
        assert_eq!(changed.env_sources.inherited, ["B", "C", "E"].map(str::to_owned).into());
        assert!(changed.env_sources.from_files.is_empty());
    }

    #[test]
    fn a_block_takes_the_place_of_another() {
        let with_blocks = |env: Value| AppDefinition {
            env: serde_json::from_value(env).unwrap(),
            env_sources: serde_json::from_value(serde_json::json!({
                "inherited": ["PATH", "E"],
                "blocks": {
                    "common": { "A": "common", "PORT": "1" },
                    "named": {
                        "production": { "A": "p", "B": "p", "PATH": "/p" },
                        "staging": { "A": "s", "C": "s" },
                    },
                },
            }))
            .unwrap(),
            ..present()
        };
        let choose = |name: &str| AppChange {
            env_name: Some(name.to_owned()),
            env: [("PORT".to_owned(), "2".to_owned())].into(),
            ..change(serde_json::json!({}))
        };
        let first = with_blocks(serde_json::json!({ "A": "common", "E": "e", "PATH": "/", "PORT": "1" }));
        let production = choose("production").apply(&first, 0).unwrap();
        let expected = serde_json::json!({ "A": "p", "B": "p", "E": "e", "PATH": "/p", "PORT": "2" });
        assert_eq!(serde_json::to_value(&production.env).unwrap(), expected);
        assert_eq!(production.env_sources.inherited, ["E".to_owned()].into());
        let staging = choose("staging").apply(&production, 0).unwrap();
        let expected = serde_json::json!({ "A": "s", "C": "s", "E": "e", "PATH": "/p", "PORT": "2" });
        assert_eq!(serde_json::to_value(&staging.env).unwrap(), expected);
        let refused = choose("testing").apply(&first, 0).unwrap_err();
        assert_eq!(refused.error, "app `api` cannot be changed so: it has no `env_testing`");
    }

    #[test]
    fn a_change_of_several_apps_is_for_those_that_it_fits() {
        let app = |name: &str, blocks: Value| AppDefinition {
            name: name.to_owned(),
            env_sources: serde_json::from_value(serde_json::json!({ "blocks": { "named": blocks } }))
                .unwrap(),
            ..present()
        };
        let (api, plain) =
            (app("api", serde_json::json!({ "blue": { "A": "blue" } })), app("plain", serde_json::json!({})));
        let choose = |block: &str| AppChange { env_name: Some(block.to_owned()), ..AppChange::default() };
        let apps = [api.clone(), plain.clone()];
        let warning = "plain has no `env_blue`: it keeps its environment".to_owned();
        assert_eq!(choose("blue").check_all(&apps), Ok(vec![warning]));
        assert_eq!(choose("blue").apply(&api, 0).unwrap().env["A"], "blue");
        assert_eq!(choose("blue").apply(&plain, 0), Ok(plain));
        let told = choose("red").check_all(&apps).unwrap();
        let of_api = "api has no `env_red` (there is env_blue): it keeps its environment";
        assert_eq!(told, [of_api, "plain has no `env_red`: it keeps its environment"]);
        let rename: AppChange =
            serde_json::from_value(serde_json::json!({ "definition": { "name": "web" } })).unwrap();
        assert_eq!(rename.check_all(&apps).unwrap_err().error, "--name would give 2 apps the same name");
        assert_eq!(rename.apply(&api, 0).unwrap().name, "web");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for definition in [
            serde_json::json!({ "no_such_key": 1 }),
            serde_json::json!({ "instances": "many" }),
            serde_json::json!({ "env": {} }),
        ] {
            let refused = change(definition).apply(&present(), 0).unwrap_err();
            assert_eq!(refused.code, ErrorCode::BadRequest);
            assert!(refused.error.starts_with("app `api` cannot be changed so: "), "{}", refused.error);
        }
    }
}
