//! From the command line to resolved apps: converts options to [`AppOptions`], loads config files and
//! overlays options, and resolves everything for this machine and environment.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use forkful_api::types::AppChange;
use forkful_config::{
    AppOptions, ConfigFile, Context, DeployTarget, Format, NodeEvaluator, Report, Resolved, Warning,
};
use forkful_core::pages::Page;
use forkful_core::spec::{AppSpec, LogRotation};
use serde_json::Value;

use crate::cli::{AppOptionArgs, GivenKeys};
use crate::exit::{Exit, Failure};
use crate::home;
use crate::output;
use crate::settings::Settings;
use crate::working_directory::{WorkingDirectory, is_relative};

/// Maximum bytes of a configuration from stdin, as for a file.
const STDIN_BYTES_MAX: u64 = 1 << 20;

/// Whether a target is a configuration: a file with a config name, or `-` for stdin. Not a pattern.
pub(crate) fn is_config(target: &str) -> bool {
    let is_pattern = forkful_core::targets::pattern_of(target).is_some();
    target == "-" || !is_pattern && forkful_config::is_config(Path::new(target))
}

/// The config file of the working directory, for a command that names none; `hint` says how to name one.
pub(crate) fn default_config(hint: &str) -> Result<String, Failure> {
    // A relative path, so that messages name it as the user would.
    if let Some(path) = forkful_config::find_default(Path::new("")) {
        return Ok(path.to_string_lossy().into_owned());
    }
    let cwd = WorkingDirectory::of_caller();
    let cwd = cwd.needed("a config file is looked for in it")?;
    Err(Failure::new(Exit::WrongUse, format!("{} contains no config file", cwd.display()))
        .hint(hint)
        .see(Page::Config))
}

/// After this time without input, a message says that `-` waits for stdin.
const STDIN_SILENCE: Duration = Duration::from_secs(5);
/// Timeout for stdin without any input, such as a forgotten pipe.
const STDIN_SILENCE_MAX: Duration = Duration::from_secs(60);

