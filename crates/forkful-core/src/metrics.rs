//! The table of metrics measured in each worker, and values derived from it. The agents' reports are parsed
//! with the table, and `describe`, `jlist`, `list --json`, the history, the metrics page and docs/METRICS.md
//! take their values and texts from it. `agent/reports.cjs` and `agent/requests.cjs` measure under the same names.
//!
//! - `table`: the rows · `readings`: a value for each row · `histogram`: latencies and pauses in buckets
//! - `report`: an agent's report, and values derived from two reports · `totals`: counters over restarts
//! - `head`: counters as bytes, for another daemon · `inventory`: what a process holds at a scrape
//! - `history`: ring buffers of the last week · `exposition`: the page for Prometheus

pub mod exposition;
mod head;
mod histogram;
pub mod history;
mod inventory;
mod readings;
mod report;
mod table;
mod totals;

pub use head::{HEAD_BYTES, Head};
pub use histogram::{GC_BOUNDS_MS, GcPauses, Histogram, LATENCY_BOUNDS_MS, Latency};
pub use inventory::Inventory;
pub use readings::{Readings, Sample};
pub use report::{AgentReport, Follower, GC_KINDS, QUIET_EVERY, REPORT_EVERY};
pub use table::{Exported, Instrument, Kind, METRICS, Metric, OtelMetric, Pm2Metric, Source, Unit};
pub use totals::{Counts, Totals};
