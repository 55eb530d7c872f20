//! Memory of this process stays as it is.

/// Returns nothing.
pub fn forget_code() -> usize {
    0
}
