//! Differences in a terminal: colours, width and progress; pipes get none of them.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::sandbox::{Guarded, Sandbox, stdout};

/// Timeout for everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A pseudo-terminal: our end, and the command's.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(ours), theirs)
}

/// Everything written to a terminal. Its end is an error (EIO) when nobody holds the other end.
pub(crate) fn shown(mut ours: File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = ours.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// A command in a terminal, with its keyboard and all its output.
pub(crate) struct Session {
    command: Guarded,
    ours: File,
    shown: Receiver<Vec<u8>>,
    text: String,
    screen: vt100::Parser,
    before: Termios,
}

impl Session {
    /// Starts a command of this sandbox.
    pub(crate) fn start(sandbox: &Sandbox, args: &[&str], columns: u16) -> Self {
        let (ours, theirs) = terminal(columns);
        let before = tcgetattr(&ours).unwrap();
        let mut command = sandbox.command(args);
        command.env("TERM", "xterm").stdin(theirs.try_clone().unwrap()).stdout(theirs);
        let command = Guarded::spawn(&mut command);
        let (sender, shown) = channel();
        let mut reader = ours.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(size(24), size(columns), 0);
        Self { command, ours, shown, text: String::new(), screen, before }
    }

    /// Reads the next output.
    fn take(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        let bytes = self.shown.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
        self.screen.process(&bytes);
        self.text.push_str(&String::from_utf8_lossy(&bytes));
        Ok(())
    }

    /// Waits until the new output satisfies the condition, and returns it.
    pub(crate) fn until(&mut self, done: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        while !done(&self.text) {
            assert!(self.take(deadline).is_ok(), "never came; instead: {}", self.text);
        }
        std::mem::take(&mut self.text)
    }

    /// Waits until the screen shows this text.
    pub(crate) fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.screen.screen().contents().contains(text) {
            let is_there = self.take(deadline).is_ok();
            assert!(is_there, "`{text}` never came; instead:\n{}", self.screen.screen().contents());
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// The process.
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.command.child)
    }

    /// Resizes the terminal and informs the command.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.screen.screen_mut().set_size(size(rows), size(columns));
        tcsetwinsize(&self.ours, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        rustix::process::kill_process(self.pid(), rustix::process::Signal::WINCH).unwrap();
    }

    /// Waits for the exit: the exit code and the last output. The terminal must be restored.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.command.child.wait().unwrap();
        let after = tcgetattr(&self.ours).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes, "keys are read line by line again");
        assert_eq!(after.output_modes, self.before.output_modes);
        let deadline = Instant::now() + PATIENCE;
        while self.take(deadline).is_ok() {}
        (status.code(), self.text)
    }
}

#[test]
fn a_list_that_is_watched_is_drawn_in_place_and_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    assert!(sandbox.run(&["start", "app.js"]).status.success());
    for keys in ["q", "\x03"] {
        let mut list = Session::start(&sandbox, &["list", "--watch"], 80);
        let shown = list.until(|text| text.matches("q ends").count() >= 2);
        // The table's lines are overwritten: six lines and the help.
        assert!(shown.contains("\x1b[6A"), "{shown:?}");
        assert!(!shown.contains("\x1b[?1049h") && shown.contains("online"), "{shown:?}");
        list.press(keys);
        let (code, last) = list.end();
        assert_eq!(code, Some(0));
        assert!(last.ends_with("\x1b[?25h"), "the cursor is shown again: {last:?}");
    }
    let mut list = Session::start(&sandbox, &["list", "--watch"], 80);
    list.until(|text| text.contains("q ends"));
    rustix::process::kill_process(list.pid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(list.end().0, Some(0));
}

/// Prints a line at each SIGUSR2.
const TALKER: &str = "
let count = 0;
process.on('SIGUSR2', () => console.log(`got ${++count}`));
console.log('talking');
setInterval(() => {}, 1000);
";

#[test]
fn monit_shows_apps_and_output_and_does_what_it_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("talker.js", TALKER);
    let pid = || stdout(&sandbox.run(&["pid", "talker"])).trim().to_owned();
    assert!(sandbox.run(&["start", "talker.js"]).status.success());
    let before = pid();
    let mut monit = Session::start(&sandbox, &["monit"], 80);
    monit.sees("talking");
    assert!(sandbox.run(&["signal", "USR2", "talker"]).status.success());
    monit.sees("got 1");
    // The event-loop delay, which is measured while the screen is open.
    monit.sees(" ms ");
    monit.press("?");
    monit.sees("this help");
    monit.press("?");
    monit.press("r");
    monit.sees("any other key: no");
    monit.press("n");
    monit.sees("tab output");
    assert_eq!(pid(), before);
    monit.press("r");
    monit.sees("Restart talker?");
    monit.press("y");
    monit.sees("restarted");
    assert_ne!(pid(), before);
    for (key, question, done) in
        [("s", "Stop talker?", "talker stopped"), ("t", "Start talker?", "talker started")]
    {
        monit.press(key);
        monit.sees(question);
        monit.press("y");
        monit.sees(done);
    }
    monit.resize(40, 12);
    monit.sees("following");
    // The daemon stops, and another one starts.
    assert!(sandbox.run(&["kill"]).status.success());
    monit.sees("no daemon is running");
    assert!(sandbox.run(&["start", "talker.js", "--name", "second"]).status.success());
    monit.sees("second");
    monit.press("q");
    let (code, last) = monit.end();
    assert_eq!(code, Some(0));
    assert!(last.contains("\x1b[?1049l") && last.ends_with("\x1b[?25h"), "{last:?}");
    // The apps keep running.
    assert!(stdout(&sandbox.run(&["pid", "second"])).trim().parse::<u32>().is_ok());
}

#[test]
fn monit_ends_cleanly_however_it_is_ended() {
    use rustix::process::Signal;
    let sandbox = Sandbox::new();
    for signal in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP)] {
        let mut monit = Session::start(&sandbox, &["monit"], 80);
        monit.sees("no daemon is running");
        match signal {
            None => monit.press("\x03"),
            Some(signal) => rustix::process::kill_process(monit.pid(), signal).unwrap(),
        }
        let (code, last) = monit.end();
        assert_eq!(code, Some(0), "{signal:?}");
        assert!(last.contains("\x1b[?1049l") && last.ends_with("\x1b[?25h"), "{signal:?}: {last:?}");
    }
    let told = sandbox.transcript(&["monit"]);
    assert!(told.starts_with("exit: 2\n--- stderr\nerror: monit needs a terminal"), "{told}");
}

#[test]
fn a_list_that_is_watched_by_a_pipe_comes_again_and_again() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["list", "--watch", "--mini-list"]);
    let mut list = Guarded::spawn(command.stdout(Stdio::piped()));
    let lines = [(); 4].map(|()| list.next_line());
    assert_eq!(lines[0], lines[2]);
    assert_eq!((lines[1].as_str(), lines[3].as_str()), ("\n", "\n"));
    assert!(lines[0].starts_with("id  name"), "{lines:?}");
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
