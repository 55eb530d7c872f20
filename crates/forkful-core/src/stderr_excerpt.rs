//! Selects the last stderr lines of a failed worker that explain the failure: the error line first, then
//! where it was thrown, with the runtime's own frames folded. Understands Node.js, Deno, Bun, tsx, Python and
//! Go; other output is kept unchanged. The log service stores the lines; this module only selects.

use crate::ansi;
use crate::foreign;
use crate::pages::{Hint, Page};
use crate::slot::Exit;
use crate::words::shell_word;

/// Maximum lines of an excerpt.
pub const EXCERPT_LINES_MAX: usize = 20;
/// Maximum lines from before the error, which are placed after it, because an app often writes there what it
/// tried.
const EARLIER_LINES_MAX: usize = 4;
/// Maximum lines of an error's message. Messages that contain whole documents are cut.
const MESSAGE_LINES_MAX: usize = 6;

/// The excerpt of stderr: the error line first, without terminal control sequences. If no error is
/// recognised, the last [`EXCERPT_LINES_MAX`] lines in their order.
pub fn excerpt(lines: &[String]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    let Some(found) = find_error(&lines) else {
        return lines[lines.len().saturating_sub(EXCERPT_LINES_MAX)..].to_vec();
    };
    let lead = found.at - lead_in(&lines[..found.at]);
    let rest = &lines[found.at + 1..];
    let message =
        rest.iter().take_while(|line| !line.is_empty() && !is_frame(line) && !is_noise(line)).count();
    let mut out = vec![head(&lines[found.at], found.is_thrown)];
    out.extend_from_slice(&rest[..message.min(MESSAGE_LINES_MAX)]);
    if message > MESSAGE_LINES_MAX {
        out.push(format!("    … {} more lines of the message", message - MESSAGE_LINES_MAX));
    }
    out.extend(fold(source_of(&lines[lead..found.at])));
    out.extend(fold(&rest[message..]));
    let earlier: Vec<&String> =
        lines[..lead].iter().filter(|line| !line.is_empty() && !is_noise(line)).collect();
    let earlier = &earlier[earlier.len().saturating_sub(EARLIER_LINES_MAX)..];
    let room = EXCERPT_LINES_MAX - if earlier.is_empty() { 0 } else { earlier.len() + 1 };
    if out.len() > room {
        let cut = out.len() - (room - 1);
        out.truncate(room - 1);
        out.push(format!("    … {cut} more lines"));
    }
    if !earlier.is_empty() {
        out.push("before the error:".to_owned());
        out.extend(earlier.iter().map(|line| (*line).clone()));
    }
    out
}

/// Whether an error that no code caught has ended the process: JavaScript runtimes then write their version after it. Errors that an app logs
/// have no such line.
pub fn is_uncaught(lines: &[String]) -> bool {
    let lines: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    let is_version = |line: &String| line.starts_with("Node.js v") || line.starts_with("Bun v");
    find_error(&lines).is_some_and(|found| lines[found.at + 1..].iter().any(is_version))
}

/// The error line of an excerpt, if its first line is one.
pub fn cause(excerpt: &[String]) -> Option<&str> {
    let first = excerpt.first()?;
    let has_frames = excerpt.get(1).is_some_and(|next| is_script_frame(next)) && is_head(first);
    (is_error_line(first) || has_frames).then_some(first)
}

/// Maximum characters of what stands for an error line.
const LAST_LINE_MAX: usize = 200;

/// The error line of the excerpt of a process that has ended. A program that exits by itself with a code other than 0 mostly says why in
/// its last line, in whatever form.
pub fn cause_of<'a>(excerpt: &'a [String], exit: &Exit) -> Option<&'a str> {
    let last = || {
        let lines = excerpt.iter().map(|line| line.trim());
        lines.rev().find(|line| line.chars().any(char::is_alphanumeric) && !is_noise(line))
    };
    cause(excerpt).or_else(|| match exit {
        Exit::Code(code) if *code != 0 => last().filter(|line| line.chars().count() <= LAST_LINE_MAX),
        Exit::Code(_) | Exit::Signal(_) | Exit::SpawnFailed(_) => None,
    })
}

