//! `--as`: accepts the options of another tool and prints its report.

use std::io::Write;
use std::path::Path;

use forkful_core::pages::Page;
use forkful_dialects::{Dialect, Printed, Surroundings, Tool};
use forkful_load::report::{self, Judgement, Level, Threshold, Trust};
use forkful_load::{OtherPrograms, Phase, Plan, Report, run as run_load};

use super::args::{BenchArgs, typed_load_options};
use super::workers::Watched;
use super::{conclude, files, lab};
use crate::exit::{Exit, Failure};
use crate::output;

/// Replaces a secret.
const MASK: &str = "…";

pub(super) fn run(
    tool: Tool,
    args: &BenchArgs,
    urls: &[String],
    thresholds: &[Threshold],
) -> Result<Exit, Failure> {
    let argv = argv(tool, args, urls)?;
    files::check(&args.output)?;
    let stage = Stage { gives_stdout_away: args.output.json || files::take_stdout(&args.output) };
    let surroundings = Surroundings {
        read: &|path: &Path| {
            std::fs::File::open(path).and_then(|mut file| {
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut file, &mut bytes).map(|_| bytes)
            })
        },
        variable: &|name| std::env::var(name).ok(),
        cores: forkful_os::cores::usable_cores().count.into(),
    };
    let mut dialect = match (tool.parse)(&argv, &surroundings) {
        Ok(dialect) => dialect,
        Err(printed) => {
            Stage::default().show(&printed)?;
            return Ok(Exit::App(printed.exit));
        }
    };
    let mut plan = dialect.plan()?;
    plan.worker_header.clone_from(&args.output.worker_header);
    let with_workers = args.output.json || args.output.html.is_some();
    let mut watched = if with_workers { Watched::find(&plan) } else { Watched::default() };
    let others = OtherPrograms::before();
    let mut report = load(dialect.as_mut(), &plan, &mut watched, stage)?;
    others.after(&mut report);
    conclude(&plan, &report, watched, args, thresholds, &|findings| {
        stage.show(&dialect.report(findings.report))?;
        if let Some(path) = dialect.log() {
            append(path, dialect.as_ref(), findings.report)?;
        }
        footnotes(tool.name, &dialect.footnotes(findings.report), findings.trust);
        judged(findings.judgements);
        if args.output.json { output::print_json(&report::Document::of(findings)) } else { Ok(()) }
    })
}

/// The tool's command line. The load is described by the tool's options, so ours are not allowed.
fn argv(tool: Tool, args: &BenchArgs, urls: &[String]) -> Result<Vec<String>, Failure> {
    let name = tool.name;
    if let Some(option) = typed_load_options().first() {
        let error = format!("with --as {name}, {option} is not allowed before `--`");
        return Err(Failure::new(Exit::WrongUse, error).hint(format!(
            "use {name}'s own flags: `forkful bench --as {name} -- FLAGS URL`; only --expect and the output \
             options may precede `--`"
        )).see(Page::BenchTools));
    }
    match (args.tool_args.is_empty(), urls.is_empty()) {
        (true, _) => Ok(urls.to_vec()),
        (false, true) => Ok(args.tool_args.clone()),
        (false, false) => {
            let error = format!("with --as {name}, all flags and the URL must follow `--`");
            Err(Failure::new(Exit::WrongUse, error)
                .hint(format!("the usage is `forkful bench --as {name} -- FLAGS URL`"))
                .see(Page::BenchTools))
        }
    }
}

/// Runs the load, and prints the tool's output before and during it.
fn load(
    dialect: &mut dyn Dialect,
    plan: &Plan,
    watched: &mut Watched,
    stage: Stage,
) -> Result<Report, Failure> {
    let stop = lab::interruptible()?;
    let mut opening = Some(dialect.opening());
    if !dialect.opens_when_connected() {
        stage.show(&opening.take().unwrap_or_default())?;
    }
    let mut broken = None;
    let ran = run_load(
        plan,
        &mut |progress| {
            watched.look(progress);
            let measures = progress.phase == Phase::Measuring;
            let mut printed = if measures { dialect.tick(progress) } else { Printed::default() };
            if progress.phase > Phase::Connecting
                && let Some(opening) = opening.take()
            {
                printed.stdout.insert_str(0, &opening.stdout);
            }
            broken = broken.take().or_else(|| stage.show(&printed).err());
        },
        &stop,
    );
    let report = match ran {
        Ok(report) => report,
        Err(error) => {
            // The tool's output first, if it has any, then ours.
            if let Some(printed) = dialect.unreachable(&error) {
                stage.show(&printed)?;
            }
            return Err(error.into());
        }
    };
    if let Some(failure) = broken {
        return Err(failure);
    }
    stage.show(&opening.unwrap_or_default())?;
    stage.show(&dialect.finish(report.counts.completed))?;
    Ok(report)
}

