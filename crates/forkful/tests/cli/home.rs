//! Unusable homes and sockets, each with a hint.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread::JoinHandle;

use crate::sandbox::{Guarded, Sandbox, exists};
use crate::terminal::{shown, terminal};
use insta::assert_snapshot;

fn set_mode(sandbox: &Sandbox, mode: u32) {
    fs_err::set_permissions(sandbox.home(), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_home_that_others_may_write_to_is_refused() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.home()).unwrap();
    set_mode(&sandbox, 0o777);
    assert_snapshot!(sandbox.transcript(&["list"]), @"
    exit: 2
    --- stderr
    error: others may write to [sandbox]/home (mode 777)

    hint: `chmod 700 [sandbox]/home`
    ");
    set_mode(&sandbox, 0o700);
    assert_eq!(sandbox.run(&["list"]).status.code(), Some(0));
}

#[test]
fn a_home_that_is_a_file_is_refused() {
    let sandbox = Sandbox::new();
    fs_err::write(sandbox.home(), "").unwrap();
    assert_snapshot!(sandbox.transcript(&["list"]), @"
    exit: 2
    --- stderr
    error: [sandbox]/home is not a directory

    hint: set FORKFUL_HOME to a directory
    ");
    fs_err::remove_file(sandbox.home()).unwrap();
}

#[test]
fn a_home_of_another_user_is_refused() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.home()).unwrap();
    // Only root can give a directory away; for anybody else `/` belongs to another user.
    let given_away = std::os::unix::fs::chown(sandbox.home(), Some(54_321), None).is_ok();
    let home = if given_away { sandbox.home() } else { "/".into() };
    let output = sandbox.command(&["list"]).env("FORKFUL_HOME", home).output().unwrap();
    let text = sandbox.told(&output);
    fs_err::remove_dir(sandbox.home()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("belongs to user id "), "{text}");
    assert!(
        text.contains(
            "hint: run the command as that user (`sudo -u`), or set FORKFUL_HOME to a directory that you own"
        ),
        "{text}"
    );
}

#[test]
fn a_home_that_cannot_be_made_is_explained() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    let output = sandbox.command(&["start", "app.js"]).env("FORKFUL_HOME", "/proc/forkful").output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"
    exit: 2
    --- stderr
    error: cannot use /proc/forkful
    caused by: No such file or directory (os error 2)

    hint: set FORKFUL_HOME to a directory that you may write to
    ");
}

#[test]
fn a_socket_path_that_is_too_long_is_explained() {
    let sandbox = Sandbox::new();
    let long = sandbox.home().join("x".repeat(120));
    let output = sandbox.command(&["list"]).env("FORKFUL_HOME", long).output().unwrap();
    let text = sandbox.told(&output).replace(&"x".repeat(120), "[long]");
    insta::with_settings!({ filters => [(r"has \d+ bytes", "has [many] bytes")] }, {
        assert_snapshot!(text, @"
        exit: 2
        --- stderr
        error: the socket's path [sandbox]/home/[long]/forkful.sock has [many] bytes, but the system allows 107

        hint: set FORKFUL_HOME to a directory with a shorter path
        ");
    });
}

#[test]
fn a_home_that_is_not_utf8_is_refused_before_a_daemon_starts() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    let odd = sandbox.work().join(OsStr::from_bytes(b"odd-\xff"));
    let output = sandbox.command(&["start", "app.js"]).env("FORKFUL_HOME", &odd).output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"
    exit: 2
    --- stderr
    error: the directory of FORKFUL_HOME, [sandbox]/work/odd-�, is not valid UTF-8

    hint: set FORKFUL_HOME to a directory whose path is UTF-8
    ");
    let left: Vec<_> =
        std::fs::read_dir(sandbox.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["app.js"], "no home and no daemon's directory is made");
    let output = sandbox.command(&["list"]).env_remove("FORKFUL_HOME").env("HOME", &odd).output().unwrap();
    let text = sandbox.told(&output);
    assert!(text.starts_with("exit: 2\n--- stderr\nerror: the directory of HOME, "), "{text}");
}

#[test]
fn without_any_home_the_variable_is_named() {
    let sandbox = Sandbox::new();
    let output = sandbox.command(&["list"]).env_remove("FORKFUL_HOME").env_remove("HOME").output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"
    exit: 2
    --- stderr
    error: neither FORKFUL_HOME nor HOME is set

    hint: set FORKFUL_HOME to a directory that you own
    ");
}

