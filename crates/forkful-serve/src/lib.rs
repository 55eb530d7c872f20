//! Static files over HTTP, for `forkful serve`. tower-http creates the responses (types, ranges, validators,
//! precompressed files); this crate handles safe access to the directory, authentication, and the response if
//! there is no file.
//!
//! - [`Settings`]: read from PM2's variables · `root`: files of one directory and nothing else · `login`:
//!   basic authentication · `attempts`: failed logins · `listing`: the page of a directory · `ranges`: parts of
//!   files · `site`: from a request to a response · `server`: connections · `permits`: limits their number, and decides which must
//!   close
//!
//! **Invariant:** no path outside of the root is opened; the kernel guarantees it (`openat2`), even if links
//! exist or change meanwhile.

mod attempts;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod login;
mod permits;
mod ranges;
mod root;
mod server;
mod settings;
mod site;

pub use login::Login;
pub use server::{ServeError, run};
pub use settings::{Settings, SettingsError};
