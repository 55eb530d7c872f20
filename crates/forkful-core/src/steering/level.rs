//! How many turns each worker gets, depending on the length of its queue.
//!
//! With a queue per worker, connections wait for that worker, and for the core that it happens to share; with
//! one queue for all they would not. Turns in inverse proportion to the queue lengths level the queues, so
//! that no worker is idle while another has a full queue, without a lock and without waking all workers.

use super::slow_start::FULL;

/// The turns of the worker with the shortest queue. A larger number would follow the queues more precisely,
/// and change more often.
pub const TURNS_MAX: u32 = 8;

/// This many waiting connections are no reason yet to prefer another worker: they are gone before the next
/// look.
const SLACK: u32 = 4;

/// With more workers than this, all get the same turns: chance evens them out, and a list for the kernel that
/// changes every few milliseconds would be long.
pub const LEVELLED_MAX: usize = 64;

/// The turns of workers with these queue lengths, in the same order; at most [`TURNS_MAX`] each, at least one
/// for the shortest queue, 1 for each if none is preferred. `shares` are the shares of new workers, see
/// [`slow_start`](super::slow_start).
pub fn turns(waiting: &[u32], shares: &[u32]) -> Vec<u32> {
    let level = level(waiting);
    if waiting.len() > LEVELLED_MAX || shares.iter().all(|share| *share == FULL) {
        return level;
    }
    let product: Vec<u32> = level.iter().zip(shares).map(|(turns, share)| turns * share).collect();
    let most = product.iter().max().copied().unwrap_or(0);
    if product.iter().all(|turns| *turns == most) {
        return vec![1; waiting.len()];
    }
    // Every worker that had a turn keeps at least one.
    let scaled = |turns: &u32| (turns * TURNS_MAX + most / 2) / most;
    product.iter().map(|turns| scaled(turns).max((*turns).min(1))).collect()
}

fn level(waiting: &[u32]) -> Vec<u32> {
    let shortest = waiting.iter().min().copied().unwrap_or(0);
    let longest = waiting.iter().max().copied().unwrap_or(0);
    if waiting.len() > LEVELLED_MAX || longest <= shortest.saturating_add(SLACK) {
        return vec![1; waiting.len()];
    }
    let share = |queue: u32| {
        let (best, own) = (u64::from(shortest) + u64::from(SLACK), u64::from(queue) + u64::from(SLACK));
        // At most TURNS_MAX, because `best` is the smallest `own`.
        ((u64::from(TURNS_MAX) * best + own / 2) / own) as u32
    };
    waiting.iter().map(|queue| share(*queue)).collect()
}

/// A list that contains each member as often as it has turns, with its entries spread out.
pub fn spread<T: Copy>(members: &[T], turns: &[u32]) -> Vec<T> {
    if turns.iter().all(|turns| *turns == 1) {
        return members.to_vec();
    }
    let total: u32 = turns.iter().sum();
    let mut credit = vec![0_i64; members.len()];
    // Each step adds its turns to every member's credit, and subtracts the total from the chosen member's.
    (0..total)
        .filter_map(|_| {
            for (credit, turns) in credit.iter_mut().zip(turns) {
                *credit += i64::from(*turns);
            }
            let chosen = (0..credit.len()).rev().max_by_key(|at| credit[*at])?;
            credit[chosen] -= i64::from(total);
            members.get(chosen).copied()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(waiting: &[u32]) -> Vec<u32> {
        super::turns(waiting, &vec![FULL; waiting.len()])
    }

    #[test]
    fn a_new_worker_gets_its_share() {
        let turns = super::turns;
        assert_eq!(turns(&[0, 0], &[FULL, 1]), [8, 1]);
        assert_eq!(turns(&[0, 0, 0], &[FULL, 4, FULL]), [8, 4, 8]);
        assert_eq!(turns(&[0, 0], &[2, 2]), [1, 1], "relative to each other");
        assert_eq!(turns(&[30, 10], &[FULL, FULL]), [3, 8]);
        assert_eq!(turns(&[30, 10], &[FULL, 1]), [8, 3], "a queue counts beside the share");
        assert_eq!(turns(&[57, 4], &[1, FULL]), [1, 8]);
        let many = vec![0; LEVELLED_MAX + 1];
        assert_eq!(turns(&many, &[1; LEVELLED_MAX + 1]), vec![1; many.len()]);
    }

    #[test]
    fn queues_that_are_nearly_level_get_the_same() {
        assert_eq!(turns(&[0, 0, 0]), [1, 1, 1]);
        assert_eq!(turns(&[0, SLACK]), [1, 1]);
        assert_eq!(turns(&[40, 42, 44]), [1, 1, 1]);
        assert_eq!(turns(&[]), [0_u32; 0]);
    }

    #[test]
    fn a_longer_queue_gets_less() {
        assert_eq!(turns(&[57, 4]), [1, 8]);
        assert_eq!(turns(&[30, 10]), [3, 8]);
        assert_eq!(turns(&[u32::MAX, 0]), [0, 8]);
    }

    #[test]
    fn turns_of_one_member_are_apart() {
        assert_eq!(spread(&['a', 'b'], &[3, 1]), ['a', 'a', 'b', 'a']);
        assert_eq!(spread(&['a', 'b', 'c'], &[1, 1, 1]), ['a', 'b', 'c']);
        assert_eq!(spread(&['a', 'b'], &[0, 2]), ['b', 'b']);
    }

    proptest! {
        #[test]
        fn the_shortest_queue_always_gets_most_and_the_order_holds(waiting in prop::collection::vec(0_u32..5000, 1..80)) {
            let turns = turns(&waiting);
            prop_assert_eq!(turns.len(), waiting.len());
            prop_assert!(turns.iter().all(|turns| *turns <= TURNS_MAX));
            for (a, b) in (0..waiting.len()).zip(1..waiting.len()) {
                prop_assert!(waiting[a] < waiting[b] || turns[a] <= turns[b]);
                prop_assert!(waiting[a] > waiting[b] || turns[a] >= turns[b]);
            }
            let members: Vec<usize> = (0..waiting.len()).collect();
            let list = spread(&members, &turns);
            prop_assert!(!list.is_empty());
            for member in members {
                prop_assert_eq!(list.iter().filter(|listed| **listed == member).count(), turns[member] as usize);
            }
        }
    }
}
