//! An update: the program of another version reads this daemon's stored state and reports whether it can
//! continue from there. Only then does it replace this daemon.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use forkful_api::types::{ErrorCode, UpdateReply, UpdateRequest};
use forkful_core::pages::Page;
use forkful_core::snapshot;
use forkful_core::update::is_forkful;
use forkful_os::memory_file;
use forkful_os::process::{self, Child, Exit, Flight, SpawnPlan};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::Back;
use super::commands::{answer, refuse};
use super::starting::Starts;
use crate::command::{Command, Keep, Reply};
use crate::wait::ended;

/// Time limit for the other program's answer; it needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long accepted connections are still handed over before this daemon ends.
pub(super) const HANDOVER_MAX: Duration = Duration::from_millis(100);
/// Maximum length of its output.
const WORDS_BYTES: usize = 4096;

const SIGKILL: i32 = 9;

/// Lets a program check the state that was stored last, and then replace this daemon.
pub(super) fn check(
    request: &UpdateRequest,
    state: &[u8],
    reply: Reply<UpdateReply>,
    starts: &mut Starts,
    back: UnboundedSender<Back>,
) {
    let path = request.program.clone();
    let checks = match prepare(&path, state) {
        Ok(checks) => checks,
        Err(why) => return answer(reply, Err(refusal(&format!("{path} cannot be executed: {why}")))),
    };
    let Checks { program, of_state, of_name } = checks;
    let (of_state, of_name) = (of_state.start(starts, &back), of_name.start(starts, &back));
    tokio::task::spawn_local(async move {
        // Both are waited for, so that none is left running.
        let (of_state, of_name) = tokio::join!(of_state, of_name);
        let judged = of_state.and_then(|_| match of_name {
            Ok(output) if is_forkful(&output) => Ok(()),
            Ok(_) | Err(_) => Err("it is not Forkful: its `--version` does not say so".to_owned()),
        });
        match judged {
            Ok(()) => {
                // The engine is gone only when the daemon ends.
                let _gone = back.send(Back::Step(Command::Keep(Keep::MakeWay { program, reply })));
            }
            Err(why) => {
                answer(reply, Err(refusal(&format!("{path} cannot take the daemon's place: {why}"))));
            }
        }
    });
}

/// The program, and what is asked of it before it replaces this daemon.
struct Checks {
    program: OwnedFd,
    /// Whether it can continue from the stored state. It prints nothing if so.
    of_state: Check,
    /// Whether it is Forkful: any program may ignore its arguments and end with code 0.
    of_name: Check,
}

/// A run of the program to its end.
struct Check {
    plan: SpawnPlan,
    words: OwnedFd,
}

fn prepare(path: &str, state: &[u8]) -> Result<Checks, String> {
    let program = process::open_program(Path::new(path)).map_err(in_words)?;
    // The keeper executes it without a shell.
    if process::needs_shell(&process::path_of(program.as_fd())) {
        return Err("it is no program".to_owned());
    }
    let copy = memory_file::create("forkful-state-copy", state.len() as u64).map_err(in_words)?;
    memory_file::write_at(&copy, 0, state).map_err(in_words)?;
    let way_back = snapshot::VERSION.to_string();
    let of_state = ["daemon", "--check-state", "3", "--way-back", &way_back];
    Ok(Checks {
        of_state: Check::new(&program, &of_state, Some(copy)).map_err(in_words)?,
        of_name: Check::new(&program, &["--version"], None).map_err(in_words)?,
        program,
    })
}

fn in_words(error: std::io::Error) -> String {
    error.to_string()
}

/// Nothing has changed.
pub(super) fn refusal(error: &str) -> forkful_api::types::ErrorReply {
    let hint = Page::Update.hint("the daemon goes on as it was, and so do its apps");
    refuse(ErrorCode::Conflict, error, Some(hint))
}

