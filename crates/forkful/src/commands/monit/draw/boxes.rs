//! Boxes over or between the panes: help, confirmation, details of the selected line.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::super::history::{Sample, bars};
use super::super::state::{Action, Row, State};
use super::Theme;
use crate::output::format;

/// Seconds shown in the graphs.
const GRAPH_WIDTH: usize = 40;

/// Lines of the details above the graphs.
const DETAIL_LINES: u16 = 5;

/// Keys with descriptions.
const KEYS: [(&str, &str); 14] = [
    ("↑ ↓  PgUp PgDn", "choose, or scroll the output"),
    ("← →", "long lines of output"),
    ("tab", "between apps and output"),
    ("end", "follow the output again"),
    ("/", "filter the pane; esc clears"),
    ("o", "sort by the next field"),
    ("r", "restart the app or worker"),
    ("l", "reload"),
    ("s", "stop"),
    ("t", "start"),
    ("+ -", "one worker more or less"),
    ("d", "delete"),
    ("?", "this help"),
    ("q  Ctrl-C", "quit; the apps keep running"),
];

pub(super) fn help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let lines: Vec<Line<'_>> =
        KEYS.iter().map(|(key, what)| Line::raw(format!(" {key:<15} {what}"))).collect();
    show(frame, area, " keys ", lines, 50, theme);
}

pub(super) fn confirm(frame: &mut Frame<'_>, area: Rect, action: &Action, theme: Theme) {
    let verb = action.words.name;
    let mut capital = verb.chars();
    let first = capital.next().map(|c| c.to_ascii_uppercase()).into_iter();
    let question: String = first.chain(capital).collect();
    let lines = vec![
        Line::raw(format!(" {question} {}?", format::visible(&action.whom))),
        Line::raw(""),
        Line::raw(format!(" y {verb}   any other key: no")),
    ];
    show(frame, area, "", lines, 44, theme);
}

/// A box in the middle.
fn show(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>, width: u16, theme: Theme) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let middle = area.centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, middle);
    let block = Block::bordered().title(title.to_owned()).border_style(theme.frame(true));
    frame.render_widget(Paragraph::new(lines).block(block), middle);
}

/// Command, addresses, and the reason of the current state.
pub(super) fn details(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let block = Block::bordered().title(" details ").border_style(theme.frame(false));
    let rows = state.rows();
    let row = state.chosen_index().and_then(|index| rows.get(index).copied());
    let mut lines = row.map(detail_lines).unwrap_or_default();
    lines.truncate(usize::from(DETAIL_LINES));
    lines.extend(row.map(|row| graphs(state, row)).unwrap_or_default());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

/// CPU and memory of the last minute.
fn graphs(state: &State, row: Row<'_>) -> Vec<Line<'static>> {
    let samples: Vec<Sample> = state.history.of(&row.choice()).collect();
    let Some(last) = samples.last() else { return Vec::new() };
    let cpu: Vec<f64> = samples.iter().map(|sample| f64::from(sample.cpu_percent)).collect();
    let memory: Vec<f64> = samples.iter().map(|sample| sample.memory_bytes as f64).collect();
    let graph = |values: &[f64], least: f64| bars(values, GRAPH_WIDTH, least);
    vec![
        pair("cpu", &format!("{:<GRAPH_WIDTH$} {:.1}%", graph(&cpu, 100.0), last.cpu_percent)),
        pair(
            "memory",
            &format!("{:<GRAPH_WIDTH$} {}", graph(&memory, 1.0), format::bytes(last.memory_bytes)),
        ),
    ]
}

fn detail_lines(row: Row<'_>) -> Vec<Line<'static>> {
    let app = row.app();
    let mut definition = app.definition.clone();
    definition.redact_secrets();
    let script = definition.script.as_ref().unwrap_or(&definition.program);
    let command = format!("{script} {}", definition.args.join(" "));
    let mut lines = vec![
        pair("script", command.trim_end()),
        pair("mode", &format!("{}, namespace {}", definition.mode, definition.namespace)),
    ];
    if !app.listening.is_empty() {
        lines.push(pair("listening", &app.listening.join(", ")));
    }
    let worker = row.worker().or_else(|| app.workers.iter().find(|worker| worker.reason.is_some()));
    if let Some(worker) = worker {
        let parts =
            [("why", &worker.reason), ("health", &worker.health_fault), ("last exit", &worker.last_exit)];
        lines.extend(parts.into_iter().filter_map(|(key, text)| Some(pair(key, text.as_ref()?))));
        let metrics: Vec<String> = worker
            .reports
            .metrics
            .iter()
            .map(|(name, metric)| {
                let value = metric.value.as_str().map_or_else(|| metric.value.to_string(), str::to_owned);
                format!("{name} {value}")
            })
            .collect();
        if !metrics.is_empty() {
            lines.push(pair("metrics", &metrics.join(", ")));
        }
    }
    lines
}

fn pair(key: &str, value: &str) -> Line<'static> {
    Line::raw(format!(" {key:<10} {}", format::visible(value).replace('\n', "\\n")))
}
