//! The table of workers, printed by `list` and every command that changes something.

mod sort;

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use forkful_api::types::{AppRows, AppTable, Status, WorkerRow};
use forkful_core::autoscale::ScaleBounds;
use forkful_core::spec::NAMESPACE_DEFAULT;
use forkful_core::words::shell_word;

use super::format;
use super::look::look;
use super::paint::Paint;
use crate::package_version::Versions;

pub(crate) use sort::Sort;

/// Minimum width of the name column in a narrow terminal.
const NAME_WIDTH_MIN: usize = 8;

/// The width of names that has precedence over another column, with and without a frame.
const NAME_WIDTH_ENOUGH: usize = 16;
const NAME_WIDTH_ENOUGH_PLAIN: usize = 10;

/// Spaces between columns without a frame.
const GAP: u16 = 2;

/// Without a frame, the status column is at most this wide.
const WAITING: &str = "waiting";

/// From this width, ports and failure reasons are shown.
const WIDE: u16 = 120;
/// From this width, everything is shown.
const VERY_WIDE: u16 = 160;

/// Maximum notes below the table, so that they do not hide it.
const NOTES_MAX: usize = 5;

/// Minimum width of the reason column.
const REASON_WIDTH_MIN: usize = 20;

/// The data of a cell.
struct Line<'a> {
    app: &'a AppRows,
    worker: &'a WorkerRow,
    now_ms: u64,
    version: String,
    user: &'a str,
}

/// A column: when a narrow terminal drops it (highest number first, 0 never), and the minimum width for it.
struct Column {
    title: &'static str,
    dropped: u8,
    wide: u16,
    alignment: CellAlignment,
    text: fn(&Line) -> String,
}

const fn column(
    title: &'static str,
    dropped: u8,
    wide: u16,
    alignment: CellAlignment,
    text: fn(&Line) -> String,
) -> Column {
    Column { title, dropped, wide, alignment, text }
}

/// From this round on, dropped columns are more important than the frame.
const FRAME_GOES: u8 = 3;

const COLUMNS: [Column; 16] = {
    use CellAlignment::{Left, Right};
    [
        column("id", 0, 0, Right, |line| line.worker.pm_id.to_string()),
        column("name", 0, 0, Left, |line| format::visible(&line.app.name)),
        column("namespace", 7, 0, Left, |line| format::visible(&line.app.namespace)),
        column("version", 11, VERY_WIDE, Left, |line| format::visible(&line.version)),
        column("mode", 6, 0, Left, |line| mode(line.app)),
        column("pid", 5, 0, Right, |line| pid(line.worker)),
        column("port", 8, WIDE, Left, |line| ports(line.app)),
        column("uptime", 4, 0, Right, |line| uptime(line.worker.pid, line.worker.started_at_ms, line.now_ms)),
        column("↺", 2, 0, Right, |line| {
            asked_restarts(line.worker.restarts, line.worker.crashes).to_string()
        }),
        column("crashes", 2, 0, Right, |line| line.worker.crashes.to_string()),
        column("status", 0, 0, Left, |line| status_of(line.worker.status, line.worker.blocked_ms)),
        column("cpu", 1, 0, Right, |line| cpu(line.worker)),
        column("mem", 1, 0, Right, |line| memory(line.worker)),
        column("user", 12, VERY_WIDE, Left, |line| line.user.to_owned()),
        column("watch", 10, VERY_WIDE, Left, |line| if line.app.watch { "on" } else { "off" }.to_owned()),
        column("reason", 3, WIDE, Left, |line| reason(line.worker)),
    ]
};

const NAME_COLUMN: usize = 1;
const NAMESPACE_COLUMN: usize = 2;
const VERSION_COLUMN: usize = 3;
const CRASHES_COLUMN: usize = 9;
const STATUS_COLUMN: usize = 10;
const REASON_COLUMN: usize = 15;

/// Rounds of dropping columns; the first number is dropped first.
const ROUNDS: std::ops::RangeInclusive<u8> = 1..=12;

/// A worker's row.
struct Row {
    status: Status,
    tone: Tone,
    cells: [String; COLUMNS.len()],
}

/// How to print the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableShape {
    /// The terminal's width; `None`: unlimited.
    pub(crate) width: Option<u16>,
    /// Maximum number of lines; `None`: unlimited.
    pub(crate) height: Option<u16>,
    /// Print no frame, for any width.
    pub(crate) plain: bool,
    /// The colours.
    pub(crate) paint: Paint,
    /// The order of the rows.
    pub(crate) sort: Sort,
}

