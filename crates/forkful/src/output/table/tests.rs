//! The table at every width.

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
    ┌────┬──────────────────────────────────────┬───────────┬─────────┬──────┬──────┬────────┬────┬─────────────────┬───────┬──────────┐
    │ id ┆ name                                 ┆ namespace ┆ mode    ┆ pid  ┆ port ┆ uptime ┆ ↺  ┆ status          ┆ cpu   ┆ mem      │
    ╞════╪══════════════════════════════════════╪═══════════╪═════════╪══════╪══════╪════════╪════╪═════════════════╪═══════╪══════════╡
    │  0 ┆ api                                  ┆ web       ┆ cluster ┆ 4711 ┆ -    ┆     1h ┆  0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
    │  1 ┆ a name\u{1b}[31m that is rather long ┆ default   ┆ cluster ┆    - ┆ -    ┆      - ┆ 11 ┆ errored         ┆     - ┆        - │
    │  2 ┆ api                                  ┆ web       ┆ cluster ┆    - ┆ -    ┆      - ┆ 22 ┆ waiting restart ┆     - ┆        - │
    └────┴──────────────────────────────────────┴───────────┴─────────┴──────┴──────┴────────┴────┴─────────────────┴───────┴──────────┘
    ");
}

#[test]
fn narrow_terminals_lose_columns_then_the_frame_and_then_parts_of_names() {
    assert_eq!(table(Some(119)), table(None), "a pipe gets the columns of a terminal that is not wide");
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
    let low =
        |height, plain| workers(&list(), 0, &TableShape { height: Some(height), plain, ..shape(Some(60)) });
    assert_eq!(low(7, false), low(24, false));
    assert!(low(3, true).ends_with("2 workers more\n"), "{}", low(3, true));
    assert!(low(1, true).ends_with("3 workers more\n"), "{}", low(1, true));
    for height in 2..8 {
        assert!(low(height, true).lines().count() <= usize::from(height));
        assert!(low(height, false).lines().count() <= usize::from(height).max(5), "{}", low(height, false));
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

/// The same workers with all data that wide terminals show.
fn detailed() -> AppTable {
    let mut list = list();
    list.apps[0].listening = vec!["tcp://[::]:3000".to_owned(), "tcp://127.0.0.1:9100".to_owned()];
    list.apps[0].watch = true;
    list.apps[0].uid = Some(0);
    list.apps[0].workers[1].crashes = 12;
    list.apps[0].workers[1].reason =
        Some("Error: Cannot find module 'express' (13th consecutive restart; last exit code 1)".to_owned());
    list.apps[1].name = "mail".to_owned();
    list.apps[1].uid = Some(0);
    list.apps[1].workers[0].reason = Some("16 unstable exits in 10 min; last exit code 1".to_owned());
    list
}

#[test]
fn wide_terminals_get_ports_reasons_users_and_more() {
    let tables = [100, 120, 160, 200]
        .map(|width| format!("{width}\n{}", workers(&detailed(), 3_601_000, &shape(Some(width)))));
    assert_snapshot!(tables.join(""), @"
    100
    ┌────┬──────┬─────────┬──────┬────────┬────┬─────────┬─────────────────┬───────┬──────────┐
    │ id ┆ name ┆ mode    ┆ pid  ┆ uptime ┆ ↺  ┆ crashes ┆ status          ┆ cpu   ┆ mem      │
    ╞════╪══════╪═════════╪══════╪════════╪════╪═════════╪═════════════════╪═══════╪══════════╡
    │  0 ┆ api  ┆ cluster ┆ 4711 ┆     1h ┆  0 ┆       0 ┆ online          ┆ 12.3% ┆ 44.9 MiB │
    │  1 ┆ mail ┆ cluster ┆    - ┆      - ┆ 11 ┆       0 ┆ errored         ┆     - ┆        - │
    │  2 ┆ api  ┆ cluster ┆    - ┆      - ┆ 10 ┆      12 ┆ waiting restart ┆     - ┆        - │
    └────┴──────┴─────────┴──────┴────────┴────┴─────────┴─────────────────┴───────┴──────────┘
    120
    ┌────┬──────┬─────────┬──────┬───────────┬────────┬────┬─────────┬─────────┬───────┬──────────┬────────────────────────┐
    │ id ┆ name ┆ mode    ┆ pid  ┆ port      ┆ uptime ┆ ↺  ┆ crashes ┆ status  ┆ cpu   ┆ mem      ┆ reason                 │
    ╞════╪══════╪═════════╪══════╪═══════════╪════════╪════╪═════════╪═════════╪═══════╪══════════╪════════════════════════╡
    │  0 ┆ api  ┆ cluster ┆ 4711 ┆ 3000 9100 ┆     1h ┆  0 ┆       0 ┆ online  ┆ 12.3% ┆ 44.9 MiB ┆                        │
    │  1 ┆ mail ┆ cluster ┆    - ┆ -         ┆      - ┆ 11 ┆       0 ┆ errored ┆     - ┆        - ┆ 16 unstable exits in … │
    │  2 ┆ api  ┆ cluster ┆    - ┆ 3000 9100 ┆      - ┆ 10 ┆      12 ┆ waiting ┆     - ┆        - ┆ Error: Cannot find mo… │
    └────┴──────┴─────────┴──────┴───────────┴────────┴────┴─────────┴─────────┴───────┴──────────┴────────────────────────┘
    160
    ┌────┬──────┬───────────┬─────────┬──────┬───────────┬────────┬────┬─────────┬─────────┬───────┬──────────┬──────┬───────┬─────────────────────────────────────┐
    │ id ┆ name ┆ namespace ┆ mode    ┆ pid  ┆ port      ┆ uptime ┆ ↺  ┆ crashes ┆ status  ┆ cpu   ┆ mem      ┆ user ┆ watch ┆ reason                              │
    ╞════╪══════╪═══════════╪═════════╪══════╪═══════════╪════════╪════╪═════════╪═════════╪═══════╪══════════╪══════╪═══════╪═════════════════════════════════════╡
    │  0 ┆ api  ┆ default   ┆ cluster ┆ 4711 ┆ 3000 9100 ┆     1h ┆  0 ┆       0 ┆ online  ┆ 12.3% ┆ 44.9 MiB ┆ root ┆ on    ┆                                     │
    │  1 ┆ mail ┆ default   ┆ cluster ┆    - ┆ -         ┆      - ┆ 11 ┆       0 ┆ errored ┆     - ┆        - ┆ root ┆ off   ┆ 16 unstable exits in 10 min; last … │
    │  2 ┆ api  ┆ default   ┆ cluster ┆    - ┆ 3000 9100 ┆      - ┆ 10 ┆      12 ┆ waiting ┆     - ┆        - ┆ root ┆ on    ┆ Error: Cannot find module 'express… │
    └────┴──────┴───────────┴─────────┴──────┴───────────┴────────┴────┴─────────┴─────────┴───────┴──────────┴──────┴───────┴─────────────────────────────────────┘
    200
    ┌────┬──────┬───────────┬─────────┬──────┬───────────┬────────┬────┬─────────┬─────────┬───────┬──────────┬──────┬───────┬─────────────────────────────────────────────────────────────────────────────┐
    │ id ┆ name ┆ namespace ┆ mode    ┆ pid  ┆ port      ┆ uptime ┆ ↺  ┆ crashes ┆ status  ┆ cpu   ┆ mem      ┆ user ┆ watch ┆ reason                                                                      │
    ╞════╪══════╪═══════════╪═════════╪══════╪═══════════╪════════╪════╪═════════╪═════════╪═══════╪══════════╪══════╪═══════╪═════════════════════════════════════════════════════════════════════════════╡
    │  0 ┆ api  ┆ default   ┆ cluster ┆ 4711 ┆ 3000 9100 ┆     1h ┆  0 ┆       0 ┆ online  ┆ 12.3% ┆ 44.9 MiB ┆ root ┆ on    ┆                                                                             │
    │  1 ┆ mail ┆ default   ┆ cluster ┆    - ┆ -         ┆      - ┆ 11 ┆       0 ┆ errored ┆     - ┆        - ┆ root ┆ off   ┆ 16 unstable exits in 10 min; last exit code 1                               │
    │  2 ┆ api  ┆ default   ┆ cluster ┆    - ┆ 3000 9100 ┆      - ┆ 10 ┆      12 ┆ waiting ┆     - ┆        - ┆ root ┆ on    ┆ Error: Cannot find module 'express' (13th consecutive restart; last exit c… │
    └────┴──────┴───────────┴─────────┴──────┴───────────┴────────┴────┴─────────┴─────────┴───────┴──────────┴──────┴───────┴─────────────────────────────────────────────────────────────────────────────┘
    ");
    for width in 60..220 {
        let table = workers(&detailed(), 3_601_000, &shape(Some(width)));
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width), "{widest} > {width}");
    }
}
