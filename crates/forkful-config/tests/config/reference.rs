//! Generates docs/CONFIG.md from the table of keys, and checks that the page is equal to it. `UPDATE_DOCS=1`
//! writes it.

use std::fmt::Write as _;
use std::path::Path;

use forkful_config::{Change, Group, KnownKey, json_schema, supported_keys};

const INTRODUCTION: &str = "\
# Configuration reference

Generated from the table of keys; `UPDATE_DOCS=1 cargo test -p forkful-config reference` writes it again.

`forkful start` without an argument reads `forkful.config.js`, `.cjs`, `.mjs`, `.ts`, `.json`, `.yaml`, `.yml` or `.toml` in the current
directory, else `ecosystem.config.*`. A file holds an app, a list of apps, or `{ apps: [ … ] }`:

```js
// forkful.config.js
module.exports = {
  apps: [{
    name: 'api',
    script: 'server.js',
    instances: 'max',
    env: { NODE_ENV: 'development' },
    env_production: { NODE_ENV: 'production' },
    max_memory_restart: '400M',
  }],
};
```

```sh
forkful init                                     # writes a first config file
forkful validate                                 # checks it and shows the resolved apps
forkful start                                    # starts its apps
forkful reload forkful.config.js --env production
```

Every key may be written in `snake_case` or `camelCase`. Durations are milliseconds or strings such as `\"500ms\"`, `\"10s\"`, `\"2m\"`, `\"1h\"`;
sizes are bytes or strings such as `\"200M\"`. Relative paths start at the config file's directory. `env_<name>` is a block of variables that
`--env <name>` adds. Editors know the keys by `docs/forkful.schema.json` (`forkful validate --schema`).
";

const STATIC: &str = "\
Directories that are served as files, each by an app of its own, as by [`forkful serve`](CLI.md#forkful-serve):

```js
// static.config.js
module.exports = {
  static: [{ name: 'site', path: 'dist', port: 8080, spa: true }],
};
```
";

fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    for group in Group::ALL {
        let note = note(group);
        write!(text, "\n## {}\n", group.title()).unwrap();
        if !note.is_empty() {
            writeln!(text, "{note}\n").unwrap();
        }
        text.push_str("| key | value | default | meaning | example |\n| --- | --- | --- | --- | --- |\n");
        text.extend(supported_keys().filter(|key| key.group == group).map(row));
        text.extend(supported_keys().filter(|key| key.group == group).map(parts));
    }
    text.push_str(&changes());
    write!(text, "\n## The section deploy\nHosts to which `forkful deploy` deploys; the keys: [DEPLOY.md](DEPLOY.md#the-section-deploy).\n").unwrap();
    write!(text, "\n## The section static\n{STATIC}\n{}", section_table("static")).unwrap();
    text.push_str("\nKeys of PM2 without effect here, and how to migrate: [FROM-PM2.md](FROM-PM2.md).\n");
    text
}

/// The keys of the object that a key takes.
fn parts(key: &KnownKey) -> String {
    if key.kind.parts().is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nThe keys of `{}`:\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
        key.name
    );
    for part in key.kind.parts() {
        let default = if part.default.is_empty() { String::new() } else { format!("`{}`", part.default) };
        let required = if part.is_required { " Required." } else { "" };
        let words = (part.forms)().words;
        writeln!(text, "| `{}` | {words} | {default} | {}{required} |", part.name, part.doc).unwrap();
    }
    text
}

/// The keys of a section beside `apps`, from the schema for editors.
fn section_table(section: &str) -> String {
    let schema = json_schema()["$defs"][section].clone();
    let required =
        |key: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
    let row = |(key, value): (&String, &serde_json::Value)| {
        let is_required = if required(key) { " Required." } else { "" };
        let doc =
            value["description"].as_str().unwrap_or_else(|| panic!("{section}.{key} has no description"));
        format!("| `{key}` | {}{is_required} |\n", doc.replace('|', "\\|"))
    };
    let rows: String = schema["properties"].as_object().unwrap().iter().map(row).collect();
    format!("| key | meaning |\n| --- | --- |\n{rows}")
}

