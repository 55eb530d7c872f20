//! Draws the screen of `monit` from the state.

mod boxes;
mod list;
mod output;

use forkful_api::types::Status;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::state::{Focus, Mode, State};
use crate::output::format;
use crate::output::table::{self, Tone};

/// From this height there is room for details of the selected line.
const ROWS_FOR_DETAILS: u16 = 30;

/// Lines of the details, with their frame.
const DETAILS: u16 = 9;

/// Minimum lines for the output.
const OUTPUT_MIN: u16 = 4;

/// The colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    pub(super) has_colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn status(self, status: Status, blocked_ms: Option<u64>) -> Style {
        self.colour(match table::tone(status, blocked_ms) {
            Tone::Good => Color::Green,
            Tone::Waits => Color::Yellow,
            Tone::Bad => Color::Red,
            Tone::Neutral => Color::Reset,
        })
    }

    fn fault(self) -> Style {
        self.colour(Color::Red)
    }

    fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The frame of a pane.
    fn frame(self, has_focus: bool) -> Style {
        if has_focus { self.colour(Color::Cyan) } else { self.quiet() }
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme) {
    let area = frame.area();
    let has_details = area.height >= ROWS_FOR_DETAILS;
    let details = if has_details { DETAILS } else { 0 };
    let rows = u16::try_from(state.rows().len().max(1)).unwrap_or(u16::MAX);
    // The table's header and frame; at most about half of the screen.
    let most = (area.height.saturating_sub(2 + details) / 2).max(4);
    let list = rows.saturating_add(3).min(most);
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(list),
        Constraint::Length(details),
        Constraint::Min(OUTPUT_MIN),
        Constraint::Length(1),
    ]);
    let [head, apps, details, output, foot] = parts.areas(area);
    draw_head(frame, head, state, theme);
    list::draw(frame, apps, state, theme);
    if has_details {
        boxes::details(frame, details, state, theme);
    }
    output::draw(frame, output, state, theme);
    draw_foot(frame, foot, state, theme);
    match &state.mode {
        Mode::Help => boxes::help(frame, area, theme),
        Mode::Confirm(action) => boxes::confirm(frame, area, action, theme),
        Mode::Look | Mode::Filter => {}
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let workers = || state.list.apps.iter().flat_map(|app| &app.workers);
    let running = workers().filter(|worker| worker.pid.is_some()).count();
    // The sum of no numbers is -0.0.
    let cpu = workers().map(|worker| worker.cpu_percent).fold(0.0_f32, |sum, cpu| sum + cpu);
    let memory: u64 = workers().map(|worker| worker.memory_bytes).sum();
    let text = format!(
        "forkful  {}, {running} of {} running  cpu {cpu:.1}%  mem {}",
        format::count(state.list.apps.len(), "app"),
        format::count(workers().count(), "worker"),
        format::bytes(memory)
    );
    let line = match (&state.told, &state.fault) {
        // The result of an action is shown here, so that the keys stay visible.
        (Some(told), _) => {
            let style = if told.is_fault { theme.fault() } else { theme.colour(Color::Green) };
            Line::styled(told.text.clone(), style)
        }
        (None, Some(fault)) => Line::styled(fault.clone(), theme.fault()),
        (None, None) => Line::raw(text),
    };
    frame.render_widget(line, area);
}

/// The input line, or the available keys.
fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let line = match &state.mode {
        Mode::Filter => {
            let (what, text) = match state.focus {
                Focus::Apps => ("apps", &state.app_filter),
                Focus::Output => ("lines", &state.output.filter),
            };
            Line::from(vec![
                Span::raw(format!("{what} with: {text}")),
                Span::styled(" ", theme.chosen()),
                Span::styled("  enter keeps, esc clears", theme.quiet()),
            ])
        }
        Mode::Look | Mode::Help | Mode::Confirm(_) => Line::styled(keys(area.width), theme.quiet()),
    };
    frame.render_widget(line, area);
}

/// As many keys as fit.
fn keys(width: u16) -> String {
    let keys = [
        "q quit",
        "? help",
        "r restart",
        "l reload",
        "s stop",
        "t start",
        "/ filter",
        "tab output",
        "+- scale",
        "o sort",
        "d delete",
        "↑↓ choose",
    ];
    let mut text = String::new();
    for key in keys {
        if text.chars().count() + key.chars().count() + 2 > usize::from(width) {
            break;
        }
        if !text.is_empty() {
            text.push_str("  ");
        }
        text.push_str(key);
    }
    text
}
