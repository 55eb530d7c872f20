//! Deployments with git, to this machine and through `ssh`. `tests/e2e/deploy.test.mjs` tests the host's own
//! `ssh` and `sshd`; here a fake program records its arguments.

use std::process::Command;

use crate::sandbox::{Sandbox, exists};
use forkful_testkit::write_executable;
use insta::assert_snapshot;

/// A sandbox with a repository `origin.git`, a clone of it in `work/app`, and a target.
struct Shop {
    sandbox: Sandbox,
}

impl Shop {
    fn new(target: &str) -> Self {
        let shop = Self { sandbox: Sandbox::new() };
        let work = shop.sandbox.work();
        shop.git(".", &["init", "--quiet", "--bare", "--initial-branch=main", "origin.git"]);
        shop.git(".", &["clone", "--quiet", "origin.git", "app"]);
        let config = format!(
            "{{ \"apps\": [{{ \"script\": \"app.js\" }}],\n  \"deploy\": {{ \"live\": {{ \"repo\": \"{0}/origin.git\", \"ref\": \"origin/main\", \"path\": \"{0}/there\",\n    {target} }} }} }}\n",
            work.display()
        );
        fs_err::write(work.join("app/forkful.config.json"), config).unwrap();
        shop.commit("one");
        shop
    }

    fn git(&self, directory: &str, args: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=Ann",
                "-c",
                "user.email=ann@example.com",
                "-c",
                "advice.detachedHead=false",
            ])
            .args(args)
            .current_dir(self.sandbox.work().join(directory))
            .env("HOME", self.sandbox.work())
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Commits and pushes a version.
    fn commit(&self, version: &str) {
        fs_err::write(self.sandbox.work().join("app/version"), version).unwrap();
        self.git("app", &["add", "."]);
        self.git("app", &["commit", "--quiet", "-m", version]);
        self.git("app", &["push", "--quiet", "origin", "HEAD:main"]);
        self.git("app", &["branch", "--quiet", "--set-upstream-to=origin/main"]);
    }

    fn deploy(&self, args: &[&str]) -> String {
        self.deploy_with(args, &std::env::var("PATH").unwrap())
    }

    fn deploy_with(&self, args: &[&str], path: &str) -> String {
        let mut command = self.sandbox.command(&["deploy"]);
        let output = command
            .args(args)
            .current_dir(self.sandbox.work().join("app"))
            .env("PATH", path)
            .output()
            .unwrap();
        let told = self.sandbox.told(&output);
        regex::Regex::new(r"\b[0-9a-f]{7}\b").unwrap().replace_all(&told, "[commit]").into_owned()
    }

    fn version_there(&self) -> String {
        fs_err::read_to_string(self.sandbox.work().join("there/current/version")).unwrap()
    }
}

