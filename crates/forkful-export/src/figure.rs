//! A number in a manifest with its source, which becomes the comment next to it.

use serde::{Serialize, Serializer};
use serde_saphyr::Commented;

/// A value and its source; an empty source gives no comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure<T> {
    pub value: T,
    /// A short phrase: `the configuration`, `measured: …`, `assumed: …`.
    pub source: String,
}

impl<T> Figure<T> {
    pub fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }

    /// Another form of the value with the same source.
    pub fn map<U>(&self, change: impl FnOnce(&T) -> U) -> Figure<U> {
        Figure { value: change(&self.value), source: self.source.clone() }
    }
}

impl From<&str> for Figure<String> {
    fn from(text: &str) -> Self {
        Self::new(text.to_owned(), "")
    }
}

/// In YAML the source is a comment after the value.
impl<T: Serialize> Serialize for Figure<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.source.is_empty() {
            self.value.serialize(serializer)
        } else {
            Commented(&self.value, self.source.clone()).serialize(serializer)
        }
    }
}
