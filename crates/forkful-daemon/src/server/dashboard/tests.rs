//! The dashboard over a real socket, against a task that plays the engine.

use forkful_api::incidents::IncidentList;
use forkful_api::stalls::StallsReply;
use forkful_api::types::{ActionReply, AppList};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::command::{COMMAND_QUEUE, Talk, Verb};
use crate::events::Hub;

/// Plays the engine: it has no app, and notes which actions were asked for.
async fn engine(mut commands: mpsc::Receiver<Command>, acted: Arc<Mutex<Vec<Verb>>>) {
    let mut hub = Hub::default();
    while let Some(command) = commands.recv().await {
        match command {
            Command::List { reply, .. } => drop(reply.send(Ok(AppList::default()))),
            Command::Talk(Talk::Watch { query, reply }) => drop(reply.send(Ok(hub.subscribe(&query)))),
            Command::Talk(Talk::Incidents { reply, .. }) => drop(reply.send(Ok(IncidentList::default()))),
            Command::Stalls { target, reply } => {
                assert_eq!(target, "my app");
                drop(reply.send(Ok(StallsReply { apps: Vec::new() })));
            }
            Command::Action { verb, reply, .. } => {
                acted.lock().unwrap().push(verb);
                drop(reply.send(Ok(ActionReply::default())));
            }
            _ => {}
        }
    }
}

struct Opened {
    dashboard: Arc<Dashboard>,
    commands: mpsc::Sender<Command>,
    acted: Arc<Mutex<Vec<Verb>>>,
    port: u16,
}

/// What came back: the status, the head and the body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

struct Session {
    cookie: String,
    proof: String,
}

impl Opened {
    fn new() -> Self {
        let (commands, received) = mpsc::channel(COMMAND_QUEUE);
        let acted = Arc::default();
        tokio::spawn(engine(received, Arc::clone(&acted)));
        let opened = Self { dashboard: Arc::default(), commands, acted, port: 0 };
        let port = opened.link(false).0;
        Self { port, ..opened }
    }

    /// A new link: its port and token.
    fn link(&self, control: bool) -> (u16, String) {
        self.link_for(&DashboardRequest { control, reports: None })
    }

    fn link_for(&self, request: &DashboardRequest) -> (u16, String) {
        let reports = request.reports.as_deref().map(|folder| Reports::held(folder).unwrap());
        let grant = Grant { control: request.control, reports };
        let link = self.dashboard.link(grant, self.commands.clone()).unwrap();
        let rest = link.url.strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = rest.split_once("/#token=").unwrap();
        assert_eq!(token.len(), 64);
        (port.parse().unwrap(), token.to_owned())
    }

    /// Sends a head and a body as they are, and reads until the end of the connection.
    async fn raw(&self, text: &str) -> Answer {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        // A server that ends the connection early may reset it.
        let _ended = stream.read_to_end(&mut bytes).await;
        Answer::of(&String::from_utf8_lossy(&bytes))
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let host = self.port;
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{host}\r\nconnection: close\r\n{headers}\r\n"
        ))
        .await
    }

    async fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let (host, length) = (self.port, body.len());
        let own =
            format!("host: 127.0.0.1:{host}\r\norigin: http://127.0.0.1:{host}\r\nconnection: close\r\n");
        self.raw(&format!("POST {path} HTTP/1.1\r\n{own}content-length: {length}\r\n{headers}\r\n{body}"))
            .await
    }

    async fn redeem(&self, token: &str) -> Answer {
        self.post("/session", "", &format!("{{\"token\":\"{token}\"}}")).await
    }

    async fn session(&self, control: bool) -> Session {
        self.session_for(&DashboardRequest { control, reports: None }).await
    }

    async fn session_for(&self, request: &DashboardRequest) -> Session {
        let answer = self.redeem(&self.link_for(request).1).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["control"], request.control);
        assert_eq!(answer.json()["reports"], request.reports.is_some());
        let cookie = answer.head.split("set-cookie: ").nth(1).unwrap().lines().next().unwrap();
        assert!(cookie.ends_with("; path=/; httponly; samesite=strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Session { cookie, proof: answer.json()["proof"].as_str().unwrap().to_owned() }
    }
}

impl Session {
    fn headers(&self) -> String {
        format!("cookie: other=1; {}\r\nx-forkful-session: {}\r\n", self.cookie, self.proof)
    }
}

#[tokio::test]
async fn the_page_is_served_with_its_headers_and_nothing_else_without_a_session() {
    let opened = Opened::new();
    for (path, kind) in [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css")] {
        let answer = opened.get(path, "").await;
        assert_eq!(answer.status, 200, "{path}");
        for header in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {header}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
    }
    for path in ["/api/stream", "/api/logs", "/api/x", "/api/"] {
        let answer = opened.get(path, "").await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("content-security-policy"), "{path}");
    }
}

