//! What runs an app beyond the edge of one machine: manifests of Kubernetes, Compose, systemd, Nomad and Podman for an
//! app's specification and for what was measured of it.
//!
//! - [`measured`]: the file that `tune --save` writes · [`plan`]: every number of a manifest, and where it comes from ·
//!   [`tradeoff`]: workers for each pod against pods · [`kubernetes`] and its neighbours: a plan as text
//!
//! **Invariant:** nothing here looks at the machine, its files or its clock: the same input gives the same text.

mod error;
mod figure;
pub mod kubernetes;
pub mod measured;
mod names;
pub mod plan;
pub mod tradeoff;

pub use error::ExportError;
pub use figure::Figure;
