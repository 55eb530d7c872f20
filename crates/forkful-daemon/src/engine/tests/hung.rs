//! Starts that hang: nobody else waits for them, they can be stopped, and they end at their deadline. As root, on a FUSE
//! file system whose server never answers, or with a process that somebody has stopped.

use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

use super::*;

/// A directory whose file system does not answer until this is dropped.
struct Hung {
    folder: tempfile::TempDir,
    /// Closing it ends the file system: what waits for an answer gets an error.
    server: Option<OwnedFd>,
}

impl Hung {
    /// `None`, with a word about it, where such a file system cannot be had.
    fn mount() -> Option<Self> {
        let skip = |why: String| {
            eprintln!("skipped: {why}");
            None
        };
        let server = match rustix::fs::open("/dev/fuse", OFlags::RDWR, Mode::empty()) {
            Ok(server) => server,
            Err(error) => return skip(format!("/dev/fuse: {error}")),
        };
        let folder = tempfile::tempdir().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&server);
        let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", &options, "none"]).arg(folder.path());
        match mount.output() {
            Ok(output) if output.status.success() => {
                rustix::io::fcntl_setfd(&server, rustix::io::FdFlags::CLOEXEC).unwrap();
                Some(Self { folder, server: Some(server) })
            }
            Ok(output) => skip(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => skip(error.to_string()),
        }
    }

