//! `forkful compare` and `forkful tune`: errors are reported, a short run has a complete document, and no
//! processes or files are left behind. No figure is checked here.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Guarded, Sandbox, stdout};

/// A server that only answers `/fast`.
pub(crate) const SERVER: &str = "require('http').createServer((q, s) => {
    if (q.url === '/fast') return s.end('ok');
    s.statusCode = 404; s.end('no');
}).listen(Number(process.env.PORT));";

/// A timeout for all tests here.
pub(crate) const BOUND: Duration = Duration::from_secs(90);

/// A sandbox with its own temporary directory, so that leftover files are found.
pub(crate) struct Lab {
    pub(crate) sandbox: Sandbox,
    pub(crate) temporary: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new();
        let temporary = sandbox.work().join("t");
        fs_err::create_dir(&temporary).unwrap();
        sandbox.write("server.js", SERVER);
        Self { sandbox, temporary }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(args);
        command.env("TMPDIR", &self.temporary);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The arms of a very short comparison: no request failed, and nothing is left behind.
    fn compared(&self, command: &mut Command, arms: &str) -> Vec<serde_json::Value> {
        let base = ["server.js", "--path", "/fast", "--blocks", "2", "--no-latency", "--json"];
        let output = command.args(base).args(["-i", "2", "--arms", arms]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", self.sandbox.told(&output));
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let found = document["arms"].as_array().unwrap().clone();
        for arm in &found {
            assert_eq!(arm["errors"]["total"], 0, "{arm}");
            assert!(arm["requests"].as_u64().unwrap() > 0, "{arm}");
        }
        self.nothing_is_left();
        found
    }

    pub(crate) fn fails(&self, args: &[&str], exit: i32) -> String {
        let output = self.run(args);
        let told = self.sandbox.told(&output);
        assert_eq!(output.status.code(), Some(exit), "{told}");
        self.nothing_is_left();
        told
    }

    /// No file in the temporary directory, and no process whose environment or arguments contain it.
    pub(crate) fn nothing_is_left(&self) {
        let files: Vec<_> =
            fs_err::read_dir(&self.temporary).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(files.is_empty(), "{files:?}");
        let mark = self.temporary.to_string_lossy().into_owned();
        let marked = |pid: &str| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&read("environ")).contains(&mark)
                || String::from_utf8_lossy(&read("cmdline")).contains(&mark)
        };
        let alive: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && marked(name))
            .collect();
        assert!(alive.is_empty(), "{alive:?}");
    }
}

#[test]
fn a_wrong_path_is_told_for_a_plain_process_and_for_a_cluster() {
    let lab = Lab::new();
    for arms in ["single,cluster", "cluster,single", "node-cluster,single"] {
        let told = lab.fails(&["compare", "server.js", "--path", "/wrong", "--arms", arms], 1);
        let arm = arms.split(',').next().unwrap();
        assert!(told.contains(&format!("error: {arm}: GET /wrong is answered with status 404")), "{told}");
        assert!(told.contains("hint: `--path` names the route"), "{told}");
    }
}

#[test]
fn an_app_that_does_not_start_is_told_with_its_last_words() {
    let lab = Lab::new();
    lab.sandbox.write("broken.js", "throw new Error('no database');");
    for arms in ["single,cluster", "cluster,single"] {
        let told = lab.fails(&["compare", "broken.js", "--arms", arms], 1);
        assert!(told.contains("ended with exit code 1") && told.contains("no database"), "{told}");
    }
    lab.sandbox.write("idle.js", "setInterval(() => {}, 1000);");
    let told = lab.fails(&["compare", "idle.js", "--start-timeout", "300ms"], 1);
    assert!(told.contains("single: the app did not listen on a TCP port"), "{told}");
}

