//! One module per format; each turns a text (or a script) into a [`Node`](crate::tree::Node) tree.

pub(crate) mod json;
pub(crate) mod located;
pub(crate) mod script;
pub(crate) mod toml;
pub(crate) mod yaml;

use crate::tree::Spot;

/// A fault of a text against its format's grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxFault {
    pub(crate) at: Option<Spot>,
    pub(crate) message: String,
}
