//! Experiment 7: two tabs of a real browser request a route that burns 5 s of CPU at the same time. If no
//! browser is installed, two plain connections replace it, and the result says so.

use std::path::Path;
use std::time::Duration;

use forkful_load::report::Check;
use forkful_load::{Reuse, Stop, StopHandle};
use serde_json::{Value, json};

use super::blocks;
use super::catalogue::Description;
use super::chromium::{Browser, Visit};
use super::document::{Claim, Document, counted, time};
use super::figures;
use super::observe::Observer;
use super::setting::Setting;
use crate::LabError;
use crate::arms::Arm;
use crate::server::Server;
use crate::target::Target;

/// The result of two tabs with one arm.
struct Outcome {
    arm: Arm,
    /// Whether the tabs request the same address.
    is_same_address: bool,
    /// Waiting times in ms, shortest first, and the answers.
    waits: Vec<f64>,
}

pub(super) fn run(
    description: &'static Description,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Document, LabError> {
    let block = setting.extent.seconds(5.0, 5.0);
    let arms = [Setting::single(), Setting::cluster("cluster", setting.workers.max(2))];
    // A browser delays a second request for the same address until the first is answered, because it may
    // reuse the answer.
    let ways: &[bool] = if setting.browser.is_some() { &[false, true] } else { &[false] };
    let mut outcomes = Vec::new();
    let mut version = None;
    for arm in arms {
        let observer = Observer::new(false)?;
        let server = blocks::start(setting, &arm, &Target::get("/fast"), &observer)?;
        for is_same_address in ways {
            let way = if *is_same_address { "the same address" } else { "two addresses" };
            say(&format!("{}: two tabs on {way}", arm.label));
            let waits = match &setting.browser {
                Some(browser) => {
                    tabs(browser, &server, block, *is_same_address, &mut version, &setting.stop)?
                }
                None => connections(&server, &arm, block, setting)?,
            };
            outcomes.push(Outcome { arm: arm.clone(), is_same_address: *is_same_address, waits });
        }
    }
    let mut document = Document::new(description);
    describe(&mut document, &outcomes, block, version.as_deref());
    document.check(
        Check::judged("A real browser", if version.is_some() { Some(true) } else { None })
            .found(version.clone().unwrap_or_else(|| "none is installed".to_owned()), "")
            .means(if version.is_some() {
                "Headless, one profile, two tabs, told to ask at the same moment.".to_owned()
            } else {
                "Two bare connections asked instead of tabs; install Chromium to see it in a browser."
                    .to_owned()
            }),
    );
    document.plan = json!({"delay_ms": block.as_secs_f64() * 1000.0, "browser": version});
    Ok(document)
}

fn path(block: Duration, tab: usize, is_same_address: bool) -> String {
    let tab = if is_same_address { 1 } else { tab };
    format!("/delay?ms={}&tab={tab}", block.as_millis())
}

fn tabs(
    program: &Path,
    server: &Server,
    block: Duration,
    is_same_address: bool,
    version: &mut Option<String>,
    stop: &StopHandle,
) -> Result<Vec<f64>, LabError> {
    let failed = || {
        let told = LabError::system(format!("the browser {} cannot be used", program.display()));
        move |error: std::io::Error| if stop.is_stopped() { LabError::Interrupted } else { told(error) }
    };
    let mut browser = Browser::start(program, stop.clone()).map_err(failed())?;
    *version = Some(browser.version().map_err(failed())?);
    let addresses =
        [1, 2].map(|tab| format!("http://{}{}", server.address(), path(block, tab, is_same_address)));
    let bound = block * 4 + Duration::from_secs(30);
    let mut visits: Vec<Visit> = browser.open_at_once(&addresses, bound).map_err(failed())?;
    if let Some(wrong) = visits.iter().find(|visit| !visit.text.starts_with("burnt")) {
        let text: String = wrong.text.chars().take(100).collect();
        return Err(LabError::Failed {
            arm: "the browser".to_owned(),
            what: format!("a tab shows {text:?}"),
            tail: server.tail(),
        });
    }
    visits.sort_by(|a, b| a.waited_ms.total_cmp(&b.waited_ms));
    Ok(visits.iter().map(|visit| visit.waited_ms).collect())
}