#[test]
fn a_server_whose_port_another_program_took_gets_another_port() {
    let lab = Lab::new();
    lab.sandbox.write(
        "late.js",
        "const fs = require('fs');
        const file = __dirname + (require('cluster').isWorker ? '/cluster' : '/single');
        const port = process.env.PORT;
        fs.appendFileSync(file, port + '\\n');
        const ports = fs.readFileSync(file, 'utf8').split('\\n');
        if (process.env.TAKEN === 'all' || port === ports[0]) {
            throw new Error('listen EADDRINUSE: address already in use :::' + port);
        }
        require('./server.js');",
    );
    let ports = |arm: &str| -> BTreeSet<String> {
        let started = fs_err::read_to_string(lab.sandbox.work().join(arm)).unwrap();
        started.lines().map(str::to_owned).collect()
    };
    let base = ["compare", "late.js", "--path", "/fast", "--blocks", "2", "--no-latency", "-i", "2"];
    let output = lab.run(&base);
    assert_eq!(output.status.code(), Some(0), "{}", lab.sandbox.told(&output));
    assert!(ports("single").len() > 1 && ports("cluster").len() > 1);
    fs_err::remove_file(lab.sandbox.work().join("single")).unwrap();
    let told = lab.fails(&[&base[..], &["--env", "TAKEN=all"]].concat(), 1);
    assert!(told.contains("ended with exit code 1") && told.contains("EADDRINUSE"), "{told}");
    assert_eq!(ports("single").len(), 3);
}

#[test]
fn what_is_asked_beside_reaches_the_server_and_must_be_answered() {
    let lab = Lab::new();
    let told = lab.fails(&["compare", "server.js", "--path", "/fast", "--beside", "/none@50"], 1);
    assert!(told.contains("times status 404"), "{told}");
}