    fn spec(&self, name: &str) -> AppSpec {
        let mut spec = spec(name, SLEEP, 1);
        spec.launch.cwd = self.folder.path().to_owned();
        spec
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        drop(self.server.take());
        let unmounted = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_command_whose_start_was_given_up_and_hangs_is_not_started_again() {
    locally(async {
        let mut world = World::new();
        let (go_on, hangs) = std::sync::mpsc::channel::<()>();
        let command = || (vec!["check".to_owned()], std::path::PathBuf::from("/hung"));
        let starts = &mut world.engine.starts;
        let (flight, first) = starts.start_helper(command(), move |_| {
            let _ended = hangs.recv();
            Err("late".to_owned())
        });
        let given_up = |_: &forkful_os::process::Flight| Err("not at once".to_owned());
        let (_, beside) = starts.start_helper(command(), given_up);
        flight.cancel();
        let (_, second) = starts.start_helper(command(), |_| Err("begun".to_owned()));
        assert!(second.await.unwrap().unwrap_err().contains("an earlier start"));
        let other = (vec!["other".to_owned()], std::path::PathBuf::from("/hung"));
        let (_, another) = starts.start_helper(other, |_| Err("begun".to_owned()));
        drop(go_on);
        for (started, expected) in [(beside, "not at once"), (another, "begun"), (first, "late")] {
            let mut started = started;
            let (mut told, began) = (None, Instant::now());
            while told.is_none() {
                assert!(began.elapsed() < PATIENCE, "never: {expected}");
                world.turn().await;
                told = started.try_recv().ok();
            }
            assert_eq!(told.unwrap().unwrap_err(), expected);
        }
        let (_, again) = world.engine.starts.start_helper(command(), |_| Err("begun".to_owned()));
        world.turn_until("it is over", |engine| !engine.starts.has_helpers()).await;
        assert_eq!(again.await.unwrap().unwrap_err(), "begun");
    });
}

fn hangs(engine: &Engine) -> bool {
    engine.starts.pending.values().any(starting::Pending::is_in_its_directory)
}

/// The time of all starts is over: what the command for the first app is told.
async fn error_at_the_deadline(world: &mut World, started: Started) -> String {
    let now = world.engine.clock.now();
    for pending in world.engine.starts.pending.values_mut() {
        pending.expire(now);
    }
    world.turn_until_answered().await;
    let app = &started.await.unwrap().unwrap().apps[0];
    assert!(!app.ok);
    app.error.clone().unwrap_or_default()
}

#[test]
fn a_start_that_hangs_holds_nobody_else_and_can_be_stopped() {
    locally(async {
        let Some(hung) = Hung::mount() else { return };
        let mut world = World::new();
        world.engine.start_now(vec![hung.spec("hung")]);
        let app = AppId(1);
        world.turn_until("it hangs", hangs).await;
        let other = world.start("other", SLEEP, 3);
        world.turn_until("the other app runs", |engine| running(engine, other) == 3).await;
        assert!(hangs(&world.engine));
        let answer = world.action(Verb::Stop, "hung");
        world.turn_until_answered().await;
        assert!(told(answer).await.apps.iter().all(|app| app.ok));
        assert!(world.engine.starts.pending.is_empty() && world.engine.apps[&app].is_at_rest());
        world.close().await;
    });
}

#[test]
fn a_start_that_hangs_fails_at_its_deadline_and_names_what_it_waits_for() {
    locally(async {
        let Some(hung) = Hung::mount() else { return };
        let mut world = World::new();
        let started = world.engine.start_now(vec![hung.spec("hung")]);
        world.turn_until("it hangs", hangs).await;
        let error = error_at_the_deadline(&mut world, started).await;
        let expected = format!(
            "cannot enter the working directory {}: no answer within 300 s",
            hung.folder.path().display()
        );
        assert!(error.contains(&expected), "{error}");
        // Its process was killed, and its thread is free again.
        world.turn_until("the thread has come back", |engine| engine.starts.stuck.is_empty()).await;
        let other = world.start("other", SLEEP, 1);
        world.turn_until("another app runs", |engine| running(engine, other) == 1).await;
        world.close().await;
    });
}

#[test]
fn a_process_that_is_stopped_before_its_program_holds_nobody_else_and_is_killed_at_the_deadline() {
    locally(async {
        let Some(mut hung) = Hung::mount() else { return };
        let mut world = World::new();
        let started = world.engine.start_now(vec![hung.spec("stopped")]);
        world.turn_until("it hangs", hangs).await;
        let pid = world.engine.starts.pending.values().map(starting::Pending::pid).next().unwrap();
        let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
        // The file system is gone, so that now the stop alone holds it.
        drop(hung.server.take());
        let state = || {
            let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
        };
        world.turn_until("it is stopped", |_| state() == Some('T')).await;
        let other = world.start("other", SLEEP, 2);
        world.turn_until("the other app runs", |engine| running(engine, other) == 2).await;
        assert!(hangs(&world.engine) && state() == Some('T'));
        let error = error_at_the_deadline(&mut world, started).await;
        assert!(
            error.contains("no answer within 300 s") && error.contains("the new process was stopped"),
            "{error}"
        );
        world.turn_until("the thread has come back", |engine| engine.starts.stuck.is_empty()).await;
        world.turn_until("the process is dead", |_| matches!(state(), None | Some('Z'))).await;
        world.close().await;
    });
}

#[test]
fn an_interpreter_on_a_file_system_that_hangs_holds_nobody_else() {
    locally(async {
        let Some(hung) = Hung::mount() else { return };
        let mut world = World::new();
        let mut spec = spec("hung", SLEEP, 1);
        spec.launch.program = hung.folder.path().join("node");
        let started = world.engine.start_now(vec![spec]);
        let executes = |engine: &Engine| engine.starts.pending.values().any(starting::Pending::executes);
        world.turn_until("it hangs", executes).await;
        let other = world.start("other", SLEEP, 2);
        world.turn_until("the other app runs", |engine| running(engine, other) == 2).await;
        assert!(executes(&world.engine));
        let error = error_at_the_deadline(&mut world, started).await;
        let expected =
            format!("cannot execute {}/node: no answer within 300 s", hung.folder.path().display());
        assert!(error.contains(&expected), "{error}");
        world.turn_until("the thread has come back", |engine| engine.starts.stuck.is_empty()).await;
        world.close().await;
    });
}

#[test]
fn a_log_file_on_a_file_system_that_hangs_holds_nobody_else() {
    locally(async {
        let Some(hung) = Hung::mount() else { return };
        let mut world = World::new();
        let mut spec = spec("hung", SLEEP, 2);
        spec.logs.merge = false;
        spec.logs.out_file = Some(hung.folder.path().join("out.log"));
        let started = world.engine.start_now(vec![spec]);
        let looks = |engine: &Engine| engine.starts.pending.values().any(starting::Pending::looks_at_a_log);
        world.turn_until("it looks at its log file", looks).await;
        let other = world.start("other", SLEEP, 2);
        world.turn_until("the other app runs", |engine| running(engine, other) == 2).await;
        let now = world.engine.clock.now();
        while !world.engine.jobs.is_empty() {
            for pending in world.engine.starts.pending.values_mut() {
                pending.expire(now);
            }
            world.turn().await;
        }
        let error = started.await.unwrap().unwrap().apps[0].error.clone().unwrap_or_default();
        let path = hung.folder.path().join("out.log");
        assert!(error.contains(&format!("cannot look at the log file {}", path.display())), "{error}");
        // Lets the threads go.
        drop(hung);
        world.turn_until("the threads have come back", |engine| engine.starts.stuck.is_empty()).await;
        world.close().await;
    });
}