fn connections(server: &Server, arm: &Arm, block: Duration, setting: &Setting) -> Result<Vec<f64>, LabError> {
    let mut plan = blocks::load(server.address(), &path(block, 1, true))?;
    plan.connections = 2;
    plan.stop = Stop::Requests(2);
    plan.reuse = Reuse::Never;
    plan.timeout = block * 4 + Duration::from_secs(30);
    let report = blocks::perform(&plan, arm, &setting.stop)?;
    let waits = figures::each_response(&report);
    if waits.len() == 2 && report.errors_total() == 0 {
        Ok(waits)
    } else {
        Err(blocks::unanswered(arm, &report, server))
    }
}

fn describe(document: &mut Document, outcomes: &[Outcome], block: Duration, version: Option<&str>) {
    let of = |name: &str, same: bool| {
        outcomes.iter().find(|one| one.arm.name == name && one.is_same_address == same)
    };
    let waits = |outcome: &Outcome| {
        outcome.waits.iter().map(|ms| format!("{:.1}", ms / 1000.0)).collect::<Vec<_>>().join(" and ") + " s"
    };
    let burns = time(block.as_secs_f64() * 1000.0);
    let who = if version.is_some() { "tabs" } else { "connections (no browser is installed)" };
    let (Some(single), Some(cluster)) = (of("single", false), of("cluster", false)) else { return };
    let workers = counted(u64::from(cluster.arm.runner.workers()), "worker");
    document.headline = format!(
        "Two {who} on a route that burns {burns}: {} in one process, {} with {workers}.",
        waits(single),
        waits(cluster)
    );
    document.claims.push(Claim::new("one process", "the second tab waited 9.5 s", waits(single), "one event loop burns for one tab after the other; the report's tabs were opened half a second apart, ours at once"));
    document.claims.push(Claim::new(
        "a cluster",
        "5 s each",
        waits(cluster),
        if is_side_by_side(cluster, block) {
            "each tab's connection goes to another worker"
        } else {
            "one waited for the other: fewer cores than tabs, or much else going on"
        },
    ));
    if let (Some(single), Some(cluster)) = (of("single", true), of("cluster", true)) {
        document.claims.push(Claim::new(
            "the same address in both tabs, one process and a cluster",
            "not told apart",
            format!("{}; {}", waits(single), waits(cluster)),
            same_address_words(cluster, block),
        ));
    }
    document.found = json!({
        "single_ms": single.waits, "cluster_ms": cluster.waits,
        "same_address_cluster_ms": of("cluster", true).map(|outcome| outcome.waits.clone()),
    });
    document.plots = vec![bars(outcomes)];
}

/// Neither tab waited for the other.
fn is_side_by_side(outcome: &Outcome, block: Duration) -> bool {
    outcome.waits.last().is_some_and(|slowest| *slowest < block.as_secs_f64() * 1500.0)
}

/// Whether the browser itself delayed the second tab.
fn same_address_words(cluster: &Outcome, block: Duration) -> String {
    if is_side_by_side(cluster, block) {
        "this browser asked for both at once".to_owned()
    } else {
        "the browser itself holds back a second request for the same address until the first is answered, in the hope of using its answer: no server can help that"
            .to_owned()
    }
}

fn bars(outcomes: &[Outcome]) -> Value {
    let rows: Vec<Value> = outcomes
        .iter()
        .flat_map(|outcome| {
            let way = if outcome.is_same_address { ", same address" } else { "" };
            outcome.waits.iter().enumerate().map(move |(index, ms)| {
                json!({"name": format!("{}{way}: tab {}", outcome.arm.name, index + 1), "value": ms})
            })
        })
        .collect();
    json!({
        "type": "bars", "title": "How long each tab waited", "unit": "ms", "rows": rows,
        "note": "From the start of its navigation to the last byte of the answer, as the browser counted.",
    })
}
