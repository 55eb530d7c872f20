//! Progress of a running experiment; the caller decides how to show it.

/// The current stage of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// A description: `block 3 of 6: cluster`.
    pub text: String,
    /// The completed share of the experiment, 0 to 1.
    pub done: f64,
}

pub trait Observer {
    /// The stage has changed.
    fn stage(&mut self, stage: &Stage);
    /// A note for the user, without a full stop.
    fn note(&mut self, text: &str);
}
