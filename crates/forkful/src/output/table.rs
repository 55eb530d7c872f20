//! The table of workers, as `list` and every command that changes something show it.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use forkful_api::types::{AppList, AppView, Status, WorkerView};

use super::format;
use super::paint::Paint;

/// The least width of the column of names when the terminal is narrow.
const NAME_WIDTH_MIN: usize = 8;

/// A column, and when a narrow terminal loses it: the highest number goes first, 0 never.
struct Column {
    title: &'static str,
    dropped: u8,
    alignment: CellAlignment,
    text: fn(&AppView, &WorkerView, u64) -> String,
}

const COLUMNS: [Column; 9] = [
    Column { title: "id", dropped: 0, alignment: CellAlignment::Right, text: |_, w, _| w.pm_id.to_string() },
    Column { title: "name", dropped: 0, alignment: CellAlignment::Left, text: |a, _, _| name(a) },
    Column {
        title: "mode",
        dropped: 5,
        alignment: CellAlignment::Left,
        text: |a, _, _| a.definition.mode.to_string(),
    },
    Column { title: "pid", dropped: 4, alignment: CellAlignment::Right, text: |_, w, _| pid(w) },
    Column { title: "uptime", dropped: 3, alignment: CellAlignment::Right, text: |_, w, now| uptime(w, now) },
    Column {
        title: "↺",
        dropped: 2,
        alignment: CellAlignment::Right,
        text: |_, w, _| w.restarts.to_string(),
    },
    Column { title: "status", dropped: 0, alignment: CellAlignment::Left, text: |_, w, _| status(w.status) },
    Column { title: "cpu", dropped: 1, alignment: CellAlignment::Right, text: |_, w, _| cpu(w) },
    Column { title: "mem", dropped: 1, alignment: CellAlignment::Right, text: |_, w, _| memory(w) },
];

const NAME_COLUMN: usize = 1;
const STATUS_COLUMN: usize = 6;

/// The width of the terminal that stdout is, if it is one.
pub(crate) fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// The table, with a newline at its end. `width` is the terminal's, `None` for no bound; `now_ms` is
/// the time that uptimes are counted to.
pub(crate) fn workers(list: &AppList, now_ms: u64, width: Option<u16>, paint: Paint) -> String {
    let mut rows: Vec<(u32, Status, [String; 9])> = list
        .apps
        .iter()
        .flat_map(|app| app.workers.iter().map(move |worker| (app, worker)))
        .map(|(app, worker)| {
            let row = COLUMNS.each_ref().map(|column| (column.text)(app, worker, now_ms));
            (worker.pm_id, worker.status, row)
        })
        .collect();
    rows.sort_by_key(|(pm_id, _, _)| *pm_id);
    let shown = fit(&mut rows, width);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    if paint.is_enabled() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(
        shown.iter().map(|&index| Cell::new(COLUMNS[index].title).add_attribute(Attribute::Bold)),
    );
    for (_, status, row) in &rows {
        table.add_row(shown.iter().map(|&index| {
            let cell = Cell::new(&row[index]).set_alignment(COLUMNS[index].alignment);
            if index == STATUS_COLUMN { cell.fg(colour(*status)) } else { cell }
        }));
    }
    format!("{table}\n")
}

/// The columns that fit. When the last ones do not, names are cut.
fn fit(rows: &mut [(u32, Status, [String; 9])], width: Option<u16>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    let Some(width) = width.map(usize::from) else { return shown };
    let widths = COLUMNS.each_ref().map(|column| column.title.chars().count());
    let widths = rows.iter().fold(widths, |mut widths, (_, _, row)| {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
        widths
    });
    // Each column has a space on both sides and a line; one more line closes the table.
    let total = |shown: &[usize]| 1 + shown.iter().map(|&index| widths[index] + 3).sum::<usize>();
    for round in (1..=5).rev() {
        if total(&shown) <= width {
            return shown;
        }
        shown.retain(|&index| COLUMNS[index].dropped != round);
    }
    let excess = total(&shown).saturating_sub(width);
    let name_width = widths[NAME_COLUMN].saturating_sub(excess).max(NAME_WIDTH_MIN);
    for (_, _, row) in rows {
        if row[NAME_COLUMN].chars().count() > name_width {
            row[NAME_COLUMN] = row[NAME_COLUMN].chars().take(name_width - 1).chain(['…']).collect();
        }
    }
    shown
}

fn name(app: &AppView) -> String {
    format::visible(&app.definition.name)
}

fn pid(worker: &WorkerView) -> String {
    worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

/// How long the present process has been running; nothing to say without one.
pub(crate) fn uptime(worker: &WorkerView, now_ms: u64) -> String {
    match worker.started_at_ms {
        Some(started_at_ms) if worker.pid.is_some() => format::span(now_ms.saturating_sub(started_at_ms)),
        _ => "-".to_owned(),
    }
}

fn cpu(worker: &WorkerView) -> String {
    if worker.pid.is_some() { format!("{:.1}%", worker.cpu_percent) } else { "-".to_owned() }
}

fn memory(worker: &WorkerView) -> String {
    if worker.pid.is_some() { format::bytes(worker.memory_bytes) } else { "-".to_owned() }
}

/// A state in PM2's words.
pub(crate) fn status(status: Status) -> String {
    match status {
        Status::Online => "online",
        Status::Launching => "launching",
        Status::Stopping => "stopping",
        Status::Stopped => "stopped",
        Status::Errored => "errored",
        Status::WaitingRestart => "waiting restart",
    }
    .to_owned()
}

fn colour(status: Status) -> Color {
    match status {
        Status::Online => Color::Green,
        Status::Launching | Status::Stopping | Status::WaitingRestart => Color::Yellow,
        Status::Stopped | Status::Errored => Color::Red,
    }
}
