//! The desired state as it is kept on disk, and the requests about it.
//!
//! A saved state is a JSON text, readable by its owner alone. Values of variables that came with a
//! caller's environment are not in it unless they are harmless or the user asked for it; values from
//! `.env` files never are.
//!
//! It is read tolerantly, because the program that wrote it may have been newer: [`SavedApp::read`] yields the keys
//! that it does not know beside the app, and they are written again with it.

use std::collections::BTreeMap;

use forkful_core::doctor::OpenTrial;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The version of this format.
pub const SAVED_FORMAT: u32 = 1;

/// A saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// [`SAVED_FORMAT`].
    pub format: u32,
    /// The version of the program that wrote it.
    #[serde(default)]
    pub program: String,
    /// When it was written.
    #[serde(default)]
    pub saved_at_ms: u64,
    /// The apps, in start order: [`SavedApp`]s, read one by one so that an unreadable entry does not affect
    /// the others.
    pub apps: Vec<Value>,
}

impl SavedState {
    /// The text of a state with these apps, each of which is in memory only while it is written: hundreds of
    /// them would take megabytes at once.
    pub fn text(program: &str, saved_at_ms: u64, apps: impl Iterator<Item = Value> + Clone) -> String {
        #[derive(Serialize)]
        struct State<'a, A: Iterator<Item = Value> + Clone> {
            format: u32,
            program: &'a str,
            saved_at_ms: u64,
            #[serde(serialize_with = "one_by_one")]
            apps: A,
        }
        let state = State { format: SAVED_FORMAT, program, saved_at_ms, apps };
        serde_json::to_string(&state).expect("texts, numbers and maps with text keys are always JSON")
    }
}

fn one_by_one<S, A>(apps: &A, serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    A: Iterator<Item = Value> + Clone,
{
    serializer.collect_seq(apps.clone())
}

/// A saved app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedApp {
    /// The app's definition, its environment without values that are not saved.
    pub definition: crate::types::AppDefinition,
    /// Slots that a command stopped, counted without the gaps of deleted slots.
    #[serde(default)]
    pub stopped: Vec<u16>,
    /// Slots whose program has finished and is not restarted, counted in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finished: Vec<u16>,
    /// Slots that do not run until a time of `cron_restart` comes, counted in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for_cron: Vec<u16>,
    /// The change of `forkful doctor --fix` that the definition may have, and that nobody has decided about. One that cannot be read
    /// is left out: the app runs all the same.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "readable")]
    pub trial: Option<OpenTrial>,
}

fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OpenTrial>, D::Error> {
    Value::deserialize(deserializer).map(|value| OpenTrial::deserialize(value).ok())
}

/// A key of a saved app that this version does not know, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// The keys that lead to it, from the outermost.
    pub path: Vec<String>,
    /// Its value.
    pub value: Value,
}

impl SavedApp {
    /// Reads an entry of [`SavedState::apps`], and what it holds beyond this version's keys.
    pub fn read(entry: &Value) -> Result<(Self, Vec<UnknownKey>), serde_json::Error> {
        let mut unknown = Vec::new();
        let app = serde_ignored::deserialize(entry, |path| {
            let mut keys = Vec::new();
            // Keys within lists have no stable place.
            if collect_keys(&path, &mut keys)
                && let Some(value) = keys.iter().try_fold(entry, |value, key| value.get(key))
            {
                unknown.push(UnknownKey { value: value.clone(), path: keys });
            }
        })?;
        Ok((app, unknown))
    }

    /// The entry, with the keys that only another version knows. A key whose place no longer exists is
    /// omitted.
    pub fn entry(&self, unknown: &[UnknownKey]) -> Value {
        let mut entry =
            serde_json::to_value(self).expect("texts, numbers and maps with text keys are always JSON");
        for UnknownKey { path, value } in unknown {
            let Some((last, parents)) = path.split_last() else { continue };
            let parent = parents.iter().try_fold(&mut entry, |value, key| value.get_mut(key));
            if let Some(Value::Object(parent)) = parent {
                parent.entry(last).or_insert_with(|| value.clone());
            }
        }
        entry
    }