impl Check {
    fn new(program: &OwnedFd, args: &[&str], channel: Option<OwnedFd>) -> std::io::Result<Self> {
        let words = memory_file::create("forkful-words", WORDS_BYTES as u64)?;
        let plan = SpawnPlan {
            program: process::path_of(program.as_fd()),
            argv: ["forkful"].iter().chain(args).map(|word| (*word).to_owned()).collect(),
            env: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            cwd: "/".into(),
            stdin: None,
            stdout: words.try_clone()?,
            stderr: words.try_clone()?,
            channel,
            run_as: None,
            mark: None,
            groups: None,
            // It ends with the daemon whose request it answers.
            keeping: forkful_os::keeper::Keeping::default(),
        };
        Ok(Self { plan, words })
    }

    /// Runs it; returns its output if it ends with code 0, otherwise what it has said or how it ended.
    fn start(
        self,
        starts: &mut Starts,
        back: &UnboundedSender<Back>,
    ) -> impl Future<Output = Result<String, String>> + use<> {
        let Self { plan, words } = self;
        let command = (plan.argv.clone(), plan.cwd.clone());
        let (flight, started) = starts.start_helper(command, move |flight| start(plan, flight));
        let back = back.clone();
        async move {
            let ended = match timeout(PATIENCE, started).await {
                Ok(Ok(Ok(child))) => {
                    let exit = listen(&child).await;
                    // The engine is gone only when the daemon ends.
                    let _gone = back.send(Back::HelperEnded { pid: child.pid });
                    exit
                }
                Ok(Ok(Err(why))) => Err(why),
                Ok(Err(_)) => Err("no thread can be had to start it".to_owned()),
                Err(_) => {
                    flight.cancel();
                    Err(format!("it did not start within {} s", PATIENCE.as_secs()))
                }
            };
            let said = told(&words);
            match ended {
                Ok(()) => Ok(said.unwrap_or_default()),
                Err(why) => Err(said.unwrap_or(why)),
            }
        }
    }
}

fn start(plan: SpawnPlan, flight: &Flight) -> Result<Child, String> {
    process::spawn_watched(plan, flight).map_err(|error| format!("{error}: {}", error.source))
}

/// Waits for the answer.
async fn listen(child: &Child) -> Result<(), String> {
    let exit = timeout(PATIENCE, ended(child)).await;
    let _gone = child.signal_group(SIGKILL);
    let _reaped = child.try_wait(true);
    match exit {
        Ok(Ok(Exit::Code(0))) => Ok(()),
        Ok(Ok(Exit::Code(code))) => Err(format!("its check ended with code {code}")),
        Ok(Ok(Exit::Signal(signal, _))) => {
            Err(format!("its check was ended by {}", forkful_core::slot::Exit::Signal(signal)))
        }
        Ok(Err(error)) => Err(format!("its check cannot be watched: {error}")),
        Err(_) => Err(format!("its check did not end within {} s", PATIENCE.as_secs())),
    }
}

/// The program's output.
fn told(words: &OwnedFd) -> Option<String> {
    let mut bytes = [0; WORDS_BYTES];
    memory_file::read_at(words, 0, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').trim();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether this program can take over from the stored state of a running daemon, and whether the program of
/// that daemon could take over again from this one. `way_back`: the newest format version that the running
/// daemon's program reads.
pub fn check_state(state: &OwnedFd, way_back: u16) -> Result<(), String> {
    let mut bytes = memory_file::length(state).map(|length| vec![0; length]).map_err(|e| e.to_string())?;
    memory_file::read_at(state, 0, &mut bytes).map_err(|error| error.to_string())?;
    let written =
        super::Written::read(&bytes).map_err(|fault| format!("its state cannot be read: {fault}"))?;
    written.marks().ok_or("its state names no daemon")?;
    if snapshot::is_read_by(way_back) {
        return Ok(());
    }
    let version = snapshot::VERSION;
    Err(format!(
        "the running daemon could not take over again: this program writes its state in version {version} of the format, and the running daemon reads versions up to {way_back}"
    ))
}
