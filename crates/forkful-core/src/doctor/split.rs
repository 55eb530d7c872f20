//! How a worker's second was spent.

use super::Signs;

/// Shares of a second; their sum is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// The event loop had nothing to do.
    pub idle: f64,
    /// JavaScript on a core.
    pub javascript: f64,
    /// Garbage collection.
    pub gc: f64,
    /// Ready to run, without a core.
    pub waiting_for_cpu: f64,
    /// In a waiting call.
    pub blocked: f64,
}

impl Split {
    /// `None` if the agent did not report how busy the event loop was.
    pub fn of(signs: &Signs) -> Option<Self> {
        let busy = signs.loop_busy?.clamp(0.0, 1.0);
        let waiting_for_cpu = signs.cpu_wait.unwrap_or(0.0).min(busy);
        let blocked = signs.blocked().unwrap_or(0.0).min(busy - waiting_for_cpu);
        let on_core = busy - waiting_for_cpu - blocked;
        let gc = signs.gc.unwrap_or(0.0).min(on_core);
        Some(Self { idle: 1.0 - busy, javascript: on_core - gc, gc, waiting_for_cpu, blocked })
    }

    /// Each part with its name in JSON, in display order.
    pub const fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("idle", self.idle),
            ("javascript", self.javascript),
            ("gc", self.gc),
            ("waiting_for_cpu", self.waiting_for_cpu),
            ("blocked", self.blocked),
        ]
    }
}
