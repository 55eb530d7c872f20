//! Shared by `compare` and `tune`: the app and the request from the command line, the progress bar, and
//! Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_core::spec::AppSpec;
use forkful_lab::LabError;
use forkful_lab::arms::Arm;
use forkful_lab::compare::Setup;
use forkful_lab::document::{Heading, Machine, TargetDocument};
use forkful_lab::target::{Beside, Target};
use forkful_load::{StopHandle, TlsOptions};
use forkful_os::wall_clock::now_ms;

use super::interrupts::Interrupts;
use crate::cli::{LabAppArgs, LabArgs, LabOtherArgs, RequestArgs};
use crate::exit::{Exit, Failure, See};
use crate::masked::masked;
use crate::output::format::visible;
use crate::output::paint::Paint;
use crate::output::progress::Progress;
use crate::output::{self};
use crate::specs::Specs;

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let hint = error.hint();
        let exit = match &error {
            LabError::Arms { .. } | LabError::Plan { .. } | LabError::Missing { .. } => Exit::WrongUse,
            LabError::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        };
        let see = error.page().map_or(See::Command, See::from);
        Self { error: error.into(), hint, see, exit }
    }
}

/// The single app of a script or a config file, resolved.
pub(super) fn app(target: &str, args: &LabAppArgs, script_args: &[String]) -> Result<AppSpec, Failure> {
    app_of(&specs(args)?, target, args, script_args)
}

/// The command line's app options, with the working directory.
pub(super) fn specs(args: &LabAppArgs) -> Result<Specs, Failure> {
    let LabOtherArgs { env, only, .. } = &args.other;
    let only: Vec<String> = only.iter().cloned().collect();
    Specs::new(env, &only)
}

/// Like [`app`], with the directory of `specs`.
pub(super) fn app_of(
    specs: &Specs,
    target: &str,
    args: &LabAppArgs,
    script_args: &[String],
) -> Result<AppSpec, Failure> {
    let options = specs.options_of_keys(&args.keys, script_args)?;
    if !forkful_config::is_config(Path::new(target)) {
        return specs.app_of_command_line(target, &options);
    }
    let path = Path::new(target);
    let mut apps = specs.apps_of_config(path, &options)?;
    if apps.len() > 1 {
        let names: Vec<String> = apps.iter().map(|app| app.name.to_string()).collect();
        return Err(Failure::new(
            Exit::WrongUse,
            format!("{target} has {} apps: {}", apps.len(), names.join(", ")),
        )
        .hint("`--only NAME` selects one"));
    }
    apps.pop().ok_or_else(|| Failure::new(Exit::WrongUse, format!("{target} has no app")))
}

/// The request.
pub(super) fn target(args: &RequestArgs) -> Result<Target, Failure> {
    if !args.path.starts_with('/') {
        return Err(Failure::new(Exit::WrongUse, format!("--path {:?} does not begin with `/`", args.path))
            .hint("name the route without host and port, as in `--path /fast`"));
    }
    let header = |text: &String| match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::new(Exit::WrongUse, format!("--header {text:?} has no name before a colon"))
            .hint("write it as --header 'Name: value'")),
    };
    let body = match args.body.as_deref() {
        None => Vec::new(),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => fs_err::read(file).map_err(|e| Failure::caused(Exit::WrongUse, e.into()))?,
            None => text.as_bytes().to_vec(),
        },
    };
    Ok(Target {
        method: args.method.to_ascii_uppercase(),
        path: args.path.clone(),
        headers: args.header.iter().map(header).collect::<Result<_, _>>()?,
        body,
        statuses: args.expect_status.clone(),
        beside: args.beside.clone().or_else(|| args.beside_latency.clone()),
        tls: args.https.then(|| TlsOptions {
            insecure: args.insecure,
            authorities: args.cacert.clone(),
            server_name: args.server_name.clone(),
            ..TlsOptions::default()
        }),
    })
}

/// The setup that `compare` and `tune` have in common. `script` is the target as named by the user.
pub(super) fn setup(
    args: &LabArgs,
    target: Target,
    script: &str,
    apps: Vec<AppSpec>,
    arms: Vec<Arm>,
    budget: Duration,
    stop: StopHandle,
) -> Result<Setup, Failure> {
    let seed = args.seed.unwrap_or_else(clock_seed);
    let heading = Heading {
        headline: String::new(),
        details: Vec::new(),
        forkful: crate::connection::VERSION.to_owned(),
        created_at_ms: now_ms(),
        command: command_line(seed, args.seed.is_some()),
        seed,
        target: TargetDocument {
            script: script.to_owned(),
            method: target.method.clone(),
            path: forkful_load::secrets::url(&target.path),
            beside: target.beside.as_ref().map(Beside::words),
        },
        machine: Machine::look(&apps[0].launch.program),
        versions: Vec::new(),
    };
    Ok(Setup {
        apps,
        arms,
        target,
        forkful: this_program()?,
        port: args.app.other.port,
        start_timeout: args.app.other.start_timeout,
        budget: args.budget.unwrap_or(budget),
        keeps_budget: args.budget.is_some(),
        extends: false,
        blocks: None,
        connections: args.request.connections,
        keep_alive: !args.request.no_keep_alive,
        threads: args.request.threads.map(usize::from),
        with_latency: false,
        self_test: false,
        seed,
        stop,
        heading,
    })
}

