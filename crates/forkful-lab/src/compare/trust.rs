//! Whether a comparison's figures can be trusted: each finding as data. Pure.

mod latency;

use std::time::Duration;

use super::judge::{counting, undisturbed};
use super::pilot::Pilot;
use super::{Block, Setup, Trial};
use forkful_load::report::{Check, Level};

use crate::document::{Comparison, Trust};
use crate::plan::{BLOCKS_MIN, Facts};
use crate::statistics::steadiness::{DRIFT_MAX, drift, is_drifting};

/// Allowed deviation from Little's law.
const LITTLE_MAX: f64 = 0.05;

/// With fewer answers in a window, one answer more or less changes the throughput.
const ANSWERS_FEW: f64 = 50.0;

pub(super) fn trust(setup: &Setup, pilot: &Pilot, blocks: &[Block], first: &Comparison) -> Trust {
    let trials: Vec<(usize, &Trial)> =
        counting(blocks).flat_map(|block| block.trials.iter().enumerate()).collect();
    let cores = f64::from(forkful_os::cores::usable_cores().count);
    let busiest = fold(&trials, |trial| trial.generator_busy);
    let cores_used = fold(&trials, |trial| trial.generator_cores);
    let mut trust = Trust::of_generator(busiest, cores_used, "the app may be able to do more");
    trust.resolution_percent = first.throughput.resolution_percent;
    generator(&mut trust, setup, &trials, cores);
    few_blocks(&mut trust, blocks);
    disturbances(&mut trust, blocks);
    drifts(&mut trust, setup, blocks);
    little(&mut trust, setup, &trials, pilot.connections);
    resources(&mut trust, &trials);
    answers(&mut trust, blocks);
    let names: Vec<&str> = setup.arms.iter().map(|arm| arm.name.as_str()).collect();
    latency::look(&mut trust, &names, blocks);
    if setup.with_latency {
        latency::samples(&mut trust, blocks, setup.budget, &Facts::of(setup, pilot, setup.budget));
    }
    errors(&mut trust, setup, &trials);
    ports(&mut trust, setup, &trials);
    if let Some(percent) = trust.resolution_percent {
        trust.checks.push(
            Check::judged("resolution", Some(percent <= 5.0)).found(format!("{percent:.1} %"), "5 %").means(
                "the smallest difference in throughput that these blocks would have called one in 8 of 10 runs",
            ),
        );
    }
    trust.concluded()
}

fn fold(trials: &[(usize, &Trial)], of: impl Fn(&Trial) -> f64) -> f64 {
    trials.iter().map(|(_, trial)| of(trial)).fold(0.0, f64::max)
}

fn generator(trust: &mut Trust, setup: &Setup, trials: &[(usize, &Trial)], cores: f64) {
    for (index, arm) in setup.arms.iter().enumerate() {
        let mine: Vec<&Trial> =
            trials.iter().filter(|(of, _)| *of == index).map(|(_, trial)| *trial).collect();
        if mine.is_empty() {
            continue;
        }
        let mean =
            |of: fn(&Trial) -> f64| mine.iter().map(|trial| of(trial)).sum::<f64>() / mine.len() as f64;
        let (server, generator) = (mean(|trial| trial.server_cores), mean(|trial| trial.generator_cores));
        let wants_more = f64::from(arm.runner.workers()) > server + 0.1;
        if server + generator > 0.9 * cores && generator > 0.03 * cores && wants_more {
            let rate = mean(|trial| trial.per_second);
            let alone = rate * cores.min(f64::from(arm.runner.workers())) / server.max(0.01);
            let text = format!(
                "{}: the load generator took {generator:.2} of the {cores:.0} cores that it shares with the app; with a \
                 generator elsewhere, CPU time per request allows about {alone:.0} requests/s",
                arm.name
            );
            trust.note(Level::Note, "generator_shares_cores", text);
        }
    }
}

fn few_blocks(trust: &mut Trust, blocks: &[Block]) {
    let count = undisturbed(blocks).count();
    trust.checks.push(
        Check::judged("undisturbed blocks", Some(count >= BLOCKS_MIN))
            .found(count.to_string(), format!("at least {BLOCKS_MIN}"))
            .means("fewer have a spread that is mostly luck"),
    );
    // With fewer than two, all blocks count, and another finding says so.
    if (2..BLOCKS_MIN).contains(&count) {
        let text = format!("only {count} undisturbed blocks; {BLOCKS_MIN} are the least");
        trust.note(Level::Warning, "few_blocks", text);
    }
}

fn disturbances(trust: &mut Trust, blocks: &[Block]) {
    let disturbed = blocks.len() - undisturbed(blocks).count();
    let reasons: Vec<String> = blocks.iter().filter_map(Block::disturbed).take(3).collect();
    let counted_anyway = counting(blocks).any(|block| block.disturbed().is_some());
    if counted_anyway {
        let which = if disturbed == blocks.len() { "every block was" } else { "all blocks but one were" };
        let text = format!(
            "{which} disturbed ({}), and all of them were used because no clean ones were available",
            reasons.join("; ")
        );
        trust.note(Level::Warning, "disturbed", text);
    } else if disturbed > 0 {
        let text = format!(
            "{disturbed} of {} blocks were disturbed and do not count: {}",
            blocks.len(),
            reasons.join("; ")
        );
        trust.note(Level::Note, "disturbed", text);
    }
    trust.checks.push(
        Check::judged("disturbed blocks", Some(!counted_anyway))
            .found(
                format!("{disturbed} of {}", blocks.len()),
                "do not count: more than 1 % stolen or 5 % taken by other processes",
            )
            .means("blocks during which something else used the machine"),
    );
}

