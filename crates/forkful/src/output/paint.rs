//! Colours.

use std::env;
use std::io::{IsTerminal, stderr, stdout};

use owo_colors::{OwoColorize, Style};

/// Colours text for stdout or stderr, or leaves it unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    enabled: bool,
}

impl Paint {
    pub(crate) fn stdout() -> Self {
        Self { enabled: wanted() && stdout().is_terminal() }
    }

    pub(crate) fn stderr() -> Self {
        Self { enabled: wanted() && stderr().is_terminal() }
    }

    pub(crate) fn is_enabled(self) -> bool {
        self.enabled
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint(text, Style::new().red().bold())
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint(text, Style::new().yellow().bold())
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint(text, Style::new().cyan())
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }

    pub(crate) fn highlight(self, text: &str) -> String {
        self.paint(text, Style::new().black().on_yellow())
    }

    /// Leaves everything unchanged.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { enabled: false }
    }

    /// Colours everything.
    #[cfg(test)]
    pub(crate) fn coloured() -> Self {
        Self { enabled: true }
    }

    /// One of six colours, always the same for a number.
    pub(crate) fn nth(self, number: u32, text: &str) -> String {
        let style = Style::new();
        let style = match number % 6 {
            0 => style.cyan(),
            1 => style.green(),
            2 => style.yellow(),
            3 => style.blue(),
            4 => style.magenta(),
            _ => style.bright_cyan(),
        };
        self.paint(text, style)
    }

    fn paint(self, text: &str, style: Style) -> String {
        if self.enabled { text.style(style).to_string() } else { text.to_owned() }
    }
}

/// <https://no-color.org>: set and not empty means no colours. A dumb terminal has none.
fn wanted() -> bool {
    !super::look::look().no_color
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|value| value != "dumb")
}
