//! The threads that start processes, so that no start holds the engine.
//!
//! A start suspends its thread until the program is executed, which a file system that does not answer, or a SIGSTOP that
//! meets the new process, can delay for ever. The engine gives up on such a start after a deadline; its thread stays
//! where it is until the kernel lets it go, and others do the work meanwhile.
//!
//! **Invariant:** a thread that has started a process never ends. A process may ask for a signal when its parent dies
//! (`PR_SET_PDEATHSIG`), and for the kernel that parent is the thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Orders that wait at most: the engine has few at a time, health checks one for each worker.
const ORDERS_MAX: usize = 4096;
/// Stack of a thread, which prepares texts and descriptors.
const STACK_BYTES: usize = 128 * 1024;

type Order = Box<dyn FnOnce() + Send>;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Starter {
    pool: Arc<(Mutex<Pool>, Condvar)>,
}

#[derive(Default)]
struct Pool {
    orders: VecDeque<Order>,
    idle: usize,
    threads: usize,
}

impl Starter {
    /// Threads at most. All but two or three of them hang; with every one of them hanging, starts fail by their deadline.
    pub(crate) const THREADS_MAX: usize = 32;

    /// Has a thread carry out an order; gives it back when none can.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        let mut pool = lock(&self.pool.0);
        if pool.orders.len() >= ORDERS_MAX {
            return Err(order);
        }
        if pool.idle <= pool.orders.len() && pool.threads < Self::THREADS_MAX {
            let shared = Arc::clone(&self.pool);
            let thread = thread::Builder::new().name("starter".to_owned()).stack_size(STACK_BYTES);
            match thread.spawn(move || work(&shared)) {
                Ok(_) => pool.threads += 1,
                Err(_) if pool.threads == 0 => return Err(order),
                // The threads that there are will come to it.
                Err(_) => {}
            }
        }
        pool.orders.push_back(order);
        self.pool.1.notify_one();
        Ok(())
    }
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread's life, which is as long as that of the process.
fn work(shared: &(Mutex<Pool>, Condvar)) {
    let (pool, wake) = shared;
    loop {
        let mut guard = lock(pool);
        guard.idle += 1;
        let order = loop {
            if let Some(order) = guard.orders.pop_front() {
                break order;
            }
            guard = wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        guard.idle -= 1;
        drop(guard);
        order();
    }
}
