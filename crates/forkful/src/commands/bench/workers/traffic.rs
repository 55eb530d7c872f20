//! Received bytes by worker, computed from samples of the kernel's connection list. Pure.

use std::collections::HashMap;

/// Maximum connections to follow; sampling more would disturb the measurement.
pub(super) const CONNECTIONS_MAX: usize = 8_192;

/// A connection in one sample: its identity, the worker that holds it, and the bytes received since it was
/// opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) inode: u64,
    pub(super) worker: usize,
    pub(super) received: u64,
}

/// Connections over all samples.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    looks: u32,
    connections: HashMap<u64, Course>,
    /// The largest number of connections in one sample.
    most: usize,
    /// The last sample with that number.
    most_at: u32,
}

#[derive(Debug)]
struct Course {
    worker: usize,
    first: u64,
    last: u64,
    first_at: u32,
    last_at: u32,
}

impl Traffic {
    /// Adds a sample. Connections in the first sample count from there on, later ones from their start.
    pub(super) fn look(&mut self, seen: &[Seen]) {
        self.looks += 1;
        if seen.len() >= self.most {
            (self.most, self.most_at) = (seen.len(), self.looks);
        }
        for connection in seen {
            let beginning = if self.looks == 1 { connection.received } else { 0 };
            let course = self.connections.entry(connection.inode);
            let course = course.or_insert(Course {
                worker: connection.worker,
                first: beginning,
                last: connection.received,
                first_at: self.looks,
                last_at: self.looks,
            });
            (course.worker, course.last, course.last_at) =
                (connection.worker, connection.received, self.looks);
        }
    }

    /// Connections of each worker in the sample with the most: in the last one they may already be closed.
    pub(super) fn connections(&self, workers: usize) -> Vec<u64> {
        let mut counts = vec![0; workers];
        let then = |course: &&Course| (course.first_at..=course.last_at).contains(&self.most_at);
        for course in self.connections.values().filter(then) {
            counts[course.worker] += 1;
        }
        counts
    }

    /// `requests` divided in proportion to the bytes received on each worker's connections; `None` if hardly
    /// anything was observed, as with connections used for one request.
    pub(super) fn requests(&self, workers: usize, requests: u64, sent_bytes: u64) -> Option<Vec<u64>> {
        let mut bytes = vec![0_u64; workers];
        for course in self.connections.values() {
            bytes[course.worker] += course.last.saturating_sub(course.first);
        }
        let all: u64 = bytes.iter().sum();
        // Less than half of the sent bytes is not a representative sample.
        if all == 0 || all * 2 < sent_bytes {
            return None;
        }
        Some(bytes.iter().map(|part| (*part as f64 / all as f64 * requests as f64).round() as u64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(inode: u64, worker: usize, received: u64) -> Seen {
        Seen { inode, worker, received }
    }

    #[test]
    fn requests_are_shared_out_by_what_came_in_after_the_first_look() {
        let mut traffic = Traffic::default();
        traffic.look(&[seen(1, 0, 10_000), seen(2, 1, 50_000)]);
        traffic.look(&[seen(1, 0, 13_000), seen(2, 1, 50_500), seen(3, 1, 500)]);
        assert_eq!(traffic.connections(2), [1, 2]);
        assert_eq!(traffic.requests(2, 400, 4_000), Some(vec![300, 100]));
    }

    #[test]
    fn connections_that_ended_count_with_what_was_seen_of_them() {
        let mut traffic = Traffic::default();
        traffic.look(&[seen(1, 0, 0)]);
        traffic.look(&[seen(1, 0, 100), seen(2, 1, 100)]);
        traffic.look(&[seen(2, 1, 300)]);
        assert_eq!(traffic.connections(2), [1, 1]);
        assert_eq!(traffic.requests(2, 4, 400), Some(vec![1, 3]));
    }

    #[test]
    fn connections_that_are_closed_at_the_last_look_were_held_all_the_same() {
        let mut traffic = Traffic::default();
        traffic.look(&[seen(1, 0, 0), seen(2, 1, 0)]);
        traffic.look(&[seen(2, 1, 100), seen(3, 1, 100)]);
        traffic.look(&[seen(2, 1, 200)]);
        traffic.look(&[]);
        assert_eq!(traffic.connections(2), [0, 2], "as of the last of the fullest looks");
        assert_eq!(traffic.requests(2, 3, 300), Some(vec![0, 3]));
    }

    #[test]
    fn what_was_hardly_seen_is_not_shared_out() {
        let mut traffic = Traffic::default();
        traffic.look(&[]);
        traffic.look(&[seen(1, 0, 100)]);
        assert_eq!(traffic.requests(1, 10, 1_000), None);
        assert_eq!(Traffic::default().requests(1, 10, 0), None);
    }
}
