//! Which queues are rescued: whether connections that wait in a worker's queue go to another worker.

use crate::spec::Balance;

/// The state of the worker that a queue belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Serving,
    /// It is alive, but its event loop is blocked.
    Stuck,
    /// It is alive, but gets no new connections: it drains, or has closed its server.
    Leaving,
    /// No process holds the queue.
    Gone,
}

/// Whether the connections in a queue go to other workers.
///
/// A connection that no worker will accept is always rescued. A connection that waits for a stuck worker is
/// rescued unless its client has to stay with that worker: in sticky mode the client's session lives there,
/// and an answer from another worker would be an error, while a late answer is only late.
pub fn is_rescued(balance: Balance, holder: Holder) -> bool {
    match (holder, balance) {
        (Holder::Serving, _) | (Holder::Stuck, Balance::Sticky) => false,
        (
            Holder::Stuck,
            Balance::Auto | Balance::Direct | Balance::Exact | Balance::Least | Balance::Shared,
        )
        | (Holder::Leaving | Holder::Gone, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_sticky_mode_only_a_dead_or_leaving_workers_queue_is_rescued() {
        let modes = [
            Balance::Auto,
            Balance::Direct,
            Balance::Exact,
            Balance::Least,
            Balance::Shared,
            Balance::Sticky,
        ];
        let table = [
            (Holder::Serving, [false, false, false, false, false, false]),
            (Holder::Stuck, [true, true, true, true, true, false]),
            (Holder::Leaving, [true, true, true, true, true, true]),
            (Holder::Gone, [true, true, true, true, true, true]),
        ];
        for (holder, expected) in table {
            assert_eq!(modes.map(|mode| is_rescued(mode, holder)), expected, "{holder:?} in {modes:?}");
        }
    }
}
