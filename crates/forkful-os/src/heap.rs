//! The allocator of the static program, whose C library has a slow one: it gets pages from the kernel and returns them for most
//! allocations of some KiB.
//!
//! A program installs it with `#[global_allocator] static ALLOCATOR: Allocator = Allocator;`. A child between `fork` and `exec` may
//! not allocate: another thread may have held the lock.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// See the module's documentation.
#[derive(Debug)]
pub struct Allocator;

struct Heap(Dlmalloc);

// SAFETY: it belongs to no thread; its pointers lead to memory that it has got from the kernel.
unsafe impl Send for Heap {}

static HEAP: Mutex<Heap> = Mutex::new(Heap(Dlmalloc::new()));

fn heap() -> MutexGuard<'static, Heap> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns free memory at the end of the heap to the kernel: up to 2 MiB are kept otherwise. Says whether there was any.
pub fn trim() -> bool {
    // SAFETY: nobody else uses the heap meanwhile, and what is allocated stays.
    unsafe { heap().0.trim(0) }
}

// SAFETY: all functions are the heap's own, with the layouts of the allocation; the lock lets one thread in at a time.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantee.
        unsafe { heap().0.malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantee.
        unsafe { heap().0.calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's guarantee.
        unsafe { heap().0.realloc(old, layout.size(), layout.align(), size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantee.
        unsafe { heap().0.free(old, layout.size(), layout.align()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_moved_and_returned_and_what_is_in_use_outlives_a_trim() {
        let texts = Layout::from_size_align(4096, 64).unwrap();
        let large = Layout::from_size_align(1 << 20, 8).unwrap();
        // SAFETY: each pointer is used within its layout, until it is freed with the layout that it has then.
        unsafe {
            let zeroed = Allocator.alloc_zeroed(texts);
            assert_eq!(zeroed.align_offset(64), 0);
            assert!(std::slice::from_raw_parts(zeroed, 4096).iter().all(|byte| *byte == 0));
            zeroed.write(7);
            let freed: Vec<*mut u8> = (0..8).map(|_| Allocator.alloc(large)).collect();
            for at in freed {
                at.write_bytes(1, large.size());
                Allocator.dealloc(at, large);
            }
            let grown = Allocator.realloc(zeroed, texts, 8192);
            trim();
            assert!(!trim(), "nothing is left to return");
            assert_eq!((grown.read(), grown.add(4095).read()), (7, 0));
            Allocator.dealloc(grown, Layout::from_size_align(8192, 64).unwrap());
        }
    }
}
