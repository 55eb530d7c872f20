//! `forkful compare a.json b.json`: two saved reports, and files that are not reports.

use serde_json::Value;

use crate::http::Server;
use crate::sandbox::{Sandbox, stdout};

#[test]
fn two_saved_runs_are_compared_and_what_was_not_the_same_is_named() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    for (name, connections) in [("a.json", "2"), ("b.json", "3")] {
        let output = sandbox.run(&[
            "bench",
            "--json",
            "-d",
            "1s",
            "-c",
            connections,
            &server.url("/fast?token=s3cret"),
        ]);
        sandbox.write(name, &stdout(&output));
    }
    let output = sandbox.run(&["compare", "a.json", "b.json", "--html", "page.html"]);
    let told = sandbox.told(&output);
    assert_eq!(output.status.code(), Some(6), "another load has no verdict: {told}");
    for part in ["ot known: the loads differ (connections)", "another load", "an interval needs 5 seconds"] {
        assert!(told.to_lowercase().replace('\n', " ").contains(&part.to_lowercase()), "{part}: {told}");
    }
    let page = fs_err::read_to_string(sandbox.work().join("page.html")).unwrap();
    assert!(page.contains("What was not the same") && !page.contains("s3cret"));
    let json = sandbox.run(&["compare", "a.json", "a.json", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(
        (document["kind"].as_str(), document["verdict"].as_str()),
        (Some("reports"), Some("not known"))
    );
    assert_eq!(
        (&document["differences"], &document["figures"][0]["ratio"]),
        (&serde_json::json!([]), &1.0.into())
    );
    let markdown = stdout(&sandbox.run(&["compare", "a.json", "b.json", "--markdown"]));
    assert!(markdown.contains("| connections | 2 | 3 | **another load** |"), "{markdown}");
}

#[test]
fn a_file_that_is_no_report_is_refused_with_its_place() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", "{\"kind\": \"bench\",\n \"version\": 1}");
    sandbox.write("cut.json", "{\"kind\": \"bench\",\n \"vers");
    sandbox.write("tune.json", "{\"kind\": \"tune\", \"version\": 1}");
    let table = [
        ("cut.json", "cut.json:2:6: it is not complete JSON"),
        (
            "tune.json",
            "tune.json: it is not a report of `bench --json` or `compare --json`: `kind` is \"tune\"",
        ),
        ("a.json", "a.json: `trustworthy` is missing, and should be true or false"),
        ("none.json", "cannot read none.json"),
        ("fifo.json", "it is not a regular file"),
    ];
    let made = std::process::Command::new("mkfifo").arg(sandbox.work().join("fifo.json")).status().unwrap();
    assert!(made.success());
    for (file, message) in table {
        let output = sandbox.run(&["compare", "a.json", file]);
        let told = sandbox.told(&output);
        assert_eq!((output.status.code(), told.contains(message)), (Some(2), true), "{file}: {told}");
    }
}
