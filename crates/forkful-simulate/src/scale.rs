//! What one daemon does on machines that are larger than the one at hand: the real dispatcher on virtual time over 8 to 128 cores, with up
//! to a million kept connections. Each thing costs what it was measured to cost (`costs`), and the question is which resource ends first.
//!
//! `dev/simulate --scale` runs all of it and writes the tables into docs/SCALE.md.

mod costs;
mod driver;
mod experiments;
mod meter;
mod page;
mod reload;
mod worker;
mod world;

pub use experiments::{Ends, Kept, Machine, Most, Rate, kept, machine, most, rate};
pub use page::{into_page, tables};
