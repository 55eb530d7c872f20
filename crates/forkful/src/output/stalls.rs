//! The event-loop stalls of an app: a table of functions and routes, and the stack of the first.

use std::fmt::Write as _;
use std::time::Duration;

use forkful_api::stalls::{AppStalls, StallGroupView};
use forkful_core::stalls::StallCost;

use super::format::{bound, count, utc, visible};
use super::paint::Paint;

/// Groups to print; `--json` has all.
const GROUPS_SHOWN: usize = 15;

/// The output of `forkful stalls` for an app.
pub(crate) fn app(app: &AppStalls, paint: Paint) -> String {
    let mut text = String::new();
    let name = paint.bold(&visible(&app.app));
    let total = &app.total;
    if app.threshold_ms == 0 && total.stalls == 0 {
        line(&mut text, &format!("{name}: stalls are not recorded, because `stall_threshold` is 0"));
    } else if total.stalls == 0 && !app.standing.is_empty() {
        line(&mut text, &format!("{name}: no stall has ended since the app was added"));
    } else if total.stalls == 0 {
        let threshold = bound(app.threshold_ms);
        line(
            &mut text,
            &format!("{name}: no event loop was blocked for {threshold} or more since the app was added"),
        );
    } else {
        line(&mut text, &format!("{name}: {}", summary(total)));
    }
    for worker in &app.standing {
        let length = span(Duration::from_millis(worker.for_ms));
        line(&mut text, &format!("worker {} is blocked now, for {length}: {}", worker.pm_id, worker.doing));
    }
    if let Some(first) = app.groups.first() {
        table(&mut text, app, paint);
        stack(&mut text, first);
    }
    text
}

/// `12 stalls, 1.4 s in all, the longest 310 ms; 87 requests waited 4.1 s`.
pub(crate) fn summary(cost: &StallCost) -> String {
    let waited = match cost.requests {
        0 => String::new(),
        requests => format!("; {} waited {}", count(requests as usize, "request"), span(cost.waited)),
    };
    let stalls = count(cost.stalls as usize, "stall");
    format!("{stalls}, {} in all, the longest {}{waited}", span(cost.stalled), span(cost.longest))
}

fn table(text: &mut String, app: &AppStalls, paint: Paint) {
    let head = format!("{:>8}{:>10}{:>10}{:>10}  where", "stalls", "in all", "longest", "waited");
    line(text, "");
    line(text, &paint.dim(&head));
    for group in app.groups.iter().take(GROUPS_SHOWN) {
        let figures = figures(&group.cost);
        let route = group.route.as_deref().unwrap_or("(no request)");
        line(text, &format!("{figures}  {}", visible(route)));
        if let Some(function) = &group.function {
            line(text, &format!("{:40}{}", "", visible(function)));
        }
    }
    let hidden = app.groups.len().saturating_sub(GROUPS_SHOWN);
    if hidden > 0 {
        line(text, &format!("{:40}and {} more (--json)", "", count(hidden, "place")));
    }
    if app.others.stalls > 0 {
        line(text, &format!("{}  elsewhere", figures(&app.others)));
    }
}

fn figures(cost: &StallCost) -> String {
    format!("{:>8}{:>10}{:>10}{:>10}", cost.stalls, span(cost.stalled), span(cost.longest), span(cost.waited))
}

/// The stack of the first group's longest stall.
fn stack(text: &mut String, group: &StallGroupView) {
    if group.stack.len() < 2 {
        return;
    }
    line(text, "");
    line(text, &format!("The stack of the longest stall of the first ({} UTC):", utc(group.last_at_ms)));
    for frame in &group.stack {
        line(text, &format!("    {}", visible(frame)));
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes everything");
}

/// `120 ms`, `3.1 s`, `12 min`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1000.0),
        1.0..100.0 => format!("{seconds:.1} s"),
        100.0..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(stalls: u64, stalled: u64, longest: u64, requests: u64, waited: u64) -> StallCost {
        let ms = Duration::from_millis;
        StallCost {
            stalls,
            stalled: ms(stalled),
            longest: ms(longest),
            cpu: ms(stalled),
            requests,
            waited: ms(waited),
        }
    }

    fn group(route: Option<&str>, function: Option<&str>, cost: StallCost, stack: &[&str]) -> StallGroupView {
        StallGroupView {
            route: route.map(str::to_owned),
            function: function.map(str::to_owned),
            cost,
            last_at_ms: 1_773_059_405_999,
            stack: stack.iter().map(|frame| (*frame).to_owned()).collect(),
        }
    }

    fn stalls(groups: Vec<StallGroupView>) -> AppStalls {
        AppStalls {
            app: "api".to_owned(),
            threshold_ms: 50,
            total: cost(3, 1430, 310, 87, 4100),
            groups,
            others: StallCost::default(),
            recent: Vec::new(),
            standing: Vec::new(),
        }
    }

    #[test]
    fn a_ledger_is_a_table_with_the_stack_of_its_first_line() {
        let groups = vec![
            group(
                Some("GET /report/:id"),
                Some("render (report.js:12)"),
                cost(2, 620, 310, 80, 4000),
                &["render (report.js:12)", "handle (app.js:3)"],
            ),
            group(
                None,
                Some("sweep\u{1b}[2J (cache.js:4)"),
                cost(1, 810, 810, 7, 100),
                &["sweep (cache.js:4)"],
            ),
        ];
        insta::assert_snapshot!(app(&stalls(groups), Paint::plain()), @r"
        api: 3 stalls, 1.4 s in all, the longest 310 ms; 87 requests waited 4.1 s

          stalls    in all   longest    waited  where
               2    620 ms    310 ms     4.0 s  GET /report/:id
                                                render (report.js:12)
               1    810 ms    810 ms    100 ms  (no request)
                                                sweep\u{1b}[2J (cache.js:4)

        The stack of the longest stall of the first (2026-03-09 12:30:05 UTC):
            render (report.js:12)
            handle (app.js:3)
        ");
    }

    #[test]
    fn an_app_without_stalls_says_from_when_on_they_count() {
        let mut none = AppStalls { total: StallCost::default(), ..stalls(Vec::new()) };
        assert_eq!(
            app(&none, Paint::plain()),
            "api: no event loop was blocked for 50ms or more since the app was added\n"
        );
        none.threshold_ms = 0;
        assert_eq!(
            app(&none, Paint::plain()),
            "api: stalls are not recorded, because `stall_threshold` is 0\n"
        );
    }

    #[test]
    fn spans_have_the_unit_that_fits() {
        let spans = [0, 999, 1000, 99_900, 100_000, 7_200_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(spans, ["0 ms", "999 ms", "1.0 s", "99.9 s", "2 min", "2.0 h"]);
    }
}
