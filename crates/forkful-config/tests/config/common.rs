//! Shared by the tests: a directory for files, a context, and functions that format results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_config::{
    AppOptions, ConfigError, ConfigFile, Context, Format, JsEvaluator, Resolved, ScriptFault, ScriptResult,
    load, parse, resolve,
};
use tempfile::TempDir;

/// A directory that is removed with its files, and a stand-in for the caller's environment.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file, with its directories.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    }

    /// Writes a file that may be executed.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name, "");
        forkful_testkit::write_executable(&path, text);
        path
    }

    /// A `bin` directory with programs of these names that only print a Node.js version.
    pub(crate) fn fake_programs(&self, names: &[&str]) {
        for name in names {
            self.program(&format!("bin/{name}"), "#!/bin/sh\necho v24.1.0\n");
        }
    }

    /// A caller in this directory whose PATH is its `bin`.
    pub(crate) fn context(&self) -> Context {
        let path = self.path().join("bin").display().to_string();
        Context {
            caller_cwd: self.path().to_owned(),
            caller_env: BTreeMap::from([
                ("PATH".to_owned(), path),
                ("HOME".to_owned(), "/home/ann".to_owned()),
            ]),
            own_program: "/usr/bin/forkful".into(),
            logs_folder: "/home/ann/.forkful/logs".into(),
            log_rotation: forkful_core::logs::LogRotation::default(),
            env_name: None,
            usable_cores: 4,
            cores_reason: None,
            is_elsewhere: false,
        }
    }

    /// Resolves options of the command line.
    pub(crate) fn resolve(&self, options: &AppOptions) -> Result<Resolved, ConfigError> {
        resolve(options, &self.context())
    }

    /// The message and its hint, with this directory's path as `DIR`.
    pub(crate) fn shown(&self, error: &ConfigError) -> String {
        self.neutral(&show(error))
    }

    pub(crate) fn neutral(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "DIR")
    }
}

/// The message and its hint.
pub(crate) fn show(error: &ConfigError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}\nhint: {}", hint.text),
        None => error.to_string(),
    }
}

/// A config that must not need `node`.
pub(crate) struct NoEvaluator;

impl JsEvaluator for NoEvaluator {
    fn evaluate(&self, path: &Path) -> Result<ScriptResult, ScriptFault> {
        panic!("{} must not be evaluated", path.display())
    }
}

pub(crate) fn load_data(path: &Path) -> Result<ConfigFile, ConfigError> {
    load(path, &NoEvaluator)
}

pub(crate) fn json(text: &str) -> Result<ConfigFile, ConfigError> {
    parse(text, Format::Json, Path::new("forkful.config.json"))
}

/// The only app of a valid JSON text.
pub(crate) fn app(text: &str) -> AppOptions {
    let file = json(text).unwrap();
    let odd: Vec<_> =
        file.warnings.iter().filter(|w| !w.message.starts_with("is checked and kept")).collect();
    assert!(odd.is_empty(), "unexpected warnings: {odd:?}");
    assert_eq!(file.apps.len(), 1, "unexpected number of apps");
    file.apps.into_iter().next().unwrap()
}

/// The error of a JSON text.
pub(crate) fn fault(text: &str) -> String {
    show(&json(text).expect_err("the text should be refused"))
}

/// Options as the command line gives them.
pub(crate) fn script(script: &str) -> AppOptions {
    AppOptions::of_script(script)
}

pub(crate) fn lines<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// All of these apps.
pub(crate) fn resolve_all(apps: &[AppOptions], context: &Context) -> Result<Vec<Resolved>, ConfigError> {
    forkful_config::resolve_only(apps.to_vec(), &[], &AppOptions::default(), context)
        .map(|(resolved, _)| resolved)
}
