//! An allocator that counts, and the budget that it holds a target to.
#![expect(
    unsafe_code,
    reason = "an allocator's functions are declared so; this one is never part of a program"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most bytes that one input of at most 64 KiB may take at its peak.
const PEAK_BYTES_MAX: usize = 48 << 20;
/// The most bytes that may stay behind after an input, beyond those after the first inputs: buffers that are kept.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Inputs in which a target sets up what it keeps.
const FIRST_INPUTS: usize = 1000;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static INPUTS: AtomicUsize = AtomicUsize::new(0);
static KEPT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn took(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        took(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}

/// Runs a target on one input and panics when it took or kept too much.
pub(crate) fn within_budget(run: impl FnOnce()) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    run();
    let peak = PEAK.load(Relaxed).saturating_sub(before);
    assert!(peak <= PEAK_BYTES_MAX, "one input took {peak} bytes");
    let live = LIVE.load(Relaxed);
    if INPUTS.fetch_add(1, Relaxed) < FIRST_INPUTS {
        KEPT.fetch_max(live, Relaxed);
    } else {
        let kept = live.saturating_sub(KEPT.load(Relaxed));
        assert!(kept <= KEPT_BYTES_MAX, "{kept} bytes stayed behind");
    }
}
