//! What to execute: the script's path, and the program that runs it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use forkful_core::interpreter::{CannotRun, needs_types_stripped};
use forkful_core::pages::Page;
use forkful_core::spec::Runtime;

use super::{Context, base_directory, expand_home, program, tidy};
use crate::error::{ConfigError, Place, Warning};
use crate::keys::nearest;
use crate::options::AppOptions;
use crate::regular;
use crate::tree::quoted;

/// Interpreters by extension, the first that is found.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("js", &["node"]),
    ("cjs", &["node"]),
    ("mjs", &["node"]),
    ("ts", &["node"]),
    ("mts", &["node"]),
    ("cts", &["node"]),
    ("sh", &["bash", "sh"]),
    ("bash", &["bash"]),
    ("py", &["python3", "python"]),
    ("rb", &["ruby"]),
    ("php", &["php"]),
    ("pl", &["perl"]),
];

/// Programs that start the app as a process of their own, which cluster mode cannot reach.
const RUNNERS: &[&str] = &["npm", "npx", "pnpm", "pnpx", "yarn", "corepack"];

/// The most bytes of a `#!` line that are read, the kernel's own bound.
const SHEBANG_BYTES_MAX: u64 = 256;
/// Entries of a directory that are looked at for a similar name.
const SIMILAR_ENTRIES_MAX: usize = 1_000;

/// The command's hidden verb that serves files.
const FILE_SERVER_VERB: &str = "serve-files";

#[derive(Debug)]
pub(super) struct Found {
    pub(super) program: PathBuf,
    /// The name by which `program` was found in PATH.
    pub(super) in_path: Option<String>,
    pub(super) program_args: Vec<String>,
    pub(super) script: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) runtime: Runtime,
    pub(super) default_name: String,
}

/// What the user's `script` turned out to be.
enum Target {
    File(PathBuf),
    /// A program that was found in PATH.
    Program(PathBuf),
    /// A line for the shell.
    CommandLine,
}

struct Search<'a> {
    options: &'a AppOptions,
    script: &'a str,
    cwd: &'a Path,
    base: PathBuf,
    env: &'a BTreeMap<String, String>,
    place: Place,
}

/// Finds what an app executes.
pub(super) fn locate(
    options: &AppOptions,
    context: &Context,
    cwd: &Path,
    env: &BTreeMap<String, String>,
    warnings: &mut Vec<Warning>,
) -> Result<Found, ConfigError> {
    if options.serves_files {
        return Ok(file_server(context, env));
    }
    let Some(script) = options.text("script").filter(|script| !script.trim().is_empty()) else {
        return Err(ConfigError::at(options.app_place(), "has no script")
            .with_hint("name what to start, such as app.js"));
    };
    let expanded = expand_home(Path::new(script), context);
    let script = expanded.to_str().unwrap_or(script);
    let base = base_directory(options, "script", context);
    let search = Search { options, script, cwd, base, env, place: options.place("script") };
    let found = match search.target()? {
        Target::CommandLine => search.command_line()?,
        Target::Program(path) => search.program(path)?,
        Target::File(path) => search.file(path)?,
    };
    let has_no_interpreter = found.script.is_none();
    if has_no_interpreter && found.program_args.is_empty() && options.get("node_args").is_some() {
        warnings.push(Warning {
            place: options.place("node_args"),
            message: "is ignored, because no interpreter runs the script".to_owned(),
        });
    }
    if let Some(runner) = RUNNERS.iter().find(|runner| found.program.ends_with(runner))
        && options.get("instances").is_some()
    {
        warnings.push(Warning {
            place: options.place("instances"),
            message: format!(
                "starts {runner} several times in fork mode, because {runner} starts the app as a process \
                 of its own; name the app's own script to share ports"
            ),
        });
    }
    Ok(found)
}

/// Forkful itself, as the server of a directory's files.
fn file_server(context: &Context, env: &BTreeMap<String, String>) -> Found {
    Found {
        program: context.own_program.clone(),
        in_path: None,
        program_args: vec![FILE_SERVER_VERB.to_owned()],
        script: None,
        args: Vec::new(),
        runtime: Runtime::Other,
        default_name: crate::statics::default_name(env),
    }
}

