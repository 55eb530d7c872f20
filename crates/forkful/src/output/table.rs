//! The table of workers, as `list` and every command that changes something show it.

mod sort;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use forkful_api::types::{AppRows, AppTable, Status, WorkerRow};
use forkful_core::spec::NAMESPACE_DEFAULT;

use super::format;
use super::look::look;
use super::paint::Paint;

pub(crate) use sort::Sort;

/// The least width of the column of names when the terminal is narrow.
const NAME_WIDTH_MIN: usize = 8;

/// As much of a name as is worth more than another column, with a frame and without.
const NAME_WIDTH_ENOUGH: usize = 16;
const NAME_WIDTH_ENOUGH_PLAIN: usize = 10;

/// Between columns without a frame.
const GAP: u16 = 2;

/// Status words have a column of this width at most where there is no frame.
const WAITING: &str = "waiting";

/// A column, and when a narrow terminal loses it: the highest number goes first, 0 never.
struct Column {
    title: &'static str,
    dropped: u8,
    alignment: CellAlignment,
    text: fn(&AppRows, &WorkerRow, u64) -> String,
}

/// The first round in which a column goes that is worth more than a frame.
const FRAME_GOES: u8 = 3;

const COLUMNS: [Column; 10] = [
    Column { title: "id", dropped: 0, alignment: CellAlignment::Right, text: |_, w, _| w.pm_id.to_string() },
    Column { title: "name", dropped: 0, alignment: CellAlignment::Left, text: |a, _, _| name(a) },
    Column {
        title: "namespace",
        dropped: 7,
        alignment: CellAlignment::Left,
        text: |a, _, _| format::visible(&a.namespace),
    },
    Column { title: "mode", dropped: 6, alignment: CellAlignment::Left, text: |a, _, _| a.mode.to_string() },
    Column { title: "pid", dropped: 5, alignment: CellAlignment::Right, text: |_, w, _| pid(w) },
    Column {
        title: "uptime",
        dropped: 4,
        alignment: CellAlignment::Right,
        text: |_, w, now| uptime(w.pid, w.started_at_ms, now),
    },
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
const NAMESPACE_COLUMN: usize = 2;
const STATUS_COLUMN: usize = 7;

/// Rounds in which columns go; the first is the number of the column that goes first.
const ROUNDS: std::ops::RangeInclusive<u8> = 1..=7;

/// A worker's line.
struct Row {
    status: Status,
    cells: [String; COLUMNS.len()],
}

/// How the table is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableShape {
    /// The terminal's width; `None` for no bound.
    pub(crate) width: Option<u16>,
    /// The most lines; `None` for no bound.
    pub(crate) height: Option<u16>,
    /// Leave the frame out, whatever the width.
    pub(crate) plain: bool,
    /// Colours.
    pub(crate) paint: Paint,
    /// The order of the rows.
    pub(crate) sort: Sort,
}

impl TableShape {
    /// As wide as the terminal, and complete.
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

/// Whether lines are drawn around the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Drawn,
    None,
}