#[test]
fn what_makes_no_sense_is_wrong_use() {
    let lab = Lab::new();
    for (args, expected) in [
        (&["compare", "server.js", "--arms", "single"][..], "at least two arms"),
        (&["compare", "server.js", "--arms", "single,duo"], "no arm of that name"),
        (&["compare", "server.js", "--path", "fast"], "does not begin with `/`"),
        (&["compare", "server.js", "--budget", "1s"], "too short to measure anything"),
        (&["compare", "server.js", "--blocks", "1"], "no spread"),
        (&["compare", "server.js", "-c", "0"], "0 connections"),
        (&["compare", "server.js", "-H", "nonsense"], "no name before a colon"),
        (&["compare", "missing.js"], "does not exist"),
        (
            &["compare", "server.js", "--arms", "node=/nowhere/node,/bin/node", "--path", "/fast"],
            "is not a program",
        ),
        (&["tune", "server.js", "--workers", "0"], "a number from 1 to 1024"),
        (&["tune", "server.js", "--pools", "1-500"], "a number from 1 to 1024"),
        (&["compare", "server.js", "--beside", "/slow"], "expected PATH@RATE"),
    ] {
        let told = lab.fails(args, 2);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_one_that_is_not() {
    let lab = Lab::new();
    let told = lab.fails(&["compare", "server.js", "--path", "/fast", "--budget", "5s", "--blocks", "40"], 2);
    assert!(told.contains("error: a budget of 5 s is too small:"), "{told}");
    assert!(told.contains("` would do") && told.contains("`--extend`"), "{told}");
}

#[test]
fn a_short_comparison_has_its_document_and_its_page() {
    let lab = Lab::new();
    let page = lab.sandbox.work().join("page.html");
    let output = lab.run(&[
        "compare",
        "server.js",
        "--path",
        "/fast",
        "--blocks",
        "2",
        "--budget",
        "5s",
        "--extend",
        "--seed",
        "7",
        "--json",
        "--html",
        "page.html",
        "--env",
        "KEY=hunter-7",
        "-H",
        "Authorization: hunter-8",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", lab.sandbox.told(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<&str> =
        document["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["single", "cluster"]);
    assert!(document["throughput"]["ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(document["throughput"]["ci95"].as_array().unwrap().len(), 2);
    has_its_tail(&document["latency"]);
    // Two blocks prove nothing.
    assert_eq!(document["trustworthy"], false);
    let notes = document["trust"]["notes"].as_array().unwrap();
    let is_told = |note: &serde_json::Value| {
        // If fewer than two blocks were undisturbed, that is reported instead.
        note["level"] == "warning" && (note["code"] == "few_blocks" || note["code"] == "disturbed")
    };
    assert!(notes.iter().any(is_told), "{notes:?}");
    let words = ["faster", "slower", "no difference", "inconclusive"];
    assert!(words.contains(&document["verdict"].as_str().unwrap()), "{}", document["verdict"]);
    let command = document["command"].as_str().unwrap();
    assert!(command.contains("--seed 7 --json --html page.html --env"), "{command}");
    assert!(command.contains("KEY=…") && command.contains("Authorization: …"), "{command}");
    assert_eq!(document["arms"][0]["errors"]["total"], 0);
    assert!(document["arms"][1]["memory_bytes"].as_u64().unwrap() > 1 << 20);
    let html = fs_err::read_to_string(&page).unwrap();
    assert!(!html.contains("hunter-") && !stdout(&output).contains("hunter-"));
    assert!(
        html.contains("<!doctype html") || html.contains("<!DOCTYPE html"),
        "{}",
        &html[..200.min(html.len())]
    );
    lab.nothing_is_left();
}

/// A 99th percentile with its interval; or, as docs/COMPARE.md says, the reason why there is none.
fn has_its_tail(latency: &serde_json::Value) {
    let has_interval = |key: &str| {
        let found = &latency[key];
        found["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0)
            && found["ci95"].as_array().is_some_and(|bounds| bounds.len() == 2)
    };
    if has_interval("p99") {
        assert_eq!(latency["p99_reason"], serde_json::Value::Null, "{latency}");
        return;
    }
    let reason = latency["p99_reason"].as_str().unwrap_or_default();
    // On a busy machine the budget may not suffice for latencies.
    let reasons = ["too few requests", "more than 1 %", "do not both keep up", "latency was not measured"];
    assert!(reasons.iter().any(|known| reason.contains(known)), "{latency}");
    assert_eq!(latency["p99"]["ci95"], serde_json::Value::Null, "{latency}");
}

#[test]
fn every_kind_of_arm_answers_all_requests_and_is_ended() {
    let lab = Lab::new();
    let arms = "single,workers=1,pool=2,balance=direct,node-cluster";
    let document = lab.compared(&mut lab.command(&["compare", "--beside", "/fast@20"]), arms);
    let names: Vec<&str> = document.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["single", "workers=1", "pool=2", "balance=direct", "node-cluster"]);
}

#[test]
fn pm2_is_an_arm_where_it_is_installed() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/node_modules/.bin");
    if !folder.join("pm2").exists() {
        eprintln!("skipped: PM2 is not installed (npm ci --prefix bench)");
        return;
    }
    let lab = Lab::new();
    let mut command = lab.command(&["compare"]);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder).chain(std::env::split_paths(&paths));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    let document = lab.compared(&mut command, "single,pm2");
    assert_eq!(document[1]["name"], "pm2");
}

#[test]
fn a_short_tuning_has_its_document_its_page_and_writes_its_choice() {
    let lab = Lab::new();
    let base = ["tune", "server.js", "--path", "/fast", "--workers", "1,2", "--pools", "4"];
    let tuned = |budget| {
        lab.run(
            &[&base[..], &["--json", "--html", "p.html", "--apply", "--save", "--budget", budget]].concat(),
        )
    };
    // On a busy machine a small budget may be refused.
    let refused = |output: &std::process::Output| stdout(output).is_empty();
    let mut output = tuned("40s");
    for budget in ["4m", "20m"] {
        if refused(&output) {
            output = tuned(budget);
        }
    }
    assert!(!refused(&output), "{}", lab.sandbox.told(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    // On a busy machine the result may be untrustworthy: then there is no advice, and nothing is written.
    let is_trusted = document["trustworthy"] == true;
    assert_eq!(output.status.code(), Some(if is_trusted { 0 } else { 6 }), "{}", lab.sandbox.told(&output));
    for key in
        ["kind", "version", "headline", "choice", "trustworthy", "plan", "table", "usl", "patch", "trust"]
    {
        assert!(document.get(key).is_some(), "{key}");
    }
    let rows = document["table"].as_array().unwrap();
    let mut tried: Vec<u64> = rows.iter().map(|row| row["workers"].as_u64().unwrap()).collect();
    tried.sort_unstable();
    assert_eq!(tried, [1, 2]);
    for row in rows {
        assert!(row["per_second"].as_f64().unwrap() > 0.0 && row["rounds"].as_u64().unwrap() > 0, "{row}");
        assert!(row["memory_bytes"].as_u64().unwrap() > 1 << 20, "{row}");
    }
    // One best candidate, and the others relative to it.
    let best: Vec<_> = rows.iter().filter(|row| row["best"] == true).collect();
    assert_eq!((best.len(), &best[0]["relative_percent"]), (1, &serde_json::json!(0.0)));
    for row in rows {
        let [own, of_best] = [row, best[0]].map(|row| row["per_second"].as_f64().unwrap());
        let relative = row["relative_percent"].as_f64().unwrap();
        assert!((relative - (own / of_best - 1.0) * 100.0).abs() < 0.01, "{row}");
    }
    let chosen: Vec<_> = rows.iter().filter(|row| row["chosen"] == true).collect();
    let config = fs_err::read_to_string(lab.sandbox.work().join("forkful.config.json"));
    let saved = fs_err::read_to_string(lab.sandbox.work().join("forkful.measured.json"));
    assert_eq!(saved.is_ok(), is_trusted);
    if is_trusted {
        what_is_saved_is_what_is_exported(&lab, &document, &saved.unwrap());
        assert_eq!(chosen.len(), 1);
        let workers = &document["choice"]["workers"];
        assert_eq!((&chosen[0]["workers"], &chosen[0]["pool"]), (workers, &document["choice"]["pool"]));
        assert_eq!(chosen[0]["pool"], 4);
        assert_eq!(document["patch"]["applied"], true);
        let config: serde_json::Value = serde_json::from_str(&config.unwrap()).unwrap();
        assert_eq!(&config["apps"][0]["instances"], workers, "{config}");
        assert!(config["apps"][0]["script"].as_str().unwrap().ends_with("server.js"), "{config}");
    } else {
        assert!(chosen.is_empty() && document["patch"].is_null() && config.is_err(), "{document}");
        assert!(document["headline"].as_str().unwrap().starts_with("no advice"), "{document}");
    }
    assert!(fs_err::read_to_string(lab.sandbox.work().join("p.html")).unwrap().contains("\"tune\""));
    lab.nothing_is_left();
}

fn what_is_saved_is_what_is_exported(lab: &Lab, document: &serde_json::Value, saved: &str) {
    let saved: serde_json::Value = serde_json::from_str(saved).unwrap();
    let server = &saved["apps"]["server"];
    let workers = &document["choice"]["workers"];
    assert_eq!(&server["workers"], workers, "{saved}");
    let found: Vec<u64> =
        server["candidates"].as_array().unwrap().iter().map(|one| one["workers"].as_u64().unwrap()).collect();
    assert_eq!(found, [1, 2], "{saved}");
    let exported = lab.sandbox.run(&["export", "kubernetes", "--image", "a:1", "--port", "3000"]);
    let told = stdout(&exported);
    assert!(told.contains("# Measured on ") && told.contains("at saturation, measured"), "{told}");
}

#[test]
fn two_scripts_with_a_number_of_workers_are_compared_as_clusters() {
    let lab = Lab::new();
    lab.sandbox.write("new.js", SERVER);
    let base = ["compare", "server.js", "new.js", "-i", "2", "--path", "/fast", "--json"];
    let output = lab.run(&[&base[..], &["--blocks", "2", "--no-latency"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", lab.sandbox.told(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    for (index, name) in ["server.js", "new.js"].into_iter().enumerate() {
        let arm = &document["arms"][index];
        assert!(arm["name"].as_str().unwrap().contains(name), "{arm}");
        // Two workers, the daemon and its keeper.
        assert_eq!(arm["processes"], 4, "{arm}");
    }
    lab.nothing_is_left();
}

#[test]
fn apps_that_cannot_run_side_by_side_are_compared_one_after_the_other() {
    let lab = Lab::new();
    // An abstract socket's name is free again when its process has exited, in any way.
    let alone = format!("require('net').createServer().listen('\\0' + __dirname);\n{SERVER}");
    lab.sandbox.write("old.js", &alone);
    lab.sandbox.write("new.js", &alone);
    let base = ["compare", "old.js", "new.js", "--path", "/fast"];
    let output = lab.run(&[&base[..], &["--blocks", "2", "--no-latency"]].concat());
    let told = lab.sandbox.told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("the arms cannot run side by side") && told.contains("EADDRINUSE"), "{told}");
    assert!(told.contains("2 blocks in random order") && told.contains("\nnew.js "), "{told}");
    lab.nothing_is_left();
}

#[test]
fn an_interruption_ends_everything_that_was_started() {
    let lab = Lab::new();
    for arms in ["cluster,single", "single,cluster"] {
        let mut command = lab.command(&["compare", "server.js", "--path", "/fast", "--arms", arms]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = Guarded::spawn(&mut command);
        let deadline = Instant::now() + BOUND;
        // The first server's directory exists: something was started.
        while fs_err::read_dir(&lab.temporary).unwrap().next().is_none() {
            assert!(Instant::now() < deadline, "nothing was started");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = rustix::process::Pid::from_child(&run.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(run.child.wait().unwrap().code(), Some(130));
        lab.nothing_is_left();
    }
}

#[test]
fn a_second_interruption_kills_what_does_not_want_to_end() {
    let lab = Lab::new();
    lab.sandbox.write(
        "stubborn.js",
        "for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
        setInterval(() => {}, 1000);
        require('http').createServer((q, s) => s.end('ok')).listen(Number(process.env.PORT));",
    );
    let mut command = lab.command(&["compare", "stubborn.js", "--arms", "cluster,single"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Guarded::spawn(&mut command);
    let mut told = BufReader::new(run.child.stderr.take().unwrap());
    let mut all = String::new();
    let pid = rustix::process::Pid::from_child(&run.child);
    let interrupt = || rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let deadline = Instant::now() + BOUND;
    // One directory for each server: both arms were started.
    while fs_err::read_dir(&lab.temporary).unwrap().count() < 2 {
        assert!(Instant::now() < deadline, "nothing was started");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt();
    while !all.contains("stopping everything that was started") {
        assert_ne!(told.read_line(&mut all).unwrap(), 0, "{all}");
    }
    interrupt();
    assert_eq!(run.child.wait().unwrap().code(), Some(130), "{all}");
    lab.nothing_is_left();
}

#[test]
fn an_app_with_tls_is_compared_where_its_certificate_is_trusted_or_not_asked_for() {
    let lab = Lab::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    lab.sandbox.write("key.pem", &made.signing_key.serialize_pem());
    lab.sandbox.write("cert.pem", &made.cert.pem());
    lab.sandbox.write("other.pem", &rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem());
    lab.sandbox.write(
        "secure.js",
        "const read = (name) => require('fs').readFileSync(__dirname + '/' + name);
        require('https').createServer({ key: read('key.pem'), cert: read('cert.pem') }, (q, s) => s.end('ok'))
            .listen(Number(process.env.PORT));",
    );
    let told = lab.fails(&["compare", "secure.js"], 1);
    assert!(told.contains("GET / at port") && told.contains("hint: is that the right port"), "{told}");
    assert!(told.contains("say `--https`"), "{told}");
    let told = lab.fails(&["compare", "secure.js", "--https", "--arms", "cluster,single"], 1);
    assert!(told.contains("error: cluster: no TLS connection to port"), "{told}");
    assert!(
        told.contains("the server's certificate is not valid") && told.contains("`--insecure`"),
        "{told}"
    );
    let told = lab.fails(&["compare", "secure.js", "--https", "--cacert", "other.pem"], 1);
    assert!(told.contains("the server's certificate is not valid"), "{told}");
    let told = lab.fails(&["compare", "server.js", "--path", "/fast", "--https", "-k"], 1);
    assert!(told.contains("no TLS connection") && told.contains("the TLS handshake failed"), "{told}");
    let told = lab.fails(&["compare", "secure.js", "--insecure"], 2);
    assert!(told.contains("--https"), "{told}");
    let trusted = ["--https", "--cacert", "cert.pem", "--server-name", "localhost"];
    for trust in [&trusted[..], &["--https", "-k"]] {
        let base = ["compare", "secure.js", "--blocks", "2", "--no-latency", "--json"];
        let output = lab.run(&[&base[..], trust].concat());
        assert_eq!(output.status.code(), Some(0), "{}", lab.sandbox.told(&output));
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(document["arms"][1]["errors"]["total"], 0);
        assert!(document["throughput"]["ratio"].as_f64().unwrap() > 0.0);
        lab.nothing_is_left();
    }
}
