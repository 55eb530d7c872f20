//! Statistics for experiments: pure functions over blocks. Nothing here measures, waits or prints.
//!
//! The rules come from how these measurements behave: blocks are the unit of replication, arms are compared within
//! blocks, intervals are Student's on log ratios (a naive bootstrap over 6 blocks holds the truth in 85 of 100 cases
//! when it says 95), and a difference is only called one when it is larger than what matters.

pub(crate) mod paired;
pub(crate) mod power;
pub(crate) mod steadiness;
pub(crate) mod student;
pub(crate) mod usl;
pub(crate) mod verdict;
pub(crate) mod welch;
