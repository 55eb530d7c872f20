//! Writes docs/CONFIG.md from the table of keys, and holds the page equal to it. `UPDATE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use forkful_config::{KnownKey, Support, known_keys};

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

const GROUPS: [(&str, &str, &[&str]); 9] = [
    (
        "The app",
        "",
        &[
            "script",
            "name",
            "args",
            "cwd",
            "interpreter",
            "node_args",
            "namespace",
            "name_prefix",
            "append_env_to_name",
            "autostart",
            "depends_on",
            "execute_command",
            "source_map_support",
            "agent",
        ],
    ),
    (
        "Workers and connections",
        "See [BALANCE.md](BALANCE.md).",
        &["instances", "exec_mode", "port", "balance", "instance_var", "increment_var"],
    ),
    (
        "Environment",
        "See [REBOOT.md](REBOOT.md) for what is kept over a reboot.",
        &["env", "env_file", "filter_env", "save_env"],
    ),
    ("User", "Only a daemon of root can start workers as another user.", &["uid", "gid", "low_ports"]),
    ("Start and readiness", "See [RELOAD.md](RELOAD.md).", &["wait_ready", "listen_timeout"]),
    (
        "Stop",
        "See [GRACEFUL-SHUTDOWN.md](GRACEFUL-SHUTDOWN.md).",
        &["kill_signal", "kill_timeout", "drain_timeout", "shutdown_with_message", "treekill"],
    ),
    (
        "Restart after an exit",
        "See [CRASHES.md](CRASHES.md).",
        &[
            "autorestart",
            "max_restarts",
            "min_uptime",
            "restart_delay",
            "exp_backoff_restart_delay",
            "stop_exit_codes",
        ],
    ),
    (
        "Reload by a rule",
        "See [MEMORY.md](MEMORY.md). `health` is a path, a URL, `\"tcp\"`, or an object with one of `http`, `tcp` and `command` and with \
         `interval`, `timeout`, `start_period`, `failures` and `stuck_limit`.",
        &[
            "max_memory_restart",
            "max_requests",
            "max_age",
            "cron_restart",
            "health",
            "watch",
            "ignore_watch",
            "watch_delay",
            "watch_options",
        ],
    ),
    (
        "Logs",
        "See [LOGS.md](LOGS.md), which has the keys of `log_rotate`.",
        &[
            "out_file",
            "error_file",
            "log_file",
            "pid_file",
            "merge_logs",
            "time",
            "log_date_format",
            "log_type",
            "log_ansi",
            "log_rotate",
            "disable_logs",
        ],
    ),
];

fn page() -> String {
    let keys = || known_keys().iter().filter(|key| key.support == Support::Now);
    let mut text = INTRODUCTION.to_owned();
    let mut seen = Vec::new();
    let mut section = |title: &str, note: &str, found: Vec<&KnownKey>| {
        write!(text, "\n## {title}\n").unwrap();
        if !note.is_empty() {
            writeln!(text, "{note}\n").unwrap();
        }
        text.push_str("| key | value | default | meaning | example |\n| --- | --- | --- | --- | --- |\n");
        for key in found {
            seen.push(key.name);
            text.push_str(&row(key));
        }
    };
    for (title, note, names) in GROUPS {
        let named = |name: &&str| {
            keys().find(|key| key.name == *name).unwrap_or_else(|| panic!("there is no key {name}"))
        };
        section(title, note, names.iter().map(named).collect());
    }
    let others: Vec<&KnownKey> =
        keys().filter(|key| !GROUPS.iter().any(|(_, _, names)| names.contains(&key.name))).collect();
    if !others.is_empty() {
        section("Other keys", "", others);
    }
    assert_eq!(seen.len(), keys().count(), "each key has one row");
    text.push_str("\nKeys of PM2 without effect here, and how to migrate: [FROM-PM2.md](FROM-PM2.md).\n");
    text
}

fn row(key: &KnownKey) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) };
    let aliases: Vec<String> = key.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" Also {}.", aliases.join(", ")) };
    format!(
        "| `{}` | {} | {} | {}{also} | {} |\n",
        key.name,
        cell(&key.kind.describe()),
        code(key.default),
        cell(key.doc),
        code(key.example)
    )
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
