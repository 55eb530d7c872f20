//! `forkful bench`: load-tests a server and prints the result.

mod args;
mod files;
mod plan;
mod progress;
mod search;
mod tool;
mod workers;

use forkful_core::pages::Page;
use forkful_load::report::{self, Findings, Judgement, Threshold, Tone, Trust};
use forkful_load::{EarlyEnd, LoadError, OtherPrograms, Plan, Report, run};
use forkful_os::wall_clock::now_ms;

use super::lab;
use crate::exit::{Exit, Failure};
use crate::masked::masked;
use crate::output;
use crate::output::paint::Paint;
use crate::output::progress::Progress;
use workers::Watched;

pub(super) use args::BenchArgs;

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let hint = error.hint().map(|hint| Page::Bench.hint(hint));
        let exit = match &error {
            LoadError::Unreachable { .. } | LoadError::Resolve { .. } => Exit::Unreachable,
            LoadError::Url { .. } | LoadError::Plan { .. } | LoadError::DifferentServers { .. } => {
                Exit::WrongUse
            }
            LoadError::Tls { .. } | LoadError::Descriptors { .. } | LoadError::System { .. } => Exit::Failed,
        };
        Self::hinted(exit, error.into(), hint)
    }
}

pub(super) fn run_bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let (urls, thresholds) = args.sorted().map_err(|error| Failure::new(Exit::WrongUse, error))?;
    if let Some(tool) = args.tool {
        return tool::run(tool, args, &urls, &thresholds);
    }
    if !args.tool_args.is_empty() {
        return Err(Failure::new(Exit::WrongUse, "flags after `--` are for the tool named by --as"));
    }
    let plan = plan::of(args, &urls)?;
    files::check(&args.output)?;
    let stop = lab::interruptible()?;
    if !args.load.search.is_empty() {
        return search::search(args, &plan, &args.load.search, &stop);
    }
    let mut watched = Watched::find(&plan);
    let others = OtherPrograms::before();
    let mut report = {
        let live = Progress::bar("{bar:20} {percent:>3} %  {wide_msg}", args.output.no_progress);
        run(
            &plan,
            &mut |progress| {
                live.show(progress.done, || progress::line(progress));
                watched.look(progress);
            },
            &stop,
        )?
    };
    others.after(&mut report);
    conclude(&plan, &report, watched, args, &thresholds, &|findings| tell(args, findings))
}

/// Judges the measurement, prints it, writes the files, and returns the exit code.
fn conclude(
    plan: &Plan,
    report: &Report,
    watched: Watched,
    args: &BenchArgs,
    thresholds: &[Threshold],
    tell: &dyn Fn(&Findings) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let workers = watched.found(report);
    let trust = Trust::of(plan, report).with_workers(plan, report, workers.as_ref());
    let judgements: Vec<Judgement> = thresholds.iter().map(|threshold| threshold.judge(report)).collect();
    let command = this_command();
    let command = args.tool.map_or(command.clone(), |tool| tool::without_secrets(tool, &command));
    let findings = Findings {
        plan,
        report,
        trust: &trust,
        judgements: &judgements,
        command: &command,
        ended_at_ms: now_ms(),
        workers: workers.as_ref(),
    };
    tell(&findings)?;
    files::write(&args.output, &findings)?;
    Ok(exit(&trust, &judgements, report.early_end))
}

/// Prints the report.
fn tell(args: &BenchArgs, findings: &Findings) -> Result<(), Failure> {
    let out = &args.output;
    if out.json {
        return output::print_json(&report::Document::of(findings));
    }
    if files::take_stdout(out) {
        // The formats of --csv and --hdr have no place for the reason.
        if !findings.trust.trustworthy() {
            output::warn(&findings.trust.sentence());
        }
        return Ok(());
    }
    let paint = Paint::stdout();
    let form = if out.verbose { report::text } else { report::summary };
    output::print(&form(findings, &|tone, text| painted(paint, tone, text)))
}

