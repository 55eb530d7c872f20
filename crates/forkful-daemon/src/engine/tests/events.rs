//! What clients that watch a daemon are told.

use forkful_api::conversation::EventsQuery;

use super::*;
use crate::command::Talk;

#[test]
fn the_end_of_a_deleted_worker_and_its_deletion_are_told() {
    locally(async {
        let mut world = World::new();
        world.start("app", SLEEP, 2);
        world.turn_until_answered().await;
        let (reply, watched) = tokio::sync::oneshot::channel();
        let query = EventsQuery { targets: String::new(), logs: false, messages: false };
        world.engine.on_command(Command::Talk(Talk::Watch { query, reply }));
        let mut events = watched.await.unwrap().unwrap();
        world.action(Verb::Delete, "app");
        world.turn_until_answered().await;
        events.close();
        let mut told = String::new();
        while let Some(frame) = std::future::poll_fn(|context| events.poll_next(context)).await {
            told.push_str(&String::from_utf8_lossy(&frame));
        }
        for event in ["exit", "delete"] {
            let count = told.matches(&format!(r#""event":"{event}""#)).count();
            assert_eq!(count, 2, "{event}: {told}");
        }
        world.close().await;
    });
}

#[test]
fn a_command_whose_log_files_cannot_be_emptied_has_failed() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let answer = world.action(Verb::Flush, "app");
        let (job, fault) = (JobId(world.engine.jobs.newest()), Some("cannot empty app.log".to_owned()));
        world.engine.on_back(Back::Flushed { job, app, fault: fault.clone() });
        world.turn_until_answered().await;
        let reply = told(answer).await;
        assert_eq!((reply.apps[0].ok, &reply.apps[0].error), (false, &fault));
        world.close().await;
    });
}
