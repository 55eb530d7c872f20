//! What is different in a terminal: colour, width and progress; and that pipes get none of it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::sandbox::Sandbox;

/// A pseudo-terminal: our end, and the one that a command gets.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(ours), theirs)
}

/// Everything that was written to a terminal. Its end is an error (EIO): nobody holds the other end.
pub(crate) fn shown(mut ours: File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = ours.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_terminal_gets_colour_unless_no_color_is_set() {
    let sandbox = Sandbox::new();
    for (no_color, has_colour) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let (ours, theirs) = terminal(80);
        let mut list = sandbox.command(&["list"]);
        if let Some(value) = no_color {
            list.env("NO_COLOR", value);
        }
        assert!(list.stdout(theirs).status().unwrap().success());
        drop(list);
        assert_eq!(shown(ours).contains('\x1b'), has_colour, "{no_color:?}");
    }
}

#[test]
fn a_narrow_terminal_gets_a_narrow_table() {
    let sandbox = Sandbox::new();
    let (ours, theirs) = terminal(40);
    let mut list = sandbox.command(&["list"]);
    assert!(list.env("NO_COLOR", "1").stdout(theirs).status().unwrap().success());
    drop(list);
    let text = shown(ours);
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    assert!(text.contains("status") && !text.contains("uptime"), "{text}");
}

#[test]
fn waiting_is_shown_in_a_terminal_and_nowhere_else() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    let (ours, theirs) = terminal(80);
    let mut start = sandbox.command(&["start", "app.js"]);
    start.env("TERM", "xterm");
    assert!(start.stdout(Stdio::null()).stderr(theirs).status().unwrap().success());
    drop(start);
    let text = shown(ours);
    assert!(text.contains("starting app: 1 worker…"), "{text}");
    let output = sandbox.run(&["restart", "app"]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", sandbox.told(&output));
    assert!(!output.stdout.contains(&b'\x1b'));
}
