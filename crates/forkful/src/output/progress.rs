//! What the user sees while waiting: a spinner on stderr, and only in a terminal.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A spinner that is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows `message` from now on.
    pub(crate) fn start(message: String) -> Self {
        if super::look::look().silent || !stderr().is_terminal() {
            return Self { bar: None };
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .expect("the template is a constant that parses");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(message);
        bar.tick();
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar: Some(bar) }
    }
}

impl Progress {
    /// Shows another message from now on.
    pub(crate) fn say(&self, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