impl TableShape {
    /// As wide as the terminal, with all rows.
    pub(crate) fn stdout() -> Self {
        Self {
            width: terminal_width(),
            height: None,
            plain: look().mini_list,
            paint: Paint::stdout(),
            sort: look().sort,
        }
    }
}

/// Whether the cells have borders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Drawn,
    None,
}

/// The width of the terminal, if stdout is one.
pub(crate) fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// The table with a trailing newline. `now_ms` is the time for calculating uptimes.
///
/// Three forms: with all columns; with fewer in a frame; and without a frame, if the frame would cost an
/// important column. Long names are cut before columns are dropped.
pub(crate) fn workers(list: &AppTable, now_ms: u64, shape: &TableShape) -> String {
    let mut found: Vec<(&AppRows, &WorkerRow)> =
        list.apps.iter().flat_map(|app| app.workers.iter().map(move |worker| (app, worker))).collect();
    shape.sort.apply(&mut found, now_ms);
    // A pipe always gets the same columns.
    let width = shape.width.unwrap_or_default();
    let is_very_wide = width >= VERY_WIDE;
    let mut versions = is_very_wide.then(Versions::default);
    let users = if is_very_wide { user_names(&list.apps) } else { BTreeMap::new() };
    let mut rows: Vec<Row> = found
        .into_iter()
        .map(|(app, worker)| {
            let version = versions.as_mut().and_then(|versions| versions.of(&app.script)).unwrap_or_default();
            let user = users.get(&app.uid).map(String::as_str).unwrap_or_default();
            let line = Line { app, worker, now_ms, version, user };
            let cell = |column: &Column| {
                if column.wide <= width { (column.text)(&line) } else { String::new() }
            };
            Row {
                status: worker.status,
                tone: tone(worker.status, worker.blocked_ms),
                cells: COLUMNS.each_ref().map(cell),
            }
        })
        .collect();
    let (frame, shown) = fit(&mut rows, shape);
    let around = match frame {
        Frame::Drawn => 4,
        Frame::None => 1,
    };
    // One more line reports the omitted rows.
    let fitting = shape.height.map_or(usize::MAX, |height| usize::from(height).saturating_sub(around));
    let left_out = if rows.len() > fitting { rows.len() - fitting.saturating_sub(1) } else { 0 };
    rows.truncate(rows.len() - left_out);
    let mut text = draw(&rows, frame, &shown, shape.paint);
    if left_out > 0 {
        text.push_str(&format!("{} more\n", format::count(left_out, "worker")));
    }
    text
}

fn draw(rows: &[Row], frame: Frame, shown: &[usize], paint: Paint) -> String {
    let mut table = Table::new();
    match frame {
        Frame::Drawn => table.load_style(presets::UTF8_FULL_CONDENSED),
        Frame::None => table.load_style(presets::NOTHING),
    };
    table.set_content_arrangement(ContentArrangement::Disabled);
    if paint.is_enabled() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(shown.iter().map(|&index| {
        let cell = Cell::new(COLUMNS[index].title).add_attribute(Attribute::Bold);
        if frame == Frame::None { cell.set_alignment(COLUMNS[index].alignment) } else { cell }
    }));
    for row in rows {
        table.add_row(shown.iter().map(|&index| {
            let cell = Cell::new(&row.cells[index]).set_alignment(COLUMNS[index].alignment);
            if index == STATUS_COLUMN { cell.fg(colour(row.tone)) } else { cell }
        }));
    }
    if frame == Frame::None {
        let last = shown.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index == last { 0 } else { GAP }));
        }
    }
    let text = table.to_string();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Chooses the frame and the columns that fit.
