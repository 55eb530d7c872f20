//! `forkful list --watch`: refreshes the table every second. In a terminal it overwrites the previous table,
//! and the last one stays; a pipe gets one table after the other.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use forkful_os::wall_clock::now_ms;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::table::TableShape;
use crate::output::{self, table};
use crate::terminal::{self, Held, Screen};

/// Refresh interval.
const EVERY: Duration = Duration::from_secs(1);

/// Shown below the table in a terminal.
const HELP: &str = "q ends";

pub(super) async fn run(home: &Home, shape: TableShape) -> Result<Exit, Failure> {
    if !terminal::is_interactive() {
        return tables(home, shape).await;
    }
    let cannot = |e| Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot use the terminal"));
    let mut ended = signal(SignalKind::terminate()).map_err(cannot)?;
    let _held = Held::take(Screen::Same).map_err(cannot)?;
    let mut events = terminal::events();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drawn = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = ended.recv() => return Ok(Exit::Done),
            event = events.recv() => match event {
                None => return Ok(Exit::Done),
                Some(event) if ends(&event) => return Ok(Exit::Done),
                // Only the terminal knows how a resize changes the existing lines.
                Some(Event::Resize(..)) => drawn = 0,
                Some(_) => continue,
            },
        }
        drawn = draw(home, shape, drawn).await?;
    }
}

/// Draws the table over the previous one, which had `drawn` lines; returns the number of lines of this one.
async fn draw(home: &Home, shape: TableShape, drawn: usize) -> Result<usize, Failure> {
    let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
    let list = super::table(home).await?;
    // One line for the help, one for the cursor.
    let shape = TableShape { width: Some(width), height: Some(height.saturating_sub(2)), ..shape };
    let text = table::workers(&list, now_ms(), &shape) + &shape.paint.dim(HELP) + "\n";
    let up = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
    // Each line clears the rest of the old line, and the end clears everything below.
    let lines: String = text.lines().map(|line| format!("{line}\x1b[K\r\n")).collect();
    output::print(&format!("{up}\r{lines}\x1b[J"))?;
    Ok(text.lines().count())
}

fn ends(event: &Event) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return false };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'd') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// For pipes: one table after the other, until the reader closes the pipe or the command is stopped.
async fn tables(home: &Home, shape: TableShape) -> Result<Exit, Failure> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut separator = "";
    loop {
        ticks.tick().await;
        let list = super::table(home).await?;
        output::print(&format!("{separator}{}", table::workers(&list, now_ms(), &shape)))?;
        separator = "\n";
    }
}
