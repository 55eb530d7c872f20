//! What an experiment tells while it runs. How that is shown is the caller's business.

/// Where an experiment is.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// What is being done: `block 3 of 6: cluster`.
    pub text: String,
    /// Part of the whole that is done, 0 to 1.
    pub done: f64,
}

pub trait Observer {
    /// Something else is being done now.
    fn stage(&mut self, stage: &Stage);
    /// A sentence worth knowing, without a full stop.
    fn note(&mut self, text: &str);
}