/// Whether an error line says that V8 ended the process because its heap was full.
pub fn is_heap_limit(cause: &str) -> bool {
    cause.contains("heap out of memory") || cause.contains("heap limit")
}

/// What failed, and is to be done again once its cause is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt<'a> {
    Start {
        app: &'a str,
    },
    /// The old version may serve on: a restart would end it.
    Reload {
        app: &'a str,
    },
}

/// What to do about a well-known cause; `cwd` is the app's working directory.
pub fn next_step(cause: &str, cwd: &str, attempt: Attempt<'_>) -> Option<Hint> {
    let quoted = |after: &str| {
        let rest = cause.split_once(after)?.1;
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        rest[1..].split_once(quote).map(|(name, _)| name.to_owned())
    };
    if let Some(module) = quoted("Cannot find module ").or_else(|| quoted("Cannot find package ")) {
        if module.starts_with(['.', '/']) || module.starts_with("file:") {
            let text = format!("check the path `{module}` in the line that loads it; it does not exist");
            return Some(Page::AppFails.hint(text));
        }
        return Some(Page::AppFails.hint(format!(
            "run `npm install` in {cwd} if package.json lists `{module}`, else `npm install {module}`"
        )));
    }
    if let Some(module) = quoted("No module named ") {
        return Some(Page::AppFails.hint(format!(
            "run `pip install {module}`, or name the Python of the app's virtual environment with `--interpreter`"
        )));
    }
    if is_heap_limit(cause) {
        let text = "raise the heap limit with `--node-args=--max-old-space-size=<MiB>`, or look for a leak";
        return Some(Page::HeapLimit.hint(text));
    }
    if cause.contains("was compiled against a different Node.js version")
        || cause.contains("NODE_MODULE_VERSION")
    {
        let text = format!("run `npm rebuild` in {cwd} with the Node.js version that the app runs on");
        return Some(Page::NodeUpgrade.hint(text));
    }
    if let Some(variable) = missing_variable(cause) {
        let again = match attempt {
            Attempt::Start { app } => format!("forkful restart {}", shell_word(app)),
            Attempt::Reload { app } => format!("forkful reload {}", shell_word(app)),
        };
        return Some(Page::Environment.hint(format!(
            "set `{variable}` in `env` or `env_file` of the config, or `{variable}=… {again} --update-env`"
        )));
    }
    if cause.contains("ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") {
        let text =
            "Node.js removes types and does no more: compile the app to JavaScript, or run it with tsx";
        return Some(Page::AppFails.hint(text));
    }
    if cause.contains("SyntaxError") {
        let again = match attempt {
            Attempt::Start { .. } => "start the app again".to_owned(),
            Attempt::Reload { app } => format!("reload it again with `forkful reload {}`", shell_word(app)),
        };
        let text = format!("correct the syntax error at the place shown above, then {again}");
        return Some(Page::AppFails.hint(text));
    }
    None
}

/// The missing environment variable in a message such as `DATABASE_URL is not set`.
fn missing_variable(cause: &str) -> Option<&str> {
    const SIGNS: [&str; 6] = ["not set", "missing", "required", "undefined", "must be set", "not defined"];
    if !SIGNS.iter().any(|sign| cause.contains(sign)) {
        return None;
    }
    let is_letter = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    // Error codes such as ERR_MODULE_NOT_FOUND look the same.
    cause
        .split(|letter: char| !is_letter(letter) && !letter.is_ascii_lowercase())
        .find(|word| word.chars().all(is_letter) && word.contains('_') && !word.starts_with("ERR_"))
}

struct FoundError {
    at: usize,
    /// Node printed it as an uncaught error: its location, a line of carets, then the thrown value.
    is_thrown: bool,
}

