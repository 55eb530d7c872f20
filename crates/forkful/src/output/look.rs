//! How much is said, and how it looks: what the command line wants of all that is shown. Set once, before anything
//! is; until then, as in tests of parts, everything is said.

use std::sync::OnceLock;

use super::table::Sort;

/// See the module's documentation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// Nothing but errors and what was asked for.
    pub(crate) silent: bool,
    /// No colours, whatever the terminal.
    pub(crate) no_color: bool,
    /// Tables without a frame.
    pub(crate) mini_list: bool,
    /// The order of the rows.
    pub(crate) sort: Sort,
}

static LOOK: OnceLock<Look> = OnceLock::new();

/// Says how everything is shown from now on.
pub(crate) fn set(look: Look) {
    LOOK.get_or_init(|| look);
}

/// How everything is shown.
pub(crate) fn look() -> Look {
    LOOK.get().copied().unwrap_or_default()
}
