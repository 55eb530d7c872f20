//! Pressure stall information (the kernel's `Documentation/accounting/psi.rst`): for how much of the time tasks waited for a CPU, for
//! memory or for storage. Only Linux has it, from version 4.20 on, unless it is switched off.

use std::path::Path;

use crate::procinfo::read_text;

/// The share of the last 10 s in which at least one task waited, from 0 to 1; `None`: not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    pub cpu: Option<f64>,
    /// Tasks waited for memory that had to be reclaimed or read again.
    pub memory: Option<f64>,
    /// Tasks waited for storage.
    pub io: Option<f64>,
}

impl Pressure {
    /// Of the whole machine.
    pub fn of_machine() -> Self {
        Self::read(|name| Path::new("/proc/pressure").join(name))
    }

    /// Of a group of version 2.
    pub(crate) fn of_group(path: &Path) -> Self {
        Self::read(|name| path.join(format!("{name}.pressure")))
    }

    /// Whether any of it is measured.
    pub fn is_known(&self) -> bool {
        [self.cpu, self.memory, self.io].iter().any(Option::is_some)
    }

    fn read<P: AsRef<Path>>(file: impl Fn(&str) -> P) -> Self {
        let of = |name: &str| parse(&read_text(file(name)).ok()?);
        Self { cpu: of("cpu"), memory: of("memory"), io: of("io") }
    }
}

/// `avg10` of the line `some`, which is in percent.
fn parse(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_seconds_are_read_and_what_is_not_measured_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
        assert!(!Pressure::of_group(folder.path()).is_known());
        write(
            "cpu.pressure",
            "some avg10=4.50 avg60=4.54 avg300=16.91 total=8676264846\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        );
        write("memory.pressure", "full avg10=1.00 avg60=0.00 avg300=0.00 total=0\n");
        write("io.pressure", "some avg10=100.00 avg60=0.00 avg300=0.00 total=0\n");
        let found = Pressure::of_group(folder.path());
        assert_eq!(found, Pressure { cpu: Some(0.045), memory: None, io: Some(1.0) });
        assert!(found.is_known());
        for broken in
            ["", "some", "some avg10=", "some avg10=x", "some avg10=101", "some avg10=-1", "some avg10=NaN"]
        {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_machine_that_measures_it_says_so() {
        assert_eq!(Pressure::of_machine().cpu.is_some(), Path::new("/proc/pressure/cpu").exists());
    }
}
