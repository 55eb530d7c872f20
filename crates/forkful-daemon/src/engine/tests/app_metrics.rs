//! What workers measure of themselves: what they say last counts.

use forkful_core::app_metrics::merge;

use super::*;

/// A report of a counter with a label of this length.
fn hits(count: u32, label: usize) -> String {
    let label = "x".repeat(label);
    format!(
        r#"[{{"name":"hits","type":"counter","values":[{{"value":{count},"labels":{{"a":"{label}"}}}}]}}]"#
    )
}

fn sum(engine: &Engine, app: AppId) -> Option<f64> {
    let reports = engine.apps.get(&app)?.metrics.own.reports();
    Some(merge(reports.iter().map(AsRef::as_ref)).families.first()?.samples.first()?.value)
}

#[test]
fn the_last_report_of_a_worker_counts_when_its_end_is_noticed_first() {
    locally(async {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("speak");
        let line = format!(r#"{{"cmd":"NODE_FORKFUL","act":"metrics","metrics":{}}}"#, hits(5, 1));
        let script =
            format!("while [ ! -e {} ]; do sleep 0.01; done; printf '%s\\n' '{line}' >&3", flag.display());
        let mut world = World::new();
        let mut spec = spec("app", &["/bin/sh", "-c", &script], 1);
        // So that it has a channel.
        spec.launch.runtime = forkful_core::spec::Runtime::Node;
        world.engine.start_now(vec![spec]);
        let app = AppId(1);
        world.turn_until("it runs", |engine| running(engine, app) == 1).await;
        let now = world.engine.clock.now();
        let entry = world.engine.apps.get_mut(app).unwrap();
        let worker = entry.shown().next().unwrap().worker;
        assert!(entry.metrics.own.ask(worker.0, now));
        fs_err::write(&flag, "").unwrap();
        let began = Instant::now();
        let has_ended = |engine: &Engine| {
            let process = engine.apps[&app].places[&0].processes.values().next().unwrap();
            process.child.try_wait(false).unwrap().is_some()
        };
        while !has_ended(&world.engine) {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
        // The first process that this daemon watches.
        world.engine.on_process_ended(1);
        world.turn_until("its report is read", |engine| sum(engine, app) == Some(5.0)).await;
        world
            .turn_until("its slot is clear", |engine| engine.apps[&app].places[&0].processes.is_empty())
            .await;
        assert_eq!(sum(&world.engine, app), Some(5.0));
        assert!(world.engine.apps[&app].metrics.own.written().contains("hits"));
        world.close().await;
    });
}