/// The width of the terminal that stdout is, if it is one.
pub(crate) fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// The table, with a newline at its end. `now_ms` is the time that uptimes are counted to.
///
/// Three forms: with all columns; with fewer, in a frame; and without a frame, where that would cost a
/// column that matters. Long names are cut before columns go.
pub(crate) fn workers(list: &AppTable, now_ms: u64, shape: &TableShape) -> String {
    let mut found: Vec<(&AppRows, &WorkerRow)> =
        list.apps.iter().flat_map(|app| app.workers.iter().map(move |worker| (app, worker))).collect();
    shape.sort.apply(&mut found, now_ms);
    let mut rows: Vec<Row> = found
        .into_iter()
        .map(|(app, worker)| Row {
            status: worker.status,
            cells: COLUMNS.each_ref().map(|column| (column.text)(app, worker, now_ms)),
        })
        .collect();
    let (frame, shown) = fit(&mut rows, shape);
    let around = match frame {
        Frame::Drawn => 4,
        Frame::None => 1,
    };
    // One more line says what is left out.
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
            if index == STATUS_COLUMN { cell.fg(colour(row.status)) } else { cell }
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

/// The frame and the columns that fit.
fn fit(rows: &mut [Row], shape: &TableShape) -> (Frame, Vec<usize>) {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    if rows.iter().all(|row| row.cells[NAMESPACE_COLUMN] == NAMESPACE_DEFAULT) {
        shown.retain(|&index| index != NAMESPACE_COLUMN);
    }
    let wanted = if shape.plain { Frame::None } else { Frame::Drawn };
    let Some(width) = shape.width.map(usize::from) else { return (wanted, shown) };
    if wanted == Frame::Drawn
        && let Some(shown) = dropped(&shown, rows, width, Frame::Drawn, FRAME_GOES)
    {
        cut_names(rows, &shown, width, Frame::Drawn);
        return (Frame::Drawn, shown);
    }
    for row in rows.iter_mut().filter(|row| row.status == Status::WaitingRestart) {
        row.cells[STATUS_COLUMN] = WAITING.to_owned();
    }
    let least = || (0..COLUMNS.len()).filter(|&index| COLUMNS[index].dropped == 0).collect();
    let shown = dropped(&shown, rows, width, Frame::None, 1).unwrap_or_else(least);
    cut_names(rows, &shown, width, Frame::None);
    (Frame::None, shown)
}

/// Columns of which so many went that the rest fits; `None` when one would have to go whose number is below `least`.
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

fn column_width(column: usize, rows: &[Row]) -> usize {
    let title = COLUMNS[column].title.chars().count();
    rows.iter().map(|row| row.cells[column].chars().count()).fold(title, usize::max)
}

/// What everything takes but the names.
fn beside_names(shown: &[usize], rows: &[Row], frame: Frame) -> usize {
    let others = shown.iter().filter(|&&index| index != NAME_COLUMN);
    let text: usize = others.map(|&index| column_width(index, rows)).sum();
    text + match frame {
        // Each column has a space on both sides and a line; one more line closes the table.
        Frame::Drawn => 3 * shown.len() + 1,
        Frame::None => usize::from(GAP) * (shown.len() - 1),
    }
}

fn cut_names(rows: &mut [Row], shown: &[usize], width: usize, frame: Frame) {
    let width = width.saturating_sub(beside_names(shown, rows, frame)).max(NAME_WIDTH_MIN);
    for row in rows {
        let name = &mut row.cells[NAME_COLUMN];
        if name.chars().count() > width {
            *name = name.chars().take(width - 1).chain(['…']).collect();
        }
    }
}

fn name(app: &AppRows) -> String {
    format::visible(&app.name)
}

fn pid(worker: &WorkerRow) -> String {
    worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

/// How long the present process has been running; nothing to say without one.
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

/// A state in PM2's words.
pub(crate) fn status(status: Status) -> String {
    match status {
        Status::Online => "online",
        Status::Launching => "launching",
        Status::Stopping => "stopping",
        Status::Stopped => "stopped",
        Status::Finished => "finished",
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
        Status::Finished => Color::Reset,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn list() -> AppTable {
        let app = |name: &str, workers: serde_json::Value| serde_json::json!({ "name": name, "namespace": "default", "mode": "cluster", "workers": workers });
        let worker = |pm_id: u32, pid: Option<u32>, status: &str| {
            serde_json::json!({
                "pm_id": pm_id, "pid": pid, "status": status, "restarts": pm_id * 11, "started_at_ms": 1000,
                "cpu_percent": 12.34, "memory_bytes": 47_080_000,
            })
        };
        serde_json::from_value(serde_json::json!({ "apps": [
            app("api", serde_json::json!([worker(0, Some(4711), "online"), worker(2, None, "waiting restart")])),
            app("a name\u{1b}[31m that is rather long", serde_json::json!([worker(1, None, "errored")])),
        ] }))
        .unwrap()
    }

    fn shape(width: Option<u16>) -> TableShape {
        TableShape { width, height: None, plain: false, paint: Paint::plain(), sort: Sort::default() }
    }

    fn table(width: Option<u16>) -> String {
        workers(&list(), 3_601_000, &shape(width))
    }

    #[test]
    fn workers_come_by_id_and_what_has_no_process_has_no_numbers() {
        assert_snapshot!(table(None), @r"
        ┌────┬──────────────────────────────────────┬─────────┬──────┬────────┬────┬─────────────────┬───────┬──────────┐
        │ id ┆ name                                 ┆ mode    ┆ pid  ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
        ╞════╪══════════════════════════════════════╪═════════╪══════╪════════╪════╪═════════════════╪═══════╪══════════╡
        │  0 ┆ api                                  ┆ cluster ┆ 4711 ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
        │  1 ┆ a name\u{1b}[31m that is rather long ┆ cluster ┆    - ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
        │  2 ┆ api                                  ┆ cluster ┆    - ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
        └────┴──────────────────────────────────────┴─────────┴──────┴────────┴────┴─────────────────┴───────┴──────────┘
        ");
    }

    #[test]
    fn a_group_is_shown_where_there_are_several() {
        let mut list = list();
        list.apps[0].namespace = "web".to_owned();
        assert_snapshot!(workers(&list, 3_601_000, &shape(Some(140))), @r"
        ┌────┬──────────────────────────────────────┬───────────┬─────────┬──────┬────────┬────┬─────────────────┬───────┬──────────┐
        │ id ┆ name                                 ┆ namespace ┆ mode    ┆ pid  ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
        ╞════╪══════════════════════════════════════╪═══════════╪═════════╪══════╪════════╪════╪═════════════════╪═══════╪══════════╡
        │  0 ┆ api                                  ┆ web       ┆ cluster ┆ 4711 ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
        │  1 ┆ a name\u{1b}[31m that is rather long ┆ default   ┆ cluster ┆    - ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
        │  2 ┆ api                                  ┆ web       ┆ cluster ┆    - ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
        └────┴──────────────────────────────────────┴───────────┴─────────┴──────┴────────┴────┴─────────────────┴───────┴──────────┘
        ");
    }

    #[test]
    fn narrow_terminals_lose_columns_then_the_frame_and_then_parts_of_names() {
        assert_eq!(table(Some(200)), table(None));
        let tables = [100, 80, 60, 40, 10].map(|width| format!("{width}\n{}", table(Some(width))));
        assert_snapshot!(tables.join(""), @r"
        100
        ┌────┬─────────────────────────┬─────────┬──────┬────────┬────┬─────────────────┬───────┬──────────┐
        │ id ┆ name                    ┆ mode    ┆ pid  ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
        ╞════╪═════════════════════════╪═════════╪══════╪════════╪════╪═════════════════╪═══════╪══════════╡
        │  0 ┆ api                     ┆ cluster ┆ 4711 ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
        │  1 ┆ a name\u{1b}[31m that … ┆ cluster ┆    - ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
        │  2 ┆ api                     ┆ cluster ┆    - ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
        └────┴─────────────────────────┴─────────┴──────┴────────┴────┴─────────────────┴───────┴──────────┘
        80
        ┌────┬──────────────────────┬────────┬────┬─────────────────┬───────┬──────────┐
        │ id ┆ name                 ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
        ╞════╪══════════════════════╪════════╪════╪═════════════════╪═══════╪══════════╡
        │  0 ┆ api                  ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
        │  1 ┆ a name\u{1b}[31m th… ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
        │  2 ┆ api                  ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
        └────┴──────────────────────┴────────┴────┴─────────────────┴───────┴──────────┘
        60
        id  name           pid  uptime   ↺  status     cpu       mem
         0  api           4711      1h   0  online   12.3%  44.9 MiB
         1  a name\u{1b…     -       -  11  errored      -         -
         2  api              -       -  22  waiting      -         -
        40
        id  name        status     cpu       mem
         0  api         online   12.3%  44.9 MiB
         1  a name\u{…  errored      -         -
         2  api         waiting      -         -
        10
        id  name      status
         0  api       online
         1  a name\…  errored
         2  api       waiting
        ");
        for width in [38, 40, 50, 60, 70, 80, 90, 100, 110, 120] {
            let widest = table(Some(width)).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} > {width}");
        }
    }

    #[test]
    fn a_low_terminal_says_how_many_workers_it_leaves_out() {
        let low = |height, plain| {
            workers(&list(), 0, &TableShape { height: Some(height), plain, ..shape(Some(60)) })
        };
        assert_eq!(low(7, false), low(24, false));
        assert!(low(3, true).ends_with("2 workers more\n"), "{}", low(3, true));
        assert!(low(1, true).ends_with("3 workers more\n"), "{}", low(1, true));
        for height in 2..8 {
            assert!(low(height, true).lines().count() <= usize::from(height));
            assert!(
                low(height, false).lines().count() <= usize::from(height).max(5),
                "{}",
                low(height, false)
            );
        }
    }

    #[test]
    fn rows_are_ordered_by_a_field() {
        let ids = |sort: &str| {
            let shape = TableShape { plain: true, sort: sort.parse().unwrap(), ..shape(None) };
            let table = workers(&list(), 3_601_000, &shape);
            let first = |line: &str| line.split_whitespace().next().unwrap().to_owned();
            table.lines().skip(1).map(first).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids("id:desc"), "2 1 0");
        assert_eq!(ids("name"), "1 0 2");
        assert_eq!(ids("status:desc"), "2 0 1");
        assert_eq!(ids("uptime:desc"), "0 1 2");
        assert_eq!(ids("restarts:desc"), "2 1 0");
        assert_eq!(ids("cpu"), "0 1 2");
    }
}
