//! `forkful experiment`: repeats published measurements on this machine.

use std::path::PathBuf;

use forkful_config::AppOptions;
use forkful_core::pages::Page;
use forkful_lab::experiment::catalogue::{self, Description};
use forkful_lab::experiment::{self, Document, Extent, Setting, apps, find_browser, text};
use forkful_load::StopHandle;

use super::lab;
use crate::cli::ExperimentArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::progress::Progress;
use crate::specs::Specs;

pub(super) fn run(args: &ExperimentArgs) -> Result<Exit, Failure> {
    if args.name == "list" {
        return list(args);
    }
    let chosen = chosen(args)?;
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