#[tokio::test]
async fn tricks_with_paths_lead_nowhere() {
    let opened = Opened::new();
    let session = opened.session(true).await;
    for path in [
        "//",
        "/index.html",
        "/app.js/",
        "/app.js%00",
        "/%61pp.js",
        "/../app.js",
        "/./app.js",
        "/..%2f..%2fetc/passwd",
        "/../../../../etc/passwd",
        "//etc/passwd",
        "/api//stream",
        "/api/../session",
        "/API/stream",
        "/v1/apps",
        "/api/v1/apps",
        "/session",
        "/app.js;x",
        "/api/actions/restart",
    ] {
        let answer = opened.get(path, &session.headers()).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
    for path in
        ["/api/actions/delete", "/api/actions/", "/api/actions/restart/", "/api/stream", "/", "/v1/kill"]
    {
        let answer = opened.post(path, &session.headers(), "{\"app\":\"web\"}").await;
        assert_eq!(answer.status, 404, "{path}");
    }
    assert!(opened.acted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_page_may_read_incidents_and_stalls_and_nothing_beside_them() {
    let opened = Opened::new();
    let session = opened.session(false).await;
    let answer = opened.get("/api/incidents?after=3", &session.headers()).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"incidents\":[]}"));
    let answer = opened.get("/api/stalls/my%20app", &session.headers()).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"apps\":[]}"));
    for path in [
        "/api/incidents/",
        "/api/incidents/x",
        "/api/incidents/1/",
        "/api/incidents/..%2fapps",
        "/api/apps",
        "/api/stalls/",
        "/api/stalls/a/b",
    ] {
        assert_eq!(opened.get(path, &session.headers()).await.status, 404, "{path}");
    }
    assert_eq!(opened.post("/api/incidents", &session.headers(), "{}").await.status, 404);
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused_whatever_they_know() {
    let opened = Opened::new();
    let session = opened.session(true).await;
    let (port, headers) = (opened.port, session.headers());
    for host in
        ["evil.example", &format!("evil.example:{port}"), "", &format!("127.0.0.1.evil.example:{port}")]
    {
        let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
        assert_eq!(opened.raw(&head).await.status, 421, "{host}");
    }
    let token = opened.link(true).1;
    let body = format!("{{\"token\":\"{token}\"}}");
    for origin in ["http://evil.example", "null", "http://localhost:1", &format!("https://127.0.0.1:{port}")]
    {
        let head = format!(
            "POST /session HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: {origin}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        assert_eq!(opened.raw(&head).await.status, 403, "{origin}");
    }
    let head = format!(
        "POST /session HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(opened.raw(&head).await.status, 403, "without an origin");
    assert_eq!(
        opened.get("/api/logs", &format!("{headers}sec-fetch-site: cross-site\r\n")).await.status,
        403
    );
    assert_eq!(opened.redeem(&token).await.status, 200, "nothing of that used the link");
}

#[tokio::test]
async fn a_link_works_once_and_a_session_needs_both_secrets() {
    let opened = Opened::new();
    let token = opened.link(false).1;
    for wrong in ["", "x", &"0".repeat(64), &token[1..], &format!("{token}0")] {
        assert_eq!(opened.redeem(wrong).await.status, 401, "{wrong}");
    }
    for body in ["", "{}", "[]", "{\"token\":1}", &format!("{{\"token\":\"{token}\",\"x\":1}}")] {
        assert_eq!(opened.post("/session", "", body).await.status, 400, "{body}");
    }
    let large = format!("{{\"token\":\"{}\"}}", "0".repeat(1 << 20));
    assert!([0, 400].contains(&opened.post("/session", "", &large).await.status));
    assert_eq!(opened.redeem(&token).await.status, 200);
    assert_eq!(opened.redeem(&token).await.status, 401, "a second time");

    let session = opened.session(false).await;
    let other = opened.session(false).await;
    let mixed = Session { cookie: session.cookie.clone(), proof: other.proof.clone() };
    assert_eq!(opened.get("/api/x", &session.headers()).await.status, 404, "it is let in");
    for headers in [
        mixed.headers(),
        format!("cookie: {}\r\n", session.cookie),
        format!("x-forkful-session: {}\r\n", session.proof),
    ] {
        assert_eq!(opened.get("/api/x", &headers).await.status, 401, "{headers}");
    }
}

#[tokio::test]
async fn a_page_acts_only_with_control_and_only_on_apps_that_exist() {
    let opened = Opened::new();
    let (looks, acts) = (opened.session(false).await, opened.session(true).await);
    let answer = opened.post("/api/actions/stop", &looks.headers(), "{\"app\":\"web\"}").await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    for (target, status) in [("web", 404), ("all", 404), ("/./", 404), ("0", 404)] {
        let body = format!("{{\"app\":\"{target}\"}}");
        assert_eq!(opened.post("/api/actions/stop", &acts.headers(), &body).await.status, status, "{target}");
    }
    let definition = "{\"app\":\"web\",\"definitions\":[{\"name\":\"x\",\"program\":\"/bin/sh\"}]}";
    assert_eq!(opened.post("/api/actions/restart", &acts.headers(), definition).await.status, 400);
    assert!(opened.acted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_begins_with_the_state_and_pages_are_bounded() {
    let opened = Opened::new();
    let session = opened.session(false).await;
    let mut streams = Vec::new();
    loop {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, opened.port)).await.unwrap();
        let head = format!(
            "GET /api/stream HTTP/1.1\r\nhost: localhost:{}\r\n{}\r\n",
            opened.port,
            session.headers()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        while !text.contains("event: state\ndata: {\"state\":") && !text.contains("503") {
            let mut chunk = [0; 4096];
            let length = stream.read(&mut chunk).await.unwrap();
            assert!(length > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
        if text.starts_with("HTTP/1.1 503") {
            break;
        }
        streams.push(stream);
        assert!(streams.len() < 100, "too many");
    }
    assert!(streams.len() >= 8, "{}", streams.len());
    assert_eq!(opened.dashboard.front().as_ref().unwrap().idle_at(), None, "it is in use");
}

#[tokio::test(start_paused = true)]
async fn an_unused_dashboard_is_closed() {
    let opened = Opened::new();
    assert!(opened.dashboard.front().is_some());
    sleep(IDLE_MAX.checked_sub(Duration::from_secs(1)).unwrap()).await;
    assert!(opened.dashboard.front().is_some());
    let first = opened.link(false).0;
    assert_eq!(first, opened.port, "a new link is for the same port, and is a use of it");
    sleep(Duration::from_secs(2)).await;
    assert!(opened.dashboard.front().is_some());
    sleep(IDLE_MAX).await;
    assert!(opened.dashboard.front().is_none());
    // A process that another test starts has a copy of the listener until it executes its program.
    forkful_testkit::wait_until("nobody listens", || {
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, opened.port)).is_err()
    });
}

#[tokio::test]
async fn reports_are_files_of_the_folder_of_the_link_and_nothing_else() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("results");
    fs_err::create_dir_all(root.join("folder.json")).unwrap();
    for name in ["compare 1.json", "bench.html", ".hidden.json", "notes.txt"] {
        fs_err::write(root.join(name), "<script>1</script>").unwrap();
    }
    fs_err::write(outside.path().join("secret.json"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret.json", root.join("link.json")).unwrap();
    let opened = Opened::new();
    let without = opened.session(true).await;
    let session = opened.session_for(&DashboardRequest { control: false, reports: Some(root.clone()) }).await;
    let (list, one) = ("/api/reports", "/api/report?name=compare%201.json");
    for path in [list, one] {
        assert_eq!(opened.get(path, "").await.status, 401, "{path}");
        assert_eq!(opened.get(path, &without.headers()).await.status, 404, "{path}");
        assert_eq!(opened.post(path, &session.headers(), "{}").await.status, 404, "{path}");
    }
    let answer = opened.get(list, &session.headers()).await.json();
    let mut names: Vec<&str> =
        answer["reports"].as_array().unwrap().iter().map(|report| report["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["bench.html", "compare 1.json"]);
    assert_eq!(answer["reports"][0]["bytes"], 18);
    for path in [one, "/api/report?name=bench.html"] {
        let answer = opened.get(path, &session.headers()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "<script>1</script>"), "{path}");
        for header in [
            "content-type: text/plain; charset=utf-8",
            "x-content-type-options: nosniff",
            "content-security-policy: default-src 'none'",
        ] {
            assert!(answer.head.contains(header), "{path}: {header}: {}", answer.head);
        }
    }
    for (name, status) in [
        ("link.json", 404),
        ("folder.json", 404),
        (".hidden.json", 404),
        ("notes.txt", 404),
        ("none.json", 404),
        ("../secret.json", 404),
        ("..%2fsecret.json", 404),
        ("%2e%2e%2fsecret.json", 404),
        ("folder.json/../bench.html", 404),
        ("./bench.html", 404),
        ("%2fetc%2fpasswd", 404),
        ("bench.html%00", 404),
        ("bench.html%0a", 404),
        ("", 404),
        ("bench.html&folder=/etc", 400),
    ] {
        let answer = opened.get(&format!("/api/report?name={name}"), &session.headers()).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.body);
        assert!(!answer.body.contains("secret"), "{name}: {}", answer.body);
    }
    assert_eq!(opened.get("/api/report", &session.headers()).await.status, 400);
    assert_eq!(opened.get("/api/reports/bench.html", &session.headers()).await.status, 404);
}
