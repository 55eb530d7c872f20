//! Values of a change whose meaning depends on the app, such as paths relative to its working directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_core::interpreter::{CannotRun, check_strips_types, needs_types_stripped};
use forkful_core::paths::{file_name_of, tidied};
use forkful_core::spec::{Watch, WatchIgnore};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::types::{AppDefinition, ErrorCode, ErrorReply, ModeKind, RuntimeKind};

/// Node's flag for `source_map_support`, which is one of the interpreter's arguments.
const SOURCE_MAPS: &str = "--enable-source-maps";

/// See the module's documentation; the options of the command line have the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ByApp {
    /// What runs the script.
    pub interpreter: Option<Interpreter>,
    /// The interpreter's arguments.
    pub node_args: Option<Vec<String>>,
    /// Whether Node.js runs with `--enable-source-maps`.
    pub source_maps: Option<bool>,
    /// What is watched.
    pub watch: Option<WatchChange>,
    /// The folder of an additional log file `<name>.log`.
    pub log_file_in: Option<String>,
    /// An option that only a new app can have, as the user wrote it: the change is refused.
    pub new_app_only: Option<String>,
    /// Where the values were given, by the key of a configuration; added to what the definition has.
    pub origins: BTreeMap<String, String>,
}

/// A program that runs scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interpreter {
    /// Its absolute path; `null`: the script is a program itself.
    pub program: Option<String>,
    /// `node` or `other`.
    pub runtime: RuntimeKind,
    /// The version of Node.js, such as `24.1.0`, if it is known. Without it, an app whose script is TypeScript is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// New settings of a watch; settings that are not given stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WatchChange {
    /// Files and folders, relative to the app's working directory; an empty list ends the watch.
    pub paths: Option<Vec<String>>,
    /// Ignored files.
    pub ignore: Option<Vec<WatchIgnore>>,
    /// Debounce.
    pub delay_ms: Option<u64>,
    /// The symbolic links that `..` in the paths leads out of; found by the daemon.
    #[serde(skip)]
    pub links: BTreeSet<PathBuf>,
}

impl ByApp {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses what only a new app can have.
    pub(super) fn check(&self, name: &str) -> Result<(), ErrorReply> {
        let Some(option) = &self.new_app_only else { return Ok(()) };
        let hint = format!(
            "`forkful delete {}` and start it again, or restart it with a config file that changes it",
            forkful_core::words::shell_word(name)
        );
        Err(refused(format!("{option} cannot be changed of an app that exists"), hint))
    }

    /// Refuses another interpreter that cannot run the script of the app as it will be.
    pub(super) fn check_interpreter(&self, changed: &AppDefinition) -> Result<(), CannotRun> {
        let Some(Interpreter { program: Some(node), runtime: RuntimeKind::Node, version }) =
            &self.interpreter
        else {
            return Ok(());
        };
        let script = changed.script.as_deref().unwrap_or_default();
        let node_options = changed.env.get("NODE_OPTIONS").map(String::as_str);
        if !needs_types_stripped(Path::new(script), &changed.program_args, node_options) {
            return Ok(());
        }
        check_strips_types(script, node, version.as_deref())
    }

    /// Adds what these values mean for an app to `fields`, the other fields of its definition that change.
    pub(super) fn complete(
        &self,
        fields: &mut Map<String, Value>,
        present: &AppDefinition,
    ) -> Result<(), ErrorReply> {
        let runtime = self.program(fields, present)?;
        complete_mode(fields, present, runtime);
        if let Some(folder) = &self.log_file_in {
            let name = fields.get("name").and_then(Value::as_str).unwrap_or(&present.name);
            let file = Path::new(folder).join(format!("{}.log", file_name_of(name)));
            fields.insert("log_file".to_owned(), json!(file));
        }
        let cwd = fields.get("cwd").and_then(Value::as_str).unwrap_or(&present.cwd).to_owned();
        if let Some(change) = &self.watch {
            fields.insert("watch".to_owned(), change.applied(present, Path::new(&cwd))?);
        }
        if !self.origins.is_empty() {
            let origins: BTreeMap<_, _> = present.origins.iter().chain(&self.origins).collect();
            fields.insert("origins".to_owned(), json!(origins));
        }
        Ok(())
    }

