//! YAML output with the sources of figures as comments.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::ExportError;

/// One document; `app` is used in the error.
pub(crate) fn document(app: &str, value: &impl Serialize) -> Result<String, ExportError> {
    // Long texts stay on one line: folded texts are harder to compare and to search.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false, compact_list_indent: false };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| ExportError::Unwritable { app: app.to_owned(), reason: error.to_string() })
}

/// Pairs as a map, in their order.
pub(crate) fn as_map<K: Serialize, V: Serialize, S: Serializer>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    pairs.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
    map.end()
}
