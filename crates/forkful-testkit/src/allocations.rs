//! An allocator that counts, for tests of what must not allocate. A test makes it its own:
//! `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`
#![expect(
    unsafe_code,
    reason = "an allocator's functions are declared so; this one is never part of a program"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts what it is asked for.
#[derive(Debug)]
pub struct CountingAllocator;

/// How often memory was asked for so far, by all threads; to grow and to shrink counts, to give back does not.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Relaxed)
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}
