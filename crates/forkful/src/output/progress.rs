//! Progress while waiting: a line on stderr, only in a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of a bar.
const STEPS: u64 = 1000;

/// A progress line, removed when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A spinner with `message`.
    pub(crate) fn start(message: String) -> Self {
        let progress = Self::bar("{spinner} {msg} {elapsed}", super::look::look().silent);
        progress.say(message);
        progress.moving(Duration::from_millis(100))
    }

    /// A bar with this template. Also hidden if stderr is not a terminal.
    pub(crate) fn bar(template: &str, is_hidden: bool) -> Self {
        let target = if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let style = ProgressStyle::with_template(template).expect("the template is a constant that parses");
        Self { bar: ProgressBar::with_draw_target(Some(STEPS), target).with_style(style) }
    }

    /// The same, redrawn at this interval.
    pub(crate) fn moving(self, every: Duration) -> Self {
        if !self.bar.is_hidden() {
            self.bar.tick();
            self.bar.enable_steady_tick(every);
        }
        self
    }

    /// Changes the message.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Sets the progress, 0 to 1, and the message.
    pub(crate) fn show(&self, done: f64, message: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_position((done * STEPS as f64) as u64);
            self.say(message());
        }
    }

    /// Hides the line while other output is written to stderr.
    pub(crate) fn suspend(&self, other: impl FnOnce()) {
        self.bar.suspend(other);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
