//! `--as`: the flags of another tool in, its report out.

use std::io::Write;
use std::path::Path;

use forkful_load::dialect::{Dialect, Invocation, Printed, Surroundings};
use forkful_load::report::{Level, Trust};
use forkful_load::{Phase, run as run_load};

use super::lab;
use crate::cli::BenchArgs;
use crate::exit::{Exit, Failure};
use crate::output;

pub(super) fn run(dialect: Dialect, args: &BenchArgs, urls: &[String]) -> Result<Exit, Failure> {
    let mut argv = args.tool_args.clone();
    if argv.is_empty() {
        argv = urls.to_vec();
    } else if !urls.is_empty() {
        let error = format!("with --as {0} all flags, and the URL, stand behind `--`", dialect.name());
        return Err(Failure::new(Exit::WrongUse, error)
            .hint(format!("the usage is `forkful bench --as {} -- FLAGS URL`", dialect.name())));
    }
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
    let invocation = match Invocation::parse(dialect, &argv, &surroundings) {
        Ok(invocation) => invocation,
        Err(printed) => {
            show(&printed)?;
            return Ok(Exit::App(printed.exit));
        }
    };
    let plan = invocation.plan()?;
    let stop = lab::interruptible()?;
    let mut opening = Some(invocation.opening());
    if !invocation.opens_when_connected() {
        show(&opening.take().unwrap_or_default())?;
    }
    let mut ticker = invocation.ticker();
    let mut broken = None;
    let ran = run_load(
        &plan,
        &mut |progress| {
            let mut printed = ticker.tick(progress);
            if progress.phase > Phase::Connecting
                && let Some(opening) = opening.take()
            {
                printed.stdout.insert_str(0, &opening.stdout);
            }
            broken = broken.take().or_else(|| show(&printed).err());
        },
        &stop,
    );
    let report = match ran {
        Ok(report) => report,
        Err(error) => {
            // The tool's words first, where it has some; then ours.
            if let Some(printed) = invocation.unreachable(&error) {
                show(&printed)?;
            }
            return Err(error.into());
        }
    };
    if let Some(failure) = broken {
        return Err(failure);
    }
    show(&opening.unwrap_or_default())?;
    show(&ticker.finish(report.counts.completed))?;
    show(&invocation.report(&report))?;
    if let Some(path) = invocation.log_path() {
        append(path, &invocation, &report)?;
    }
    let trust = Trust::of(&plan, &report);
    footnotes(dialect, &invocation.footnotes(&report), &trust);
    Ok(if trust.trustworthy() { Exit::Done } else { Exit::NotTrustworthy })
}

fn show(printed: &Printed) -> Result<(), Failure> {
    if !printed.stdout.is_empty() {
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

fn append(path: &Path, invocation: &Invocation, report: &forkful_load::Report) -> Result<(), Failure> {
    let fresh = std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    let Some((path, lines)) = invocation.log(report, fresh) else { return Ok(()) };
    let mut options = fs_err::OpenOptions::new();
    let written =
        options.create(true).append(true).open(&path).and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|error| Failure::caused(Exit::Failed, error.into()))
}

/// On stderr, behind the report, so that whoever reads the tool's report finds it as it always was.
fn footnotes(dialect: Dialect, notes: &[String], trust: &Trust) {
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
        output::note(&format!("{}: {note}", dialect.name()));
    }
}
