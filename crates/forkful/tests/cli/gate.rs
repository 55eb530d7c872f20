//! `forkful compare --git`: two commits are measured, the exit code is the gate, the checkout is unchanged,
//! and nothing is left behind. Figures are only checked as far as the machine allowed a measurement.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{BOUND, Lab, SERVER};
use crate::sandbox::{Guarded, stdout};

/// Computes before its first answer.
const SLOW_SERVER: &str = "require('http').createServer((q, s) => {
    for (const end = process.cpuUsage().user + 5000; process.cpuUsage().user < end;);
    s.end('ok');
}).listen(Number(process.env.PORT));";

struct Repository {
    lab: Lab,
}

impl Repository {
    /// Commits with these servers; the last one is checked out.
    fn new(servers: &[&str]) -> Self {
        let repository = Self { lab: Lab::new() };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        fs_err::write(repository.lab.sandbox.work().join(".gitignore"), "t\nnode_modules\n").unwrap();
        for server in servers {
            repository.commit(&[("server.js", server)]);
        }
        repository
    }

    fn commit(&self, files: &[(&str, &str)]) {
        files.iter().for_each(|(name, text)| self.lab.sandbox.write(name, text));
        self.git(&["add", "."]);
        self.git(&[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "x",
        ]);
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        let output = git
            .args(args)
            .current_dir(self.lab.sandbox.work())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn state(&self) -> String {
        let index = fs_err::read(self.lab.sandbox.work().join(".git/index")).unwrap();
        let said =
            [&["status", "--porcelain"][..], &["worktree", "list"], &["branch", "--all"], &["stash", "list"]];
        format!("{:?}{index:?}", said.map(|args| self.git(args)))
    }

    fn compare(&self, args: &[&str]) -> Output {
        self.lab.run(&[&["compare", "--git"][..], args].concat())
    }
}

#[test]
fn a_commit_that_answers_more_slowly_fails_the_gate() {
    let repository = Repository::new(&[SERVER, SLOW_SERVER]);
    let before = repository.state();
    let args = ["main~1", "main", "server.js", "--path", "/fast", "--no-latency", "--json", "-c", "4"];
    let output = repository.compare(&[&args[..], &["--blocks", "6"]].concat());
    let told = repository.lab.sandbox.told(&output);
    let document: Value = serde_json::from_str(&stdout(&output)).expect(&told);
    let names = ["name", "commit"].map(|key| document["versions"][0][key].as_str().unwrap().to_owned());
    assert_eq!(names, ["main~1".to_owned(), repository.git(&["rev-parse", "main~1"]).trim().to_owned()]);
    assert_eq!(
        (&document["arms"][0]["name"], &document["arms"][1]["name"]),
        (&"main~1".into(), &"main".into())
    );
    assert!(document["throughput"]["ratio"].as_f64().unwrap() < 1.0, "{told}");
    // On a shared machine the result may be inconclusive, which is then reported.
    let is_told = document["trustworthy"] == true && document["verdict"] == "slower";
    assert_eq!(output.status.code(), Some(if is_told { 5 } else { 6 }), "{told}");
    let reason = if is_told { "note: slower: requests per second" } else { "note: not known: " };
    assert!(told.contains(reason), "{told}");
    assert_eq!(repository.state(), before);
    repository.lab.nothing_is_left();
}

#[test]
fn a_build_makes_both_versions_ready_and_the_report_can_be_markdown() {
    let repository = Repository::new(&[]);
    // The build creates the script that package.json names.
    let package = r#"{ "scripts": { "start": "node dist.js" }, "dependencies": { "none": "1" } }"#;
    repository.commit(&[("package.json", package), ("source.js", SERVER)]);
    repository.commit(&[("source.js", &format!("{SERVER}\n// later"))]);
    let before = repository.state();
    let args = ["HEAD~1", "HEAD", "--path", "/fast", "--no-latency", "--markdown", "--blocks", "2"];
    let output = repository.compare(&[&args[..], &["--build", "cp source.js dist.js"]].concat());
    let told = repository.lab.sandbox.told(&output);
    // Two blocks prove nothing.
    assert_eq!(output.status.code(), Some(6), "{told}");
    let markdown = stdout(&output);
    assert!(
        markdown.starts_with("<!-- forkful compare -->\n### Performance of `GET /fast`: not known\n"),
        "{markdown}"
    );
    let head = repository.git(&["rev-parse", "HEAD"]);
    assert!(markdown.contains(&format!("| `HEAD` `{}` | change", &head[..10])), "{markdown}");
    assert!(markdown.contains("\n| requests/s | ") && markdown.contains("**Not trustworthy**"), "{markdown}");
    assert_eq!(repository.state(), before);
    repository.lab.nothing_is_left();
}

#[test]
fn packages_of_the_checkout_are_used_when_they_are_the_same() {
    let server = format!("require('greeting');\n{SERVER}");
    let repository = Repository::new(&[]);
    let package = r#"{ "dependencies": { "greeting": "1" } }"#;
    repository.commit(&[("package.json", package), ("package-lock.json", "1"), ("server.js", &server)]);
    repository.commit(&[]);
    let module = "node_modules/greeting/index.js";
    fs_err::create_dir_all(repository.lab.sandbox.work().join("node_modules/greeting")).unwrap();
    repository.lab.sandbox.write(module, "");
    let args = ["HEAD~1", "HEAD", "server.js", "--path", "/fast", "--no-latency", "--blocks", "2"];
    let output = repository.compare(&args);
    assert_eq!(output.status.code(), Some(6), "{}", repository.lab.sandbox.told(&output));
    assert!(stdout(&output).contains("\nHEAD~1 "), "{}", stdout(&output));
    assert!(repository.lab.sandbox.work().join(module).is_file());
    repository.commit(&[("package-lock.json", "2")]);
    let before = repository.state();
    let told = repository.lab.fails(&[&["compare", "--git"][..], &args].concat(), 2);
    assert!(told.contains("needs other packages: its package-lock.json is not the one of this"), "{told}");
    assert!(told.contains("hint: `--build 'npm ci'` installs them"), "{told}");
    assert_eq!(repository.state(), before);
}

#[test]
fn what_cannot_be_compared_is_refused_and_leaves_nothing() {
    let repository = Repository::new(&[SERVER, SERVER]);
    repository.commit(&[("new.js", SERVER)]);
    let before = repository.state();
    for (args, exit, expected) in [
        (&["gone", "HEAD", "server.js"][..], 2, "error: gone: git knows no commit of this name here"),
        (&["HEAD~1", "HEAD", "new.js"], 2, "has no file new.js"),
        (&["HEAD~1", "HEAD", "server.js", "new.js"], 2, "two were named"),
        (
            &["HEAD~1", "HEAD", "server.js", "--arms", "single,cluster"],
            2,
            "with one arm, but `single,cluster` has several",
        ),
        (&["HEAD~1", "HEAD", "server.js", "--build", "echo no compiler; false"], 1, "no compiler"),
        (&["HEAD~1", "HEAD", "server.js", "--path", "/none"], 1, "is answered with status 404"),
    ] {
        let told = repository.lab.fails(&[&["compare", "--git"][..], args].concat(), exit);
        assert!(told.contains(expected), "{args:?}: {told}");
        assert_eq!(repository.state(), before);
    }
    let lab = Lab::new();
    let told = lab.fails(&["compare", "--git", "a", "b", "server.js"], 1);
    assert!(told.contains("not a git repository"), "{told}");
}

#[test]
fn an_interruption_of_a_build_ends_it_and_removes_both_versions() {
    let repository = Repository::new(&[SERVER, SERVER]);
    let before = repository.state();
    let started = repository.lab.sandbox.work().join("t/started");
    let build = format!("echo > {}; sleep 600 & wait", started.display());
    let mut command =
        repository.lab.command(&["compare", "--git", "HEAD~1", "HEAD", "server.js", "--build", &build]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Guarded::spawn(&mut command);
    let deadline = Instant::now() + 2 * BOUND;
    while !started.exists() {
        assert!(Instant::now() < deadline, "nothing was built");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&run.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    fs_err::remove_file(&started).unwrap();
    assert_eq!(repository.state(), before);
    repository.lab.nothing_is_left();
}