impl Search<'_> {
    fn target(&self) -> Result<Target, ConfigError> {
        let mut directory = None;
        for base in [self.cwd, &self.base] {
            let path = tidy(&base.join(self.script));
            match fs_err::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => directory = directory.or(Some(path)),
                Ok(metadata) => match regular::check(&metadata) {
                    Ok(()) => return Ok(Target::File(path)),
                    Err(refusal) => return Err(self.not_regular(&refusal)),
                },
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                // A command line may be no possible path at all, such as one that is too long.
                Err(_) if self.is_command_line() => {}
                Err(source) => return Err(self.unreadable(source)),
            }
        }
        let bare = !self.script.contains('/');
        if bare && let Some(path) = program::find(self.script, self.cwd, self.env) {
            return Ok(Target::Program(path));
        }
        if let Some(path) = directory {
            let hint = match entry_point(&path) {
                Some(file) => {
                    format!("name a file in it, such as {}", Path::new(self.script).join(file).display())
                }
                None => "name the file to start".to_owned(),
            };
            return Err(self.fault("is a directory").with_hint(hint).with_page(Page::Interpreter));
        }
        let near = if self.is_command_line() {
            match self.script_with_arguments() {
                Some(meant) => Some(meant),
                None => return Ok(Target::CommandLine),
            }
        } else {
            similar_file(&self.cwd.join(self.script))
                .map(|name| Path::new(self.script).with_file_name(name).display().to_string())
        };
        let hint = match near {
            Some(near) => format!("did you mean {near}?"),
            None if self.script.contains('/') => "check the path and the working directory".to_owned(),
            None => "a script is a file, a program in PATH, or a quoted command line".to_owned(),
        };
        let fault = self.fault(&format!("does not exist in {}", self.cwd.display()));
        Err(fault.with_hint(hint).with_page(Page::Interpreter))
    }

    /// `app.js --port 80` is no line that a shell could run; this is how to say it.
    fn script_with_arguments(&self) -> Option<String> {
        let (file, arguments) = self.script.trim().split_once(char::is_whitespace)?;
        let path = self.cwd.join(file);
        let extension = path.extension()?.to_str()?;
        let is_script = INTERPRETERS.iter().any(|(known, _)| *known == extension);
        if !is_script || !path.is_file() || program::is_executable(&path) {
            return None;
        }
        let arguments = arguments.trim();
        Some(if self.options.is_from_file("script") {
            format!("script {file} with args {}", quoted(arguments))
        } else {
            format!("{file} -- {arguments}")
        })
    }

    /// Whether the script is words for a shell. With an interpreter it can only be a file.
    fn is_command_line(&self) -> bool {
        let no_interpreter = self.options.text("interpreter").is_none_or(|name| name == "none");
        no_interpreter && self.script.trim().contains(char::is_whitespace)
    }

    fn fault(&self, what: &str) -> ConfigError {
        ConfigError::at(self.place.clone(), format!("{} {what}", quoted(self.script)))
    }

    fn unreadable(&self, cause: std::io::Error) -> ConfigError {
        self.fault("cannot be read").with_hint("check the file's permissions").caused_by(cause)
    }

    fn not_regular(&self, refusal: &std::io::Error) -> ConfigError {
        self.fault(&refusal.to_string()).with_hint("name the file that holds the script or the program")
    }

    fn args(&self) -> Vec<String> {
        self.options.texts("args").unwrap_or_default()
    }

    fn interpreter_args(&self) -> Vec<String> {
        self.options.texts("node_args").unwrap_or_default()
    }

    fn command_line(&self) -> Result<Found, ConfigError> {
        let shell = self.interpreter(&["bash", "sh"])?;
        let mut line = self.script.to_owned();
        for arg in self.args() {
            line.push(' ');
            line.push_str(&shell_words::quote(&arg));
        }
        Ok(Found {
            program: shell,
            in_path: Some("bash".to_owned()),
            program_args: vec!["-c".to_owned()],
            default_name: default_name(self.script),
            script: Some(line),
            args: Vec::new(),
            runtime: Runtime::Other,
        })
    }

    /// A program from PATH: Node itself, a Node program such as `next`, or anything else.
    fn program(&self, path: PathBuf) -> Result<Found, ConfigError> {
        if self.options.get("interpreter").is_some() {
            return self.file(path);
        }
        let shebang = shebang(&path).map_err(|error| self.unreadable(error))?;
        if !is_runner(&path) && shebang.is_some_and(|shebang| shebang.is_node()) {
            return self.run_with(&["node"], path);
        }
        let runtime = if program::is_node(&path) { Runtime::Node } else { Runtime::Other };
        Ok(Found { in_path: Some(self.script.to_owned()), ..self.itself(path, runtime) })
    }

    fn itself(&self, path: PathBuf, runtime: Runtime) -> Found {
        let takes_args = runtime == Runtime::Node;
        Found {
            program: path,
            in_path: None,
            program_args: if takes_args { self.interpreter_args() } else { Vec::new() },
            script: None,
            args: self.args(),
            runtime,
            default_name: default_name(self.script),
        }
    }

    fn file(&self, path: PathBuf) -> Result<Found, ConfigError> {
        regular::open(&path).map_err(|error| self.unreadable(error))?;
        match self.options.text("interpreter") {
            Some("none") if program::is_executable(&path) => return Ok(self.itself(path, Runtime::Other)),
            Some("none") => return Err(self.not_executable()),
            Some(name) => return self.run_with(&[name], path),
            None => {}
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if let Some((_, names)) = INTERPRETERS.iter().find(|(known, _)| Some(*known) == extension) {
            return self.run_with(names, path);
        }
        let shebang = shebang(&path).map_err(|error| self.unreadable(error))?;
        match (shebang, extension) {
            (Some(shebang), _) if shebang.is_node() && !is_runner(&path) => self.run_with(&["node"], path),
            _ if program::is_executable(&path) => Ok(self.itself(path, Runtime::Other)),
            // As PM2 does: a plain text without any extension is taken for JavaScript.
            (None, None) if is_text(&path) => self.run_with(&["node"], path),
            (Some(_), _) | (None, None) => Err(self.not_executable()),
            (None, Some(_)) => {
                let hint = format!(
                    "name one with {}, or make the file executable and begin it with `#!`",
                    self.place.option("interpreter")
                );
                let fault = self.fault("has an extension that no interpreter is known for");
                Err(fault.with_hint(hint).with_page(Page::Interpreter))
            }
        }
    }

    fn not_executable(&self) -> ConfigError {
        let (script, option) = (self.script.to_owned(), self.place.option("interpreter"));
        let fault = self.fault("is not executable").with_page(Page::Interpreter);
        let hint = CannotRun::NotExecutable { script, option }.hint();
        hint.into_iter().fold(fault, |fault, hint| fault.with_hint(hint.text))
    }

    fn run_with(&self, names: &[&str], path: PathBuf) -> Result<Found, ConfigError> {
        let interpreter = self.interpreter(names)?;
        let runtime = if program::is_node(&interpreter) { Runtime::Node } else { Runtime::Other };
        let program_args = self.interpreter_args();
        let node_options = self.env.get("NODE_OPTIONS").map(String::as_str);
        if runtime == Runtime::Node && needs_types_stripped(&path, &program_args, node_options) {
            program::require_typescript(&interpreter, self.script, self.cwd, self.env)?;
        }
        let script = path.into_os_string().into_string().map_err(|path| {
            let message = format!("{} cannot be read", quoted(&path.to_string_lossy()));
            ConfigError::at(self.place.clone(), message)
                .with_hint("check the file's permissions")
                .caused_by(std::io::Error::new(ErrorKind::InvalidFilename, "its path is not UTF-8"))
        })?;
        Ok(Found {
            in_path: self.name_in_path(names, &interpreter),
            program: interpreter,
            program_args,
            default_name: default_name(self.script),
            script: Some(script),
            args: self.args(),
            runtime,
        })
    }

    /// The name by which a program was found in the app's PATH; `node@22` may be one of nvm's.
    fn name_in_path(&self, names: &[&str], interpreter: &Path) -> Option<String> {
        let is_found = |name: &&&str| {
            !name.contains('/') && program::find(name, self.cwd, self.env).as_deref() == Some(interpreter)
        };
        names.iter().find(is_found).map(|name| (*name).to_owned())
    }

    fn interpreter(&self, names: &[&str]) -> Result<PathBuf, ConfigError> {
        interpreter(self.options, names, self.cwd, self.env)
    }
}