/// Where the tool's output goes.
#[derive(Debug, Clone, Copy, Default)]
struct Stage {
    /// Another document uses stdout, so the tool's stdout output is left out.
    gives_stdout_away: bool,
}

impl Stage {
    fn show(self, printed: &Printed) -> Result<(), Failure> {
        if !printed.stdout.is_empty() && !self.gives_stdout_away {
            output::print(&printed.stdout)?;
        }
        if !printed.stderr.is_empty() {
            output::talk(&printed.stderr);
        }
        for (path, bytes) in &printed.files {
            fs_err::write(path, bytes).map_err(|error| Failure::caused(Exit::Failed, error.into()))?;
        }
        Ok(())
    }
}

fn append(path: &Path, dialect: &dyn Dialect, report: &Report) -> Result<(), Failure> {
    let fresh = std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    let lines = dialect.log_lines(report, fresh);
    let mut options = fs_err::OpenOptions::new();
    let written =
        options.create(true).append(true).open(path).and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|error| Failure::caused(Exit::Failed, error.into()))
}

/// On stderr after the report, so that the tool's report stays unchanged.
fn footnotes(name: &str, notes: &[String], trust: &Trust) {
    if !trust.trustworthy() {
        output::warn(&format!(
            "NOT TRUSTWORTHY: {}",
            trust.sentence().trim_start_matches("not trustworthy: ")
        ));
    }
    for check in trust.at(Level::Warning) {
        output::warn(&check.meaning);
    }
    for note in notes {
        output::note(&format!("{name}: {note}"));
    }
}

/// The expectations one by one, after the notes.
fn judged(judgements: &[Judgement]) {
    for judgement in judgements {
        if judgement.kept == Some(true) {
            output::note(&judgement.to_string());
        } else {
            output::warn(&judgement.to_string());
        }
    }
}

/// A command line without the credentials, headers and cookies in the tool's own options after `--`.
pub(super) fn without_secrets(tool: Tool, command: &str) -> String {
    // This program joined the words, so they can be split again.
    let words = shell_words::split(command).unwrap_or_default();
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut is_secret = false;
    let masked = words.iter().skip(own).map(|word| {
        if std::mem::take(&mut is_secret) {
            return MASK.to_owned();
        }
        let end = tool.secret_at(word);
        is_secret = end == Some(word.len());
        match end {
            Some(end) if end < word.len() => format!("{}{MASK}", &word[..end]),
            _ => word.clone(),
        }
    });
    shell_words::join(words[..own].iter().cloned().chain(masked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        forkful_dialects::TOOLS.into_iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn secrets_of_a_tool_s_options_are_not_repeated() {
        let table = [
            ("ab", "-n 9 -A me:secret http://h/", "-n 9 -A … http://h/"),
            ("ab", "-kAme:secret -C a=secret -H 'A: secret' http://h/", "-kA… -C … -H … http://h/"),
            ("wrk", "-t2 -H 'A: secret' --header=secret http://h/", "-t2 -H … --header=… http://h/"),
            ("wrk", "--head 'A: secret' --hea=secret --lat http://h/", "--head … --hea=… --lat http://h/"),
            (
                "loadtest",
                "--coo a=secret --con 5 --head=A:secret http://h/",
                "--coo … --con 5 --head=… http://h/",
            ),
            ("ab", "-kp/A/C -T a/H http://h/", "-kp/A/C -T a/H http://h/"),
            ("autocannon", "--H A=secret --header=A=secret http://h/", "--H … --header=… http://h/"),
            ("siege", "-b --header 'A: secret' http://h/", "-b --header … http://h/"),
            ("autocannon", "-C -H A=secret --headers=A=secret http://h/", "-C -H … --headers=… http://h/"),
            ("loadtest", "-C a=secret --cookies a=secret -k http://h/", "-C … --cookies … -k http://h/"),
        ];
        for (name, flags, expected) in table {
            let command = format!("forkful bench --as {name} -- {flags}");
            let shown = shell_words::split(&without_secrets(tool(name), &command)).unwrap().join(" ");
            assert_eq!(shown, format!("forkful bench --as {name} -- {expected}"));
        }
        let ours = "forkful bench --as ab --html A.html http://h/";
        assert_eq!(without_secrets(tool("ab"), ours), ours);
    }
}