fn fit(rows: &mut [Row], shape: &TableShape) -> (Frame, Vec<usize>) {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    let width = shape.width.unwrap_or_default();
    shown.retain(|&index| COLUMNS[index].wide <= width);
    let says_nothing = |index: usize| match index {
        NAMESPACE_COLUMN => width < VERY_WIDE && all(rows, index, NAMESPACE_DEFAULT),
        CRASHES_COLUMN => all(rows, index, "0"),
        VERSION_COLUMN | REASON_COLUMN => all(rows, index, ""),
        _ => false,
    };
    shown.retain(|&index| !says_nothing(index));
    if shown.contains(&REASON_COLUMN) {
        shorten_waiting(rows);
    }
    let wanted = if shape.plain { Frame::None } else { Frame::Drawn };
    let Some(width) = shape.width.map(usize::from) else { return (wanted, shown) };
    if wanted == Frame::Drawn
        && let Some(shown) = dropped(&shown, rows, width, Frame::Drawn, FRAME_GOES)
    {
        cut_names(rows, &shown, width, Frame::Drawn);
        cut_reasons(rows, &shown, width, Frame::Drawn);
        return (Frame::Drawn, shown);
    }
    shorten_waiting(rows);
    let least = || (0..COLUMNS.len()).filter(|&index| COLUMNS[index].dropped == 0).collect();
    let shown = dropped(&shown, rows, width, Frame::None, 1).unwrap_or_else(least);
    cut_names(rows, &shown, width, Frame::None);
    cut_reasons(rows, &shown, width, Frame::None);
    (Frame::None, shown)
}

fn shorten_waiting(rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|row| row.status == Status::WaitingRestart) {
        row.cells[STATUS_COLUMN] = WAITING.to_owned();
    }
}

/// The columns that fit; `None` if a column with a number below `least` would be dropped.
fn dropped(shown: &[usize], rows: &[Row], width: usize, frame: Frame, least: u8) -> Option<Vec<usize>> {
    let mut shown = shown.to_vec();
    for round in ROUNDS.rev() {
        if fits(&shown, rows, width, frame) {
            return Some(shown);
        }
        if round < least {
            return None;
        }
        shown.retain(|&index| COLUMNS[index].dropped != round);
    }
    fits(&shown, rows, width, frame).then_some(shown)
}

fn fits(shown: &[usize], rows: &[Row], width: usize, frame: Frame) -> bool {
    let enough = match frame {
        Frame::Drawn => NAME_WIDTH_ENOUGH,
        Frame::None => NAME_WIDTH_ENOUGH_PLAIN,
    };
    width >= beside_names(shown, rows, frame) + column_width(NAME_COLUMN, rows).min(enough)
}

fn all(rows: &[Row], column: usize, text: &str) -> bool {
    rows.iter().all(|row| row.cells[column] == text)
}

fn column_width(column: usize, rows: &[Row]) -> usize {
    let title = COLUMNS[column].title.chars().count();
    rows.iter().map(|row| row.cells[column].chars().count()).fold(title, usize::max)
}

/// The width of all columns except names; reasons can be cut.
fn beside_names(shown: &[usize], rows: &[Row], frame: Frame) -> usize {
    let others = shown.iter().filter(|&&index| index != NAME_COLUMN);
    let width = |index: usize| match index {
        REASON_COLUMN => column_width(index, rows).min(REASON_WIDTH_MIN),
        _ => column_width(index, rows),
    };
    let text: usize = others.map(|&index| width(index)).sum();
    text + match frame {
        // Each column has a space on both sides and a border; one more border closes the table.
        Frame::Drawn => 3 * shown.len() + 1,
        Frame::None => usize::from(GAP) * (shown.len() - 1),
    }
}

fn cut_names(rows: &mut [Row], shown: &[usize], width: usize, frame: Frame) {
    let width = width.saturating_sub(beside_names(shown, rows, frame)).max(NAME_WIDTH_MIN);
    for row in rows {
        cut(&mut row.cells[NAME_COLUMN], width);
    }
}

/// Reasons get the remaining width.
fn cut_reasons(rows: &mut [Row], shown: &[usize], width: usize, frame: Frame) {
    let taken = beside_names(shown, rows, frame) + column_width(NAME_COLUMN, rows);
    let least = column_width(REASON_COLUMN, rows).min(REASON_WIDTH_MIN);
    let width = least + width.saturating_sub(taken);
    for row in rows {
        cut(&mut row.cells[REASON_COLUMN], width);
    }
}

fn cut(text: &mut String, width: usize) {
    if text.chars().count() > width {
        *text = text.chars().take(width - 1).chain(['…']).collect();
    }
}

/// Why apps are not running, if the table has no room for it: a note for each app.
pub(crate) fn notes(list: &AppTable, shape: &TableShape) -> Vec<String> {
    if shape.width.is_some_and(|width| width >= WIDE) {
        return Vec::new();
    }
    let note = |app: &AppRows| {
        let worker = app.workers.iter().find(|worker| !reason(worker).is_empty())?;
        let (name, id) = (format::visible(&app.name), worker.pm_id);
        let state = match worker.status {
            Status::WaitingRestart => "waiting for a restart".to_owned(),
            other => other.to_string(),
        };
        Some(format!(
            "{name}: worker {id} is {state}: {}; `forkful describe {}` shows more",
            reason(worker),
            shell_word(&name)
        ))
    };
    list.apps.iter().filter_map(note).take(NOTES_MAX).collect()
}

