//! Choices of the core by their names, for `#[serde(with = …)]`.

use forkful_core::spec::Named;
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

pub(crate) fn serialize<T: Named, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}

pub(crate) fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    T::named(&name).ok_or_else(|| D::Error::unknown_variant(&name, T::NAMES))
}

/// The schema of a choice: its names, each with its meaning.
#[cfg(test)]
pub(crate) struct Schema<T>(std::marker::PhantomData<T>);

#[cfg(test)]
impl<T: Named> schemars::JsonSchema for Schema<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        let path = std::any::type_name::<T>();
        format!("{}Kind", path.rsplit("::").next().unwrap_or(path)).into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = |(_, name, meaning): &(T, &str, &str)| serde_json::json!({ "description": meaning.trim(), "type": "string", "const": name });
        schemars::json_schema!({ "oneOf": T::ALL.iter().map(one).collect::<Vec<_>>() })
    }
}
