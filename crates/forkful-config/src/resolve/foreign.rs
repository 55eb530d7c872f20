//! JavaScript programs that another runtime than Node.js runs: what their workers cannot do is said at the start.

use std::path::Path;

use forkful_core::primary_habits::{SCRIPT_BYTES_MAX, calls_cluster_fork};
use forkful_os::behalf::read_whole;

use super::script::Found;
use crate::error::Warning;
use crate::options::AppOptions;

/// Several workers of a JavaScript program are expected to share their port, which only Node's cluster can do.
pub(super) fn interpreter(options: &AppOptions) -> Option<Warning> {
    let interpreter = options.text("interpreter").filter(|name| *name != "none")?;
    let extension = Path::new(options.text("script")?.trim()).extension()?.to_str()?;
    ["js", "cjs", "mjs", "ts", "mts", "cts"].contains(&extension).then(|| Warning {
        place: options.place("interpreter"),
        message: format!(
            "{interpreter:?} is not taken for Node.js, whose program is called `node`: it runs in fork mode, \
             where workers do not share a port"
        ),
    })
}

/// The cluster modules of Bun and Deno start workers of their own, which the daemon is not the primary of.
pub(super) fn cluster_module(options: &AppOptions, found: &Found) -> Option<Warning> {
    let (runtime, instead) = match found.program.file_name()?.to_str()? {
        "bun" => ("Bun", "call `Bun.serve` with `reusePort: true` in the script, and say how many with `-i`"),
        "deno" => ("Deno", "run the script with Node.js (`interpreter: \"node\"`)"),
        _ => return None,
    };
    // A script that cannot be read fails at its start, where that is said.
    let text = read_whole(Path::new(found.script.as_deref()?), SCRIPT_BYTES_MAX).ok()?;
    calls_cluster_fork(&text).then(|| Warning {
        place: options.place("script"),
        message: format!(
            "calls `cluster.fork`, and {runtime} runs it: Forkful starts and watches the primary alone. A reload stops \
             the primary and its workers, then starts them, and each of several instances has workers of its own. \
             Instead, {instead}"
        ),
    })
}
