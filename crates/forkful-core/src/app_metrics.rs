//! What apps measure of themselves with prom-client: read from the workers' messages, merged over the workers of an app by
//! prom-client's rules, and written as text for Prometheus. Hostile input: whatever a worker says, all of it stays within bounds.
//!
//! - `report`: what one worker says · `merge`: one report of several
//! - `askers`: the workers that want the merged report (`metrics: "merge"`)
//! - `collection`: the last reports of an app's workers, and the counters of those that have ended · `text`: the page

mod askers;
mod collection;
mod merge;
mod report;
mod text;

pub use askers::Askers;
pub use collection::{ANSWER_PATIENCE, Answer, Collection};
pub use merge::merge;
pub use report::{
    APP_METRICS_BYTES_MAX, Aggregator, AppFamily, AppReport, Part, SERIES_MAX, Sample, SampleKind,
};
pub use text::{AppPage, app_page};