#[test]
fn a_version_is_set_up_brought_listed_and_taken_back() {
    let shop = Shop::new(
        r#""host": "localhost", "env": { "GREETING": "it's me" }, "pre-deploy-local": "echo local",
           "pre-setup": "echo before setup", "post-setup": "echo after setup", "pre-deploy": "echo before",
           "post-deploy": "echo \"$GREETING\" with $(cat version) of $FORKFUL_DEPLOYMENT""#,
    );
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stdout
    local
    --- stderr
    [sandbox]/work/there/source is not there: set it up first, with the order setup
    error: localhost: [sandbox]/work/there/source is not there: set it up first, with the order setup
    ");
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 0
    --- stdout
    before setup
    after setup
    set up at [commit] one
    ");
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 1
    --- stdout
    before setup
    --- stderr
    [sandbox]/work/there/source is there already: it was set up before
    error: localhost: [sandbox]/work/there/source is there already: it was set up before
    ");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 0
    --- stdout
    local
    before
    it's me with one of [commit] one
    deployed [commit] one
    ");
    shop.commit("two");
    shop.git("app", &["tag", "v2"]);
    shop.git("app", &["push", "--quiet", "origin", "v2"]);
    assert_snapshot!(shop.deploy(&["forkful.config.json", "live", "update"]), @"
    exit: 0
    --- stdout
    local
    before
    it's me with two of [commit] two
    deployed [commit] two
    ");
    assert_eq!(shop.version_there(), "two");
    assert_snapshot!(shop.deploy(&["live", "curr"]), @"
    exit: 0
    --- stdout
    [commit] two
    ");
    assert_snapshot!(shop.deploy(&["live", "prev"]), @"
    exit: 0
    --- stdout
    [commit] one
    ");
    assert_snapshot!(shop.deploy(&["live", "revert"]), @"
    exit: 0
    --- stdout
    it's me with one of [commit] one
    deployed [commit] one
    ");
    assert_eq!(shop.version_there(), "one");
    let list = shop.deploy(&["live", "list"]);
    assert_eq!(list.matches("[commit]").count(), 3, "{list}");
    assert_snapshot!(shop.deploy(&["live", "ref", "v2"]), @"
    exit: 0
    --- stdout
    local
    before
    it's me with two of [commit] two
    deployed [commit] two
    ");
    assert_eq!(shop.version_there(), "two");
    assert_snapshot!(shop.deploy(&["live", "ref", "v9"]), @"
    exit: 1
    --- stdout
    local
    --- stderr
    there is no v9 in [sandbox]/work/origin.git
    error: localhost: there is no v9 in [sandbox]/work/origin.git
    ");
    assert_snapshot!(shop.deploy(&["live", "revert", "9"]), @"
    exit: 1
    --- stderr
    there are not 9 deployments to go back
    error: localhost: there are not 9 deployments to go back
    ");
    assert_snapshot!(shop.deploy(&["live", "exec", "pwd; exit 3"]), @"
    exit: 1
    --- stdout
    [sandbox]/work/there/current
    --- stderr
    error: localhost: it ended with exit code 3
    ");
    assert!(exists(&shop.sandbox.work().join("there/shared/logs")));
}

#[test]
fn a_config_file_is_reloaded_where_it_is_in_the_repository() {
    let shop = Shop::new(r#""host": "localhost""#);
    let app = shop.sandbox.work().join("app");
    fs_err::create_dir_all(app.join("apps/api")).unwrap();
    fs_err::rename(app.join("forkful.config.json"), app.join("apps/api/forkful.config.json")).unwrap();
    shop.commit("two");
    shop.deploy(&["apps/api/forkful.config.json", "live", "setup"]);
    let bin = shop.sandbox.work().join("bin");
    fs_err::create_dir(&bin).unwrap();
    write_executable(&bin.join("forkful"), "#!/bin/sh\necho \"forkful $*\"\n");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let absolute = app.join("apps/api/forkful.config.json");
    for config in
        ["apps/api/forkful.config.json", "./apps/../apps/api/forkful.config.json", absolute.to_str().unwrap()]
    {
        let told = shop.deploy_with(&[config, "live"], &path);
        assert!(
            told.contains("\nforkful reload apps/api/forkful.config.json --env live\n"),
            "{config}: {told}"
        );
    }
}

#[test]
fn before_the_first_deployment_there_is_none_to_show_or_to_go_back_to() {
    let shop = Shop::new(r#""host": "localhost", "post-deploy": "true""#);
    shop.deploy(&["live", "setup"]);
    assert_snapshot!(["revert", "curr", "list"].map(|order| shop.deploy(&["live", order])).concat(), @"
    exit: 1
    --- stderr
    there are not 1 deployments to go back
    error: localhost: there are not 1 deployments to go back
    exit: 1
    --- stderr
    nothing was deployed yet
    error: localhost: nothing was deployed yet
    exit: 1
    --- stderr
    nothing was deployed yet
    error: localhost: nothing was deployed yet
    ");
}

#[test]
fn a_target_with_the_required_keys_alone_reloads_its_apps() {
    let shop = Shop::new(r#""host": "localhost""#);
    let programs = shop.sandbox.work().join("programs");
    fs_err::create_dir(&programs).unwrap();
    fs_err::os::unix::fs::symlink(env!("CARGO_BIN_EXE_forkful"), programs.join("forkful")).unwrap();
    fs_err::write(shop.sandbox.work().join("app/app.js"), "setInterval(() => {}, 1000);").unwrap();
    shop.commit("two");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    shop.deploy(&["live", "setup"]);
    let told = shop.deploy_with(&["live"], &path);
    assert!(told.starts_with("exit: 0\n") && !told.contains("warning"), "{told}");
    shop.sandbox.run(&["kill"]);
}

/// Links to the programs that a deployment needs, without `flock`.
fn few_programs(shop: &Shop) -> String {
    let folder = shop.sandbox.work().join("few");
    fs_err::create_dir(&folder).unwrap();
    for name in "cat date echo git head id ln mkdir ps readlink rm sh sleep tail touch wc".split(' ') {
        let places = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|path| path.join(name))
            .collect::<Vec<_>>();
        let found = places.iter().find(|path| exists(path)).unwrap_or_else(|| panic!("no {name}"));
        fs_err::os::unix::fs::symlink(found, folder.join(name)).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn of_two_deployments_to_a_path_the_second_is_refused() {
    // What a hook leaves in the background holds no lock.
    let hook = "[ -e ../../left ] || { sleep 300 >/dev/null 2>&1 & echo $! > ../../left; }; touch ../../under-way; \
                while [ ! -e ../../go ]; do sleep 0.02; done";
    let shop = Shop::new(&format!(r#""host": "localhost", "post-deploy": "{hook}""#));
    let said = regex::Regex::new(
        r"error: localhost: another deployment to \S+/there is under way, by \S+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\n",
    )
    .unwrap();
    let few = few_programs(&shop);
    for path in [std::env::var("PATH").unwrap(), few] {
        let deploy = |order: &[&str]| shop.deploy_with(order, &path);
        deploy(&["live", "setup"]);
        let mark = |name: &str| shop.sandbox.work().join(name);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| deploy(&["live"]));
            forkful_testkit::wait_until("the hook", || exists(&mark("under-way")));
            for order in [&["live"][..], &["live", "revert", "0"]] {
                let told = deploy(order);
                assert!(told.starts_with("exit: 1\n") && said.is_match(&told), "{told}");
            }
            fs_err::write(mark("go"), "").unwrap();
            let first = first.join().unwrap();
            assert!(first.starts_with("exit: 0\n"), "{first}");
        });
        let after = deploy(&["live"]);
        assert!(after.starts_with("exit: 0\n"), "{after}");
        let left = fs_err::read_to_string(mark("left")).unwrap().trim().parse().unwrap();
        let left = rustix::process::Pid::from_raw(left).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
        ["go", "under-way", "left"].iter().for_each(|name| fs_err::remove_file(mark(name)).unwrap());
    }
}

#[test]
fn what_is_not_committed_or_pushed_is_not_forgotten() {
    let shop = Shop::new(r#""host": "localhost", "post-deploy": "true""#);
    shop.deploy(&["live", "setup"]);
    fs_err::write(shop.sandbox.work().join("app/version"), "edited").unwrap();
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    error: version is not committed

    hint: commit it, or deploy without it with --force
    ");
    assert_snapshot!(shop.deploy(&["live", "--force"]), @"
    exit: 0
    --- stdout
    deployed [commit] one
    ");
    shop.git("app", &["commit", "--quiet", "-am", "not pushed"]);
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    error: 1 commit is not pushed

    hint: push, or deploy without them with --force
    ");
    // The repository of the config counts, from any directory and without an upstream branch.
    shop.git("app", &["branch", "--quiet", "--unset-upstream"]);
    let elsewhere = shop.sandbox.transcript(&["deploy", "app/forkful.config.json", "live"]);
    assert!(elsewhere.contains("error: 1 commit is not pushed"), "{elsewhere}");
    shop.git("app", &["push", "--quiet", "origin", "HEAD:main"]);
    let pushed = shop.sandbox.transcript(&["deploy", "app/forkful.config.json", "live"]);
    assert!(pushed.starts_with("exit: 0"), "{pushed}");
}

#[test]
fn a_version_that_fails_or_is_not_healthy_is_taken_back_where_that_is_wanted() {
    let shop = Shop::new(
        r#""host": "localhost", "post-deploy": "test $(cat version) != broken\ntrue", "health": "test $(cat version) != sick",
           "health-timeout": "1s", "rollback": true"#,
    );
    shop.deploy(&["live", "setup"]);
    shop.commit("broken");
    let first = Shop::new(r#""host": "localhost", "post-deploy": "echo >> runs; false", "rollback": true"#);
    first.deploy(&["live", "setup"]);
    let told = first.deploy(&["live"]);
    assert!(
        told.contains("was not deployed: post-deploy failed; there is no other version to go back to"),
        "{told}"
    );
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    [commit] was not deployed: post-deploy failed; back at [commit] one
    error: localhost: [commit] was not deployed: post-deploy failed; back at [commit] one
    ");
    assert_eq!(shop.version_there(), "one");
    shop.commit("sick");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    [commit] was not deployed: it is not healthy after 1 s; back at [commit] one
    error: localhost: [commit] was not deployed: it is not healthy after 1 s; back at [commit] one
    ");
    assert_eq!(shop.version_there(), "one");
    shop.commit("well");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 0
    --- stdout
    deployed [commit] well
    ");
}

#[test]
fn hooks_and_variables_of_a_target_change_no_step_of_a_deployment() {
    let shop = Shop::new(
        r#""host": "localhost", "pre-setup": "cd /; echo \"$UNKNOWN\"; exit 0", "post-setup": "cd /; exit 0",
           "pre-deploy": "cd ../../other && test -f version && exit 0", "post-deploy": "test $(cat version) != broken",
           "env": { "path": "/nowhere", "repo": "/nowhere", "rollback": "yes", "before": "x", "why": "x", "deadline": "0" }"#,
    );
    shop.git(".", &["clone", "--quiet", "origin.git", "other"]);
    let other = shop.sandbox.work().join("other/version");
    fs_err::write(&other, "edited").unwrap();
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 0
    --- stdout

    set up at [commit] one
    ");
    shop.commit("two");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 0
    --- stdout
    deployed [commit] two
    ");
    assert_eq!(shop.version_there(), "two");
    assert_eq!(fs_err::read_to_string(other).unwrap(), "edited");
    assert_snapshot!(shop.deploy(&["live", "exec", "cat version; echo \"$path\"; cd /; false; echo not reached"]), @"
    exit: 1
    --- stdout
    two/nowhere
    --- stderr
    error: localhost: it ended with exit code 1
    ");
    shop.commit("broken");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    [commit] was not deployed: post-deploy failed
    error: localhost: [commit] was not deployed: post-deploy failed
    ");
    assert_eq!(shop.version_there(), "broken", "`rollback` is not on");
}

#[test]
fn a_hook_that_fails_ends_the_deployment_before_the_new_version() {
    let shop = Shop::new(r#""host": "localhost", "pre-deploy": "false; true", "post-deploy": "true""#);
    shop.deploy(&["live", "setup"]);
    shop.commit("two");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    pre-deploy ended with exit code 1
    error: localhost: pre-deploy ended with exit code 1
    ");
    assert_eq!(shop.version_there(), "one");
}

#[test]
fn a_setup_that_fails_can_be_repeated() {
    let shop = Shop::new(r#""host": "localhost", "post-setup": "test -e ../../allowed""#);
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 1
    --- stderr
    post-setup ended with exit code 1
    error: localhost: post-setup ended with exit code 1
    ");
    assert!(!exists(&shop.sandbox.work().join("there/source")));
    fs_err::write(shop.sandbox.work().join("allowed"), "").unwrap();
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 0
    --- stdout
    set up at [commit] one
    ");
}

#[test]
fn pre_setup_may_be_a_local_script() {
    let shop = Shop::new(r#""host": "localhost", "pre-setup": "tools/before.sh""#);
    fs_err::create_dir(shop.sandbox.work().join("app/tools")).unwrap();
    shop.sandbox.write("app/tools/before.sh", "#!/bin/sh\necho prepared\n");
    assert_snapshot!(shop.deploy(&["live", "setup"]), @"
    exit: 0
    --- stdout
    prepared
    set up at [commit] one
    ");
}

#[test]
fn a_check_that_does_not_end_is_ended_at_the_timeout() {
    let shop = Shop::new(
        r#""host": "localhost", "post-deploy": "true", "health": "echo $$ >> ../../checks; sleep 1000 & echo $! >> ../../checks; wait", "health-timeout": "1s""#,
    );
    shop.deploy(&["live", "setup"]);
    shop.commit("two");
    assert_snapshot!(shop.deploy(&["live"]), @"
    exit: 1
    --- stderr
    [commit] was not deployed: it is not healthy after 1 s
    error: localhost: [commit] was not deployed: it is not healthy after 1 s
    ");
    let checks = fs_err::read_to_string(shop.sandbox.work().join("checks")).unwrap();
    for pid in checks.lines() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        // It is gone when the system has taken its exit code.
        forkful_testkit::wait_until("its end", || rustix::process::test_kill_process(pid).is_err());
    }
}

#[test]
fn a_config_may_have_a_deploy_section_alone() {
    let shop = Shop::new(r#""host": "localhost", "post-deploy": "true""#);
    let file = shop.sandbox.work().join("app/forkful.config.json");
    let text = fs_err::read_to_string(&file).unwrap();
    let apps = r#""apps": [{ "script": "app.js" }],"#;
    assert!(text.contains(apps));
    for apps_instead in ["", r#""apps": [],"#] {
        fs_err::write(&file, text.replace(apps, apps_instead)).unwrap();
        assert_eq!(shop.deploy(&["live", "list"]).matches("set it up first").count(), 2);
    }
    assert!(shop.sandbox.transcript(&["start", "app/forkful.config.json"]).contains("an empty list"));
}

#[test]
fn several_hosts_are_reached_by_ssh_with_the_targets_options() {
    let shop = Shop::new(
        r#""host": ["one", "two", "gone"], "user": "ann", "port": 2222, "key": "/keys/id", "forward-agent": true,
           "ssh_options": ["StrictHostKeyChecking=no"], "post-deploy": "echo \"as $AS\"",
           "env": { "TOKEN": "not-for-others" }"#,
    );
    let bin = shop.sandbox.work().join("bin");
    fs_err::create_dir(&bin).unwrap();
    let ssh = "#!/bin/sh\nfor last; do :; done\necho \"$*\" >> \"$0.words\"\necho \"$*\" | sed 's| /bin/sh -c .*||' | head -n 1 >> \"$0.log\"\n\
               case \"$*\" in *ann@gone*) echo 'connect to host gone port 2222: refused' >&2; exit 255;; esac\n\
               case \"$*\" in *ann@one*) export AS=one; there=/there;; *) export AS=two; there=/there2;; esac\n\
               sed \"s|/there|$there|\" | /bin/sh -c \"$last\"\n";
    write_executable(&bin.join("ssh"), ssh);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let sorted = |told: String| {
        let mut lines: Vec<&str> = told.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    assert_snapshot!(sorted(shop.deploy_with(&["live", "setup"], &path)), @"
    --- stderr
    --- stdout
    error: 1 of 3 hosts failed
    exit: 1
    gone | connect to host gone port 2222: refused
    gone: ssh could not connect or log in: connect to host gone port 2222: refused
    one | set up at [commit] one
    two | set up at [commit] one
    ");
    assert_snapshot!(sorted(shop.deploy_with(&["live"], &path)), @"
    --- stderr
    --- stdout
    error: 1 of 3 hosts failed
    exit: 1
    gone | connect to host gone port 2222: refused
    gone: ssh could not connect or log in: connect to host gone port 2222: refused
    one | as one
    one | deployed [commit] one
    two | as two
    two | deployed [commit] one
    ");
    let words = fs_err::read_to_string(bin.join("ssh.words")).unwrap();
    assert!(!words.contains("not-for-others") && !words.contains("as $AS"), "in ssh's arguments: {words}");
    let log = fs_err::read_to_string(bin.join("ssh.log")).unwrap();
    assert_snapshot!(log.lines().find(|line| line.contains("@one")).unwrap(), @"-o BatchMode=yes -p 2222 -i /keys/id -A -o StrictHostKeyChecking=no -- ann@one");
}

#[test]
fn a_script_comes_to_a_host_with_a_terminal_in_a_file_that_is_gone_afterwards() {
    let shop = Shop::new(
        r#""host": "one", "needs_tty": true, "env": { "TOKEN": "not-for-others" }, "post-deploy": "echo \"with $TOKEN\"""#,
    );
    let bin = shop.sandbox.work().join("bin");
    let temporary = shop.sandbox.work().join("tmp");
    fs_err::create_dir(&bin).unwrap();
    fs_err::create_dir(&temporary).unwrap();
    // With a terminal, everything on stdin would be echoed.
    let ssh = "#!/bin/sh\nfor last; do :; done\necho \"$*\" >> \"$0.words\"\n\
               export TMPDIR=\"$(dirname \"$0\")/../tmp\"\n\
               case \" $*\" in *' -tt '*) [ -z \"$(cat)\" ] || exit 9;; esac\n\
               exec /bin/sh -c \"$last\"\n";
    write_executable(&bin.join("ssh"), ssh);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    assert_snapshot!(shop.deploy_with(&["live", "setup"], &path), @"
    exit: 0
    --- stdout
    set up at [commit] one
    ");
    assert_snapshot!(shop.deploy_with(&["live"], &path), @"
    exit: 0
    --- stdout
    with not-for-others
    deployed [commit] one
    ");
    let words = fs_err::read_to_string(bin.join("ssh.words")).unwrap();
    assert!(!words.contains("not-for-others"), "in ssh's arguments: {words}");
    assert_eq!(words.matches(" -tt ").count(), 2, "{words}");
    assert_eq!(fs_err::read_dir(&temporary).unwrap().count(), 0, "no script is left");
}

#[test]
fn a_repository_is_never_an_option_of_git() {
    let shop = Shop::new(r#""host": "localhost", "post-deploy": "true""#);
    let file = shop.sandbox.work().join("app/forkful.config.json");
    let mark = shop.sandbox.work().join("mark");
    let text = fs_err::read_to_string(&file).unwrap();
    let repo = format!("{}/origin.git", shop.sandbox.work().display());
    let option = format!("--upload-pack=touch {}", mark.display());
    fs_err::write(&file, text.replace(&repo, &option)).unwrap();
    assert_snapshot!(shop.deploy(&["live", "setup"]), @r#"
    exit: 2
    --- stderr
    error: forkful.config.json:2:33: deploy.live.repo is "--upload-pack=touch [sandbox]/work/mark"; expected one word that does not begin with `-`
    "#);
    assert!(!exists(&mark));
}

#[test]
fn wrong_words_are_explained() {
    let shop = Shop::new(r#""host": "localhost""#);
    assert_snapshot!(shop.deploy(&["prod"]), @"
    exit: 2
    --- stderr
    error: forkful.config.json has no target `prod`

    hint: there is live
    ");
    assert_snapshot!(shop.deploy(&["live", "steup"]), @"
    exit: 2
    --- stderr
    error: unknown order `steup`

    hint: orders are setup, update, revert, list, curr, prev, exec and ref
    ");
    assert_snapshot!(shop.deploy(&["forkful.config.json"]), @"
    exit: 2
    --- stderr
    error: no target is named

    hint: name a block of `deploy`, as in `forkful deploy production`
    ");
}
