//! `forkful monit`: apps, workers and their output on one screen. `state` holds the data, `keys` handles
//! keys, `draw` draws. This file drives them: it queries the daemon once a second; output and actions use
//! separate connections.

mod draw;
mod history;
mod keys;
mod plain;
mod state;
#[cfg(test)]
mod tests;

use std::io::stdout;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use crossterm::event::Event;
use forkful_api::types::{ActionRequest, LogLine, LogsQuery};
use forkful_core::scale::ScaleTarget;
use forkful_os::wall_clock::now_ms;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::draw::{Theme, draw};
use self::keys::{Effect, press};
use self::state::{Action, Choice, State, Told};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::terminal::{self, Held, Screen};

#[derive(Debug, Args)]
#[command(after_help = "\
Every action on an app asks for confirmation. `?` shows the keys, `q` quits; the apps keep running.

Examples:
  forkful monit
  ssh -t server forkful monit")]
pub(crate) struct MonitArgs {}

/// Interval for querying the apps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Minimum interval between redraws, which is enough for people and for SSH.
const DRAW_EVERY: Duration = Duration::from_millis(50);

/// While the user scrolls through the list quickly, the output is not switched at each step.
const FOLLOW_AFTER: Duration = Duration::from_millis(150);

/// Lines of existing output shown at first, for each file.
const PAST_LINES: u32 = 50;

/// Maximum queued updates; a log that writes faster waits in the daemon's buffer.
const NEWS_MAX: usize = 1024;

/// How long the result of an action is shown.
const TOLD_FOR: Duration = Duration::from_secs(6);

/// An update from the daemon.
enum News {
    Apps(Result<forkful_api::types::AppList, String>),
    /// A line of the output that was followed when it arrived.
    Line(Choice, LogLine),
    Acted(Told),
}

/// State of the loop beside the screen's state.
struct Driver {
    home: Arc<Home>,
    state: State,
    sender: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
    follower: Option<JoinHandle<()>>,
    look: Option<JoinHandle<()>>,
    told_at: Option<tokio::time::Instant>,
}

pub(super) async fn run(home: Home, _: &MonitArgs) -> Result<Exit, Failure> {
    if !terminal::is_interactive() {
        return Err(Failure::new(
            Exit::WrongUse,
            "monit needs a terminal; stdin or stdout is not a terminal",
        )
        .hint("`forkful list --watch` works in a pipe, `forkful list --json` in a script"));
    }
    let cannot = |e| Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot use the terminal"));
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<Signal>, _>>()
        .map_err(cannot)?;
    let _held = Held::take(Screen::Own).map_err(cannot)?;
    let mut screen = Terminal::new(CrosstermBackend::new(stdout())).map_err(cannot)?;
    let theme = Theme { has_colours: Paint::stdout().is_enabled() };
    let mut events = terminal::events();
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut driver = Driver::new(home);
    let mut drawn = tokio::time::Instant::now();
    let mut is_stale = true;
    loop {
        let [terminated, interrupted, hung_up] = signals.as_mut_slice() else {
            unreachable!("there are three of them")
        };
        tokio::select! {
            _ = terminated.recv() => return Ok(Exit::Done),
            _ = interrupted.recv() => return Ok(Exit::Done),
            _ = hung_up.recv() => return Ok(Exit::Done),
            event = events.recv() => match event {
                None => return Ok(Exit::Done),
                Some(Event::Key(key)) => match press(&mut driver.state, key) {
                    Some(Effect::Quit) => return Ok(Exit::Done),
                    Some(Effect::Act(action)) => driver.act(action),
                    None => {}
                },
                Some(_) => {}
            },
            _ = looks.tick() => driver.look(),
            Some(news) = driver.news.recv() => driver.take(news),
            () = tokio::time::sleep_until(drawn + DRAW_EVERY), if is_stale => {
                screen.draw(|frame| draw(frame, &driver.state, theme)).map_err(cannot)?;
                drawn = tokio::time::Instant::now();
                is_stale = false;
                continue;
            }
        }
        driver.follow();
        is_stale = true;
    }
}

impl Driver {
    fn new(home: Home) -> Self {
        let (sender, news) = mpsc::channel(NEWS_MAX);
        Self {
            home: Arc::new(home),
            state: State::default(),
            sender,
            news,
            follower: None,
            look: None,
            told_at: None,
        }
    }

