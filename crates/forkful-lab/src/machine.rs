//! The machine's description in a report.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::document::Machine;

impl Machine {
    /// Inspects this machine and runs `program --version`.
    pub fn look(program: &Path) -> Self {
        let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
        Self {
            cores: forkful_os::cores::usable_cores().count,
            cpu: value_of(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            node: version_of(program).unwrap_or_default(),
            memory_bytes: value_of(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok())
                .unwrap_or(0)
                * 1024,
            governor: Some(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned())
                .filter(|governor| !governor.is_empty()),
        }
    }
}

/// The first `key : value` line.
fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

/// The output of `--version`.
pub fn version_of(program: &Path) -> Option<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let machine = Machine::look(Path::new("/nowhere"));
        assert!(machine.cores >= 1 && machine.memory_bytes > 1 << 20);
        assert!(machine.kernel.len() > "Linux ".len());
        assert_eq!(machine.node, "");
    }
}
