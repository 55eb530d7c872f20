//! Runs all tests of this crate again as an unprivileged user.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// `nobody`, on every Linux.
const NOBODY: u32 = 65534;

#[test]
fn everything_works_as_nobody() {
    if crate::identity::euid() != 0 {
        // In that case the other tests have just shown it.
        return;
    }
    // Through /proc/self/exe, because nobody may not be able to reach the path.
    let output = Command::new("/proc/self/exe")
        .arg0("forkful_os as nobody")
        .args(["--skip", "unprivileged", "--test-threads", "2"])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("the_same_source_always_reaches_the_same_position_of_the_list ... ok"), "{text}");
}