/// Path of this program, for starting private clusters.
pub(super) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| {
        Failure::caused(
            Exit::Failed,
            anyhow::Error::new(e).context("cannot determine the path of this program"),
        )
    })
}

/// The command line with the seed and without secrets.
fn command_line(seed: u64, seed_given: bool) -> String {
    let mut words: Vec<String> =
        std::iter::once("forkful".to_owned()).chain(masked(std::env::args().skip(1))).collect();
    if !seed_given {
        let place = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(place..place, ["--seed".to_owned(), seed.to_string()]);
    }
    shell_words::join(words)
}

/// A seed from the clock, short enough to type.
pub(super) fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos() ^ now.as_secs() as u32) % 1_000_000
}

/// After a second signal, everything that was started is ended by the thread that started it, if that takes at
/// most this long.
const KILLING: Duration = Duration::from_secs(5);

/// A stop handle for Ctrl-C, SIGTERM and a closed terminal, except signals that the program was started to
/// ignore, as by `nohup`. A second signal kills what the first one is stopping.
pub(super) fn interruptible() -> Result<StopHandle, Failure> {
    let stop = StopHandle::new();
    let failed = |e: std::io::Error| {
        Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot handle signals"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let handle = stop.clone();
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut interrupts = match Interrupts::new() {
                Ok(interrupts) => interrupts,
                Err(failure) => return drop(ready.send(Err(failure))),
            };
            drop(ready.send(Ok(())));
            interrupts.first().await;
            handle.stop();
            output::talk("\nstopping everything that was started…\n");
            // The program ends when everything else has ended.
            interrupts.on_purpose().await;
            handle.stop_at_once();
            // Nothing else runs in this runtime.
            std::thread::sleep(KILLING);
            forkful_lab::remove_everything();
            std::process::exit(130);
        });
    });
    is_ready.recv().unwrap_or(Ok(()))?;
    Ok(stop)
}

/// The current step, as a progress bar in a terminal and nothing in a pipe.
#[derive(Debug)]
pub(super) struct Watch {
    progress: Progress,
    notes: bool,
}

impl Watch {
    /// `json`: readers of JSON want no other output.
    pub(super) fn new(json: bool) -> Self {
        let progress = Progress::bar("{bar:24} {elapsed} {wide_msg}", false);
        Self { progress: progress.moving(Duration::from_millis(200)), notes: !json }
    }
}

impl forkful_lab::progress::Observer for Watch {
    fn stage(&mut self, stage: &forkful_lab::progress::Stage) {
        self.progress.show(stage.done, || visible(&stage.text));
    }

    fn note(&mut self, text: &str) {
        if self.notes {
            self.progress.suspend(|| output::talk(&format!("{}\n", Paint::stderr().dim(&visible(text)))));
        }
    }
}

/// Prints a document as JSON or text to stdout, and writes the page if requested.
pub(super) fn show(document: &impl serde::Serialize, text: &str, args: &LabArgs) -> Result<(), Failure> {
    if args.json {
        output::print_json(document)?;
    } else {
        output::print(text)?;
    }
    args.html.as_deref().map_or(Ok(()), |path| write_page(path, document))
}

/// Checks before the load starts whether a file can be made where a result is to be written.
pub(super) fn check_file(path: &Path) -> Result<(), Failure> {
    let refused =
        |why: &str| Err(Failure::new(Exit::WrongUse, format!("{}: {why}", visible(&path.to_string_lossy()))));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return refused(&format!("there is no folder {}", visible(&folder.to_string_lossy())));
    }
    if path.is_dir() { refused("it is a folder, and a file was expected") } else { Ok(()) }
}

/// The same for a page, which has no place on stdout.
pub(super) fn check_page(path: Option<&Path>) -> Result<(), Failure> {
    match path {
        Some(path) if path.as_os_str() == "-" => Err(Failure::new(
            Exit::WrongUse,
            "--html writes a page into a file, and not to stdout; name one, as in --html page.html",
        )),
        path => path.map_or(Ok(()), check_file),
    }
}

/// Writes the page of a document.
pub(super) fn write_page(path: &Path, document: &impl serde::Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(document).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    forkful_lab::page::write(path, &value).map_err(|e| {
        let context = format!("cannot write {}", path.display());
        Failure::caused(Exit::Failed, anyhow::Error::new(e).context(context))
    })?;
    output::note(&format!("the page with plots is {}", path.display()));
    Ok(())
}
