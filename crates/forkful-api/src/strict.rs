//! Parses requests strictly: unknown keys are refused at every depth, because a silently ignored setting is
//! worse than a failing request. [`saved`](crate::saved) reads states on disk and tolerates unknown keys.

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Error, Value};

/// Parses a request from JSON.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Parses a request from a value.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    read(value)
}

fn read<'de, T: DeserializeOwned, D: Deserializer<'de, Error = Error>>(reader: D) -> Result<T, Error> {
    let mut unknown = None;
    let value = serde_ignored::deserialize(reader, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    })?;
    match unknown {
        None => Ok(value),
        Some(key) => Err(Error::custom(format!("unknown field `{key}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::StartRequest;
    use forkful_core::spec::HealthCheck;

    #[test]
    fn an_unknown_key_is_refused_at_every_depth() {
        let fine = r#"{"probe":{"tcp":{"port":1}},"interval_ms":1,"timeout_ms":1,"start_period_ms":1,"failures_max":1}"#;
        assert!(from_slice::<HealthCheck>(fine.as_bytes()).is_ok());
        let more = fine.replacen('{', r#"{"extra":1,"#, 1);
        let error = from_slice::<HealthCheck>(more.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "unknown field `extra`");
        let value: Value = serde_json::from_str(&more).unwrap();
        assert!(from_value::<HealthCheck>(&value).is_err());
        assert!(from_slice::<HealthCheck>(format!("{fine} x").as_bytes()).is_err(), "something follows");
        let start = r#"{"apps":[],"wait":true,"more":1}"#;
        let error = from_slice::<StartRequest>(start.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("unknown field `more`"), "{error}");
    }
}