    /// Queries the apps, unless a query is in progress.
    fn look(&mut self) {
        if self.told_at.is_some_and(|at| at.elapsed() > TOLD_FOR) {
            self.state.told = None;
            self.told_at = None;
        }
        if self.look.as_ref().is_some_and(|look| !look.is_finished()) {
            return;
        }
        let (home, sender) = (Arc::clone(&self.home), self.sender.clone());
        self.look = Some(tokio::spawn(async move {
            // There is no receiver when the program ends.
            drop(sender.send(News::Apps(apps(&home).await)).await);
        }));
    }

    fn take(&mut self, news: News) {
        match news {
            News::Apps(Ok(list)) => self.state.take_list(list, now_ms()),
            News::Apps(Err(fault)) => self.state.lose(fault),
            News::Line(of, line) => {
                if Some(&of) == self.state.output.of.as_ref() {
                    self.state.take_line(&line);
                }
            }
            News::Acted(told) => self.tell(told),
        }
    }

    fn tell(&mut self, told: Told) {
        self.state.told = Some(told);
        self.told_at = Some(tokio::time::Instant::now());
    }

    /// Follows the output of the selection. If the follower's daemon is gone, a new follower starts when
    /// there is a daemon.
    fn follow(&mut self) {
        let ended = self.follower.as_ref().is_some_and(JoinHandle::is_finished) && self.state.fault.is_none();
        if self.state.output.of == self.state.chosen && !ended {
            return;
        }
        if let Some(follower) = self.follower.take() {
            follower.abort();
        }
        self.state.follow(self.state.chosen.clone());
        let Some(of) = self.state.chosen.clone() else { return };
        let (home, sender) = (Arc::clone(&self.home), self.sender.clone());
        self.follower = Some(tokio::spawn(async move {
            sleep(FOLLOW_AFTER).await;
            follow(&home, of, &sender).await;
            // Do not restart a follower immediately if it ends at once.
            sleep(LOOK_EVERY).await;
        }));
    }

    fn act(&mut self, action: Action) {
        let text = format!("{} {}…", action.words.doing, action.whom);
        self.tell(Told { text, is_fault: false });
        let (home, sender) = (Arc::clone(&self.home), self.sender.clone());
        tokio::spawn(async move {
            let told = act(&home, &action).await;
            drop(sender.send(News::Acted(told)).await);
        });
    }
}

/// The apps, or why they are not available.
async fn apps(home: &Home) -> Result<forkful_api::types::AppList, String> {
    let lost = || "no daemon is running; waiting for one".to_owned();
    match connection::running(home).await {
        Ok(Some(mut client)) => client.list_measured().await.map_err(|_| lost()),
        Ok(None) => Err(lost()),
        Err(failure) => Err(format!("{:#}", failure.error)),
    }
}

/// Passes lines on until the daemon ends the stream or the receiver is gone.
async fn follow(home: &Home, of: Choice, sender: &mpsc::Sender<News>) {
    let Ok(Some(client)) = connection::running(home).await else { return };
    let query = LogsQuery { targets: of.target(), lines: PAST_LINES, follow: true, stream: None };
    let Ok(mut lines) = client.logs(&query).await else { return };
    while let Ok(Some(line)) = lines.next().await {
        if sender.send(News::Line(of.clone(), line)).await.is_err() {
            return;
        }
    }
}

async fn act(home: &Home, action: &Action) -> Told {
    let fault = |text: String| Told { text, is_fault: true };
    let targets = vec![action.target.target()];
    let request = ActionRequest {
        instances: action.instances.map(ScaleTarget::Exactly),
        ..super::act::request(targets, false)
    };
    let reply = match connection::running(home).await {
        Ok(Some(mut client)) => client.action(action.words.verb, &request).await,
        Ok(None) => return fault("no daemon is running".to_owned()),
        Err(failure) => return fault(format!("{:#}", failure.error)),
    };
    match reply {
        Err(error) => fault(error.to_string()),
        Ok(reply) => match reply.apps.iter().find(|app| !app.ok) {
            Some(app) => {
                let why = app.error.as_deref().unwrap_or("it did not succeed");
                fault(format!("{}: {why}", app.name))
            }
            None => Told { text: format!("{} {}", action.whom, action.words.done), is_fault: false },
        },
    }
}
