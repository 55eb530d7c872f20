//! Controls the terminal while a command redraws it: reads single keys instead of lines, and always restores
//! the terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use tokio::sync::mpsc;

/// How often the key reader checks whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Maximum queued keys. A held-down key produces 30 per second.
const KEYS_MAX: usize = 256;

/// Whether the terminal must be restored; for the panic hook, which has no [`Held`].
static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_ALTERNATE: AtomicBool = AtomicBool::new(false);

/// How the terminal is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    /// The existing contents stay, and the output stays afterwards.
    Same,
    /// The alternate screen, which disappears at the end.
    Own,
}

/// A terminal in use: it is restored when this is dropped or the program panics.
#[derive(Debug)]
pub(crate) struct Held(());

/// Whether stdin and stdout are terminals, so that keys can be read and a screen can be drawn.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl Held {
    /// Takes control of the terminal.
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

/// Restores the terminal, once. Errors are ignored.
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

/// Keys and resizes. If the receiver is gone, it is noticed within [`LOOK_EVERY`].
pub(crate) fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(LOOK_EVERY) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    // Keys typed faster than they are handled are dropped.
                    Ok(event) => drop(sender.try_send(event)),
                    Err(_) => return,
                },
                // The terminal is gone; the end of the channel reports it.
                Err(_) => return,
            }
        }
    });
    receiver
}
