//! `serve` and `static`: real HTTP with the real binary.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::sandbox::{Guarded, Sandbox, stdout};
use crate::settled::{settled, wait_until};
use insta::assert_snapshot;
use serde_json::Value;

/// A file server in a child process of the test.
struct Server {
    address: String,
    process: Guarded,
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Server {
    fn start(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Self {
        let mut command = sandbox.command(&["serve-files"]);
        command.env("PM2_SERVE_PORT", "0").env("PM2_SERVE_PATH", "site").envs(variables.iter().copied());
        let mut process = Guarded::spawn(command.stdout(Stdio::piped()));
        let line = process.next_line();
        let address = address_of(&line).unwrap_or_else(|| panic!("it said {line:?}"));
        Self { address, process }
    }

    fn get(&self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    /// `headers` are lines with their line ends.
    fn get_with(&self, path: &str, headers: &str) -> Answer {
        ask(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"))
    }
}

/// `127.0.0.1:4711` from a server's message.
fn address_of(text: &str) -> Option<String> {
    text.split("http://").nth(1)?.split('/').next().map(str::to_owned)
}

fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request:?} got {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Answer { status, headers, body: body.to_owned() }
}

/// A site with a page, a folder, precompressed files and hidden files.
fn site() -> Sandbox {
    let sandbox = Sandbox::new();
    for folder in ["site", "site/docs", "site/bare", "site/.git", "site/.well-known", "outside"] {
        fs_err::create_dir(sandbox.work().join(folder)).unwrap();
    }
    for (name, text) in [
        ("site/index.html", "<p>home</p>"),
        ("site/app.js", "0123456789"),
        ("site/app.js.gz", "(gzip)"),
        ("site/app.js.br", "(brotli)"),
        ("site/docs/index.html", "<p>docs</p>"),
        ("site/bare/one & two.txt", "12"),
        ("site/.env", "SECRET=1"),
        ("site/.git/config", "secret"),
        ("site/.well-known/security.txt", "mail us"),
        ("outside/secret.txt", "secret"),
    ] {
        sandbox.write(name, text);
    }
    let outside = sandbox.work().join("outside");
    symlink(outside.join("secret.txt"), sandbox.work().join("site/link.txt")).unwrap();
    symlink("../outside", sandbox.work().join("site/folder")).unwrap();
    symlink("app.js", sandbox.work().join("site/inner.js")).unwrap();
    sandbox
}

#[test]
fn files_have_types_validators_and_ranges() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    let home = server.get("/");
    assert_eq!((home.status, home.body.as_str()), (200, "<p>home</p>"));
    assert_eq!(home.header("content-type"), "text/html; charset=utf-8");
    assert!(!home.headers.contains_key("access-control-allow-origin"));
    assert_eq!(home.header("x-content-type-options"), "nosniff");
    let script = server.get("/app.js?v=1");
    assert_eq!((script.status, script.body.as_str()), (200, "0123456789"));
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(script.header("accept-ranges"), "bytes");
    let (etag, modified) = (script.header("etag"), script.header("last-modified"));
    assert!(etag.starts_with('"') && modified.ends_with(" GMT"), "{script:?}");
    let unchanged = [format!("If-None-Match: {etag}\r\n"), format!("If-Modified-Since: {modified}\r\n")];
    for header in unchanged {
        let answer = server.get_with("/app.js", &header);
        assert_eq!((answer.status, answer.body.as_str()), (304, ""), "{header}");
    }
    assert_eq!(server.get_with("/app.js", "If-None-Match: \"other\"\r\n").status, 200);
    let part = server.get_with("/app.js", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.body.as_str()), (206, "234"));
    assert_eq!(part.header("content-range"), "bytes 2-4/10");
    assert_eq!(server.get_with("/app.js", "Range: bytes=-3\r\n").body, "789");
    let beyond = server.get_with("/app.js", "Range: bytes=10-\r\n");
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */10"));
    // Several ranges are not sent as such; the whole file is a valid answer.
    assert_eq!(server.get_with("/app.js", "Range: bytes=0-1,4-5\r\n").body, "0123456789");
    assert_eq!(server.get("/inner.js").body, "0123456789");
    let head = ask(&server.address, "HEAD /app.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, "10", ""));
    let post =
        ask(&server.address, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"));
}

#[test]
fn a_download_is_resumed_only_with_the_same_version_of_a_file() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    let whole = server.get("/app.js");
    let (etag, modified) = (whole.header("etag"), whole.header("last-modified"));
    for (condition, status, body) in [
        (etag.to_owned(), 206, "789"),
        (modified.to_owned(), 206, "789"),
        (format!("W/{etag}"), 200, "0123456789"),
        ("\"other\"".to_owned(), 200, "0123456789"),
        ("Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), 200, "0123456789"),
        ("Fri, 31 Dec 2100 00:00:00 GMT".to_owned(), 200, "0123456789"),
    ] {
        let answer = server.get_with("/app.js", &format!("Range: bytes=7-\r\nIf-Range: {condition}\r\n"));
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{condition}");
    }
    let beyond = server.get_with("/app.js", &format!("Range: bytes=10-\r\nIf-Range: {etag}\r\n"));
    assert_eq!(beyond.status, 416);
    let other = server.get_with("/app.js", "Range: bytes=10-\r\nIf-Range: \"other\"\r\n");
    assert_eq!((other.status, other.body.as_str()), (200, "0123456789"));
}

#[test]
fn ranges_are_clipped_and_an_empty_file_has_none() {
    let sandbox = site();
    sandbox.write("site/empty.txt", "");
    let server = Server::start(&sandbox, &[]);
    for (range, status, body) in [
        ("bytes=0-99999999999999999999", 206, "0123456789"),
        ("bytes=-99999999999999999999", 200, "0123456789"),
        ("bytes=-11", 200, "0123456789"),
        ("bytes=-0", 416, ""),
        ("bytes=99999999999999999999-", 416, ""),
        ("lines=1-2", 200, "0123456789"),
    ] {
        let answer = server.get_with("/app.js", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{range}");
    }
    for range in ["bytes=0-0", "bytes=0-", "bytes=-5"] {
        let answer = server.get_with("/empty.txt", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status, answer.header("content-range")), (200, ""), "{range}");
        assert_eq!(answer.header("content-length"), "0", "{range}");
    }
}

#[test]
fn precompressed_files_go_to_clients_that_take_them() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    for (accepted, encoding, body) in [
        ("gzip", "gzip", "(gzip)"),
        ("gzip, br", "br", "(brotli)"),
        ("br;q=0, gzip", "gzip", "(gzip)"),
        ("zstd", "", "0123456789"),
        ("identity", "", "0123456789"),
    ] {
        let answer = server.get_with("/app.js", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{accepted}");
        assert_eq!(answer.header("content-encoding"), encoding, "{accepted}");
        assert_eq!(answer.header("content-type"), "text/javascript; charset=utf-8", "{accepted}");
        assert_eq!(answer.header("vary"), "accept-encoding", "{accepted}");
    }
}

#[test]
fn nothing_outside_of_the_directory_and_nothing_hidden_is_there() {
    let sandbox = site();
    for variables in [&[][..], &[("PM2_SERVE_FTP", "true")], &[("PM2_SERVE_SPA", "true")]] {
        let server = Server::start(&sandbox, variables);
        for path in [
            "/../outside/secret.txt",
            "/%2e%2e/outside/secret.txt",
            "/..%2foutside%2fsecret.txt",
            "/docs/../../outside/secret.txt",
            "/..%5coutside",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/link.txt",
            "/folder",
            "/folder/",
            "/folder/secret.txt",
            "/.env",
            "/%2eenv",
            "/.git/config",
            "/.git/",
            "/docs/%00",
            "/app.js/x",
        ] {
            let answer = server.get(path);
            let is_home = answer.body == "<p>home</p>" && !variables.is_empty();
            assert!(answer.status == 404 || is_home, "{path} {variables:?}: {answer:?}");
            assert!(!answer.body.to_lowercase().contains("secret"), "{path}: {answer:?}");
            assert!(!answer.body.contains("root:"), "{path}: {answer:?}");
        }
        assert_eq!(server.get("/.well-known/security.txt").body, "mail us");
    }
}

#[test]
fn a_directory_leads_to_its_page_and_a_link_cannot_lead_to_another_host() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    let docs = server.get("/docs?x=1");
    assert_eq!((docs.status, docs.header("location")), (307, "/docs/?x=1"));
    assert_eq!(server.get("/docs/").body, "<p>docs</p>");
    assert_eq!(server.get("//docs").status, 404);
    let bare = server.get("/bare/");
    assert_eq!((bare.status, bare.body.as_str()), (404, "404 Not Found\n"));
    let listing = Server::start(&sandbox, &[("PM2_SERVE_FTP", "true")]);
    let page = listing.get("/bare/").body;
    assert!(page.contains("<a href=\"one%20%26%20two.txt\">one &amp; two.txt</a> <small>2 bytes</small>"));
    assert_eq!(listing.get("/bare/one%20%26%20two.txt").body, "12");
    assert_eq!(listing.get("/docs/").body, "<p>docs</p>");
    fs_err::remove_file(sandbox.work().join("site/index.html")).unwrap();
    let top = listing.get("/").body;
    assert!(top.contains("href=\"docs/\"") && top.contains("href=\"app.js\""), "{top}");
    assert!(!top.contains(".git") && !top.contains("link.txt") && !top.contains("folder"), "{top}");
}

#[test]
fn a_site_has_a_page_for_what_it_does_not_have_and_a_single_page_app_its_home() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    assert_eq!(server.get("/none").body, "404 Not Found\n");
    sandbox.write("site/404.html", "<p>gone</p>");
    let gone = server.get_with("/none", "Range: bytes=0-1\r\n");
    assert_eq!((gone.status, gone.body.as_str()), (404, "<p>gone</p>"));
    assert!(!gone.headers.contains_key("etag"), "{gone:?}");
    let app = Server::start(&sandbox, &[("PM2_SERVE_SPA", "true"), ("PM2_SERVE_CORS", "true")]);
    let deep = app.get("/users/7?tab=1");
    assert_eq!((deep.status, deep.body.as_str()), (200, "<p>home</p>"));
    assert_eq!(deep.header("access-control-allow-origin"), "*");
    // A relative link on the page of a deeper path.
    assert_eq!(app.get("/users/app.js").body, "0123456789");
    for name in ["start.html", "start page 100%.html"] {
        sandbox.write(&format!("site/{name}"), "<p>start</p>");
        let other = Server::start(&sandbox, &[("PM2_SERVE_SPA", "true"), ("PM2_SERVE_HOMEPAGE", name)]);
        assert_eq!(other.get("/").body, "<p>start</p>", "{name}");
        assert_eq!(other.get("/x/y").body, "<p>start</p>", "{name}");
    }
}

#[test]
fn a_browser_that_asks_first_may_send_any_header() {
    let sandbox = site();
    let login = [("PM2_SERVE_BASIC_AUTH_USERNAME", "ann"), ("PM2_SERVE_BASIC_AUTH_PASSWORD", "secret")];
    let preflight = "OPTIONS /app.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: http://a.example\r\n\
                     Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization\r\n\r\n";
    let answer_of = |variables: &[(&str, &str)]| ask(&Server::start(&sandbox, variables).address, preflight);
    for variables in [&[][..], &login] {
        let answer = answer_of(&[variables, &[("PM2_SERVE_CORS", "true")]].concat());
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{variables:?}");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("access-control-allow-headers"), "*, Authorization");
    }
    assert_eq!((answer_of(&[]).status, answer_of(&login).status), (405, 401), "without CORS");
}

#[test]
fn a_directory_that_is_built_anew_is_served_as_it_is() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    fs_err::remove_dir_all(sandbox.work().join("site")).unwrap();
    assert_eq!(server.get("/").status, 404);
    fs_err::create_dir(sandbox.work().join("site")).unwrap();
    sandbox.write("site/index.html", "<p>new</p>");
    assert_eq!(server.get("/").body, "<p>new</p>");
}

