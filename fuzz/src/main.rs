//! libFuzzer around the target that `FORKFUL_FUZZ_TARGET` names. `dev/fuzz` builds and runs it.
//!
//! Beside panics (libFuzzer's own hook ends the process) and hangs (`-timeout`), memory is held to a budget: what one
//! input may take at its peak, and what may stay behind after all of them.
#![no_main]

mod memory;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A target: bytes in, a panic when something does not hold.
type Target = fn(&[u8]);

/// All targets, by the names of their corpora in `fuzz/corpus`.
const TARGETS: &[(&str, Target)] = &[
    ("api", forkful_daemon::fuzzing::api),
    ("config-json", forkful_config::fuzzing::json),
    ("config-option", forkful_config::fuzzing::option),
    ("config-script", forkful_config::fuzzing::script),
    ("config-toml", forkful_config::fuzzing::toml),
    ("config-yaml", forkful_config::fuzzing::yaml),
    ("env", forkful_config::fuzzing::env),
    ("event-stream", forkful_load::fuzzing::event_stream),
    ("frames", forkful_cluster::fuzzing::frames),
    ("har", forkful_load::fuzzing::har),
    ("http1", forkful_load::fuzzing::http1),
    ("http2", forkful_load::fuzzing::http2),
    ("incident", forkful_daemon::fuzzing::incident),
    ("incoming", forkful_cluster::fuzzing::incoming),
    ("mcp", forkful::fuzzing::mcp),
    ("measured", forkful_export::fuzzing::measured),
    ("netlink", forkful_os::fuzzing::netlink),
    ("profile", forkful_core::fuzzing::profile),
    ("reports", forkful_lab::fuzzing::reports),
    ("serve", forkful_serve::fuzzing::serve),
    ("state", forkful_daemon::fuzzing::state),
    ("supervisor", forkful_core::fuzzing::supervisor),
    ("worker-message", forkful_daemon::fuzzing::worker_message),
];

fn target() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("FORKFUL_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("FORKFUL_FUZZ_TARGET={name} is no target: {:?}", names())).1
    })
}

fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|(name, _)| *name).collect()
}

fuzz_target!(|bytes: &[u8]| memory::within_budget(|| target()(bytes)));
