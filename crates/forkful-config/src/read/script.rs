//! Evaluation of JavaScript and TypeScript configs in a short-lived `node`.
//!
//! The child gets descriptor 3 for its result, so that nothing the file prints can be taken for it:
//! a shell makes 3 a copy of the pipe on its stdout, points its stdout at stderr, and becomes `node`.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use forkful_core::interpreter::is_typescript;

use crate::resolve::program;

/// How long an evaluation may take.
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The most that a config may export, as JSON.
const RESULT_BYTES_MAX: u64 = 4 << 20;
/// How much of what the file prints is kept.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// How long to wait for the rest of the output, and between looks at the child, after its result.
const EXIT_POLL: Duration = Duration::from_millis(2);

const EVALUATE: &str = include_str!("evaluate.cjs");
const REDIRECT: &str = r#"exec "$0" "$@" 3>&1 1>&2"#;

/// What an evaluation yields.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptResult {
    /// What the file exports.
    pub value: serde_json::Value,
    /// What it printed, stdout and stderr together.
    pub output: String,
}

/// A place in an evaluated file; numbers start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptPlace {
    pub line: usize,
    /// The column, if it is known.
    pub column: Option<usize>,
    /// The number of characters from there, if it is known.
    pub length: Option<usize>,
}

/// Why an evaluation yields nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFault {
    /// The place in the file, if it is known.
    pub at: Option<ScriptPlace>,
    /// One sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ScriptFault {
    fn new(message: impl Into<String>) -> Self {
        Self { at: None, message: message.into(), hint: None }
    }
}

/// Evaluates JavaScript files; a trait so that tests and other runtimes can stand in for `node`.
pub trait JsEvaluator {
    /// The export of the file at this absolute path.
    fn evaluate(&self, path: &Path) -> Result<ScriptResult, ScriptFault>;
}

/// Evaluates with the `node` of a PATH. The program is looked up when it is needed.
#[derive(Debug, Clone)]
pub struct NodeEvaluator {
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    timeout: Duration,
}

impl NodeEvaluator {
    /// The file sees this environment and working directory, the caller's.
    pub fn new(cwd: PathBuf, env: BTreeMap<String, String>) -> Self {
        Self { cwd, env, timeout: EVALUATION_TIMEOUT }
    }

    /// Another bound than [`EVALUATION_TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn spawn(&self, node: &Path, path: &Path) -> std::io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", REDIRECT])
            .arg(node)
            .args(["-e", EVALUATE])
            .arg(path)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // Signals of the terminal do not reach its process group, and the command may be ended by any signal.
        forkful_os::dependent::end_with_this_thread(&mut command);
        command.spawn()
    }
}

impl JsEvaluator for NodeEvaluator {
    fn evaluate(&self, path: &Path) -> Result<ScriptResult, ScriptFault> {
        let node = find_node(path, &self.cwd, &self.env)?;
        let mut child = self
            .spawn(&node, path)
            .map_err(|error| ScriptFault::new(format!("could not be evaluated: {error}")))?;
        let deadline = Instant::now() + self.timeout;
        let result = collect(child.stdout.take(), RESULT_BYTES_MAX);
        let output = collect(child.stderr.take(), OUTPUT_BYTES_MAX);
        let json = result.recv_timeout(self.timeout).ok();
        let exited = json.is_some() && wait_until(&mut child, deadline);
        if !exited {
            kill_group(&mut child);
        }
        // A process that the file left behind may hold the pipe open; what it prints is not awaited.
        let patience = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        let output = output.recv_timeout(patience).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned();
        match json {
            Some(json) if exited || !json.is_empty() => interpret(&json, output, path),
            _ => Err(ScriptFault {
                at: None,
                message: format!("was not evaluated within {} s", self.timeout.as_secs_f32()),
                hint: Some("a configuration should not wait for anything".to_owned()),
            }),
        }
    }
}

