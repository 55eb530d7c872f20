//! Statistics for experiments: pure functions over blocks. Nothing here measures, waits or prints.
//!
//! The rules follow from properties of these measurements: blocks are the unit of replication, arms are
//! compared within blocks, intervals are Student's on log ratios (a naive 95 % bootstrap over 6 blocks covers
//! the true value in only 85 % of cases), and a difference is only reported if it is larger than what
//! matters.

pub(crate) mod paired;
pub(crate) mod power;
pub(crate) mod steadiness;
pub(crate) mod student;
pub(crate) mod usl;
pub(crate) mod verdict;
pub(crate) mod welch;
