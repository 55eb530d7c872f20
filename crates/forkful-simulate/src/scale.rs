//! Simulates one daemon on machines larger than the available one: the real dispatcher on virtual time with 8
//! to 128 cores and up to a million kept connections. Each operation has its measured cost (`costs`); the
//! question is which resource is exhausted first.
//!
//! `dev/simulate --scale` runs everything and writes the tables into docs/SCALE.md.

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
