//! Memory of a process, with shared pages divided among the processes that share them.

use std::io;

use rustix::io::Errno;

use super::stat::read_text;

/// Proportional set size in bytes (`/proc/PID/smaps_rollup`, Linux 4.14): its sum over a process tree counts
/// nothing twice. An error if the kernel does not provide it; then use [`super::resident_bytes`].
pub fn proportional_bytes(pid: u32) -> io::Result<u64> {
    let text = read_text(format!("/proc/{pid}/smaps_rollup"))?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or(Errno::INVAL)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_this_process_holds_what_it_has_touched() {
        let pid = std::process::id();
        let ballast = vec![1_u8; 16 << 20];
        let share = proportional_bytes(pid).unwrap();
        assert!(share > std::hint::black_box(ballast).len() as u64);
        assert!(proportional_bytes(u32::MAX).is_err());
    }
}
