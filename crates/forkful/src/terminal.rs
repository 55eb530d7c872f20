//! The terminal while a command redraws it: keys one by one instead of lines, and whatever happens the
//! terminal is left as it was found.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use tokio::sync::mpsc;

/// How often the thread that reads keys looks whether anybody still wants them.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Keys that wait to be looked at. Somebody who leans on the keyboard makes 30 a second.
const KEYS_MAX: usize = 256;

/// Whether there is anything to put back; for the panic hook, which knows no [`Held`].
static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_ALTERNATE: AtomicBool = AtomicBool::new(false);

/// What is taken of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    /// What was there stays, and what is drawn stays after the end.
    Same,
    /// A screen of its own, that is gone at the end.
    Own,
}

/// A terminal that is held: it goes back to what it was when this is dropped, or when the program panics.
#[derive(Debug)]
pub(crate) struct Held(());

/// Whether both ends are a terminal, so that keys can be read and a screen drawn.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl Held {
    /// Takes the terminal.
    pub(crate) fn take(screen: Screen) -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        IS_HELD.store(true, Ordering::SeqCst);
        let held = Self(());
        match screen {
            Screen::Same => execute!(io::stdout(), cursor::Hide)?,
            Screen::Own => {
                IS_ALTERNATE.store(true, Ordering::SeqCst);
                execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            }
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        give_back();
    }
}

/// Puts everything back, once. There is nobody left to tell when that does not work.
fn give_back() {
    if !IS_HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    if IS_ALTERNATE.swap(false, Ordering::SeqCst) {
        drop(execute!(io::stdout(), LeaveAlternateScreen));
    }
    drop(execute!(io::stdout(), cursor::Show));
    drop(io::stdout().flush());
    drop(disable_raw_mode());
}

/// Keys and changes of size as they come. Whoever has gone is noticed within [`LOOK_EVERY`].
pub(crate) fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(LOOK_EVERY) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    // What is typed faster than it is looked at is left out.
                    Ok(event) => drop(sender.try_send(event)),
                    Err(_) => return,
                },
                // The terminal is gone; the channel's end says so.
                Err(_) => return,
            }
        }
    });
    receiver
}