#[test]
fn a_password_is_asked_for_and_an_end_waits_for_nobody_who_is_silent() {
    let sandbox = site();
    let login = [("PM2_SERVE_BASIC_AUTH_USERNAME", "ann"), ("PM2_SERVE_BASIC_AUTH_PASSWORD", "secret")];
    let mut server = Server::start(&sandbox, &login);
    for header in ["", "Authorization: Basic YW5uOndyb25n\r\n", "Authorization: Bearer x\r\n"] {
        let answer = server.get_with("/", header);
        assert_eq!((answer.status, answer.body.as_str()), (401, "401 Unauthorized\n"), "{header}");
        assert_eq!(answer.header("www-authenticate"), "Basic realm=\"files\", charset=\"UTF-8\"");
    }
    assert_eq!(server.get_with("/", "Authorization: Basic YW5uOnNlY3JldA==\r\n").body, "<p>home</p>");
    // Passwords cannot be tried without a limit, and the right one is refused too while a client is blocked.
    let refused = (0..100)
        .map(|_| server.get_with("/", "Authorization: Basic YW5uOndyb25n\r\n"))
        .find(|answer| answer.status != 401);
    let refused = refused.expect("an end of the attempts");
    assert_eq!((refused.status, refused.body.as_str()), (429, "429 Too Many Requests\n"));
    assert!((1..=61).contains(&refused.header("retry-after").parse::<u32>().unwrap()), "{refused:?}");
    // Behind a proxy of this machine, each client has its own attempts: the proxy adds the client's address as the last one.
    let of = |forwarded: &str, login: &str| {
        server
            .get_with("/", &format!("X-Forwarded-For: {forwarded}\r\nAuthorization: Basic {login}\r\n"))
            .status
    };
    let (wrong, right) = ("YW5uOndyb25n", "YW5uOnNlY3JldA==");
    assert!((0..100).any(|_| of("192.0.2.1", wrong) == 429));
    assert_eq!(of("192.0.2.2, 192.0.2.1", right), 429);
    assert_eq!(of("192.0.2.1, 192.0.2.2", right), 200);
    // A connection without a request.
    let _silent = TcpStream::connect(&server.address).unwrap();
    let pid = rustix::process::Pid::from_raw(server.process.child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(server.process.child.wait().unwrap().code(), Some(0));
}

#[test]
fn clients_that_send_slowly_make_room_for_those_that_ask() {
    let sandbox = site();
    let server = Server::start(&sandbox, &[]);
    // As many connections as there are permits, each with the beginning of a request.
    let slow: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    // A timeout of half a minute would also let this request in, but only after closing all other
    // connections.
    assert_eq!(server.get("/").status, 200);
    let ended = slow.iter().filter(|stream| has_ended(stream)).count();
    assert!((1..400).contains(&ended), "{ended} made room");
}

/// Whether the other side has closed a connection.
fn has_ended(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    !matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn faults_of_the_settings_are_told() {
    let sandbox = site();
    let told = |name: &str, value: &str| {
        let output = sandbox.command(&["serve-files"]).env(name, value).output().unwrap();
        sandbox.told(&output)
    };
    assert_snapshot!(told("PM2_SERVE_PORT", "http"), @r#"
    exit: 2
    --- stderr
    error: PM2_SERVE_PORT is "http", but must be a port's number
    "#);
    assert_snapshot!(told("PM2_SERVE_PATH", "none"), @"
    exit: 1
    --- stderr
    error: cannot serve none
    caused by: No such file or directory (os error 2)
    ");
    assert_snapshot!(told("PM2_SERVE_BASIC_AUTH", "true"), @"
    exit: 2
    --- stderr
    error: PM2_SERVE_BASIC_AUTH_USERNAME is not set, but basic authentication needs a name and a password
    ");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert_snapshot!(told("PM2_SERVE_PORT", &port).replace(&port, "[port]"), @"
    exit: 1
    --- stderr
    error: cannot listen on 127.0.0.1:[port]
    caused by: Address already in use (os error 98)
    ");
    assert_snapshot!(sandbox.transcript(&["serve", "none"]), @"
    exit: 2
    --- stderr
    error: cannot serve none
    caused by: No such file or directory (os error 2)

    hint: name a directory, as in `forkful serve public`; the port comes after it
    ");
    assert_snapshot!(sandbox.transcript(&["serve", "site/app.js", "0"]), @"
    exit: 2
    --- stderr
    error: cannot serve site/app.js
    caused by: it is not a directory

    hint: name a directory, as in `forkful serve public`; the port comes after it
    ");
    assert_snapshot!(sandbox.transcript(&["serve", "--basic-auth-username", "ann"]), @"
    exit: 2
    --- stderr
    error: PM2_SERVE_BASIC_AUTH_PASSWORD is not set, but basic authentication needs a name and a password

    hint: an option of `forkful serve` replaces its variable; `forkful serve --help` lists them
    ");
}

#[test]
fn options_come_before_variables_which_are_read_as_by_the_server() {
    let sandbox = site();
    let cases: [(&[&str], &[(&str, &str)], [&str; 3]); 6] = [
        (&["site", "0"], &[("PM2_SERVE_PORT", "8199")], ["0", "127.0.0.1", "false"]),
        (&["site", "--port", "0"], &[("PM2_SERVE_SPA", "1")], ["0", "127.0.0.1", "true"]),
        (&["site"], &[("PM2_SERVE_PORT", "0"), ("PM2_SERVE_SPA", "undefined")], ["0", "127.0.0.1", "false"]),
        (
            &["site", "0"],
            &[("PM2_SERVE_SPA", ""), ("PM2_SERVE_HOST", "localhost")],
            ["0", "127.0.0.1", "false"],
        ),
        (
            &["site", "0", "--host", "localhost", "--spa"],
            &[("PM2_SERVE_SPA", "0")],
            ["0", "127.0.0.1", "true"],
        ),
        (
            &["--port", "0"],
            &[("PM2_SERVE_PATH", "site"), ("PM2_SERVE_HOST", "0.0.0.0")],
            ["0", "0.0.0.0", "false"],
        ),
    ];
    for (index, (args, variables, _)) in cases.iter().enumerate() {
        let name = format!("site-{index}");
        let mut command = sandbox.command(&["serve", "--no-wait", "--name", &name]);
        let output = command.args(*args).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{args:?} {variables:?}: {}", sandbox.told(&output));
    }
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    for (app, (args, variables, expected)) in list.as_array().unwrap().iter().zip(cases) {
        let env = &app["pm2_env"]["env"];
        let found =
            ["PM2_SERVE_PORT", "PM2_SERVE_HOST", "PM2_SERVE_SPA"].map(|name| env[name].as_str().unwrap());
        assert_eq!(found, expected, "{args:?} {variables:?}");
        assert_eq!(env["PM2_SERVE_PATH"], sandbox.work().join("site").to_str().unwrap());
    }
    let told = sandbox.command(&["serve", "site"]).env("PM2_SERVE_SPA", "yes").output().unwrap();
    assert!(sandbox.told(&told).contains(r#"PM2_SERVE_SPA is "yes", but must be true or false"#));
}

#[test]
fn a_password_of_the_callers_environment_is_not_saved_and_the_server_does_not_start_without_it() {
    let sandbox = site();
    let serve = ["serve", "site", "0", "--name", "web", "--basic-auth-username", "ann"];
    let output =
        sandbox.command(&serve).env("PM2_SERVE_BASIC_AUTH_PASSWORD", "kept-in-mind").output().unwrap();
    assert!(output.status.success(), "{}", sandbox.told(&output));
    let address = address_in_logs(&sandbox, "web");
    assert_eq!(ask(&address, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").status, 401);
    sandbox.run(&["save"]);
    for entry in fs_err::read_dir(sandbox.home()).unwrap() {
        let path = entry.unwrap().path();
        let is_told =
            path.is_file() && String::from_utf8_lossy(&fs_err::read(&path).unwrap()).contains("kept-in-mind");
        assert!(!is_told, "{}", path.display());
    }
    sandbox.run(&["kill"]);
    sandbox.run(&["resurrect"]);
    wait_until(|| {
        let logs = sandbox.told(&sandbox.run(&["logs", "web", "--nostream", "--raw"]));
        logs.contains(
            "PM2_SERVE_BASIC_AUTH_PASSWORD is not set, but basic authentication needs a name and a password",
        )
    });
}

#[test]
fn a_directory_whose_path_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = site();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs_err::create_dir(sandbox.work().join(name)).unwrap();
    for command in
        [sandbox.command(&["serve"]).arg(name), sandbox.command(&["serve"]).env("PM2_SERVE_PATH", name)]
    {
        let told = sandbox.told(&command.output().unwrap());
        assert!(told.starts_with("exit: 2") && told.contains("its path is not UTF-8"), "{told}");
    }
}

/// The address of an app of the daemon, from its output.
fn address_in_logs(sandbox: &Sandbox, app: &str) -> String {
    let mut address = None;
    wait_until(|| {
        let logs = sandbox.run(&["logs", app, "--nostream", "--raw"]);
        address = address_of(&stdout(&logs));
        address.is_some()
    });
    address.unwrap()
}

#[test]
fn serve_is_an_app_of_its_own() {
    let sandbox = site();
    assert_snapshot!(settled(&sandbox.transcript(&["serve", "site", "0", "--basic-auth-username", "ann", "--basic-auth-password", "s3cret"])), @"
    exit: 0
    --- stdout
    static-page-server-0 started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | static-page-server-0 | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: served to this machine only, at 127.0.0.1; `--host 0.0.0.0` listens on all addresses, as PM2 does
    ");
    let address = address_in_logs(&sandbox, "static-page-server-0");
    let answer = ask(
        &address,
        "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YW5uOnMzY3JldA==\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(answer.body, "<p>home</p>");
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    let env = &list[0]["pm2_env"]["env"];
    assert_eq!(env["PM2_SERVE_PATH"], sandbox.work().join("site").to_str().unwrap());
    assert_eq!(env["PM2_SERVE_HOST"], "127.0.0.1");
    assert_eq!(env["PM2_SERVE_BASIC_AUTH_PASSWORD"], "[redacted]");
    assert_snapshot!(settled(&sandbox.transcript(&["serve", "site", "0"])), @"
    exit: 1
    --- stderr
    error: static-page-server-0: already running, with 1 worker

    hint: stop it first to serve another directory there; another port or `--name` creates another app
    ");
}
