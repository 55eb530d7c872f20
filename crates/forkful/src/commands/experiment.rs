//! `forkful experiment`: repeats published measurements on this machine.

use std::path::PathBuf;

use clap::Args;
use forkful_config::AppOptions;
use forkful_core::pages::Page;
use forkful_lab::experiment::catalogue::{self, Description};
use forkful_lab::experiment::{self, Document, Extent, Setting, apps, find_browser, text};
use forkful_load::StopHandle;

use super::lab;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::progress::Progress;
use crate::specs::Specs;

#[derive(Debug, Args)]
#[command(after_help = "\
Each experiment reproduces a published benchmark of Node.js on many cores: it starts the sample app
as one process and as a cluster in a private home, loads it as in the report, and compares the
results with the reported ones. It only uses loopback, and stops everything at the end. Nothing is
installed: without Express, the apps use a small stand-in, and the result says so.

Examples:
  forkful experiment list
  forkful experiment slow-fast
  forkful experiment 4 --full --html heavy.html
  forkful experiment all --json > found.json")]
pub(crate) struct ExperimentArgs {
    /// Name or number of an experiment, `all`, or `list`.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Run at the original's full length, which may take more than two minutes.
    #[arg(long)]
    pub(crate) full: bool,
    /// Fraction of the usual length (0.1 for a tenth), for a quick check.
    #[arg(long, value_name = "PART", conflicts_with = "full", value_parser = part)]
    pub(crate) scale: Option<f64>,
    /// Workers of the cluster; by default one per core.
    #[arg(long, short, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) instances: Option<u16>,
    /// File for the HTML page; by default forkful-experiment-NAME.html in this directory.
    #[arg(long, value_name = "FILE", conflicts_with = "no_html")]
    pub(crate) html: Option<PathBuf>,
    /// Do not write a page.
    #[arg(long)]
    pub(crate) no_html: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory of the sample apps; by default `examples` in this directory or in Forkful's repository.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) examples: Option<PathBuf>,
    /// Seed of the random order of arms; printed, so that a run can be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("expected a number above 0, up to 1".to_owned()),
    }
}

pub(super) fn run(args: &ExperimentArgs) -> Result<Exit, Failure> {
    if args.name == "list" {
        return list(args);
    }
    let chosen = chosen(args)?;
    lab::check_page(args.html.as_deref())?;
    let stop = lab::interruptible()?;
    let mut documents = Vec::new();
    for description in &chosen {
        let document = one(description, args, &stop)?;
        if !args.json {
            let gap = if documents.is_empty() { "" } else { "\n" };
            output::print(&format!("{gap}{}", text::report(&document)))?;
        }
        write_page(&document, args)?;
        documents.push(document);
    }
    if args.json {
        match documents.as_slice() {
            [one] => output::print_json(one)?,
            several => output::print_json(&several)?,
        }
    }
    Ok(Exit::Done)
}

fn list(args: &ExperimentArgs) -> Result<Exit, Failure> {
    if args.json {
        output::print_json(&catalogue::ALL)?;
    } else {
        output::print(&text::list())?;
    }
    Ok(Exit::Done)
}

fn chosen(args: &ExperimentArgs) -> Result<Vec<&'static Description>, Failure> {
    if args.name == "all" {
        if args.html.is_some() {
            return Err(Failure::new(
                Exit::WrongUse,
                "--html names one page, but `all` writes one for each experiment",
            )
            .hint("leave --html out: each page gets its experiment's name")
            .see(Page::Experiments));
        }
        return Ok(catalogue::ALL.iter().collect());
    }
    let found = catalogue::find(&args.name).map(|description| vec![description]);
    found.ok_or_else(|| {
        let names = catalogue::ALL.iter().map(|one| one.name);
        let close = names
            .map(|name| (strsim::damerau_levenshtein(name, &args.name), name))
            .min()
            .filter(|(distance, _)| *distance <= 3)
            .map(|(_, name)| format!("; did you mean `{name}`?"));
        Failure::new(
            Exit::WrongUse,
            format!("no experiment is called `{}`{}", args.name, close.unwrap_or_default()),
        )
        .hint("`forkful experiment list` shows all of them")
        .see(Page::Experiments)
    })
}

fn one(
    description: &'static Description,
    args: &ExperimentArgs,
    stop: &StopHandle,
) -> Result<Document, Failure> {
    let forkful = lab::this_program()?;
    let place = apps::locate(description.app, args.examples.as_deref(), &forkful)?;
    if let Some(install) = &place.stand_in {
        output::note(&format!("Express is not installed; a small stand-in is used. With Express: {install}"));
    }
    let app =
        Specs::new(&[], &[])?.app_of_command_line(&place.script.to_string_lossy(), &AppOptions::default())?;
    let seed = args.seed.unwrap_or_else(lab::clock_seed);
    let cores = forkful_os::cores::usable_cores().count;
    let setting = Setting {
        app,
        is_stand_in: place.stand_in.is_some(),
        forkful,
        workers: args.instances.unwrap_or(cores),
        cores,
        extent: extent(args),
        seed,
        browser: find_browser(),
        command: command_line(description, args, seed),
        stop: stop.clone(),
    };
    let mut progress = None;
    let mut say = |words: &str| {
        // Remove the old line before printing the new one.
        drop(progress.take());
        progress = Some(Progress::start(format!("{}: {words}…", description.name)));
    };
    Ok(experiment::run(description, &setting, &mut say)?)
}

fn extent(args: &ExperimentArgs) -> Extent {
    match (args.full, args.scale) {
        (true, _) => Extent::Full,
        (false, Some(part)) => Extent::Part(part),
        (false, None) => Extent::Short,
    }
}

fn command_line(description: &Description, args: &ExperimentArgs, seed: u64) -> String {
    let mut words = vec!["forkful".to_owned(), "experiment".to_owned(), description.name.to_owned()];
    if args.full {
        words.push("--full".to_owned());
    }
    if let Some(part) = args.scale {
        words.extend(["--scale".to_owned(), part.to_string()]);
    }
    if let Some(instances) = args.instances {
        words.extend(["-i".to_owned(), instances.to_string()]);
    }
    words.extend(["--seed".to_owned(), seed.to_string()]);
    shell_words::join(words)
}

fn write_page(document: &Document, args: &ExperimentArgs) -> Result<(), Failure> {
    if args.no_html {
        return Ok(());
    }
    let usual = || PathBuf::from(format!("forkful-experiment-{}.html", document.name));
    let path = args.html.clone().unwrap_or_else(usual);
    lab::write_page(&path, document)
}
