//! A real Node.js HTTP/2 server: `server.cjs` in this folder.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Ends with the test: its stdin is closed, and the test waits for its exit.
pub(crate) struct NodeServer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub port: u16,
    tls: bool,
}

impl NodeServer {
    pub(crate) fn start(args: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/server.cjs");
        let mut child = Command::new("node")
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tests need Node.js");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the server prints its port");
        Self { child, stdin, stdout, port, tls: args.contains(&"--key") }
    }

    /// With a certificate for `localhost`; the returned file has its authority.
    pub(crate) fn start_tls(folder: &tempfile::TempDir) -> (Self, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (key, cert) = (folder.path().join("key.pem"), folder.path().join("cert.pem"));
        fs_err::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs_err::write(&cert, made.cert.pem()).unwrap();
        let args = ["--key", key.to_str().unwrap(), "--cert", cert.to_str().unwrap()];
        (Self::start(&args), cert)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    /// The server's counts so far.
    pub(crate) fn seen(&mut self) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "seen").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn requests(&mut self) -> u64 {
        self.seen()["requests"].as_u64().unwrap()
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