fn painted(paint: Paint, tone: Tone, text: &str) -> String {
    match tone {
        Tone::Plain => text.to_owned(),
        Tone::Strong => paint.bold(text),
        Tone::Faint => paint.dim(text),
        Tone::Good => paint.cyan(text),
        Tone::Bad => paint.red(text),
    }
}

/// The exit code. Expectations are not judged by a part of the run: a signal that ended it has precedence over
/// all else. An untrustworthy result has precedence over a missed expectation, but not where the run ended early because of its errors: what
/// is missed then is missed for certain.
fn exit(trust: &Trust, judgements: &[Judgement], early_end: Option<EarlyEnd>) -> Exit {
    let is_missed = judgements.iter().any(|judgement| judgement.kept == Some(false));
    if early_end == Some(EarlyEnd::Stopped) && !judgements.is_empty() {
        Exit::Interrupted
    } else if trust.trustworthy() && early_end == Some(EarlyEnd::Errors) && is_missed {
        Exit::ExpectationMissed
    } else if !trust.trustworthy() || judgements.iter().any(|judgement| judgement.kept.is_none()) {
        Exit::NotTrustworthy
    } else if is_missed {
        Exit::ExpectationMissed
    } else {
        Exit::Done
    }
}

/// The command line for repeating the run, without secrets.
fn this_command() -> String {
    let program = std::iter::once("forkful".to_owned());
    shell_words::join(program.chain(masked(std::env::args().skip(1))))
}

/// The server of the plan's URL.
fn server(plan: &Plan) -> Option<(&str, u16)> {
    plan.requests.first().map(|request| (request.url.host.as_str(), request.url.port))
}

#[cfg(test)]
mod tests {
    use forkful_load::report::{Check, Level};

    use super::*;

    fn trust(level: Level) -> Trust {
        let (value, limit, meaning) = (String::new(), String::new(), String::new());
        Trust { checks: vec![Check::graded("drift", "drift", level).found(value, limit).means(meaning)] }
    }

    fn judgements(kept: &[Option<bool>]) -> Vec<Judgement> {
        let judgement = |kept: &Option<bool>| Judgement {
            expectation: "p99<1s".to_owned(),
            found: String::new(),
            value: None,
            kept: *kept,
        };
        kept.iter().map(judgement).collect()
    }

    #[test]
    fn what_cannot_be_trusted_weighs_more_than_what_was_missed() {
        let table: [(Level, &[Option<bool>], Exit); 9] = [
            (Level::Fine, &[], Exit::Done),
            (Level::Fine, &[Some(true), Some(true)], Exit::Done),
            (Level::Fine, &[Some(true), Some(false)], Exit::ExpectationMissed),
            (Level::Fine, &[Some(false), None], Exit::NotTrustworthy),
            (Level::Note, &[Some(true)], Exit::Done),
            (Level::Warning, &[Some(true)], Exit::Done),
            (Level::Warning, &[Some(false)], Exit::ExpectationMissed),
            (Level::Fault, &[Some(true)], Exit::NotTrustworthy),
            (Level::Fault, &[Some(false)], Exit::NotTrustworthy),
        ];
        for (level, kept, expected) in table {
            assert_eq!(exit(&trust(level), &judgements(kept), None), expected, "{level:?} {kept:?}");
        }
    }

    #[test]
    fn expectations_are_not_kept_by_a_run_that_a_signal_has_ended() {
        let stopped = Some(EarlyEnd::Stopped);
        let ended = |level, kept| exit(&trust(level), &judgements(kept), stopped);
        assert_eq!(ended(Level::Fine, &[Some(true)]), Exit::Interrupted);
        assert_eq!(ended(Level::Fault, &[Some(false)]), Exit::Interrupted);
        assert_eq!(ended(Level::Fine, &[]), Exit::Done, "it reports what it has measured");
    }
}
