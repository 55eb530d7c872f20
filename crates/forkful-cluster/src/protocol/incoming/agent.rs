//! Messages of the preloaded agent: what each says, and how it is read. They change together with `agent/`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

pub use forkful_core::metrics::AgentReport;
use forkful_core::metrics::{GC_KINDS, GcPauses, Histogram, Inventory, Latency, Readings};
use forkful_core::outgoing::Peers;
use forkful_core::stalls::{STALLS_TOLD_MAX, Stall};
use forkful_core::steering::evenness::Connections;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Incoming, Raw};

/// A message of the preloaded agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentMessage {
    /// It is loaded, with the version of Node.js if reported.
    Hello(Option<NodeVersion>),
    /// No request is in progress and the grace period for idle connections is over.
    Drained {
        /// The app listens for what its process is told to stop by.
        stops: bool,
    },
    /// The requested stalls of the event loop; at most [`STALLS_TOLD_MAX`], each within its limits.
    Stalls(Vec<Stall>),
    Report(Box<AgentReport>),
    /// The servers that the app has connected to, as far as there is more to say of them than their address.
    Peers(Peers),
    /// prom-client has asked for a primary's workers, and a worker has none.
    LacksWorkers,
    /// The app's prom-client metrics, see [`Primary::ask_for_metrics`](crate::Primary::ask_for_metrics), and what its process holds.
    Metrics {
        answer: MetricsAnswer,
        inventory: Option<Box<Inventory>>,
    },
    /// It wants the merged metrics of all workers, see [`Primary::tell_merged`](crate::Primary::tell_merged). The number is its own.
    WantsMerged(u64),
    /// Somebody got the metrics of this worker alone, because the merged ones did not come in time.
    Unmerged,
    /// The number of connections that stay.
    Count(Connections),
    /// It has received everything sent before the line that it echoes.
    Echo,
}

/// An agent's answer to the request for the app's own metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAnswer {
    /// No prom-client is loaded.
    None,
    /// The metrics could not be read.
    Failed,
    /// The metrics as JSON, not parsed yet.
    Report {
        text: Box<str>,
        /// Number of samples that the agent has left out.
        left_out: u32,
    },
}

/// A version of Node.js, without any suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Patch version.
    pub patch: u16,
}

impl NodeVersion {
    /// Parses `22.11.0`; a suffix, as in a nightly build, is dropped.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for NodeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The values of a report by name. Names that are not in the table of metrics are skipped.
pub(super) struct Values(Readings);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
        let mut readings = Readings::default();
        while let Some((name, value)) = map.next_entry::<Cow<'de, str>, f64>()? {
            readings.take(&name, value);
        }
        Ok(Values(readings))
    }
}

/// Numbers for latencies in a report: a count for each bucket, and the sum.
pub(super) const LATENCY_NUMBERS: usize = size_of::<Latency>() / 8;
/// The same for garbage collection pauses, for each kind.
pub(super) const GC_NUMBERS: usize = GC_KINDS.len() * (size_of::<GcPauses>() / 8);
/// The maximum accepted time between two reports: a day.
const PERIOD_MS_MAX: f64 = 86_400_000.0;

/// At most `N` numbers of a list; further numbers are skipped, and missing ones are 0.
pub(super) struct Numbers<const N: usize>([f64; N]);

impl<'de, const N: usize> Deserialize<'de> for Numbers<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NumbersVisitor)
    }
}

struct NumbersVisitor<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for NumbersVisitor<N> {
    type Value = Numbers<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers<N>, A::Error> {
        let mut numbers = [0.0; N];
        for place in &mut numbers {
            match list.next_element()? {
                Some(number) => *place = number,
                None => return Ok(Numbers(numbers)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Numbers(numbers))
    }
}

impl Raw<'_> {
    pub(super) fn of_agent(self, act: Option<&str>) -> Incoming {
        match act {
            Some("hello") => {
                Incoming::Agent(AgentMessage::Hello(self.node.as_deref().and_then(NodeVersion::parse)))
            }
            Some("drained") => {
                Incoming::Agent(AgentMessage::Drained { stops: self.stops.unwrap_or_default() })
            }
            Some("report") => match self.report() {
                Some(report) => Incoming::Agent(AgentMessage::Report(Box::new(report))),
                None => Incoming::Ignored,
            },
            Some("stalls") => {
                let told = self.stalls.unwrap_or_default().into_iter().take(STALLS_TOLD_MAX);
                Incoming::Agent(AgentMessage::Stalls(told.filter_map(Stall::bounded).collect()))
            }
            Some("peers") => Incoming::Agent(AgentMessage::Peers(self.peers.unwrap_or_default())),
            Some("echo") => Incoming::Agent(AgentMessage::Echo),
            Some("metrics") => {
                let answer = match (self.metrics, self.none) {
                    (Some(metrics), _) => MetricsAnswer::Report {
                        text: metrics.get().into(),
                        left_out: self.left_out.unwrap_or_default(),
                    },
                    (None, Some(true)) => MetricsAnswer::None,
                    (None, Some(false) | None) => MetricsAnswer::Failed,
                };
                Incoming::Agent(AgentMessage::Metrics { answer, inventory: self.inventory })
            }
            Some("merge") => match self.question {
                Some(question) => Incoming::Agent(AgentMessage::WantsMerged(question)),
                None => Incoming::Ignored,
            },
            Some("unmerged") => Incoming::Agent(AgentMessage::Unmerged),
            Some("lacks-workers") => Incoming::Agent(AgentMessage::LacksWorkers),
            Some("count") => match (self.staying, self.movable) {
                (Some(staying), Some(movable)) if movable <= staying => {
                    Incoming::Agent(AgentMessage::Count(Connections { staying, movable }))
                }
                _ => Incoming::Ignored,
            },
            Some(_) | None => Incoming::Ignored,
        }
    }

    fn report(&self) -> Option<AgentReport> {
        let gc = self.gc.as_ref().map_or([0.0; GC_NUMBERS], |numbers| numbers.0);
        let (kinds, _none) = gc.as_chunks::<{ GC_NUMBERS / GC_KINDS.len() }>();
        let period = self.ms.filter(|ms| (0.0..=PERIOD_MS_MAX).contains(ms));
        Some(AgentReport {
            requests: self.requests?,
            period: period.map(|ms| Duration::from_secs_f64(ms / 1000.0)),
            quiet: self.quiet == Some(true),
            sampled: self.sampled == Some(true),
            readings: self.values.as_ref().map_or_else(Readings::default, |values| values.0),
            latency: self
                .latency
                .as_ref()
                .map_or_else(Latency::default, |numbers| Histogram::read(&numbers.0)),
            gc: std::array::from_fn(|kind| Histogram::read(&kinds[kind])),
        })
    }
}
