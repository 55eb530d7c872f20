//! The pane of apps and workers.

use forkful_api::types::{AppView, Status, WorkerView};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Block, Cell, HighlightSpacing, Paragraph, Row as TableRow, Table, TableState};

use super::super::state::{Focus, Order, Row, State};
use super::Theme;
use crate::output::{format, table};

/// A column, its width, and the minimum width of the pane for it.
struct Column {
    title: &'static str,
    width: u16,
    from: u16,
    alignment: Alignment,
    text: fn(Row<'_>, u64) -> String,
}

/// The names get the remaining width.
const NAME_MIN: u16 = 10;

const COLUMNS: [Column; 8] = [
    Column { title: "id", width: 4, from: 50, alignment: Alignment::Right, text: id },
    Column { title: "status", width: 11, from: 0, alignment: Alignment::Left, text: status_text },
    Column { title: "cpu", width: 6, from: 0, alignment: Alignment::Right, text: cpu },
    Column { title: "mem", width: 9, from: 36, alignment: Alignment::Right, text: memory },
    Column { title: "↺", width: 3, from: 44, alignment: Alignment::Right, text: restarts },
    Column { title: "crashes", width: 7, from: 56, alignment: Alignment::Right, text: crashes },
    Column { title: "loop", width: 8, from: 72, alignment: Alignment::Right, text: delay },
    Column { title: "uptime", width: 6, from: 63, alignment: Alignment::Right, text: uptime },
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let has_focus = state.focus == Focus::Apps;
    let mut title = " apps ".to_owned();
    if !state.app_filter.is_empty() {
        title = format!(" apps with \"{}\" ", state.app_filter);
    }
    if state.order != Order::Id {
        title.push_str(&format!("by {} ", state.order.name()));
    }
    let block = Block::bordered().title(title).border_style(theme.frame(has_focus));
    let rows = state.rows();
    if rows.is_empty() {
        let text = if state.app_filter.is_empty() {
            "no apps; `forkful start app.js` starts an app"
        } else {
            "no app has this in its name; esc shows all apps"
        };
        return frame.render_widget(Paragraph::new(text).block(block), area);
    }
    let inner = block.inner(area);
    let measured = rows.iter().filter_map(|row| row.worker()).any(|worker| worker.loop_delay_ms.is_some());
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| inner.width >= column.from && (column.title != "loop" || measured))
        .collect();
    let head = std::iter::once(Cell::new("name"))
        .chain(columns.iter().map(|column| aligned(column.title.to_owned(), column.alignment)));
    let lines = rows.iter().map(|row| {
        let cells = columns.iter().map(|column| {
            let cell = aligned((column.text)(*row, state.now_ms), column.alignment);
            if column.title == "status" { cell.style(status_style(*row, theme)) } else { cell }
        });
        TableRow::new(std::iter::once(Cell::new(name(*row))).chain(cells))
    });
    let widths = std::iter::once(Constraint::Min(NAME_MIN))
        .chain(columns.iter().map(|column| Constraint::Length(column.width)));
    let chosen = state.chosen_index();
    let table = Table::new(lines, widths)
        .header(TableRow::new(head).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(theme.chosen())
        // Visible without reversed colours too.
        .highlight_symbol(">")
        .highlight_spacing(HighlightSpacing::Always)
        .block(block);
    let mut view =
        TableState::new().with_selected(chosen).with_offset(offset(chosen, rows.len(), inner.height));
    frame.render_stateful_widget(table, area, &mut view);
}

/// The first visible line: if not all fit, the selected line is in the middle.
fn offset(chosen: Option<usize>, rows: usize, height: u16) -> usize {
    let fitting = usize::from(height).saturating_sub(1);
    chosen.unwrap_or(0).saturating_sub(fitting / 2).min(rows.saturating_sub(fitting))
}

fn aligned(text: String, alignment: Alignment) -> Cell<'static> {
    Cell::new(Text::from(text).alignment(alignment))
}

fn name(row: Row<'_>) -> String {
    match row {
        Row::App(app) => format::visible(&app.definition.name),
        Row::Worker(_, worker) => format!("  slot {}", worker.slot),
    }
}

fn id(row: Row<'_>, _: u64) -> String {
    row.worker().map(|worker| worker.pm_id.to_string()).unwrap_or_default()
}

/// The state of all workers if it is the same; otherwise how many are online.
fn status_text(row: Row<'_>, _: u64) -> String {
    let short = |status: Status| {
        if status == Status::WaitingRestart { "waiting".to_owned() } else { status.to_string() }
    };
    match (row, row.worker()) {
        (_, Some(worker)) if worker.status == Status::Online => {
            table::status_of(worker.status, worker.blocked_ms)
        }
        (_, Some(worker)) => short(worker.status),
        (Row::App(app), None) => match common_status(app) {
            Some(status) => short(status),
            None => format!("{}/{} up", online(app), app.workers.len()),
        },
        (Row::Worker(..), None) => String::new(),
    }
}

fn online(app: &AppView) -> usize {
    app.workers.iter().filter(|worker| worker.status == Status::Online).count()
}

fn common_status(app: &AppView) -> Option<Status> {
    let first = app.workers.first()?.status;
    app.workers.iter().all(|worker| worker.status == first).then_some(first)
}

fn status_style(row: Row<'_>, theme: Theme) -> Style {
    let status = row.worker().map(|worker| worker.status).or_else(|| common_status(row.app()));
    let blocked_ms = match row.worker() {
        Some(worker) => worker.blocked_ms,
        None => row.app().workers.iter().find_map(|worker| worker.blocked_ms),
    };
    theme.status(status.unwrap_or(Status::Launching), blocked_ms)
}

/// A value of a worker, or the sum over an app's workers.
fn sum<T: std::iter::Sum>(row: Row<'_>, of: impl Fn(&WorkerView) -> T) -> T {
    match row {
        Row::App(app) => app.workers.iter().map(of).sum(),
        Row::Worker(_, worker) => of(worker),
    }
}

fn runs(row: Row<'_>) -> bool {
    match row {
        Row::App(app) => app.workers.iter().any(|worker| worker.pid.is_some()),
        Row::Worker(_, worker) => worker.pid.is_some(),
    }
}

fn cpu(row: Row<'_>, _: u64) -> String {
    if runs(row) { format!("{:.1}%", sum(row, |worker| worker.cpu_percent)) } else { "-".to_owned() }
}

fn memory(row: Row<'_>, _: u64) -> String {
    if runs(row) { format::bytes(sum(row, |worker| worker.memory_bytes)) } else { "-".to_owned() }
}

fn restarts(row: Row<'_>, _: u64) -> String {
    sum(row, |worker| table::asked_restarts(worker.restarts, worker.crashes)).to_string()
}

fn crashes(row: Row<'_>, _: u64) -> String {
    sum(row, |worker| worker.crashes).to_string()
}

fn delay(row: Row<'_>, _: u64) -> String {
    let worst = match row {
        Row::App(app) => app.workers.iter().filter_map(|worker| worker.loop_delay_ms).reduce(f64::max),
        Row::Worker(_, worker) => worker.loop_delay_ms,
    };
    worst.map_or_else(|| "-".to_owned(), |delay| format!("{delay:.1} ms"))
}

fn uptime(row: Row<'_>, now_ms: u64) -> String {
    row.worker().map(|worker| table::uptime(worker.pid, worker.started_at_ms, now_ms)).unwrap_or_default()
}
