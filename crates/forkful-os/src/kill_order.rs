//! Which process the kernel kills first when the memory of a control group, or of the machine, has run out
//! (`/proc/PID/oom_score_adj`, proc(5)).
//!
//! Nothing depends on it: where it cannot be set, the kernel chooses the largest process.

use std::fs::OpenOptions;
use std::io::{self, Write as _};

use crate::procinfo::read_text;

/// The highest value there is.
const FIRST: &str = "1000";

/// The kernel kills this process, and what it starts, before any other.
pub fn kill_first(pid: u32) {
    let _refused = write(pid, FIRST);
}

pub(crate) fn is_first(pid: u32) -> bool {
    read(pid).is_some_and(|order| order == FIRST)
}

/// A process that was to be killed first gets the place of this process.
pub(crate) fn kill_as_usual(pid: u32) {
    if let Some(own) = read(std::process::id()).filter(|_| is_first(pid)) {
        let _refused = write(pid, &own);
    }
}

fn write(pid: u32, order: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file_of(pid))?.write_all(order.as_bytes())
}

fn read(pid: u32) -> Option<String> {
    read_text(file_of(pid)).ok().map(|text| text.trim().to_owned())
}

fn file_of(pid: u32) -> String {
    format!("/proc/{pid}/oom_score_adj")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::spawn;
    use crate::testing::{Guarded, shell};

    #[test]
    fn a_process_is_the_first_to_be_killed_until_it_is_as_any_other() {
        let child = Guarded(spawn(shell("sleep 30", &[]).0).unwrap());
        let own = read(std::process::id());
        assert_eq!(read(child.0.pid), own, "it inherits ours");
        kill_first(child.0.pid);
        if read(child.0.pid).as_deref() != Some(FIRST) {
            return eprintln!("skipped: the order cannot be set here");
        }
        kill_as_usual(child.0.pid);
        assert_eq!(read(child.0.pid), own);
    }
}
