//! Exports an app beyond a single machine: manifests for Kubernetes, Compose, systemd, Nomad and Podman from
//! an app's specification and its measurements.
//!
//! - [`measured`]: the file that `tune --save` writes · [`plan`]: every number of a manifest and its source ·
//!   [`tradeoff`]: workers per pod against number of pods · [`kubernetes`], [`compose`], [`systemd`],
//!   [`nomad`], [`quadlet`]: a plan as text · [`units`]: escaping in systemd's files
//!
//! **Invariant:** nothing here reads the machine, its files or its clock: the same input gives the same text.

pub mod compose;
mod error;
mod figure;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod kubernetes;
pub mod measured;
mod names;
pub mod nomad;
pub mod plan;
pub mod quadlet;
pub mod systemd;
pub mod tradeoff;
pub mod units;
mod yaml;

pub use error::ExportError;
pub use figure::Figure;
