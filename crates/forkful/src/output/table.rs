//! The table of workers, as `list` and every command that changes something show it.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use forkful_api::types::{AppList, AppView, Status, WorkerView};

use super::format;
use super::paint::Paint;

/// The least width of the column of names when the terminal is narrow.
const NAME_WIDTH_MIN: usize = 8;

/// As much of a name as is worth more than another column.
const NAME_WIDTH_ENOUGH: usize = 16;

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

/// The columns that fit. Long names are cut before columns go, and cut further when none is left to go.
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
    let taken = |shown: &[usize]| {
        let others = shown.iter().filter(|&&index| index != NAME_COLUMN);
        others.map(|&index| widths[index]).sum::<usize>() + 3 * shown.len() + 1
    };
    for round in (1..=5).rev() {
        if width >= taken(&shown) + widths[NAME_COLUMN].min(NAME_WIDTH_ENOUGH) {
            break;
        }
        shown.retain(|&index| COLUMNS[index].dropped != round);
    }
    cut_names(rows, width.saturating_sub(taken(&shown)).max(NAME_WIDTH_MIN));
    shown
}

fn cut_names(rows: &mut [(u32, Status, [String; 9])], width: usize) {
    for (_, _, row) in rows {
        if row[NAME_COLUMN].chars().count() > width {
            row[NAME_COLUMN] = row[NAME_COLUMN].chars().take(width - 1).chain(['…']).collect();
        }
    }
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn list() -> AppList {
        let app = |name: &str, workers: serde_json::Value| {
            serde_json::json!({
                "definition": {
                    "name": name, "program": "/usr/bin/node", "program_args": [], "script": "/srv/app.js",
                    "args": [], "cwd": "/srv", "runtime": "node", "mode": "cluster", "instances": 2,
                    "balance": "auto", "autorestart": true, "max_restarts": 16, "restart_window_ms": 600_000,
                    "min_uptime_ms": 1000, "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 100,
                    "stop_exit_codes": [], "wait_ready": false, "listen_timeout_ms": null, "kill_signal": 2,
                    "kill_timeout_ms": 5000, "drain_timeout_ms": 30_000, "out_file": null, "error_file": null,
                    "merge_logs": false, "time": false, "agent": true,
                },
                "env_names": [], "listening": [], "created_at_ms": 0, "dispatch": [], "workers": workers,
            })
        };
        let worker = |pm_id: u32, pid: Option<u32>, status: &str| {
            serde_json::json!({
                "pm_id": pm_id, "slot": 0, "pid": pid, "status": status, "restarts": pm_id * 11,
                "unstable_restarts": 0, "started_at_ms": 1000, "cpu_percent": 12.34, "memory_bytes": 47_080_000,
                "out_log_path": "", "error_log_path": "", "last_exit": null, "exit_code": null, "reason": null,
                "dropped_log_lines": 0,
            })
        };
        serde_json::from_value(serde_json::json!({ "apps": [
            app("api", serde_json::json!([worker(0, Some(4711), "online"), worker(2, None, "waiting restart")])),
            app("a name\u{1b}[31m that is rather long", serde_json::json!([worker(1, None, "errored")])),
        ] }))
        .unwrap()
    }

    fn table(width: Option<u16>) -> String {
        let paint = Paint::stdout();
        assert!(!paint.is_enabled(), "tests have no terminal");
        workers(&list(), 3_601_000, width, paint)
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
    fn narrow_terminals_lose_columns_and_then_parts_of_names() {
        assert_eq!(table(Some(200)), table(None));
        assert_snapshot!(table(Some(80)), @r"
        ┌────┬──────────────────────┬────────┬────┬─────────────────┬───────┬──────────┐
        │ id ┆ name                 ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
        ╞════╪══════════════════════╪════════╪════╪═════════════════╪═══════╪══════════╡
        │  0 ┆ api                  ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
        │  1 ┆ a name\u{1b}[31m th… ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
        │  2 ┆ api                  ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
        └────┴──────────────────────┴────────┴────┴─────────────────┴───────┴──────────┘
        ");
        assert_snapshot!(table(Some(50)), @r"
        ┌────┬─────────────────────────┬─────────────────┐
        │ id ┆ name                    ┆ status          │
        ╞════╪═════════════════════════╪═════════════════╡
        │  0 ┆ api                     ┆ online          │
        │  1 ┆ a name\u{1b}[31m that … ┆ errored         │
        │  2 ┆ api                     ┆ waiting restart │
        └────┴─────────────────────────┴─────────────────┘
        ");
        assert_snapshot!(table(Some(10)), @r"
        ┌────┬──────────┬─────────────────┐
        │ id ┆ name     ┆ status          │
        ╞════╪══════════╪═════════════════╡
        │  0 ┆ api      ┆ online          │
        │  1 ┆ a name\… ┆ errored         │
        │  2 ┆ api      ┆ waiting restart │
        └────┴──────────┴─────────────────┘
        ");
        for width in [50, 60, 70, 80, 90] {
            let widest = table(Some(width)).lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} > {width}");
        }
    }
}