    /// Whether any worker of an entry runs again when it is started: those that a command has stopped, and those that have
    /// finished, stay as they were. An entry that cannot be read counts, because its workers may.
    pub fn runs_in(entry: &Value) -> bool {
        let number = |key: &str| entry[key].as_array().map_or(0, Vec::len) as u64;
        // Those that wait for their time are among the stopped ones.
        let at_rest = (number("stopped") + number("finished")).saturating_sub(number("waits_for_cron"));
        at_rest == 0 || entry["definition"]["instances"].as_u64().is_none_or(|instances| at_rest < instances)
    }

    /// The name in an entry, even if the rest of the entry cannot be read.
    pub fn name_in(entry: &Value) -> Option<&str> {
        entry["definition"]["name"].as_str().filter(|name| !name.is_empty())
    }
}

/// The keys of a path; false if a part of it is no key.
fn collect_keys(path: &serde_ignored::Path<'_>, keys: &mut Vec<String>) -> bool {
    use serde_ignored::Path;
    match path {
        Path::Root => true,
        Path::Seq { .. } => false,
        Path::Map { parent, key } => {
            let is_certain = collect_keys(parent, keys);
            keys.push(key.clone());
            is_certain
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            collect_keys(parent, keys)
        }
    }
}

/// `POST /v1/save`: writes the desired state to a separate file, to restore later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    /// From now on, save values from callers' environments too.
    #[serde(default)]
    pub with_env: bool,
    /// Save even if there is no app.
    #[serde(default)]
    pub force: bool,
}

/// What was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SaveReply {
    /// The file.
    pub path: String,
    /// The apps in it.
    pub apps: Vec<SavedName>,
}

/// An app that was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SavedName {
    /// Its name.
    pub name: String,
    /// Variables whose values were not saved.
    pub left_out: Vec<String>,
}

/// `POST /v1/resurrect`: starts saved apps that do not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResurrectRequest {
    /// Use the state written by `save` instead of the last daemon's state.
    #[serde(default)]
    pub saved: bool,
    /// The source of values that were not saved.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The same for some apps, by name; these values take precedence.
    #[serde(default)]
    pub env_of: BTreeMap<String, BTreeMap<String, String>>,
    /// Reply only when each app is ready or has failed.
    #[serde(default)]
    pub wait: bool,
}