fn stdin_text() -> Result<String, Failure> {
    let (sender, pieces) = mpsc::sync_channel(1);
    // It ends with stdin, or with this process.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1);
        loop {
            let mut piece = vec![0; 64 << 10];
            let read = stdin.read(&mut piece).map(|count| piece[..count].to_vec());
            let is_last = !read.as_ref().is_ok_and(|piece| !piece.is_empty());
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    let mut bytes = next_of_stdin(&pieces)?;
    while !bytes.is_empty() {
        match pieces.recv() {
            Ok(piece) => match piece.map_err(unreadable_stdin)? {
                end if end.is_empty() => break,
                piece => bytes.extend(piece),
            },
            Err(_) => break,
        }
    }
    if bytes.len() as u64 > STDIN_BYTES_MAX {
        return Err(Failure::new(
            Exit::WrongUse,
            format!("stdin has more than {STDIN_BYTES_MAX} bytes, the maximum for a configuration"),
        ));
    }
    String::from_utf8(bytes)
        .map_err(|error| unreadable_stdin(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

/// The first piece, with the message and the timeout.
fn next_of_stdin(pieces: &mpsc::Receiver<std::io::Result<Vec<u8>>>) -> Result<Vec<u8>, Failure> {
    if let Ok(piece) = pieces.recv_timeout(STDIN_SILENCE) {
        return piece.map_err(unreadable_stdin);
    }
    output::note("waiting for a JSON configuration on stdin; Ctrl-D ends typed input");
    let silent = |_| {
        let error = format!("no input on stdin for {} seconds", STDIN_SILENCE_MAX.as_secs());
        Failure::new(Exit::WrongUse, error)
            .hint("`-` reads a configuration from stdin, as in `forkful start - < apps.json`")
    };
    pieces
        .recv_timeout(STDIN_SILENCE_MAX.saturating_sub(STDIN_SILENCE))
        .map_err(silent)?
        .map_err(unreadable_stdin)
}

fn unreadable_stdin(error: std::io::Error) -> Failure {
    Failure::caused(
        Exit::WrongUse,
        anyhow::Error::new(error).context("cannot read a configuration from stdin"),
    )
}

/// Creates specs from the caller's input, directory and environment.
#[derive(Default)]
pub(crate) struct Specs {
    /// The caller's working directory.
    pub(crate) cwd: WorkingDirectory,
    /// The caller's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The chosen `env_<name>` block.
    pub(crate) env_name: Option<String>,
    /// Variables from `--env KEY=VALUE`.
    pub(crate) added_env: BTreeMap<String, String>,
    /// The texts of `--only`, which choose apps by their names; empty: all.
    pub(crate) only: Vec<String>,
    /// The apps will run on another machine.
    pub(crate) are_elsewhere: bool,
}

impl Specs {
    /// Reads the caller's directory and environment. `env` are the values of `--env`, `only` those of
    /// `--only`.
    pub(crate) fn new(env: &[String], only: &[String]) -> Result<Self, Failure> {
        let (caller_env, warnings) = forkful_config::caller_environment();
        tell(&warnings);
        let mut specs = Self {
            cwd: WorkingDirectory::of_caller(),
            env: caller_env,
            only: only.to_vec(),
            ..Self::default()
        };
        env.iter().try_for_each(|text| specs.take_env(text))?;
        Ok(specs)
    }

    fn take_env(&mut self, text: &str) -> Result<(), Failure> {
        match text.split_once('=') {
            Some(("", _)) => {
                let error = format!("--env {text:?} has no name before the `=`");
                return Err(Failure::new(Exit::WrongUse, error)
                    .hint("write it as --env KEY=VALUE")
                    .see(Page::Environment));
            }
            Some((name, value)) => {
                self.added_env.insert(name.to_owned(), value.to_owned());
            }
            None => {
                if let Some(first) = self.env_name.replace(text.to_owned()) {
                    let error = format!("--env selects two blocks of the config: {first} and {text}");
                    return Err(Failure::new(Exit::WrongUse, error)
                        .hint("to set a variable, write it as --env KEY=VALUE")
                        .see(Page::Environment));
                }
            }
        }
        Ok(())
    }

    /// What options change of existing apps. With `update_env`, they also get the caller's environment.
    pub(crate) fn change(&self, options: &AppOptions, update_env: bool) -> Result<AppChange, Failure> {
        let context = self.context(self.cwd.for_options(options)?, None);
        let change = forkful_config::change(options, &context)?;
        let mut caller_env = if update_env { self.env.clone() } else { BTreeMap::new() };
        forkful_config::strip_own(&mut caller_env);
        Ok(AppChange { caller_env, env_name: self.env_name.clone(), ..change })
    }

    /// The apps of a config file selected by `--only`, with the command line's options applied.
    pub(crate) fn apps_of_config(&self, path: &Path, over: &AppOptions) -> Result<Vec<AppSpec>, Failure> {
        self.resolved(self.load(path)?, over)
    }

    /// The names of the apps of a config file selected by `--only`. The apps need not be such that they can be started.
    pub(crate) fn names_of_config(&self, path: &Path) -> Result<Vec<String>, Failure> {
        let file = self.load(path)?;
        tell_of_file(&file);
        let only = self.chosen(&file.path, &file.apps)?;
        let context = self.context(self.cwd_for_config(&file.path)?, self.env_name.clone());
        Ok(forkful_config::full_names(&file.apps, &only, &context)?)
    }

    /// The same as [`Specs::apps_of_config`] for a configuration that is already loaded.
    pub(crate) fn resolved(&self, file: ConfigFile, over: &AppOptions) -> Result<Vec<AppSpec>, Failure> {
        tell_of_file(&file);
        let only = self.chosen(&file.path, &file.apps)?;
        let context = self.context(self.cwd_for_config(&file.path)?, self.env_name.clone());
        let (resolved, warnings) = forkful_config::resolve_only(file.apps, &only, over, &context)?;
        tell(&warnings);
        let warnings: Vec<Warning> = resolved.iter().flat_map(|app| app.warnings.iter().cloned()).collect();
        tell(&warnings);
        Ok(resolved.into_iter().map(|app| app.spec).collect())
    }

    /// The apps of a configuration that a program sent: `text` is JSON.
    pub(crate) fn apps_of_text(&self, text: &str) -> Result<Vec<AppSpec>, Failure> {
        let file = forkful_config::parse(text, Format::Json, Path::new(""))?;
        self.resolved(file, &AppOptions::default())
    }

    /// One app's options that a program sent: `text` is a JSON object.
    pub(crate) fn options_of_text(&self, text: &str) -> Result<AppOptions, Failure> {
        let text = format!(r#"{{"apps":[{text}]}}"#);
        let file = forkful_config::parse(&text, Format::Json, Path::new(""))?;
        tell(&file.warnings);
        Ok(file.apps.into_iter().next().unwrap_or_default())
    }

    /// Reads a configuration; `-` is JSON from stdin.
    pub(crate) fn load(&self, path: &Path) -> Result<ConfigFile, Failure> {
        let cwd = self.cwd_for_config(path)?;
        if path == Path::new("-") {
            return Ok(forkful_config::parse(&stdin_text()?, Format::Json, Path::new("stdin"))?);
        }
        let evaluator = NodeEvaluator::new(cwd.to_owned(), self.env.clone());
        Ok(forkful_config::load_only(path, &evaluator, &self.only)?)
    }

    /// The deployment targets of a configuration, which needs no apps.
    pub(crate) fn deploy_targets(&self, path: &Path) -> Result<Vec<DeployTarget>, Failure> {
        if path == Path::new("-") {
            return Ok(self.load(path)?.deploy_targets()?);
        }
        let evaluator = NodeEvaluator::new(self.cwd_for_config(path)?.to_owned(), self.env.clone());
        Ok(forkful_config::load_for_deploy(path, &evaluator)?.deploy_targets()?)
    }

    /// All errors in a configuration, and the resolved apps; `-` is JSON from stdin.
    pub(crate) fn check(&self, path: &Path) -> Result<Report, Failure> {
        let cwd = self.cwd_for_config(path)?;
        let context = self.context(cwd, self.env_name.clone());
        if path == Path::new("-") {
            let name = Path::new("stdin");
            return Ok(forkful_config::check_text(stdin_text()?, Format::Json, name, &context));
        }
        let evaluator = NodeEvaluator::new(cwd.to_owned(), self.env.clone());
        Ok(forkful_config::check(path, &evaluator, &context))
    }

    /// An app from the command line alone. Without a config there are no blocks, so `--env NAME` has no
    /// effect; PM2's users pass it nevertheless.
    pub(crate) fn app_of_command_line(&self, script: &str, options: &AppOptions) -> Result<AppSpec, Failure> {
        let (spec, warnings) = self.app_and_warnings(script, options)?;
        warnings.iter().for_each(|warning| output::warn(warning));
        Ok(spec)
    }

    /// The same with warnings that are not printed yet.
    pub(crate) fn app_and_warnings(
        &self,
        script: &str,
        options: &AppOptions,
    ) -> Result<(AppSpec, Vec<String>), Failure> {
        let block = self.env_name.as_ref().map(|name| {
            format!("--env {name} selects a block of a config file, but `{script}` is not a config file")
        });
        let options = options.clone().with("script", script).of_command_line();
        let context = self.context(self.cwd_for_script(script, &options)?, None);
        let Resolved { spec, warnings } = forkful_config::resolve(&options, &context)?;
        Ok((spec, block.into_iter().chain(forkful_config::folded(&warnings)).collect()))
    }

    /// The app that serves a directory's files.
    pub(crate) fn file_server(&self, options: &AppOptions) -> Result<AppSpec, Failure> {
        let options = AppOptions { serves_files: true, ..options.clone() };
        let cwd = self.cwd.needed("the file server would start in it")?;
        let resolved = forkful_config::resolve(&options, &self.context(cwd, None))?;
        Ok(told(resolved))
    }

    /// The command line's keys and the script's arguments in the config crate's form.
    pub(crate) fn options_of_keys(&self, keys: &GivenKeys, args: &[String]) -> Result<AppOptions, Failure> {
        let mut options = AppOptions { env: self.added_env.clone(), ..AppOptions::default() };
        if !args.is_empty() {
            options.put("args", args);
        }
        for (key, texts) in keys {
            match (key.name, texts.as_slice()) {
                ("node_args", [text]) => options.put(key.name, split_words(text)?),
                // PM2's option without a unit is in seconds, unlike the key in a file.
                ("watch_delay", [delay]) if delay.parse::<f64>().is_ok() => {
                    options.set(key.name, &format!("{delay}s"))?;
                }
                _ => options.set_list(key.name, texts)?,
            }
            // The option takes texts that names contain; the key of a file takes a single text as a whole name.
            if let (true, Some(part)) = (key.name == "filter_env", options.text(key.name)) {
                let parts = vec![part.to_owned()];
                options.put(key.name, parts);
            }
        }
        Ok(options)
    }

    /// All options of the command line.
    pub(crate) fn options(&self, args: &AppOptionArgs) -> Result<AppOptions, Failure> {
        let mut options = self.options_of_keys(&args.keys, &args.other.args)?;
        if !args.other.ext.is_empty() {
            let also = options.get("ignore_watch").and_then(Value::as_array).cloned().unwrap_or_default();
            options.set_list("ignore_watch", &only_extensions(&args.other.ext)?)?;
            let patterns = options.get("ignore_watch").and_then(Value::as_array).cloned().unwrap_or_default();
            options.put("ignore_watch", [patterns, also].concat());
        }
        Ok(options)
    }

    /// The same for existing apps, with PM2's word for removing interpreter arguments.
    pub(crate) fn options_of_existing(&self, args: &AppOptionArgs) -> Result<AppOptions, Failure> {
        let mut options = self.options(args)?;
        if args.text("node_args") == Some("null") {
            options.put("node_args", Vec::<String>::new());
        }
        Ok(options)
    }

    /// Relative paths of a configuration start at its file, whose path may be relative, and JavaScript may read files.
    fn cwd_for_config(&self, path: &Path) -> Result<&Path, Failure> {
        if path == Path::new("-") {
            return self.cwd.needed("paths of a configuration from stdin are relative to it");
        }
        self.cwd.needed_by(&path.to_string_lossy(), "would be evaluated in it")
    }

    /// An app without `--cwd` runs in the caller's directory, and its script may be there.
    fn cwd_for_script(&self, script: &str, options: &AppOptions) -> Result<&Path, Failure> {
        if options.text("cwd").is_none() || is_relative(script) {
            return self.cwd.needed_by(script, "would run in it, because there is no `--cwd`");
        }
        self.cwd.for_options(options)
    }

    fn context(&self, cwd: &Path, env_name: Option<String>) -> Context {
        let cores = forkful_os::cores::usable_cores();
        Context {
            caller_cwd: cwd.to_owned(),
            caller_env: self.env.clone(),
            own_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")),
            logs_folder: home::logs_folder(),
            log_rotation: log_rotation(),
            env_name,
            is_elsewhere: self.are_elsewhere,
            usable_cores: cores.count,
            cores_reason: cores.reason(),
        }
    }

    /// The names that `--only` chooses. Each must be an app's name.
    fn chosen(&self, path: &Path, apps: &[AppOptions]) -> Result<Vec<String>, Failure> {
        let names: Vec<String> = apps.iter().filter_map(AppOptions::declared_name).collect();
        let chosen = forkful_config::chosen_names(&self.only, &names);
        match chosen.iter().find(|name| !names.contains(name)) {
            Some(missing) => {
                let error = format!("{} has no app `{missing}`", path.display());
                Err(Failure::new(Exit::WrongUse, error).hint(format!("there is {}", names.join(", "))))
            }
            None => Ok(chosen),
        }
    }
}

/// The log rotation for apps without their own.
fn log_rotation() -> LogRotation {
    let Some(home) = home::logs_folder().parent().map(Path::to_owned) else { return LogRotation::default() };
    match Settings::load(&home) {
        Ok(settings) => settings.log_rotation(),
        Err(failure) => {
            output::warn(&format!("{:#}; log files are rotated by the defaults", failure.error));
            LogRotation::default()
        }
    }
}

/// Ignores everything except folders and files with these extensions; further ignored patterns follow.
fn only_extensions(extensions: &[String]) -> Result<Vec<String>, Failure> {
    let mut patterns = vec!["*".to_owned(), "!*/".to_owned()];
    for extension in extensions {
        let word = extension.trim().trim_start_matches('.');
        if word.is_empty() || !word.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) {
            let error = format!("invalid extension --ext {extension:?}");
            return Err(Failure::new(Exit::WrongUse, error).hint("write it as --ext js,json"));
        }
        patterns.push(format!("!*.{word}"));
    }
    Ok(patterns)
}

/// Prints the warnings and returns the spec.
fn told(resolved: Resolved) -> AppSpec {
    tell(&resolved.warnings);
    resolved.spec
}

/// Prints what a config file printed while it was evaluated, and its warnings.
fn tell_of_file(file: &ConfigFile) {
    if !file.output.is_empty() {
        output::talk(&output::format::visible(&file.output));
    }
    tell(&file.warnings);
}

/// Prints each warning; equal warnings of several apps are combined.
fn tell(warnings: &[Warning]) {
    forkful_config::folded(warnings).iter().for_each(|warning| output::warn(warning));
}

fn split_words(text: &str) -> Result<Vec<String>, Failure> {
    shell_words::split(text).map_err(|_| {
        Failure::new(Exit::WrongUse, format!("--node-args {text:?} has a quote that is not closed"))
    })
}
