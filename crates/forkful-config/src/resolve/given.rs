//! What options say that needs no resolving: these values are fields of a definition, and are laid over the core's defaults.

use forkful_api::definition::DefinitionError;
use forkful_api::types::AppDefinition;
use forkful_core::spec::{AppName, AppSpec};
use serde_json::Value;

use crate::error::ConfigError;
use crate::keys::supported_keys;
use crate::options::AppOptions;

/// The core's defaults with these values; what is executed comes later.
pub(super) fn spec(
    options: &AppOptions,
    name: &AppName,
    watch: Option<Value>,
) -> Result<AppSpec, ConfigError> {
    let mut fields = options.plain_fields();
    fields.extend(watch.map(|watch| ("watch".to_owned(), watch)));
    let definition = AppDefinition::from(&AppSpec::new(name.clone()))
        .with(fields)
        .expect("values have the types of the fields that the table names: a test sets every key");
    AppSpec::try_from(definition).map_err(|fault| refused(options, &fault))
}

/// A value that its kind allows, and the daemon does not.
fn refused(options: &AppOptions, fault: &DefinitionError) -> ConfigError {
    match fault {
        DefinitionError::Range { field, value, min, max, .. } => {
            let is_of = |field: &str| field.split('.').next().unwrap_or(field).to_owned();
            let key = supported_keys().find(|key| key.is_plain && key.fields[0] == is_of(field));
            let place = key.map_or_else(|| options.app_place(), |key| options.place(key.name));
            ConfigError::value(place, &value.to_string(), &format!("{min} to {max}"))
        }
        other => ConfigError::value(options.app_place(), &other.to_string(), "what the daemon can do"),
    }
}
