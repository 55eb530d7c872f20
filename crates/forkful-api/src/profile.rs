//! The request for a CPU profile or a heap snapshot of a worker. The reply is the file itself, in the format of Chrome's developer tools.

use std::path::PathBuf;
use std::time::Duration;

use forkful_core::profile::{INTERVAL_MAX, INTERVAL_MIN, LENGTH_MAX, LENGTH_MIN, ProfileOrder};
use serde::{Deserialize, Serialize};
/// The largest heap snapshot that the daemon hands on.
pub const SNAPSHOT_BYTES_MAX: u64 = 16 << 30;

/// `POST /v1/profile`: a CPU profile or a heap snapshot of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// The id of a worker, or the name of an app with one worker.
    pub target: String,
    /// What is taken.
    pub kind: ProfileKind,
    /// How long a CPU profile takes: 1 to 60 s.
    #[serde(default = "usual_length_ms")]
    #[cfg_attr(test, schemars(range(min = 1000, max = 60_000)))]
    pub for_ms: u64,
    /// The time between two of its samples: 100 µs to 100 ms.
    #[serde(default = "usual_interval_us")]
    #[cfg_attr(test, schemars(range(min = 100, max = 100_000)))]
    pub interval_us: u64,
    /// A heap snapshot is taken even if there seems to be too little memory for it.
    #[serde(default)]
    pub force: bool,
}

/// What is taken of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    /// Where its main thread spends its time, from samples.
    Cpu,
    /// All objects of its heap. The worker stands still meanwhile.
    Heap,
}

/// What `forkful heap --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeapReply {
    /// The worker's id.
    pub worker: u32,
    /// The snapshot, for the Memory tab of Chrome's developer tools.
    pub file: PathBuf,
    /// How large it is.
    pub bytes: u64,
}

fn usual_length_ms() -> u64 {
    10_000
}

fn usual_interval_us() -> u64 {
    1000
}

impl ProfileRequest {
    /// A CPU profile of usual resolution.
    pub fn cpu(target: String, length: Duration) -> Self {
        let for_ms = length.as_millis() as u64;
        Self { target, kind: ProfileKind::Cpu, for_ms, interval_us: usual_interval_us(), force: false }
    }

    /// A heap snapshot.
    pub fn heap(target: String, force: bool) -> Self {
        let (for_ms, interval_us) = (usual_length_ms(), usual_interval_us());
        Self { target, kind: ProfileKind::Heap, for_ms, interval_us, force }
    }

    /// What is ordered of the worker.
    ///
    /// # Errors
    /// What is wrong with the request, in a sentence.
    pub fn order(&self) -> Result<ProfileOrder, String> {
        let (length, interval) =
            (Duration::from_millis(self.for_ms), Duration::from_micros(self.interval_us));
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            let (least, most) = (LENGTH_MIN.as_millis(), LENGTH_MAX.as_millis());
            return Err(format!("for_ms must be {least} to {most}"));
        }
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            let (least, most) = (INTERVAL_MIN.as_micros(), INTERVAL_MAX.as_micros());
            return Err(format!("interval_us must be {least} to {most}"));
        }
        Ok(match self.kind {
            ProfileKind::Cpu => ProfileOrder::Cpu { length, interval },
            ProfileKind::Heap => ProfileOrder::Heap,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused_in_words() {
        let second = Duration::from_secs(1);
        let request = ProfileRequest::cpu("0".to_owned(), second);
        let order = ProfileOrder::Cpu { length: second, interval: Duration::from_millis(1) };
        assert_eq!(request.order(), Ok(order));
        assert_eq!(ProfileRequest::heap("0".to_owned(), false).order(), Ok(ProfileOrder::Heap));
        let long = ProfileRequest { for_ms: 60_001, ..request.clone() };
        assert_eq!(long.order(), Err("for_ms must be 1000 to 60000".to_owned()));
        let fine = ProfileRequest { interval_us: 99, ..request };
        assert_eq!(fine.order(), Err("interval_us must be 100 to 100000".to_owned()));
    }
}