#[test]
fn a_stale_socket_is_no_daemon() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.home()).unwrap();
    set_mode(&sandbox, 0o700);
    let socket = sandbox.home().join("forkful.sock");
    drop(UnixListener::bind(&socket).unwrap());
    // A child that another test is starting may briefly hold a copy.
    forkful_testkit::wait_until("nobody listens", || UnixStream::connect(&socket).is_err());
    assert!(exists(&socket));
    assert_snapshot!(sandbox.transcript(&["ping"]), @"
    exit: 4
    --- stderr
    error: no daemon is running at [sandbox]/home/forkful.sock

    hint: `forkful start` starts a daemon with an app
    ");
    assert_eq!(sandbox.run(&["list"]).status.code(), Some(0));
}

#[test]
fn a_daemon_that_cannot_start_is_explained_with_its_own_words() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    std::fs::create_dir(sandbox.home()).unwrap();
    set_mode(&sandbox, 0o700);
    std::fs::create_dir(sandbox.home().join("forkful.sock")).unwrap();
    assert_snapshot!(sandbox.transcript(&["start", "app.js"]), @"
    exit: 4
    --- stderr
    error: the daemon cannot start
    caused by: cannot bind [sandbox]/home/forkful.sock: Address already in use (os error 98)

    hint: its log is [sandbox]/home/daemon.log
    ");
    fs_err::remove_dir(sandbox.home().join("forkful.sock")).unwrap();
    fs_err::remove_file(sandbox.home().join("daemon.log")).unwrap();
    fs_err::remove_file(sandbox.home().join("forkful.lock")).unwrap();
    std::fs::create_dir(sandbox.home().join("daemon.log")).unwrap();
    assert_snapshot!(sandbox.transcript(&["start", "app.js"]), @"
    exit: 4
    --- stderr
    error: cannot start the daemon
    caused by: cannot prepare the descriptors for [sandbox]/home/daemon.log
    caused by: Is a directory (os error 21)
    ");
}

#[test]
fn kill_ends_a_daemon_that_knows_no_kill() {
    let sandbox = Sandbox::new();
    let mut stand_in = Guarded::spawn(Command::new("sleep").arg("1000"));
    let ping =
        format!(r#"{{"version":"0.0.7","api":9,"pid":{},"started_at_ms":10000}}"#, stand_in.child.id());
    let body = ping.len();
    let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {body}\r\n\r\n{ping}");
    let daemon = impostor(&sandbox, reply, 1);
    // After its reply to the ping, the impostor hangs up on the next request.
    assert_snapshot!(sandbox.transcript(&["kill"]), @"
    exit: 0
    --- stdout
    the daemon has stopped
    ");
    assert_eq!(daemon.join().unwrap(), ["GET /v1/ping HTTP/1.1"]);
    assert_eq!(stand_in.child.wait().unwrap().signal(), Some(15));
}

/// A fake daemon at the socket that answers every connection's first request with the same bytes.
fn impostor(sandbox: &Sandbox, reply: String, connections: usize) -> JoinHandle<Vec<String>> {
    scripted(sandbox, vec![vec![reply]; connections])
}

/// A fake daemon with these replies on each connection; yields the first lines of the requests.
fn scripted(sandbox: &Sandbox, connections: Vec<Vec<String>>) -> JoinHandle<Vec<String>> {
    std::fs::create_dir(sandbox.home()).unwrap();
    set_mode(sandbox, 0o700);
    let listener = UnixListener::bind(sandbox.home().join("forkful.sock")).unwrap();
    std::thread::spawn(move || {
        let mut requests = Vec::new();
        for replies in connections {
            let (mut stream, _) = listener.accept().unwrap();
            for reply in replies {
                requests.push(request(&mut stream));
                stream.write_all(reply.as_bytes()).unwrap();
            }
        }
        requests
    })
}

/// Reads a request with its body; yields the first line.
fn request(stream: &mut impl std::io::Read) -> String {
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut chunk).unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let announced = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        let wanted = announced.lines().next().unwrap().parse::<usize>().unwrap();
        if length == 0 || head.len() < text.len() && body.len() >= wanted {
            return text.lines().next().unwrap_or_default().to_owned();
        }
    }
}

fn answer(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

#[test]
fn a_daemon_of_another_version_is_refused_before_it_is_asked_for_anything() {
    let sandbox = Sandbox::new();
    let ping = r#"{"version":"0.0.7","api":9,"pid":1,"started_at_ms":10000}"#;
    let daemon = impostor(&sandbox, answer(ping), 3);
    assert_snapshot!(sandbox.transcript(&["stop", "all"]), @"
    exit: 4
    --- stderr
    error: the daemon (pid 1) is version 0.0.7 (API 9), but this program is 0.1.0 (API 1)

    hint: `forkful update` replaces it with this version and the same apps
    ");
    let list = sandbox.transcript(&["list"]);
    assert_eq!(list, sandbox.transcript(&["jlist"]));
    assert_eq!(daemon.join().unwrap(), ["GET /v1/ping HTTP/1.1"; 3]);
}

#[test]
fn an_older_daemon_with_the_same_api_is_used_and_a_note_names_the_update() {
    let sandbox = Sandbox::new();
    let ping = r#"{"version":"0.0.7","api":1,"pid":1,"started_at_ms":10000,"apps":[],"notes":[]}"#;
    let daemon = impostor(&sandbox, answer(ping), 3);
    assert_snapshot!(sandbox.transcript(&["list", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "apps": []
    }
    --- stderr
    note: the daemon is version 0.0.7, this program is 0.1.0: `forkful update` updates the daemon
    "#);
    assert_eq!(daemon.join().unwrap()[2], "GET /v1/apps?measure=true HTTP/1.1");
}

#[test]
fn a_request_that_an_older_daemon_does_not_know_is_answered_with_the_update() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    let ping = r#"{"version":"0.0.7","api":1,"pid":1,"started_at_ms":10000}"#;
    let refusal = r#"{"code":"bad_request","error":"unknown field `targets`","hint":null}"#;
    let reply = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let pong = reply("200 OK", ping);
    let connections = vec![vec![pong.clone()], vec![pong, reply("400 Bad Request", refusal)]];
    let daemon = scripted(&sandbox, connections);
    assert_snapshot!(sandbox.transcript(&["start", "app.js"]), @"
    exit: 2
    --- stderr
    note: the daemon is version 0.0.7, this program is 0.1.0: `forkful update` updates the daemon
    error: unknown field `targets`

    hint: the daemon is version 0.0.7, which may not know this request: `forkful update` updates it
    ");
    assert_eq!(daemon.join().unwrap()[2], "POST /v1/apps HTTP/1.1");
}

#[test]
fn a_target_that_an_older_daemon_takes_for_a_path_is_answered_with_the_update() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    let ping = r#"{"version":"0.0.7","api":1,"pid":1,"started_at_ms":10000}"#;
    let refusal = r#"{"code":"no_such_target","error":"no app runs /work/./app.js","hint":"there is `app.js`; `forkful list` shows them"}"#;
    let reply = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let pong = reply("200 OK", ping);
    let connections = vec![vec![pong.clone()], vec![pong, reply("404 Not Found", refusal)]];
    let daemon = scripted(&sandbox, connections);
    assert_snapshot!(sandbox.transcript(&["stop", "app.js"]), @"
    exit: 3
    --- stderr
    note: the daemon is version 0.0.7, this program is 0.1.0: `forkful update` updates the daemon
    error: no app runs /work/./app.js

    hint: the daemon is version 0.0.7, which may not know this request: `forkful update` updates it
    ");
    assert_eq!(daemon.join().unwrap()[2], "POST /v1/actions/stop HTTP/1.1");
}

#[test]
fn in_a_terminal_an_older_daemon_is_offered_an_update() {
    let sandbox = Sandbox::new();
    let ping = r#"{"version":"0.0.7","api":1,"pid":1,"started_at_ms":10000,"apps":[],"notes":[]}"#;
    let daemon = impostor(&sandbox, answer(ping), 4);
    let (mut ours, theirs) = terminal(200);
    let end = || theirs.try_clone().unwrap();
    let mut command = sandbox.command(&["list"]);
    ours.write_all(b"n\n").unwrap();
    let mut list = Guarded::spawn(command.stdin(end()).stdout(end()).stderr(end()));
    drop((command, theirs));
    assert!(list.child.wait().unwrap().success());
    let shown = shown(ours);
    let question = "the daemon is version 0.0.7, this program is 0.1.0. Update the daemon now? Its apps are stopped and started again. [y/N]";
    assert!(shown.contains(question), "{shown}");
    assert!(shown.contains("`forkful update` updates the daemon") && shown.contains("namespace"), "{shown}");
    assert_eq!(daemon.join().unwrap()[3], "GET /v1/table HTTP/1.1");
}

#[test]
fn something_else_at_the_socket_is_told_apart() {
    let sandbox = Sandbox::new();
    let other = impostor(&sandbox, "220 mail.example.org ESMTP\r\n".to_owned(), 1);
    assert_snapshot!(sandbox.transcript(&["list"]), @"
    exit: 4
    --- stderr
    error: the daemon closed the connection before its reply to GET /v1/ping was complete
    caused by: invalid HTTP version parsed

    hint: the daemon's last messages are in $FORKFUL_HOME/daemon.log
    ");
    other.join().unwrap();
}

#[test]
fn a_reply_that_is_no_json_is_told_apart() {
    let sandbox = Sandbox::new();
    let other = impostor(&sandbox, answer("hi"), 1);
    assert_snapshot!(sandbox.transcript(&["list"]), @"
    exit: 4
    --- stderr
    error: the reply to GET /v1/ping makes no sense: expected value at line 1 column 1

    hint: is another program listening at $FORKFUL_HOME/forkful.sock?
    ");
    other.join().unwrap();
}