fn drifts(trust: &mut Trust, setup: &Setup, blocks: &[Block]) {
    for (index, arm) in setup.arms.iter().enumerate() {
        let windows: Vec<Vec<f64>> = counting(blocks)
            .filter_map(|block| block.trials.get(index))
            .map(|trial| trial.timeline.iter().map(|point| point[1]).collect())
            .collect();
        let Some(found) = drift(&windows) else { continue };
        let percent = (found.ratio - 1.0) * 100.0;
        if is_drifting(&found) {
            let why = if percent > 0.0 { "it was still warming up" } else { "it slows down while it runs" };
            let text = format!(
                "{}: throughput changed by {percent:+.1} % from the first third of a window to the last: {why}",
                arm.name
            );
            let is_large = (found.ratio - 1.0).abs() > DRIFT_MAX;
            trust.note(if is_large { Level::Warning } else { Level::Note }, "drift", text);
        }
        trust.checks.push(
            Check::judged(format!("drift of {}", arm.name), Some(!is_drifting(&found)))
                .found(format!("{percent:+.1} %"), "2 %")
                .means("from the first third of the windows to the last"),
        );
    }
}

fn little(trust: &mut Trust, setup: &Setup, trials: &[(usize, &Trial)], connections: usize) {
    // Without kept connections, connecting is part of a response but not of the time that a connection is in
    // use.
    if !setup.keep_alive {
        return;
    }
    let worst = trials
        .iter()
        .filter_map(|(_, trial)| trial.little)
        .max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
    let Some(worst) = worst else { return };
    let ok = (worst - 1.0).abs() <= LITTLE_MAX;
    trust.checks.push(
        Check::judged("Little's law", Some(ok))
            .found(format!("{:.1} of {connections} connections", worst * connections as f64), "5 %")
            .means("throughput × mean response time must be the number of connections"),
    );
    if !ok {
        let text = format!(
            "Little's law gives {:.1} connections, not {connections}: a few very slow answers, as \
             where Node.js takes many new connections one by one, or windows too short for this route",
            worst * connections as f64
        );
        trust.note(Level::Note, "little", text);
    }
}

fn resources(trust: &mut Trust, trials: &[(usize, &Trial)]) {
    let overflows: u64 = trials.iter().map(|(_, trial)| trial.listen_overflows).sum();
    if overflows > 0 {
        let text = format!("{overflows} connections found the app's listen queue full");
        trust.note(Level::Note, "listen_overflows", text);
    }
    let throttled: Duration = trials.iter().map(|(_, trial)| trial.throttled).sum();
    if throttled > Duration::from_millis(50) {
        let text = format!(
            "the CPU quota of this container held everything up for {:.1} s",
            throttled.as_secs_f64()
        );
        trust.note(Level::Warning, "throttled", text);
    }
}

fn answers(trust: &mut Trust, blocks: &[Block]) {
    let answers: Option<f64> = counting(blocks)
        .flat_map(|block| &block.trials)
        .map(|trial| trial.service.len() as f64)
        .reduce(f64::min);
    if let Some(answers) = answers.filter(|answers| *answers < ANSWERS_FEW) {
        let text = format!(
            "a window has only {answers:.0} answers, so that one more or less makes {:.0} %",
            100.0 / answers.max(1.0)
        );
        trust.note(Level::Note, "few_answers", text);
    }
}

fn errors(trust: &mut Trust, setup: &Setup, trials: &[(usize, &Trial)]) {
    for (index, arm) in setup.arms.iter().enumerate() {
        let mine = trials.iter().filter(|(of, _)| *of == index);
        let failed: u64 = mine.flat_map(|(_, trial)| trial.errors.values()).sum();
        if failed > 0 {
            trust.note(Level::Note, "errors", format!("{}: {failed} requests failed", arm.name));
        }
    }
}

fn ports(trust: &mut Trust, setup: &Setup, trials: &[(usize, &Trial)]) {
    if let Some((index, port)) = trials.iter().find_map(|(arm, trial)| Some((*arm, trial.ignores_port?))) {
        let text = format!("{} listens on port {port} and does not look at PORT", setup.arms[index].name);
        trust.note(Level::Note, "ignores_port", text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::tests::trial;
    use super::*;
    use crate::statistics::steadiness::Disturbance;

    fn warnings(quiet: usize, disturbed: usize) -> Vec<String> {
        let block = |disturbance: Option<Disturbance>| Block {
            order: vec![0],
            trials: vec![Trial { disturbance, ..trial(Vec::new()) }],
        };
        let mut blocks: Vec<Block> = (0..quiet).map(|_| block(None)).collect();
        blocks.extend((0..disturbed).map(|_| block(Some(Disturbance::Stolen(0.05)))));
        let mut trust = Trust::default();
        few_blocks(&mut trust, &blocks);
        disturbances(&mut trust, &blocks);
        trust.notes.into_iter().filter(|note| note.level == Level::Warning).map(|note| note.text).collect()
    }

    #[test]
    fn fewer_than_six_undisturbed_blocks_are_a_warning_and_one_only() {
        assert!(warnings(6, 0).is_empty() && warnings(6, 3).is_empty());
        assert_eq!(warnings(5, 3), ["only 5 undisturbed blocks; 6 are the least"]);
        assert_eq!(warnings(2, 0), ["only 2 undisturbed blocks; 6 are the least"]);
        for (quiet, disturbed, begins) in [(1, 3, "all blocks but one were"), (0, 3, "every block was")] {
            let told = warnings(quiet, disturbed);
            assert!(told.len() == 1 && told[0].starts_with(begins), "{told:?}");
        }
    }
}
