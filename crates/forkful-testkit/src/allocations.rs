//! A counting allocator, for tests that something does not allocate. A test installs it with
//! `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`
#![expect(
    unsafe_code,
    reason = "an allocator's functions are declared so; this one is never part of a program"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with a counter.
#[derive(Debug)]
pub struct CountingAllocator;

/// The number of allocations so far, by all threads; growing and shrinking count, freeing does not.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Relaxed)
}

// SAFETY: every call is passed unchanged to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's guarantee.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's guarantee.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantee.
        unsafe { System.dealloc(old, layout) }
    }
}
