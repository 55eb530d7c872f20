//! Static files over HTTP, for `forkful serve`: what a request gets is tower-http's work (types, ranges, validators,
//! precompressed files); here are the ways into the directory, who may come in, and what is said when there is no file.
//!
//! - [`Settings`]: what is served to whom, from PM2's variables · `root`: files of one directory and nothing else ·
//!   `login`: basic authentication · `attempts`: failed logins · `listing`: the page of a directory · `site`: from a request to a response ·
//!   `server`: connections · `permits`: how many of them, and which of them make room
//!
//! **Invariant:** no path is opened but beneath the root, by the kernel's own check (`openat2`), whatever links there
//! are and however they change.

mod attempts;
/// Targets of `dev/fuzz`, not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod login;
mod permits;
mod root;
mod server;
mod settings;
mod site;

pub use login::Login;
pub use server::{ServeError, run};
pub use settings::{PORT_DEFAULT, Settings, SettingsError};