/// `POST /v1/cleardump`: deletes saved states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClearReply {
    /// The deleted files.
    pub removed: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({ "definition": {
            "name": "api", "program": "/usr/bin/node", "program_args": [], "script": "/srv/app.js", "args": [],
            "cwd": "/srv", "env": {"PORT": "3000"}, "runtime": "node", "mode": "cluster", "instances": 2,
            "balance": "exact", "autorestart": true, "max_restarts": 3, "restart_window_ms": 60_000,
            "min_uptime_ms": 500, "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 250,
            "stop_exit_codes": [0], "wait_ready": true, "listen_timeout_ms": 4000, "kill_signal": 15,
            "kill_timeout_ms": 1600, "drain_timeout_ms": 9000, "out_file": null, "error_file": null,
            "merge_logs": true, "time": true, "agent": false,
            "health": {"probe": {"tcp": {"port": 1}}, "interval_ms": 1, "timeout_ms": 1, "start_period_ms": 1,
                       "failures_max": 1},
        }, "stopped": [1] })
    }

    #[test]
    fn a_text_holds_every_app_and_reads_back() {
        let apps = [entry(), json!({ "of": "another version" })];
        let text = SavedState::text("1.2.3", 7, apps.iter().cloned());
        let state: SavedState = serde_json::from_str(&text).unwrap();
        let expected = SavedState {
            format: SAVED_FORMAT,
            program: "1.2.3".to_owned(),
            saved_at_ms: 7,
            apps: apps.to_vec(),
        };
        assert_eq!(state, expected);
    }

    #[test]
    fn a_trial_is_saved_and_one_of_another_form_does_not_keep_the_app_from_running() {
        let mut saved = entry();
        saved["trial"] = json!({ "id": "a", "since_ms": 5, "state": "changed", "keep": "k", "undo": "u" });
        let (app, unknown) = SavedApp::read(&saved).unwrap();
        assert_eq!(app.trial.as_ref().map(|trial| trial.undo.as_str()), Some("u"));
        assert_eq!(app.entry(&unknown)["trial"], saved["trial"]);
        for other in [json!({ "state": "by-moon" }), json!(null), json!([1])] {
            saved["trial"] = other;
            let (app, unknown) = SavedApp::read(&saved).unwrap();
            assert_eq!((app.trial.as_ref(), app.entry(&unknown).get("trial")), (None, None));
        }
    }

    #[test]
    fn an_entry_runs_unless_all_of_its_workers_are_at_rest() {
        let app = |stopped: &[u16], finished: &[u16], cron: &[u16]| {
            let definition = json!({ "name": "a", "instances": 2 });
            let of = |slots: &[u16]| slots.to_vec();
            let entry = json!({ "definition": definition, "stopped": of(stopped), "finished": of(finished), "waits_for_cron": of(cron) });
            SavedApp::runs_in(&entry)
        };
        assert!(app(&[], &[], &[]) && app(&[1], &[], &[]) && app(&[0, 1], &[], &[1]));
        assert!(!app(&[0, 1], &[], &[]) && !app(&[0], &[1], &[]));
        assert!(SavedApp::runs_in(&json!("of another version")));
    }

    #[test]
    fn what_a_newer_version_has_added_is_read_over_and_written_again() {
        let mut newer = entry();
        newer["zone"] = json!("a");
        newer["definition"]["memory_max"] = json!({"bytes": 5});
        newer["definition"]["health"]["jitter_ms"] = json!(7);
        newer["definition"]["env_sources"] = json!({"vault": ["x"]});
        let (app, unknown) = SavedApp::read(&newer).unwrap();
        assert_eq!((app.definition.name.as_str(), app.stopped.as_slice()), ("api", &[1][..]));
        let mut paths: Vec<_> = unknown.iter().map(|key| key.path.join(".")).collect();
        paths.sort();
        let expected =
            ["definition.env_sources.vault", "definition.health.jitter_ms", "definition.memory_max", "zone"];
        assert_eq!(paths, expected);
        let again = app.entry(&unknown);
        for path in [
            "/zone",
            "/definition/memory_max",
            "/definition/health/jitter_ms",
            "/definition/env_sources/vault",
        ] {
            assert_eq!(again.pointer(path), newer.pointer(path), "{path}");
        }
        let (read_again, unknown_again) = SavedApp::read(&again).unwrap();
        assert_eq!((read_again, unknown_again.len()), (app, unknown.len()));
    }

    #[test]
    fn a_kind_of_incidents_that_only_a_newer_version_knows_is_kept() {
        let mut newer = entry();
        newer["definition"]["alerts"] =
            json!({ "command": ["./tell"], "on": ["crash", "fire"], "every_ms": 60_000, "timeout_ms": 1000 });
        let (app, unknown) = SavedApp::read(&newer).unwrap();
        assert!(unknown.is_empty());
        assert_eq!(app.entry(&unknown)["definition"]["alerts"]["on"], json!(["crash", "fire"]));
        let refusal = app.definition.check_kinds().unwrap_err();
        assert!(
            refusal.starts_with(r#"`alerts.on` has "fire", which is none of crash, crash_loop,"#),
            "{refusal}"
        );
        let spec = forkful_core::spec::AppSpec::try_from(app.definition).unwrap();
        assert_eq!(spec.alerts.unwrap().on.len(), 2);
        newer["definition"]["alerts"]["on"] = json!(["crash"]);
        SavedApp::read(&newer).unwrap().0.definition.check_kinds().unwrap();
    }

    #[test]
    fn an_unknown_key_whose_place_is_gone_is_left_out() {
        let mut newer = entry();
        newer["definition"]["health"]["jitter_ms"] = json!(7);
        let (mut app, unknown) = SavedApp::read(&newer).unwrap();
        app.definition.health = None;
        assert_eq!(app.entry(&unknown), app.entry(&[]));
    }

    #[test]
    fn an_entry_that_cannot_be_read_still_tells_its_name() {
        let mut strange = entry();
        strange["definition"]["balance"] = json!("by-moon");
        assert!(SavedApp::read(&strange).is_err());
        assert_eq!(SavedApp::name_in(&strange), Some("api"));
        for nameless in [json!(7), json!({}), json!({"definition": {"name": ""}}), json!([])] {
            assert_eq!(SavedApp::name_in(&nameless), None);
        }
    }
}
