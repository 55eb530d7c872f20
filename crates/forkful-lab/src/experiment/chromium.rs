//! A headless Chromium, controlled by its `DevTools` protocol over two pipes. No port is opened, nothing is
//! downloaded, the profile is a temporary directory, and only loopback names resolve.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use forkful_load::StopHandle;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::scratch::Scratch;

/// Names of Chromium and related browsers to look for in `PATH`.
const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// Queued messages of the browser; it sends few unsolicited ones.
const MESSAGES_MAX: usize = 1024;

/// Timeout for a command that does not depend on a page.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a browser may take to exit.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How soon a stop is noticed.
const STOP_PAUSE: Duration = Duration::from_millis(100);

/// Headless, without a network service of its own, and without the user's data.
const FLAGS: [&str; 14] = [
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--remote-debugging-pipe",
];

/// The browser in `FORKFUL_CHROMIUM`, or the first one in `PATH`.
pub fn find() -> Option<PathBuf> {
    let named = std::env::var_os("FORKFUL_CHROMIUM").filter(|name| !name.is_empty()).map(PathBuf::from);
    if let Some(path) = named {
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|path| path.is_file())
}

/// A running browser. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Messages read while waiting for another one.
    aside: Vec<Value>,
    last_id: u64,
    stop: StopHandle,
    _profile: Scratch,
}

/// The result of a tab.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Visit {
    /// From the start of the navigation to the last byte.
    pub(super) waited_ms: f64,
    pub(super) text: String,
}

impl Browser {
    /// `stop` interrupts every wait for the browser.
    pub(super) fn start(program: &Path, stop: StopHandle) -> io::Result<Self> {
        let profile = Scratch::new("forkful-browser-")?;
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            // Chromium's sandbox does not work for root; only our own page is opened.
            flags.push("--no-sandbox".to_owned());
        }
        // The protocol uses descriptors 3 and 4; a shell moves the pipes there.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"])
            .arg(program)
            .args(flags)
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let to = child.stdin.take().expect("it was asked for");
        let from = read_messages(child.stdout.take().expect("it was asked for"));
        Ok(Self { child, to, from, aside: Vec::new(), last_id: 0, stop, _profile: profile })
    }

    /// `Chrome/156.0`
    pub(super) fn version(&mut self) -> io::Result<String> {
        let answer = self.call(None, "Browser.getVersion", json!({}))?;
        Ok(answer["product"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Opens a tab for each address, navigates all at once, and waits until all have loaded.
    pub(super) fn open_at_once(&mut self, addresses: &[String], bound: Duration) -> io::Result<Vec<Visit>> {
        let mut tabs = Vec::new();
        for _ in addresses {
            tabs.push(self.open_tab()?);
        }
        for (tab, address) in tabs.iter().zip(addresses) {
            // The reply to this comes with the page's first byte, seconds later.
            self.send(Some(tab), "Page.navigate", &json!({"url": address}))?;
        }
        let deadline = Instant::now() + bound;
        for tab in &tabs {
            let is_loaded = |message: &Value| {
                message["method"] == "Page.loadEventFired" && message["sessionId"] == tab.as_str()
            };
            self.wait(deadline, is_loaded)?;
        }
        tabs.iter().map(|tab| self.look_at(tab)).collect()
    }

    /// Opens a tab and returns its session. The tab has loaded its empty page.
    fn open_tab(&mut self) -> io::Result<String> {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let attached = self.call(
            None,
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        )?;
        let session =
            attached["sessionId"].as_str().ok_or_else(|| broken("it opened no session"))?.to_owned();
        // Checked before events are enabled, so that the load event of the empty page is not reported.
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while self.evaluate(&session, "document.readyState")?.as_str() != Some("complete") {
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "an empty tab did not load"));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        self.call(Some(&session), "Page.enable", json!({}))?;
        Ok(session)
    }

    fn look_at(&mut self, session: &str) -> io::Result<Visit> {
        let script = "JSON.stringify([performance.getEntriesByType('navigation')[0].responseEnd, document.body.innerText])";
        let text = self.evaluate(session, script)?;
        let text = text.as_str().ok_or_else(|| broken("the page cannot be looked at"))?;
        let (waited_ms, text): (f64, String) = serde_json::from_str(text)?;
        Ok(Visit { waited_ms, text })
    }

    fn evaluate(&mut self, session: &str, script: &str) -> io::Result<Value> {
        let answer = self.call(
            Some(session),
            "Runtime.evaluate",
            json!({"expression": script, "returnByValue": true}),
        )?;
        Ok(answer["result"]["value"].clone())
    }

    fn send(&mut self, session: Option<&str>, method: &str, params: &Value) -> io::Result<u64> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes)?;
        self.to.flush()?;
        Ok(self.last_id)
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> io::Result<Value> {
        let id = self.send(session, method, &params)?;
        let answer = self.wait(Instant::now() + ANSWER_TIMEOUT, |message| message["id"] == id)?;
        match answer.get("error") {
            Some(error) => Err(broken(&format!("{method}: {error}"))),
            None => Ok(answer["result"].clone()),
        }
    }

    /// The first message that matches, from the read ones or the next to arrive.
    fn wait(&mut self, deadline: Instant, is_meant: impl Fn(&Value) -> bool) -> io::Result<Value> {
        if let Some(index) = self.aside.iter().position(&is_meant) {
            return Ok(self.aside.remove(index));
        }
        loop {
            if self.stop.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.from.recv_timeout(left.min(STOP_PAUSE)) {
                Ok(message) if is_meant(&message) => return Ok(message),
                Ok(message) => {
                    if self.aside.len() == MESSAGES_MAX {
                        self.aside.remove(0);
                    }
                    self.aside.push(message);
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the browser did not answer in time",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(broken("it has ended")),
            }
        }
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

/// Reads NUL-terminated messages until the browser exits.
fn read_messages(pipe: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = sync_channel(MESSAGES_MAX);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(0, &mut bytes), Ok(read) if read > 0) {
            bytes.pop_if(|last| *last == 0);
            if let Ok(message) = serde_json::from_slice(&bytes)
                && sender.send(message).is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have exited already, so every step may fail.
        self.send(None, "Browser.close", &json!({})).ok();
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline
            && !self.stop.is_at_once()
            && matches!(self.child.try_wait(), Ok(None))
        {
            std::thread::sleep(LOOK_PAUSE);
        }
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_are_seen_by_two_tabs() {
        let Some(program) = find() else {
            eprintln!("!! no Chromium is installed: the driver of browsers is NOT tested");
            return;
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
        let mut browser = Browser::start(&program, StopHandle::new()).unwrap();
        assert!(browser.version().unwrap().contains('/'));
        let addresses = ["a", "b"].map(|path| format!("http://{address}/{path}"));
        let visits = browser.open_at_once(&addresses, Duration::from_secs(30)).unwrap();
        assert_eq!(visits.iter().map(|visit| visit.text.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
        assert!(visits.iter().all(|visit| visit.waited_ms > 0.0));
    }

    /// Answers one request with its path.
    fn answer(stream: std::net::TcpStream) {
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if reader.read_line(&mut line).is_err() {
            return;
        }
        let mut header = String::new();
        while matches!(reader.read_line(&mut header), Ok(read) if read > 2) {
            header.clear();
        }
        let path = line.split(' ').nth(1).unwrap_or_default();
        let mut stream = stream;
        // The browser may be gone.
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{path}", path.len()).ok();
    }
}
