//! The display options of the command line. Set once, before any output; until then, as in unit tests,
//! everything is printed.

use std::sync::OnceLock;

use super::table::Sort;

/// See the module's documentation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// Print only errors and results.
    pub(crate) silent: bool,
    /// No colours, even in a terminal.
    pub(crate) no_color: bool,
    /// Tables without a frame.
    pub(crate) mini_list: bool,
    /// The order of the rows.
    pub(crate) sort: Sort,
}

static LOOK: OnceLock<Look> = OnceLock::new();

/// Sets the display options.
pub(crate) fn set(look: Look) {
    LOOK.get_or_init(|| look);
}

/// The display options.
pub(crate) fn look() -> Look {
    LOOK.get().copied().unwrap_or_default()
}