fn find_node(path: &Path, cwd: &Path, env: &BTreeMap<String, String>) -> Result<PathBuf, ScriptFault> {
    let node = program::find("node", cwd, env).ok_or_else(|| ScriptFault {
        at: None,
        message: "needs `node` to be evaluated, which is not in PATH".to_owned(),
        hint: Some("install Node.js, or write the configuration as JSON, YAML or TOML".to_owned()),
    })?;
    if is_typescript(path) {
        program::require_typescript(&node, "a TypeScript configuration", cwd, env).map_err(|error| {
            let is_old = error.hint().is_some();
            let hint = if is_old {
                "use a newer Node.js, or write it as .mjs"
            } else {
                "check the installation of Node.js"
            };
            ScriptFault { at: None, message: format!("is not usable: {error}"), hint: Some(hint.to_owned()) }
        })?;
    }
    Ok(node)
}

/// Reads a pipe to its end, or to a bound, on a thread of its own.
fn collect(pipe: Option<impl Read + Send + 'static>, bytes_max: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut pipe) = pipe {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // A pipe that fails midway gives what came before; the reader judges whether it is whole.
            let _ = pipe.by_ref().take(bytes_max).read_to_end(&mut bytes);
            // The receiver may have given up by then; nobody is left to tell.
            let _ = sender.send(bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        });
    }
    receiver
}

fn wait_until(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < deadline => thread::sleep(EXIT_POLL),
            Ok(None) | Err(_) => return false,
        }
    }
}

/// Ends the child, which has not been waited for and so still owns its process group's number.
fn kill_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // Gone already is as good as killed.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

fn interpret(json: &[u8], output: String, path: &Path) -> Result<ScriptResult, ScriptFault> {
    if json.is_empty() {
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let because = if last.is_empty() { String::new() } else { format!(" ({last})") };
        return Err(ScriptFault {
            at: None,
            message: format!("ended the evaluation without exporting anything{because}"),
            hint: Some("it must not call process.exit, and its promises must settle".to_owned()),
        });
    }
    if json.len() as u64 >= RESULT_BYTES_MAX {
        return Err(ScriptFault::new(format!("exports more than {} MiB", RESULT_BYTES_MAX >> 20)));
    }
    let mut reply: serde_json::Value = serde_json::from_slice(json)
        .map_err(|error| ScriptFault::new(format!("exports what cannot be read: {error}")))?;
    if let Some(error) = reply.get("error") {
        return Err(thrown(error, &output, path));
    }
    Ok(ScriptResult { value: reply["value"].take(), output })
}

fn thrown(error: &serde_json::Value, output: &str, path: &Path) -> ScriptFault {
    let text = |key: &str| error.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let real = fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let names = [text("url").to_owned(), path.display().to_string(), real.display().to_string()];
    let at = [text("stack"), output].iter().find_map(|trace| {
        names.iter().filter(|name| !name.is_empty()).find_map(|name| place_in(trace, name))
    });
    let message = text("message");
    let hint = match text("code") {
        "ERR_MODULE_NOT_FOUND" | "MODULE_NOT_FOUND" => Some("install what it imports".to_owned()),
        _ if message.contains("Unexpected token 'export'")
            || message.contains("Cannot use import statement outside a module") =>
        {
            Some(
                "give an ES module the extension .mjs, or set \"type\": \"module\" in package.json"
                    .to_owned(),
            )
        }
        _ if message.contains("is not defined in ES module scope") => {
            Some("give a CommonJS file the extension .cjs".to_owned())
        }
        _ => None,
    };
    ScriptFault { at, message: message.to_owned(), hint }
}

/// The place after `name:` in what Node.js prints: `name:LINE:COLUMN` in a stack trace; for a syntax error `name:LINE`, then that line of the
/// file, then `^` below the part that is wrong.
fn place_in(trace: &str, name: &str) -> Option<ScriptPlace> {
    trace.match_indices(name).find_map(|(at, _)| {
        let (line, rest) = leading_number(trace[at + name.len()..].strip_prefix(':')?)?;
        let place = ScriptPlace { line, column: None, length: None };
        if let Some((column, _)) = rest.strip_prefix(':').and_then(leading_number) {
            return Some(ScriptPlace { column: Some(column), ..place });
        }
        let marks = rest.strip_prefix('\n').and_then(|below| below.lines().nth(1)).map(str::trim_end);
        let Some(before) = marks.and_then(|marks| marks.find('^')) else { return Some(place) };
        let length = marks.map(|marks| marks.len() - before);
        Some(ScriptPlace { column: Some(before + 1), length, ..place })
    })
}

/// The number at the start of a text, and the rest.
fn leading_number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}