    /// What is executed; yields the runtime.
    fn program(
        &self,
        fields: &mut Map<String, Value>,
        present: &AppDefinition,
    ) -> Result<RuntimeKind, ErrorReply> {
        let is_command_line = present.script.as_ref().is_some_and(|script| !script.starts_with('/'));
        if is_command_line && fields.contains_key("args") {
            // They are words of the line.
            fields.insert("args".to_owned(), json!([]));
        }
        let runtime = self.interpreter.as_ref().map_or(present.runtime, |new| new.runtime);
        if let Some(Interpreter { program, runtime, .. }) = &self.interpreter {
            if is_command_line {
                let error = format!("`{}` is a command line, which no interpreter runs", present.name);
                return Err(ErrorReply::new(ErrorCode::BadRequest, error, None));
            }
            let file = present.script.as_ref().unwrap_or(&present.program);
            let script = program.as_ref().map(|_| file);
            fields.insert("program".to_owned(), json!(program.as_ref().unwrap_or(file)));
            fields.insert("script".to_owned(), json!(script));
            fields.insert("runtime".to_owned(), json!(runtime));
        }
        if self.interpreter.is_some() || self.node_args.is_some() || self.source_maps.is_some() {
            fields.insert("program_args".to_owned(), json!(self.program_args(present, runtime)));
        }
        Ok(runtime)
    }

    fn program_args(&self, present: &AppDefinition, runtime: RuntimeKind) -> Vec<String> {
        let script_runs_itself = match &self.interpreter {
            Some(interpreter) => interpreter.program.is_none(),
            None => present.script.is_none() && runtime == RuntimeKind::Other,
        };
        if script_runs_itself {
            return Vec::new();
        }
        let has_maps = present.program_args.iter().any(|word| word == SOURCE_MAPS);
        // Arguments of one interpreter mean nothing to another.
        let stay = self.interpreter.is_none() || present.runtime == RuntimeKind::Node;
        let before = present.program_args.iter().filter(|word| stay && *word != SOURCE_MAPS);
        let mut args = self.node_args.clone().unwrap_or_else(|| before.cloned().collect());
        if runtime == RuntimeKind::Node && self.source_maps.unwrap_or(has_maps) {
            args.push(SOURCE_MAPS.to_owned());
        }
        args
    }
}

/// A single process that becomes several shares its port from then on, as with `start -i`; an app configured with several
/// independent processes keeps its mode. Only Node.js programs can be in cluster mode.
fn complete_mode(fields: &mut Map<String, Value>, present: &AppDefinition, runtime: RuntimeKind) {
    let is_single = present.mode == ModeKind::Fork && present.instances == 1;
    let becomes_several = fields.contains_key("instances") && is_single && !fields.contains_key("mode");
    if becomes_several && runtime == RuntimeKind::Node {
        fields.insert("mode".to_owned(), json!(ModeKind::Cluster));
    }
    if runtime == RuntimeKind::Other && fields.contains_key("mode") {
        fields.insert("mode".to_owned(), json!(ModeKind::Fork));
    }
}

impl WatchChange {
    /// The symbolic links that `..` in a path leads out of.
    pub fn links_in(path: &Path, is_link: impl Fn(&Path) -> bool) -> BTreeSet<PathBuf> {
        let mut links = BTreeSet::new();
        tidied(path, |path| {
            let found = is_link(path);
            found.then(|| links.insert(path.to_owned()));
            found
        });
        links
    }

    fn tidied(&self, path: &Path) -> PathBuf {
        tidied(path, |path| self.links.contains(path))
    }

