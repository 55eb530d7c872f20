//! `dev/simulate`: runs seeds, and shows a failing run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use forkful_simulate::{Counts, FailedRun, Options, Plant, Search, run, scale, search};

const HELP: &str = "\
dev/simulate: the daemon's logic in simulated worlds

  dev/simulate                10,000 seeds of 500 events
  dev/simulate --seeds N      this many seeds, from --from (default 0)
  dev/simulate --seed N       one seed; a failure is shown with a shortened trace
  dev/simulate --events N     events of a run before nothing goes wrong any more (default 500)
  dev/simulate --plant NAME   with a planted fault, which has to be found
  dev/simulate --plants       each planted fault, and which invariant finds it
  dev/simulate --full         with the whole trace of a failure
  dev/simulate --fast         without shortening the trace of a failure
  dev/simulate --scale        instead, one app on 8 to 128 cores with up to a million connections: writes the
                              tables into docs/SCALE.md (two minutes)
";

/// Time limit of a search for a planted fault.
const PLANT_TIME: Duration = Duration::from_secs(60);

struct Arguments {
    from: u64,
    seeds: u64,
    options: Options,
    plants: bool,
    full: bool,
    scales: bool,
}

fn arguments() -> Result<Arguments, String> {
    let options = Options { events: 500, plant: None, shortens: true };
    let mut found = Arguments { from: 0, seeds: 10_000, options, plants: false, full: false, scales: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{word}: `{text}` is no number"));
        match word.as_str() {
            "--seeds" => found.seeds = number(value()?)?,
            "--from" => found.from = number(value()?)?,
            "--seed" => (found.from, found.seeds) = (number(value()?)?, 1),
            "--events" => found.options.events = number(value()?)? as usize,
            "--plant" => {
                let name = value()?;
                let names = || Plant::ALL.map(|(_, name, _)| name).join(", ");
                let plant = Plant::named(&name);
                found.options.plant =
                    Some(plant.ok_or_else(|| format!("there is no fault `{name}`; there are {}", names()))?);
            }
            "--plants" => found.plants = true,
            "--fast" => found.options.shortens = false,
            "--scale" => found.scales = true,
            "--full" => found.full = true,
            _ => return Err(format!("unknown option {word}\n\n{HELP}")),
        }
    }
    Ok(found)
}

fn show(failure: &FailedRun, options: Options, full: bool) {
    println!("seed {} breaks an invariant: {}", failure.seed, failure.broken.invariant);
    println!("  {}", failure.broken.seen);
    let trace = if full { &failure.trace } else { &failure.shortened };
    println!("\n{} of {} steps of the script lead to it:\n", failure.steps_left, failure.steps);
    trace.iter().for_each(|line| println!("{line}"));
    let plant = options.plant.map_or_else(String::new, |plant| format!(" --plant {}", plant.name()));
    println!("\n`dev/simulate --seed {} --events {}{plant}` shows this again", failure.seed, options.events);
}

/// Plants each fault; returns whether all were found.
fn plants(options: Options) -> bool {
    let mut all = true;
    for (plant, name, text) in Plant::ALL {
        let began = Instant::now();
        let options = Options { plant: Some(plant), ..options };
        let mut runs = 0;
        let found = loop {
            if began.elapsed() > PLANT_TIME {
                break None;
            }
            match run(runs, options) {
                Ok(_) => runs += 1,
                Err(failure) => break Some(failure),
            }
        };
        println!("{name}: {text}");
        match found {
            Some(failure) => println!(
                "  found by seed {} after {:.2} s, {} steps left: {}",
                failure.seed,
                began.elapsed().as_secs_f64(),
                failure.steps_left,
                failure.broken.invariant
            ),
            None => {
                println!("  NOT FOUND by {runs} seeds");
                all = false;
            }
        }
    }
    all
}

/// Writes the tables of the scale mode into their page.
fn scale_page() -> ExitCode {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SCALE.md");
    let written = fs_err::read_to_string(path).map_err(|error| error.to_string()).and_then(|page| {
        let tables = scale::tables(|part| println!("{part} …"));
        println!("\n{tables}");
        let page = scale::into_page(&page, &tables).ok_or("the page has no place for the tables")?;
        fs_err::write(path, page).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("dev/simulate: docs/SCALE.md: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Arguments { from, seeds, options, plants: all_plants, full, scales } = match arguments() {
        Ok(arguments) => arguments,
        Err(fault) => {
            eprintln!("dev/simulate: {fault}");
            return ExitCode::from(2);
        }
    };
    if scales {
        return scale_page();
    }
    // A panic of the daemon's logic is reported like a broken invariant.
    std::panic::set_hook(Box::new(|_| ()));
    if all_plants {
        return if plants(options) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let began = Instant::now();
    let told = |search: &Search| {
        let Counts { events, of_connections } = search.counts;
        let seconds = began.elapsed().as_secs_f64();
        format!("{} seeds, {events} events, {of_connections} of connections, {seconds:.1} s", search.runs)
    };
    let found = search(from..from + seeds, options, |search| println!("{} of {seeds}", told(search)));
    let told = told(&found);
    match found.failure {
        None => {
            println!("every invariant held: {told}");
            ExitCode::SUCCESS
        }
        Some(failure) => {
            show(&failure, options, full);
            ExitCode::FAILURE
        }
    }
}
