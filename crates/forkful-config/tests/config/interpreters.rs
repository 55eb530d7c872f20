//! Which program runs a script.

use crate::common::{Place, lines, script};
use forkful_config::{AppOptions, resolve};
use forkful_core::spec::{AppSpec, Mode, Named as _, Runtime};

/// `program program_args | script | args`, with the directory as `DIR`.
fn launch(place: &Place, spec: &AppSpec) -> String {
    let launch = &spec.launch;
    let mut words = vec![launch.program.display().to_string()];
    words.extend(launch.program_args.iter().cloned());
    words.push(format!("| {} |", launch.script.clone().unwrap_or_default()));
    words.extend(launch.args.iter().cloned());
    let runtime = if launch.runtime == Runtime::Node { "node" } else { "other" };
    let mode = if spec.mode == Mode::Cluster { "cluster" } else { "fork" };
    place.neutral(&format!("{}: {} ({runtime}, {mode})", spec.name, words.join(" ")))
}

#[test]
fn an_interpreter_that_is_not_called_node_says_why_its_workers_share_no_port() {
    let place = Place::new();
    place.fake_programs(&["node", "node22", "bun", "python3"]);
    place.file("a.js", "");
    place.file("a.py", "");
    let told = |file: &str, interpreter: Option<&str>, instances: bool, mode: Option<Mode>| {
        let mut options = script(file);
        let given = [("interpreter", interpreter), ("instances", instances.then_some("2"))];
        for (key, value) in given.into_iter().chain([("exec_mode", mode.map(Mode::name))]) {
            value.into_iter().for_each(|value| options.put(key, value));
        }
        let resolved = place.resolve(&options).unwrap();
        let cluster = resolved.spec.mode == Mode::Cluster;
        (cluster, resolved.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let (cluster, warning) = told("a.js", Some("bun"), true, None);
    assert!(!cluster && warning.contains("\"bun\" is not taken for Node.js"), "{warning}");
    let (cluster, warning) = told("a.js", Some("bun"), false, Some(Mode::Cluster));
    assert!(!cluster && warning.contains("only Node.js programs can do"), "{warning}");
    for (file, interpreter, instances) in [
        ("a.js", Some("bun"), false),
        ("a.js", Some("node22"), true),
        ("a.js", None, true),
        ("a.py", Some("python3"), true),
    ] {
        assert_eq!(told(file, interpreter, instances, None).1, "", "{file} {interpreter:?}");
    }
}

#[test]
fn the_cluster_modules_of_bun_and_deno_are_said_to_be_out_of_reach() {
    let place = Place::new();
    place.fake_programs(&["node", "bun", "deno"]);
    place.file("own.js", "if (cluster.isPrimary) cluster.fork();\n");
    place.file("plain.js", "// cluster.fork()\nserve();\n");
    let told = |file: &str, interpreter: &str| {
        let resolved = place.resolve(&script(file).with("interpreter", interpreter)).unwrap();
        lines(&resolved.warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(told("own.js", "node"), "", "that is told by the daemon, for workers of a cluster");
    assert_eq!(told("plain.js", "bun") + &told("plain.js", "deno"), "");
    insta::assert_snapshot!(lines(&[told("own.js", "bun"), told("own.js", "deno")]), @r#"
    script calls `cluster.fork`, and Bun runs it: Forkful starts and watches the primary alone. A reload stops the primary and its workers, then starts them, and each of several instances has workers of its own. Instead, call `Bun.serve` with `reusePort: true` in the script, and say how many with `-i`
    script calls `cluster.fork`, and Deno runs it: Forkful starts and watches the primary alone. A reload stops the primary and its workers, then starts them, and each of several instances has workers of its own. Instead, run the script with Node.js (`interpreter: "node"`)
    "#);
}

#[test]
fn the_interpreter_follows_from_the_script() {
    let place = Place::new();
    place.fake_programs(&["node", "bash", "python3", "ruby", "php", "perl", "npm", "tool"]);
    place.program("bin/next", "#!/usr/bin/env -S node --no-warnings\n");
    for name in ["a.js", "b.cjs", "c.mjs", "d.ts", "e.sh", "f.py", "g.rb", "h.php", "i.pl", "server.prod.js"]
    {
        place.file(name, "");
    }
    place.file("www", "#!/usr/bin/env node\n");
    place.file("plain", "console.log(1)\n");
    place.program("run.sh2", "#!/bin/sh\n");
    place.program("binary", "\u{7f}ELF\0");
    let shown: Vec<_> = [
        "a.js",
        "./b.cjs",
        "c.mjs",
        "d.ts",
        "e.sh",
        "f.py",
        "g.rb",
        "h.php",
        "i.pl",
        "server.prod.js",
        "www",
        "plain",
        "run.sh2",
        "binary",
        "npm",
        "tool",
        "next",
        "node",
        "echo hello; sleep 1",
        "bin/tool --flag",
    ]
    .iter()
    .map(|name| {
        let options = script(name).with("args", vec!["x y"]);
        launch(&place, &place.resolve(&options).unwrap().spec)
    })
    .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    a: DIR/bin/node | DIR/a.js | x y (node, fork)
    b: DIR/bin/node | DIR/b.cjs | x y (node, fork)
    c: DIR/bin/node | DIR/c.mjs | x y (node, fork)
    d: DIR/bin/node | DIR/d.ts | x y (node, fork)
    e: DIR/bin/bash | DIR/e.sh | x y (other, fork)
    f: DIR/bin/python3 | DIR/f.py | x y (other, fork)
    g: DIR/bin/ruby | DIR/g.rb | x y (other, fork)
    h: DIR/bin/php | DIR/h.php | x y (other, fork)
    i: DIR/bin/perl | DIR/i.pl | x y (other, fork)
    server.prod: DIR/bin/node | DIR/server.prod.js | x y (node, fork)
    www: DIR/bin/node | DIR/www | x y (node, fork)
    plain: DIR/bin/node | DIR/plain | x y (node, fork)
    run: DIR/run.sh2 |  | x y (other, fork)
    binary: DIR/binary |  | x y (other, fork)
    npm: DIR/bin/npm |  | x y (other, fork)
    tool: DIR/bin/tool |  | x y (other, fork)
    next: DIR/bin/node | DIR/bin/next | x y (node, fork)
    node: DIR/bin/node |  | x y (node, fork)
    echo hello; sleep 1: DIR/bin/bash -c | echo hello; sleep 1 'x y' | (other, fork)
    tool: DIR/bin/bash -c | bin/tool --flag 'x y' | (other, fork)
    "#);
}

#[test]
fn an_interpreter_that_is_given_wins() {
    let place = Place::new();
    place.fake_programs(&["node", "deno", "python3"]);
    place.program("tools/node22", "#!/bin/sh\n");
    place.file("a.js", "");
    place.program("b", "#!/usr/bin/env node\n");
    let shown: Vec<_> = [("a.js", "deno"), ("a.js", "tools/node22"), ("b", "none"), ("b", "python3")]
        .iter()
        .map(|(name, interpreter)| {
            let options = script(name)
                .with("interpreter", *interpreter)
                .with("node_args", vec!["-u"])
                .with("instances", "2");
            let resolved = place.resolve(&options).unwrap();
            let mut shown = vec![launch(&place, &resolved.spec)];
            shown.extend(resolved.warnings.iter().map(|warning| format!("  warning: {warning}")));
            lines(&shown)
        })
        .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    a: DIR/bin/deno -u | DIR/a.js | (other, fork)
      warning: --interpreter "deno" is not taken for Node.js, whose program is called `node`: it runs in fork mode, where workers do not share a port
    a: DIR/tools/node22 -u | DIR/a.js | (node, cluster)
    b: DIR/b |  | (other, fork)
      warning: --node-args is ignored, because no interpreter runs the script
    b: DIR/bin/python3 -u | DIR/b | (other, fork)
    "#);
}

#[test]
fn node_of_a_version_is_found_in_nvm() {
    let place = Place::new();
    place.file("a.js", "");
    for version in ["v22.9.0", "v22.18.1", "v24.1.0", "v2.0.0", "system"] {
        place.program(&format!("nvm/versions/node/{version}/bin/node"), "#!/bin/sh\n");
    }
    let mut context = place.context();
    context.caller_env.insert("NVM_DIR".to_owned(), place.path().join("nvm").display().to_string());
    let program = |interpreter: &str| {
        let options = script("a.js").with("interpreter", interpreter);
        match resolve(&options, &context) {
            Ok(resolved) => place.neutral(&resolved.spec.launch.program.display().to_string()),
            Err(error) => error.to_string().split(" (").next().unwrap().to_owned(),
        }
    };
    assert_eq!(program("node@22"), "DIR/nvm/versions/node/v22.18.1/bin/node");
    assert_eq!(program("node@v22.9"), "DIR/nvm/versions/node/v22.9.0/bin/node");
    assert_eq!(program("node@20"), "--interpreter \"node@20\" is not in the app's PATH");
}

#[test]
fn a_package_runner_is_not_clustered() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.program("bin/npm", "#!/usr/bin/env node\n");
    let options = script("npm").with("instances", "2");
    let resolved = place.resolve(&options).unwrap();
    assert_eq!((resolved.spec.mode, resolved.spec.launch.runtime), (Mode::Fork, Runtime::Other));
    insta::assert_snapshot!(lines(&resolved.warnings), @"--instances starts npm several times in fork mode, because npm starts the app as a process of its own; name the app's own script to share ports");
    let by_path = script("./bin/npm").with("instances", "2");
    assert_eq!(place.resolve(&by_path).unwrap().spec.mode, Mode::Fork);
}

#[test]
fn a_script_that_cannot_be_started_is_explained() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("server.js", "");
    place.file("dist/main.js", "");
    place.file("app.mjs", "");
    place.file("tool", "#!/bin/sh\n");
    place.file("notes.txt", "hello");
    place.file("data", "\0\u{1}");
    place.file("job.py", "");
    place.file("package/package.json", r#"{ "main": "lib/main.js" }"#);
    place.file("package/lib/main.js", "");
    fs_err::create_dir_all(place.path().join("empty")).unwrap();
    let shown: Vec<_> = [
        "sever.js",
        "app",
        "none/at/all.js",
        "nothing",
        "package",
        "empty",
        "tool",
        "notes.txt",
        "data",
        "job.py",
        "server.js --port 80",
        "dist/main",
        "",
    ]
    .iter()
    .map(|name| place.shown(&place.resolve(&script(name)).unwrap_err()))
    .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    script "sever.js" does not exist in DIR
    hint: did you mean server.js?
    script "app" does not exist in DIR
    hint: did you mean app.mjs?
    script "none/at/all.js" does not exist in DIR
    hint: check the path and the working directory
    script "nothing" does not exist in DIR
    hint: a script is a file, a program in PATH, or a quoted command line
    script "package" is a directory
    hint: name a file in it, such as package/lib/main.js
    script "empty" is a directory
    hint: name the file to start
    script "tool" is not executable
    hint: `chmod +x tool`, or name what runs it with `--interpreter`
    script "notes.txt" has an extension that no interpreter is known for
    hint: name one with `--interpreter`, or make the file executable and begin it with `#!`
    script "data" is not executable
    hint: `chmod +x data`, or name what runs it with `--interpreter`
    script "job.py" needs the interpreter "python3", which is not in the app's PATH (DIR/bin)
    hint: install it, give its full path as the interpreter, or set PATH in the app's `env`
    script "server.js --port 80" does not exist in DIR
    hint: did you mean server.js -- --port 80?
    script "dist/main" does not exist in DIR
    hint: did you mean dist/main.js?
    the command line has no script
    hint: name what to start, such as app.js
    "#);
}

#[test]
fn options_that_do_not_fit_a_script_are_explained() {
    let place = Place::new();
    place.fake_programs(&["node"]);
    place.file("server.js", "");
    let shown: Vec<_> = [
        script("server.js").with("interpreter", "none"),
        script("server.js").with("interpreter", "pyhton"),
        script("server.js").with("interpreter", "./bin/absent"),
        script("server.js").with("cwd", "nowhere"),
        script("server.js").with("cwd", "server.js"),
        script("server.js").with("name", "all"),
        script("server.js").with("name", "/b"),
        AppOptions::default(),
    ]
    .iter()
    .map(|options| place.shown(&place.resolve(options).unwrap_err()))
    .collect();
    insta::assert_snapshot!(lines(&shown), @r#"
    script "server.js" is not executable
    hint: `chmod +x server.js`, or name what runs it with `--interpreter`
    --interpreter "pyhton" is not in the app's PATH (DIR/bin)
    hint: install it, give its full path as the interpreter, or set PATH in the app's `env`
    --interpreter "./bin/absent" does not exist, or is not executable
    --cwd "DIR/nowhere" does not exist
    --cwd "DIR/server.js" is not a directory
    --name cannot be "all": `all` means every app and cannot be a name
    --name cannot be "/b": a name cannot start with '/', as paths do
    the command line has no script
    hint: name what to start, such as app.js
    "#);
}

#[test]
fn typescript_needs_a_node_that_runs_it() {
    let place = Place::new();
    place.file("a.ts", "");
    place.program("bin/node", "#!/bin/sh\necho v20.20.2\n");
    insta::assert_snapshot!(place.shown(&place.resolve(&script("a.ts")).unwrap_err()), @r#"
    a.ts needs Node.js 22.18 or newer, and DIR/bin/node is 20.20.2
    hint: use a newer Node.js, or compile it to JavaScript first
    "#);
    let with_loader = script("a.ts").with("node_args", vec!["--import=tsx"]);
    assert!(place.resolve(&with_loader).is_ok());
    place.program("bin/node", "#!/bin/sh\necho v22.18.0\n");
    assert!(place.resolve(&script("a.ts")).is_ok());
    place.program("bin/node", "#!/bin/sh\nexit 3\n");
    insta::assert_snapshot!(place.shown(&place.resolve(&script("a.ts")).unwrap_err()), @"cannot run DIR/bin/node --version");
}

#[test]
fn source_maps_are_on_where_the_script_has_one_beside_it() {
    let place = Place::new();
    place.fake_programs(&["node", "python3"]);
    for name in ["mapped.js", "mapped.js.map", "plain.js", "other.js.map", "tool.py", "tool.py.map"] {
        place.file(name, "");
    }
    let has_maps = |file: &str, asked: Option<bool>| {
        let mut options = script(file);
        asked.into_iter().for_each(|asked| options.put("source_map_support", asked));
        let words = place.resolve(&options).unwrap().spec.launch.program_args;
        words.iter().any(|word| word == "--enable-source-maps")
    };
    assert!(has_maps("mapped.js", None));
    assert!(!has_maps("plain.js", None), "another script's map is beside it");
    assert!(!has_maps("mapped.js", Some(false)) && has_maps("plain.js", Some(true)), "what is given holds");
    assert!(!has_maps("tool.py", None), "only Node.js knows the flag");
}

#[test]
fn what_is_not_node_runs_unbuffered_unless_its_user_says_otherwise() {
    let place = Place::new();
    place.fake_programs(&["node", "python3"]);
    for name in ["tool.py", "app.js"] {
        place.file(name, "");
    }
    let unbuffered = |file: &str, env: &[(&str, &str)]| {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = AppOptions { env, ..script(file) };
        place.resolve(&options).unwrap().spec.launch.env.get("PYTHONUNBUFFERED").cloned()
    };
    assert_eq!(unbuffered("tool.py", &[]).as_deref(), Some("1"));
    assert_eq!(unbuffered("tool.py", &[("PYTHONUNBUFFERED", "")]).as_deref(), Some(""));
    assert_eq!(unbuffered("app.js", &[]), None);
}