/// `cluster`; where the number of workers follows the load, with what it may be: `cluster 2 of 1–4`.
fn mode(app: &AppRows) -> String {
    match app.autoscale {
        Some(bounds) => format!("{} {} of {bounds}", app.mode, app.workers.len()),
        None => app.mode.to_string(),
    }
}

/// `2 workers`, or `2 of 1–4 workers`.
pub(crate) fn workers_of(number: usize, autoscale: Option<ScaleBounds>) -> String {
    match autoscale {
        Some(bounds) => format!("{number} of {bounds} workers"),
        None => format::count(number, "worker"),
    }
}

/// The app's ports and paths: `3000`, `3000 3001`, `/run/api.sock`.
fn ports(app: &AppRows) -> String {
    let short = |address: &String| {
        let place = address.split_once("://").map_or(address.as_str(), |(_, place)| place);
        if place.starts_with('/') { place } else { place.rsplit(':').next().unwrap_or(place) }.to_owned()
    };
    let mut found: Vec<String> = app.listening.iter().map(short).collect();
    found.dedup();
    if found.is_empty() { "-".to_owned() } else { format::visible(&found.join(" ")) }
}

/// Restarts and reloads requested by a user or a rule.
pub(crate) fn asked_restarts(restarts: u32, crashes: u32) -> u32 {
    restarts.saturating_sub(crashes)
}

/// The names of the apps' users, each looked up once; an app without a user runs as the daemon's user.
fn user_names(apps: &[AppRows]) -> BTreeMap<Option<u32>, String> {
    let wanted: BTreeSet<Option<u32>> = apps.iter().map(|app| app.uid).collect();
    let name = |wanted: Option<u32>| {
        let uid = wanted.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        (wanted, forkful_os::procinfo::user_name(uid).unwrap_or_else(|| uid.to_string()))
    };
    wanted.into_iter().map(name).collect()
}

/// Only for workers that are not in their desired state.
fn reason(worker: &WorkerRow) -> String {
    match worker.status {
        Status::Errored | Status::WaitingRestart => {
            format::visible(worker.reason.as_deref().unwrap_or_default())
        }
        Status::Online | Status::Launching | Status::Stopping | Status::Stopped | Status::Finished => {
            String::new()
        }
    }
}

fn pid(worker: &WorkerRow) -> String {
    worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

/// How long the current process has been running; empty without a process.
pub(crate) fn uptime(pid: Option<u32>, started_at_ms: Option<u64>, now_ms: u64) -> String {
    match started_at_ms {
        Some(started_at_ms) if pid.is_some() => format::span(now_ms.saturating_sub(started_at_ms)),
        _ => "-".to_owned(),
    }
}

fn cpu(worker: &WorkerRow) -> String {
    if worker.pid.is_some() { format!("{:.1}%", worker.cpu_percent) } else { "-".to_owned() }
}

fn memory(worker: &WorkerRow) -> String {
    if worker.pid.is_some() { format::bytes(worker.memory_bytes) } else { "-".to_owned() }
}

/// A worker's state; instead of "online", that its event loop is blocked, and for how long.
pub(crate) fn status_of(state: Status, blocked_ms: Option<u64>) -> String {
    match blocked_ms {
        Some(ms) if state == Status::Online => format!("blocked {}", format::span(ms.max(1000))),
        Some(_) | None => state.to_string(),
    }
}

/// How good a worker's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Waits,
    Bad,
    Neutral,
}

pub(crate) fn tone(status: Status, blocked_ms: Option<u64>) -> Tone {
    match status {
        Status::Online if blocked_ms.is_some() => Tone::Waits,
        Status::Online => Tone::Good,
        Status::Launching | Status::Stopping | Status::WaitingRestart => Tone::Waits,
        Status::Stopped | Status::Errored => Tone::Bad,
        Status::Finished => Tone::Neutral,
    }
}

fn colour(tone: Tone) -> Color {
    match tone {
        Tone::Good => Color::Green,
        Tone::Waits => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Neutral => Color::Reset,
    }
}

#[cfg(test)]
mod tests;