/// The uncaught error that ended the process, otherwise the last line that looks like an error: lines of an
/// error's message may look like errors too.
fn find_error(lines: &[String]) -> Option<FoundError> {
    let uncaught = lines.iter().enumerate().rev().find_map(|(index, line)| {
        if !is_caret_line(line) {
            return None;
        }
        let below = index + 1 + lines[index + 1..].iter().position(|line| !line.is_empty())?;
        // Where Node.js cannot remove the types of TypeScript, the rest of the file comes before the error.
        let has_frame = |at: usize| lines.get(at + 1).is_some_and(|next| is_script_frame(next));
        let is_source = !is_error_line(&lines[below]) && !has_frame(below);
        let named = || (below..lines.len()).find(|&at| is_error_line(&lines[at]) && has_frame(at));
        let at = if is_source { named().unwrap_or(below) } else { below };
        (!lines[at].starts_with(' ') && !is_noise(&lines[at])).then_some(FoundError { at, is_thrown: true })
    });
    let named = || {
        let has_frames = |index: usize| lines.get(index + 1).is_some_and(|next| is_script_frame(next));
        let is_error =
            |index: usize| is_error_line(&lines[index]) || has_frames(index) && is_head(&lines[index]);
        let at = (0..lines.len()).rev().find(|&index| is_error(index))?;
        Some(FoundError { at, is_thrown: false })
    };
    // Python prints carets below an exception that was followed by another.
    let structural = [uncaught, python_error(lines)].into_iter().flatten().max_by_key(|found| found.at);
    structural.or_else(named)
}

/// The first line after the frames of the last traceback. Python exceptions may have any name.
fn python_error(lines: &[String]) -> Option<FoundError> {
    let begin = lines.iter().rposition(|line| line == PYTHON_TRACEBACK)?;
    let after = lines[begin + 1..].iter().position(|line| !line.starts_with(' '))?;
    let at = begin + 1 + after;
    (!lines[at].is_empty()).then_some(FoundError { at, is_thrown: false })
}

const PYTHON_TRACEBACK: &str = "Traceback (most recent call last):";

/// Number of lines above the error that belong to it: Node's location, code and carets, Python's frames.
fn lead_in(above: &[String]) -> usize {
    let mut left = above.len();
    let blank = above.iter().rev().take_while(|line| line.is_empty()).count();
    let has_carets = above.len() > blank && is_caret_line(&above[above.len() - blank - 1]);
    if has_carets {
        left -= blank;
    }
    // Indented lines and the line of code above the carets.
    while left > 0 && (above[left - 1].starts_with(' ') || is_caret_line(&above[left - 1])) {
        left -= 1;
    }
    if left > 0 && (above[left - 1] == PYTHON_TRACEBACK || has_carets && is_source_place(&above[left - 1])) {
        left -= 1;
    } else if has_carets && left > 1 && is_source_place(&above[left - 2]) {
        left -= 2;
    } else if has_carets && left > 0 && !above[left - 1].is_empty() {
        left -= 1;
    }
    above.len() - left
}

/// `lead` without the runtime's own source.
fn source_of(lead: &[String]) -> &[String] {
    let is_internal = |line: &String| line.starts_with("node:") || is_in_agent(line);
    if lead.first().is_some_and(is_internal) { &[] } else { lead }
}

