//! One module per format; each turns a text (or a script) into a [`Node`](crate::tree::Node) tree.

pub(crate) mod json;
pub(crate) mod script;
pub(crate) mod toml;
pub(crate) mod yaml;

/// A fault of a text against its format's grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxFault {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}