    /// The new watch settings of an app; null for none.
    fn applied(&self, present: &AppDefinition, cwd: &Path) -> Result<Value, ErrorReply> {
        let before = present.watch.as_ref();
        if self.paths.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Value::Null);
        }
        let ((paths, left_out), follow_links, polling) = match (&self.paths, before) {
            (Some(paths), _) => {
                let absolute = |path: &str| self.tidied(&cwd.join(path));
                (Watch::sort(paths.iter().map(String::as_str), absolute), true, None)
            }
            (None, Some(before)) => ((before.paths.clone(), Vec::new()), before.follow_links, before.polling),
            (None, None) => {
                let error = format!(
                    "`{}` is not watched, so there is nothing to ignore or to wait for",
                    present.name
                );
                return Err(refused(error, "add `--watch`".to_owned()));
            }
        };
        let ignore = self.ignore.clone().or_else(|| before.map(|before| before.ignore.clone()));
        let delay = self.delay_ms.map(Duration::from_millis).or(before.map(|before| before.delay));
        let watch = Watch {
            paths,
            ignore: [ignore.unwrap_or_default(), left_out].concat(),
            delay: Watch::delay_or_default(delay),
            follow_links,
            polling,
        };
        Ok(json!(watch))
    }
}

fn refused(error: String, hint: String) -> ErrorReply {
    ErrorReply { hint: Some(hint), ..ErrorReply::new(ErrorCode::BadRequest, error, None) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::present;
    use super::*;
    use crate::types::AppChange;

    fn node() -> AppDefinition {
        AppDefinition { program_args: vec!["--no-warnings".to_owned(), SOURCE_MAPS.to_owned()], ..present() }
    }

    fn apply(by_app: ByApp, app: &AppDefinition) -> Result<AppDefinition, ErrorReply> {
        AppChange { by_app, ..AppChange::default() }.apply(app, 0)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_of_node_and_source_maps_are_changed_one_without_the_other() {
        let args = |by_app| apply(by_app, &node()).unwrap().program_args;
        let given = ByApp { node_args: Some(words(&["--inspect"])), ..ByApp::default() };
        assert_eq!(args(given), ["--inspect", SOURCE_MAPS]);
        assert_eq!(args(ByApp { source_maps: Some(false), ..ByApp::default() }), ["--no-warnings"]);
        let none = ByApp { node_args: Some(Vec::new()), source_maps: Some(false), ..ByApp::default() };
        assert!(args(none).is_empty());
    }

    #[test]
    fn an_interpreter_runs_the_same_script() {
        let python = Interpreter {
            program: Some("/usr/bin/python3".to_owned()),
            runtime: RuntimeKind::Other,
            version: None,
        };
        let changed =
            apply(ByApp { interpreter: Some(python.clone()), ..ByApp::default() }, &node()).unwrap();
        assert_eq!(
            (changed.program.as_str(), changed.script.as_deref()),
            ("/usr/bin/python3", Some("/srv/app.js"))
        );
        assert_eq!((changed.program_args, changed.runtime), (words(&["--no-warnings"]), RuntimeKind::Other));
        let itself = Interpreter { program: None, runtime: RuntimeKind::Other, version: None };
        let changed = apply(ByApp { interpreter: Some(itself), ..ByApp::default() }, &node()).unwrap();
        assert_eq!((changed.program.as_str(), changed.script), ("/srv/app.js", None));
        assert!(changed.program_args.is_empty());
        let line = AppDefinition { script: Some("make serve".to_owned()), ..present() };
        assert!(apply(ByApp { interpreter: Some(python), ..ByApp::default() }, &line).is_err());
    }

    #[test]
    fn a_node_that_does_not_run_typescript_is_refused_for_a_script_that_needs_it() {
        let change = |version: Option<&str>, app: &AppDefinition| {
            let program = Some("/opt/node".to_owned());
            let version = version.map(str::to_owned);
            let interpreter = Some(Interpreter { program, runtime: RuntimeKind::Node, version });
            apply(ByApp { interpreter, ..ByApp::default() }, app).map(|_| ()).map_err(|refusal| refusal.error)
        };
        let refused = |what: &str| Err(format!("app `api` cannot be changed so: {what}"));
        let typed = AppDefinition { script: Some("/srv/app.ts".to_owned()), ..present() };
        assert_eq!(change(Some("22.18.0"), &typed), Ok(()));
        let needs = "/srv/app.ts needs Node.js 22.18 or newer, and /opt/node is 20.1.0";
        assert_eq!(change(Some("20.1.0"), &typed), refused(needs));
        assert_eq!(change(None, &typed), refused("cannot run /opt/node --version"));
        assert_eq!(change(Some("20.1.0"), &present()), Ok(()));
        let with_loader = AppDefinition { program_args: words(&["--import", "tsx"]), ..typed.clone() };
        assert_eq!(change(Some("20.1.0"), &with_loader), Ok(()));
        let env = [("NODE_OPTIONS".to_owned(), "--import=tsx".to_owned())].into();
        assert_eq!(change(Some("20.1.0"), &AppDefinition { env, ..typed }), Ok(()));
    }

    #[test]
    fn a_single_process_that_becomes_several_shares_its_port() {
        let change: AppChange = serde_json::from_value(json!({ "definition": { "instances": 2 } })).unwrap();
        let mode = |app: &AppDefinition| change.clone().apply(app, 0).unwrap().mode;
        let single = AppDefinition { mode: ModeKind::Fork, instances: 1, ..present() };
        assert_eq!(mode(&single), ModeKind::Cluster);
        assert_eq!(mode(&AppDefinition { instances: 3, ..single.clone() }), ModeKind::Fork);
        assert_eq!(mode(&AppDefinition { runtime: RuntimeKind::Other, ..single }), ModeKind::Fork);
    }

    #[test]
    fn a_watch_keeps_what_is_not_given() {
        let watch = |change: WatchChange, app: &AppDefinition| {
            apply(ByApp { watch: Some(change), ..ByApp::default() }, app).map(|app| app.watch)
        };
        let here = WatchChange { paths: Some(words(&["."])), ..WatchChange::default() };
        let first = watch(here, &present()).unwrap().unwrap();
        assert_eq!((first.paths.as_slice(), first.delay), (&["/srv".into()][..], Watch::DELAY));
        let watched = AppDefinition { watch: Some(first.clone()), ..present() };
        let delay = WatchChange { delay_ms: Some(2000), ..WatchChange::default() };
        let second = watch(delay.clone(), &watched).unwrap();
        assert_eq!(second, Some(Watch { delay: Duration::from_secs(2), ..first }));
        let end = WatchChange { paths: Some(Vec::new()), ..WatchChange::default() };
        assert_eq!(watch(end, &watched), Ok(None));
        let refused = watch(delay, &present()).unwrap_err();
        assert_eq!(refused.error, "`api` is not watched, so there is nothing to ignore or to wait for");
    }

    #[test]
    fn a_watched_path_goes_up_except_out_of_a_link() {
        let paths = Some(words(&["../lib", "./current/../lib"]));
        let change = WatchChange { paths, ..WatchChange::default() };
        let whole = AppChange {
            by_app: ByApp { watch: Some(change.clone()), ..ByApp::default() },
            ..AppChange::default()
        };
        let asked = whole.paths_to_watch(&present());
        assert_eq!(asked, ["/srv/../lib", "/srv/./current/../lib"].map(PathBuf::from));
        let is_link = |path: &Path| path == Path::new("/srv/current");
        let links = asked.iter().flat_map(|path| WatchChange::links_in(path, is_link)).collect();
        let by_app = ByApp { watch: Some(WatchChange { links, ..change }), ..ByApp::default() };
        let watch = apply(by_app, &present()).unwrap().watch.unwrap();
        assert_eq!(watch.paths, ["/lib", "/srv/current/../lib"].map(PathBuf::from));
    }

    #[test]
    fn values_depend_on_the_name_and_the_origins_of_others_stay() {
        let by_app = ByApp {
            log_file_in: Some("/logs".to_owned()),
            origins: [("log_file".to_owned(), "command line".to_owned())].into(),
            ..ByApp::default()
        };
        let app = AppDefinition {
            name: "@a/b".to_owned(),
            origins: [("time".to_owned(), "a.json:3".to_owned())].into(),
            ..present()
        };
        let changed = apply(by_app, &app).unwrap();
        assert_eq!(changed.log_file.as_deref(), Some("/logs/-a-b.log"));
        assert_eq!(changed.origins.keys().collect::<Vec<_>>(), ["log_file", "time"]);
    }
}
