//! The bounded queue from the reader to the writer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::stream::Batch;
use super::writer::Job;

/// Memory of lines under way to the disk, with the beginnings of lines that the reader holds: what comes in 240 ms at
/// 200 MB/s. The kernel makes a program that writes
/// faster than the disk pause for up to 200 ms. One batch that is larger (a very long line) passes when nothing else is queued.
pub(super) const QUEUE_BYTES_MAX: usize = 48 << 20;
/// How long a full queue holds up the pipes for one batch before lines are dropped. A disk that works makes room sooner,
/// on a machine without a free core too; one that hangs must not hang the apps, whose pipes take what comes meanwhile.
pub(super) const DISK_WAIT_MAX: Duration = Duration::from_millis(25);
/// Jobs that an idle queue keeps room for.
const JOBS_KEPT: usize = 32;
/// Used buffers that are kept for the next reads while lines flow.
const SPARE_BUFFERS_MAX: usize = 8;
/// Smaller ones are not worth it.
const SPARE_BYTES_MIN: usize = 16 << 10;
/// For so long after the last lines they are kept: each would otherwise come from the kernel for every read, page by page.
const SPARE_BUFFERS_FOR: Duration = Duration::from_millis(200);

/// The queue; both threads hold it.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
    disk_wait_max: Duration,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Cost of the batches that are queued or being written.
    bytes: usize,
    /// Held by the reader: lines whose end has not come yet.
    partial_bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Lines dropped since the queue last was full for too long; `Some` until the writer has gone on.
    shedding: Option<u64>,
    closed: bool,
}

impl State {
    fn has_room(&self, cost: usize) -> bool {
        self.bytes == 0 || self.bytes + self.partial_bytes + cost <= QUEUE_BYTES_MAX
    }

    /// Keeps a used buffer if there is room for it, or in place of a smaller one.
    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare.push(buffer);
        } else if let Some(least) = self.spare.iter_mut().min_by_key(|spare| spare.capacity())
            && least.capacity() < buffer.capacity()
        {
            *least = buffer;
        }
    }
}

/// What the writer was given.
pub(super) enum Taken {
    /// There are jobs.
    Jobs,
    /// Nothing came in the given time.
    Nothing,
    /// There are none and there will be none.
    Closed,
}

impl Queue {
    pub(super) fn new(disk_wait_max: Duration) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), room: Condvar::new(), disk_wait_max }
    }

    /// Adds a job that holds no lines, and wakes the writer; their number is bounded by what the engine asks for.
    pub(super) fn push(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.work.notify_one();
    }

    /// Adds lines, which wait for [`Self::wake`]; drops and counts them when the writer has made no room for too long.
    pub(super) fn push_lines(&self, batch: Batch) {
        let cost = batch.cost();
        batch.stream.counters.add_bytes(batch.bytes() as u64);
        let mut state = self.lock();
        if !state.has_room(cost) && state.shedding.is_none() {
            self.work.notify_one();
            let full = |state: &mut State| !state.has_room(cost);
            state = self
                .room
                .wait_timeout_while(state, self.disk_wait_max, full)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if !state.has_room(cost) {
            let lines = batch.line_count();
            batch.stream.counters.add_dropped(lines);
            *state.shedding.get_or_insert(0) += lines;
            drop(state);
            batch.settle();
            return;
        }
        state.bytes += cost;
        state.jobs.push_back(Job::Lines(batch));
    }

    /// Wakes the writer if there is something to do, and takes account of what the reader holds.
    pub(super) fn wake(&self, partial_bytes: usize) {
        let mut state = self.lock();
        state.partial_bytes = partial_bytes;
        let has_jobs = !state.jobs.is_empty();
        drop(state);
        if has_jobs {
            self.work.notify_one();
        }
    }

    /// No more jobs will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    /// Waits for jobs and moves them all to the end of `jobs`; waits for ever without a `timeout`.
    pub(super) fn take(&self, jobs: &mut VecDeque<Job>, timeout: Option<Duration>) -> Taken {
        let mut state = self.lock();
        let idle = |state: &mut State| state.jobs.is_empty() && !state.closed;
        if idle(&mut state) {
            state.jobs.shrink_to(JOBS_KEPT);
            jobs.shrink_to(JOBS_KEPT);
            let has_spare = !state.spare.is_empty();
            let timeout = timeout.into_iter().chain(has_spare.then_some(SPARE_BUFFERS_FOR)).min();
            state = match timeout {
                None => self.work.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    self.work
                        .wait_timeout_while(state, timeout, idle)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        if idle(&mut state) {
            state.spare = Vec::new();
        }
        jobs.append(&mut state.jobs);
        match (jobs.is_empty(), state.closed) {
            (false, _) => Taken::Jobs,
            (true, true) => Taken::Closed,
            (true, false) => Taken::Nothing,
        }
    }

    /// The writer is done with a batch of that cost, and may have no use for its buffer; returns the number of lines that
    /// were dropped in a shedding that ends with this, 0 otherwise.
    pub(super) fn release(&self, cost: usize, buffer: Option<Vec<u8>>) -> u64 {
        let mut state = self.lock();
        state.bytes -= cost;
        if let Some(buffer) = buffer.filter(|buffer| buffer.capacity() >= SPARE_BYTES_MIN) {
            state.keep_spare(buffer);
        }
        let over = if state.bytes + state.partial_bytes <= QUEUE_BYTES_MAX / 8 * 7 {
            state.shedding.take()
        } else {
            None
        };
        drop(state);
        self.room.notify_one();
        over.unwrap_or(0)
    }

    /// An empty buffer for so many bytes, used before when there is one.
    pub(super) fn buffer(&self, bytes: usize) -> Vec<u8> {
        if bytes < SPARE_BYTES_MIN {
            return Vec::with_capacity(bytes);
        }
        let mut state = self.lock();
        match state.spare.iter().position(|spare| spare.capacity() >= bytes) {
            Some(at) => state.spare.swap_remove(at),
            // So that it fits the next read, too.
            None => Vec::with_capacity(bytes.next_power_of_two()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
