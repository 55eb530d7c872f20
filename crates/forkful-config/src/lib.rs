//! Every configuration format, turned into the core's [`AppSpec`](forkful_core::spec::AppSpec).
//!
//! Two steps, so that the command line can add to what a file says in between:
//!
//! 1. [`load`] reads a file into [`AppOptions`], one per app: what the user said, checked for its
//!    type and nothing more. The command line fills the same struct.
//! 2. [`resolve()`] adds what follows from it and from the machine (the script's path, the interpreter,
//!    the number of workers, the environment) and yields a complete spec.
//!
//! Every fault is a [`ConfigError`] that names file, line (where the format has lines), key, value
//! and what was expected; what is odd but harmless is a [`Warning`]. All keys are in one table, [`known_keys`].
//!
//! **Invariant:** nothing here talks to the daemon or starts an app. The only processes are a
//! short-lived `node` that evaluates a JavaScript config, and `node --version`.

mod check;
mod deploy;
mod error;
mod faults;
mod file;
/// Targets of `dev/fuzz`, not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod only;
mod options;
mod read;
mod regular;
mod resolve;
mod schema;
mod statics;
mod tree;
mod values;

pub use check::{Report, check, check_text};
pub use deploy::{DeployHooks, DeployTarget};
pub use error::{ConfigError, Place, Warning, folded};
pub use file::{
    ConfigFile, Format, find_default, is_config, load, load_for_deploy, load_only, of_value, parse,
};
pub use keys::{
    Change, CliOption, Forms, Group, Kind, KnownKey, Many, Part, Support, known_keys, supported_keys,
};
pub use only::chosen_names;
pub use options::{AppOptions, KeyOrigin, Origin};
pub use read::script::{JsEvaluator, NodeEvaluator, ScriptFault, ScriptPlace, ScriptResult};
pub use resolve::environment::{caller_environment, strip_own};
pub use resolve::{Context, Resolved, change, full_names, resolve, resolve_only, tidy};
pub use schema::json_schema;
pub use tree::Spot;
pub use values::{parse_bytes, parse_duration, parse_signal, set_log_rotation};