/// The first of these programs that the app's PATH has.
pub(super) fn interpreter(
    options: &AppOptions,
    names: &[&str],
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<PathBuf, ConfigError> {
    let find = |name: &&str| program::find(name, cwd, env).or_else(|| program::find_in_nvm(name, env));
    names.iter().find_map(find).ok_or_else(|| {
        let name = names.first().copied().unwrap_or_default();
        let fault = |what: &str| match options.text("interpreter") {
            Some(_) => ConfigError::at(options.place("interpreter"), format!("{} {what}", quoted(name))),
            None => {
                let script = quoted(options.text("script").unwrap_or_default());
                let message = format!("{script} needs the interpreter {}, which {what}", quoted(name));
                ConfigError::at(options.place("script"), message)
            }
        };
        if name.contains('/') {
            return fault("does not exist, or is not executable");
        }
        fault(&format!("is not in the app's PATH ({})", program::path_variable(env)))
            .with_hint("install it, give its full path as the interpreter, or set PATH in the app's `env`")
            .with_page(Page::Interpreter)
    })
}

/// The name of an app that was given none: the script's base name without its last extension, or
/// for a command line the line itself, where that can be a name.
pub(crate) fn default_name(script: &str) -> String {
    let script = script.trim();
    let is_line = script.contains(char::is_whitespace);
    if is_line && !script.contains('/') {
        return script.chars().take(128).collect();
    }
    let first = if is_line { script.split_whitespace().next().unwrap_or(script) } else { script };
    let path = Path::new(first);
    path.file_stem().or(path.file_name()).unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a program only starts the app, as `npm start` does.
fn is_runner(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| RUNNERS.contains(&name))
}

/// The program of a `#!` line.
struct Shebang(String);

impl Shebang {
    fn is_node(&self) -> bool {
        program::is_node(Path::new(&self.0))
    }
}

fn shebang(path: &Path) -> std::io::Result<Option<Shebang>> {
    let mut start = Vec::new();
    regular::open(path)?.take(SHEBANG_BYTES_MAX).read_to_end(&mut start)?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = String::from_utf8_lossy(rest);
    let mut words = line.lines().next().unwrap_or_default().split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_env = Path::new(first).file_name().is_some_and(|name| name == "env");
    let program =
        if is_env { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { Some(first) };
    Ok(Some(Shebang(program.unwrap_or_default().to_owned())))
}

fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = regular::open(path).and_then(|file| file.take(SHEBANG_BYTES_MAX).read_to_end(&mut start));
    read.is_ok() && !start.contains(&0)
}

/// The file of a directory that Node.js would start: `main` of its package.json, or index.js.
fn entry_point(directory: &Path) -> Option<String> {
    let main = fs_err::read_to_string(directory.join("package.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        .and_then(|package| package.get("main")?.as_str().map(str::to_owned));
    main.into_iter()
        .chain(["index.js", "server.js", "app.js"].map(str::to_owned))
        .find(|file| directory.join(file).is_file())
}

/// A file of the same directory that was probably meant.
fn similar_file(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let names: Vec<String> = fs_err::read_dir(path.parent()?)
        .ok()?
        .take(SIMILAR_ENTRIES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let same_stem = names
        .iter()
        .find(|name| INTERPRETERS.iter().any(|(extension, _)| **name == format!("{wanted}.{extension}")));
    same_stem
        .map(String::as_str)
        .or_else(|| nearest(wanted, names.iter().map(String::as_str)))
        .map(str::to_owned)
}