#[test]
fn the_keys_of_a_deployment_are_what_the_code_says() {
    const START: &str = "<!-- keys: UPDATE_DOCS=1 cargo test -p forkful-config reference writes them -->\n";
    const END: &str = "<!-- end of keys -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/DEPLOY.md");
    let found = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = found.split_once(START).expect("the page has a place for the keys");
    let (_, after) = rest.split_once(END).expect("and an end of it");
    let wanted = format!("{before}{START}{}{END}{after}", section_table("deploy"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, &wanted).unwrap();
    } else {
        assert!(found == wanted, "DEPLOY.md is stale: UPDATE_DOCS=1 cargo test -p forkful-config reference");
    }
}

/// The text below a group's heading.
fn note(group: Group) -> &'static str {
    match group {
        Group::App => "",
        Group::Workers => "See [BALANCE.md](BALANCE.md).",
        Group::Environment => "See [REBOOT.md](REBOOT.md) for what is kept over a reboot.",
        Group::User => "Only a daemon of root can start workers as another user.",
        Group::Start => "See [RELOAD.md](RELOAD.md).",
        Group::Stop => "See [GRACEFUL-SHUTDOWN.md](GRACEFUL-SHUTDOWN.md).",
        Group::Restart => "See [CRASHES.md](CRASHES.md).",
        Group::Renew => "See [MEMORY.md](MEMORY.md) and [HEALTH.md](HEALTH.md).",
        Group::Limits => "See [LIMITS.md](LIMITS.md).",
        Group::Logs => "See [LOGS.md](LOGS.md).",
    }
}

/// Which keys of an existing app may change, and how.
fn changes() -> String {
    let of = |change: Change| {
        let names: Vec<String> = supported_keys()
            .filter(|key| key.change == change)
            .map(|key| format!("`{}`", key.name))
            .collect();
        names.join(", ")
    };
    format!(
        "\n## Changing an app that exists\n\
         `forkful restart NAME` and `forkful reload NAME` take most keys as options, and replace the workers. {} changes without that, by\n\
         `forkful scale`. These need a new app (`forkful delete`, `forkful start`), or a config file that says otherwise: {}.\n",
        of(Change::Live),
        of(Change::NewApp)
    )
}

fn row(key: &KnownKey) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) };
    let aliases: Vec<String> = key.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" Also {}.", aliases.join(", ")) };
    let since = if key.since == "0.1.0" { String::new() } else { format!(" Since {}.", key.since) };
    format!(
        "| `{}` | {} | {} | {}{also}{since} | {} |\n",
        key.name,
        cell(&key.kind.forms().words),
        code(key.default),
        cell(key.doc),
        code(key.example)
    )
}

/// The keys of an app in TypeScript.
fn types() -> String {
    let mut text = String::new();
    for key in supported_keys() {
        let optional = if key.name == "script" { "" } else { "?" };
        // A pattern such as `**/*.js` has the end of a comment in it.
        writeln!(text, "  /** {} */", key.doc.replace("*/", r"*\/")).unwrap();
        writeln!(text, "  {}{optional}: {};", key.name, key.kind.forms().typescript).unwrap();
    }
    text
}

#[test]
fn the_types_for_javascript_are_what_the_code_says() {
    const START: &str =
        "  // From the table of keys; `UPDATE_DOCS=1 cargo test -p forkful-config reference` writes this.\n";
    const END: &str = "  // End of the keys.\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../npm/forkful/index.d.ts");
    let found = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = found.split_once(START).expect("the file has a place for the keys");
    let (_, after) = rest.split_once(END).expect("and an end of it");
    let types = types();
    for comment in types.lines().filter_map(|line| line.trim_start().strip_prefix("/** ")) {
        assert_eq!(comment.matches("*/").count(), 1, "the comment ends early: {comment}");
    }
    let wanted = format!("{before}{START}{types}{END}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, &wanted).unwrap();
    } else {
        assert!(found == wanted, "index.d.ts is stale: UPDATE_DOCS=1 cargo test -p forkful-config reference");
    }
}

#[test]
fn the_reference_of_keys_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIG.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, &page).unwrap();
    }
    let found = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/CONFIG.md is stale: UPDATE_DOCS=1 cargo test -p forkful-config reference");
}
