//! The founding experiments: published reports about Node.js on many cores, repeated on this machine with the
//! same apps and compared with the reported results.
//!
//! [`catalogue`] lists the experiments. Each of the other modules performs one kind, with a thin driver over
//! [`crate::server`] and the load engine, and returns a [`Document`]: text for a terminal, JSON, and the
//! page.

pub mod apps;
mod blocks;
pub mod catalogue;
mod chromium;
mod document;
mod figures;
mod observe;
mod remaining;
mod setting;
mod slow_fast;
pub mod text;
mod thread_pool;
mod throughput;
mod two_tabs;

pub use chromium::find as find_browser;
pub use document::{Claim, Document};
pub use setting::{Extent, Setting};

use crate::LabError;
use catalogue::{Description, Kind};

/// Performs an experiment. Calls `say` with a short description whenever the current step changes.
pub fn run(
    description: &'static Description,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Document, LabError> {
    let document = match &description.kind {
        Kind::SlowFast => slow_fast::run(description, setting, say),
        Kind::ThreadPool => thread_pool::run(description, setting, say),
        Kind::Throughput(shape) => throughput::run(description, shape, setting, say),
        Kind::TwoTabs => two_tabs::run(description, setting, say),
    }?;
    Ok(document.on_this_machine(setting))
}
