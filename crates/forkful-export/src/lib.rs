//! What runs an app beyond the edge of one machine: manifests of Kubernetes, Compose, systemd, Nomad and Podman for an
//! app's specification and for what was measured of it.
//!
//! - [`measured`]: the file that `tune --save` writes · [`plan`]: every number of a manifest, and where it comes from ·
//!   [`tradeoff`]: workers for each pod against pods · [`kubernetes`], [`compose`], [`systemd`], [`nomad`], [`quadlet`]:
//!   a plan as text · [`units`]: texts in files of systemd
//!
//! **Invariant:** nothing here looks at the machine, its files or its clock: the same input gives the same text.

pub mod compose;
mod error;
mod figure;
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
