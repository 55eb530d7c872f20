//! Which worker gets a connection that the daemon hands out.

/// A worker that a connection could go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<Id> {
    /// Whose.
    pub id: Id,
    /// Connections that it has, as far as the daemon knows.
    pub open_connections: u32,
    /// The running number of the last connection that it got; 0 when it had none.
    pub last_assigned: u64,
    /// Whether it may get one: it listens, is not leaving, and has acknowledged the one before.
    pub usable: bool,
}

/// The position of the usable worker with the fewest connections; of several, the one whose turn
/// is the longest ago.
pub fn pick<Id>(workers: &[Candidate<Id>]) -> Option<usize> {
    workers
        .iter()
        .enumerate()
        .filter(|(_, worker)| worker.usable)
        .min_by_key(|(_, worker)| (worker.open_connections, worker.last_assigned))
        .map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(open_connections: u32, last_assigned: u64, usable: bool) -> Candidate<&'static str> {
        Candidate { id: "worker", open_connections, last_assigned, usable }
    }

    #[test]
    fn the_fewest_connections_win_and_then_the_longest_wait() {
        assert_eq!(pick(&[candidate(2, 1, true), candidate(1, 9, true)]), Some(1));
        assert_eq!(pick(&[candidate(1, 9, true), candidate(1, 4, true)]), Some(1));
        assert_eq!(pick(&[candidate(0, 0, false), candidate(7, 9, true)]), Some(1));
        assert_eq!(pick(&[candidate(0, 0, false)]), None);
        assert_eq!(pick::<u8>(&[]), None);
    }

    #[test]
    fn long_lived_connections_end_up_even() {
        let mut workers = [candidate(0, 0, true); 4];
        for number in 1..=64 {
            let position = pick(&workers).expect("all are usable");
            workers[position].open_connections += 1;
            workers[position].last_assigned = number;
        }
        assert!(workers.iter().all(|worker| worker.open_connections == 16), "{workers:?}");
    }

    #[test]
    fn connections_that_end_at_once_go_round() {
        let mut workers = [candidate(0, 0, true); 3];
        let mut turns = Vec::new();
        for number in 1..=6 {
            let position = pick(&workers).expect("all are usable");
            workers[position].last_assigned = number;
            turns.push(position);
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    }
}
