//! The load engine sends the requests of a [`Plan`] to one server, as fast as possible or at a fixed rate,
//! and returns the raw facts as a [`Report`].
//!
//! ```no_run
//! use std::time::Duration;
//! use forkful_load::{Plan, Stop, StopHandle, run};
//!
//! let mut plan = Plan::get("http://127.0.0.1:8000/fast")?;
//! plan.connections = 64;
//! plan.stop = Stop::Duration(Duration::from_secs(10));
//! let report = run(&plan, &mut |progress| eprintln!("{:.0} requests/s", progress.per_second), &StopHandle::new())?;
//! println!("{:.0} requests/s, p99 {} ns", report.per_second(), report.response.value_at_quantile(0.99));
//! # Ok::<(), forkful_load::LoadError>(())
//! ```
//!
//! **Invariant:** no sample is synthesised: an open loop measures from the intended start of a request, a
//! closed loop reports what it measured, and both say which they are.
//! **Invariant:** memory does not grow with the number of requests.
//! **Invariant:** the engine does not depend on the daemon, on terminals or on result files.

pub mod cause;
mod clock;
mod coarse;
mod compiled;
mod error;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod har;
mod http1;
mod meter;
mod network;
mod plan;
mod progress;
mod recorder;
pub mod report;
mod run;
mod schedule;
pub mod search;
pub mod secrets;
mod shared;
mod silence;
mod system;
mod tasks;
mod template;
mod timeline;
mod tls;
mod workers;

pub use cause::{ErrorCause, ErrorCount, ErrorExample};
pub use error::LoadError;
pub use plan::{
    Arrivals, BasicAuth, BodyCheck, Expect, HttpVersion, Load, Order, Plan, Request, Reuse, Stop, Think,
    Threads, TlsOptions, Url,
};
pub use progress::{Phase, Progress, StopHandle};
pub use report::facts::{
    Bytes, Connections, Counts, EarlyEnd, FirstResponse, Histogram, Host, Kernel, Messages, Report,
    RequestFacts, Sample, ThreadFacts, Window, Worker,
};
pub use run::run;
pub use system::OtherPrograms;
