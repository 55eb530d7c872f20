//! Placeholder, filled in the same change.
