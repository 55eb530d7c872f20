//! What is measured in each worker: the one table, and what is worked out from it. From the table the reports of agents are
//! read, and `describe`, `jlist`, `list --json`, the history, the metrics page and docs/METRICS.md have their values and words.
//! `agent/reports.cjs` measures under the same names.
//!
//! - `table`: the rows · `readings`: a value for each row · `histogram`: latencies and pauses in buckets
//! - `report`: what an agent says, and what follows from two reports · `totals`: counters over restarts
//! - `head`: counters as bytes, for another daemon
//! - `history`: rings of the last week · `exposition`: the page for Prometheus

pub mod exposition;
mod head;
mod histogram;
pub mod history;
mod readings;
mod report;
mod table;
mod totals;

pub use head::{HEAD_BYTES, Head};
pub use histogram::{GC_BOUNDS_MS, GcPauses, Histogram, LATENCY_BOUNDS_MS, Latency};
pub use readings::{Readings, Sample};
pub use report::{AgentReport, Follower, GC_KINDS, QUIET_EVERY, REPORT_EVERY};
pub use table::{Exported, Kind, METRICS, Metric, Pm2Metric, Source, Unit};
pub use totals::{Counts, Totals};