/// `/srv/app.js:12`, `file:///srv/app.mjs:3` and `node:internal/modules/cjs/loader:1210`.
fn is_source_place(line: &str) -> bool {
    line.rsplit_once(':').is_some_and(|(path, number)| {
        !path.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_caret_line(line: &str) -> bool {
    line.contains('^') && line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'^' | b'~'))
}

/// Whether a line begins like a runtime's error: `TypeError: …`, `Error [ERR_X]: …`, `error: …`, `FATAL
/// ERROR: …`.
fn is_error_line(line: &str) -> bool {
    const MARKS: [&str; 5] = ["error: ", "FATAL ERROR: ", "panic: ", "Exception in thread ", "Uncaught "];
    if MARKS.iter().any(|mark| line.starts_with(mark)) {
        return true;
    }
    let line = line.strip_prefix('[').unwrap_or(line);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    let end = line.bytes().position(|byte| !is_name(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    const ENDINGS: [&str; 5] = ["Error", "Exception", "Rejection", "Interrupt", "Exit"];
    let ends = ENDINGS.iter().any(|ending| name.ends_with(ending));
    ends && (rest.is_empty() || rest.starts_with(':') || (rest.starts_with(" [") && rest.contains("]:")))
}

/// The first line of the excerpt. A thrown value need not be an error, as in `throw 'text'`.
fn head(line: &str, is_thrown: bool) -> String {
    if is_thrown && !is_error_line(line) { format!("Uncaught {line}") } else { line.to_owned() }
}

/// Whether a line can be the first line of an error with frames, whatever the error's name.
fn is_head(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ') && !line.ends_with(" at:")
}

fn is_script_frame(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("at ")
}

/// A stack frame of JavaScript, or of Python.
fn is_frame(line: &str) -> bool {
    let text = line.trim_start();
    text.len() < line.len()
        && (text.starts_with("at ") || text.starts_with("File \"") || text.starts_with("... "))
}

/// A frame of the runtime or of a loader, which has no information about the app.
fn is_internal_frame(line: &str) -> bool {
    const MARKS: [&str; 8] = [
        "(node:",
        "at node:",
        "(ext:",
        "at ext:",
        "File \"<frozen ",
        "/node_modules/tsx/dist/",
        "/node_modules/ts-node/",
        "/node_modules/esbuild/",
    ];
    let is_of_runtime = || MARKS.iter().any(|mark| line.contains(mark));
    is_native_frame(line) || is_frame(line) && (is_of_runtime() || is_in_agent(line))
}

/// Whether a line names a file of Forkful's agent, which is in a folder `agent-<16 hexadecimal digits>`.
fn is_in_agent(line: &str) -> bool {
    const DIGITS: usize = 16;
    line.match_indices("/agent-").any(|(at, mark)| {
        let hash = line[at + mark.len()..].split('/').next().unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        hash.len() == DIGITS && hash.bytes().all(is_digit)
    })
}

/// ` 1: 0x931db0 node::OOMErrorHandler(…)`, as V8 prints when memory has run out; `   0: <unknown>` of Deno.
fn is_native_frame(line: &str) -> bool {
    line.trim_start().split_once(": ").is_some_and(|(number, rest)| {
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && (rest.starts_with("0x") || rest == "<unknown>")
    })
}

/// Lines that runtimes add to every failure.
fn is_noise(line: &str) -> bool {
    const MARKS: [&str; 6] =
        ["Node.js v", "Bun v", "(Use `node --trace-uncaught", "Stack backtrace:", "----- ", "<--- "];
    MARKS.iter().any(|mark| line.starts_with(mark)) || is_garbage_collection(line)
}

/// `[20346:0x1893a000]      352 ms: Mark-Compact …`.
fn is_garbage_collection(line: &str) -> bool {
    line.starts_with('[') && line.contains(":0x") && line.contains(" ms: ")
}

/// Replaces each run of internal frames with one line, and removes noise and blank lines.
fn fold(lines: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut run = 0;
    let mut opens_object = false;
    let flush = |out: &mut Vec<String>, run: &mut usize, opens_object: &mut bool| {
        if *run > 0 {
            let plural = if *run == 1 { "" } else { "s" };
            let tail = if *opens_object { " {" } else { "" };
            out.push(format!("    … {run} internal frame{plural}{tail}"));
        }
        (*run, *opens_object) = (0, false);
    };
    for line in lines.iter().filter(|line| !line.is_empty() && !is_noise(line)) {
        if is_internal_frame(line) {
            run += 1;
            opens_object = line.ends_with(" {");
            if !opens_object {
                continue;
            }
        }
        flush(&mut out, &mut run, &mut opens_object);
        if !is_internal_frame(line) {
            out.push(line.clone());
        }
    }
    flush(&mut out, &mut run, &mut opens_object);
    out
}

fn plain(line: &str) -> String {
    foreign::visible(ansi::stripped(line).trim_end(), &['\t'])
}
