//! Systems without `clone`: everything is started by `fork`.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use super::{Failed, Orders, by_fork};

pub(super) fn start(orders: Orders<'_>, _stack: &mut Vec<MaybeUninit<u8>>) -> Result<(u32, OwnedFd), Failed> {
    by_fork::start(&orders)
}

/// There are no marks and no attributes to set.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn set_attributes(_orders: &Orders<'_>) {}
