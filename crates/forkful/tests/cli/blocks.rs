//! `--env NAME` for existing apps: the blocks `env_<name>` of their config file are saved with them.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, says, stdout};
use crate::settled::settled;

const APP: &str = "
console.log(['A', 'B', 'C', 'PORT', 'OWN'].map((name) => `${name}=${process.env[name] ?? '-'}`).join(' '));
setInterval(() => {}, 1000);
";

/// Two apps, one of which has blocks, with the environment of their first start.
fn apps() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    let config = json!({
        "apps": [
            {
                "name": "api", "script": "app.js", "port": 4000, "env": { "A": "1" },
                "env_production": { "A": "production", "B": "production", "PORT": "80", "DB_PASSWORD": "of-production" },
                "env_staging": { "A": "staging", "C": "staging" },
            },
            { "name": "plain", "script": "app.js" },
        ],
        "deploy": { "testing": { "host": "h", "repo": "r", "path": "/p", "ref": "main", "env": { "B": "testing" } } },
    });
    sandbox.write("ecosystem.config.json", &config.to_string());
    done(&sandbox, &["start"]);
    sandbox
}

fn done(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", sandbox.told(&output));
    sandbox.told(&output)
}

#[test]
fn a_block_is_chosen_by_the_app_s_name() {
    let sandbox = apps();
    says(&sandbox, "api", "A=1 B=- C=- PORT=4000 OWN=-");
    assert_snapshot!(settled(&done(&sandbox, &["restart", "api", "--env", "production"])), @"
    exit: 0
    --- stdout
    api restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: api: environment: added B, DB_PASSWORD; changed A, PORT
    ");
    says(&sandbox, "api", "A=production B=production C=- PORT=80 OWN=-");
    // Variables that only the previous block had are removed; values from before are restored.
    assert_snapshot!(settled(&done(&sandbox, &["start", "api", "--env", "staging", "--env", "OWN=1"])), @"
    exit: 0
    --- stdout
    api restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: api: environment: added C, OWN; removed B, DB_PASSWORD; changed A, PORT
    ");
    says(&sandbox, "api", "A=staging B=- C=staging PORT=4000 OWN=1");
    done(&sandbox, &["reload", "0", "--env", "testing"]);
    says(&sandbox, "api", "A=1 B=testing C=- PORT=4000 OWN=1");
    done(&sandbox, &["restart", "api"]);
    says(&sandbox, "api", "A=1 B=testing C=- PORT=4000 OWN=1");
    done(&sandbox, &["restart", "ecosystem.config.json"]);
    says(&sandbox, "api", "A=1 B=- C=- PORT=4000 OWN=-");
}

#[test]
fn a_block_that_an_app_does_not_have_is_told_of() {
    let sandbox = apps();
    let told = [
        sandbox.transcript(&["restart", "api", "--env", "prod"]),
        sandbox.transcript(&["restart", "plain", "--env", "production"]),
        sandbox.transcript(&["restart", "all", "--env", "production"]),
        sandbox.transcript(&["start", "app.js", "--name", "other", "--env", "production"]),
    ];
    assert_snapshot!(settled(&told.join("")), @"
    exit: 0
    --- stdout
    api restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    warning: api has no `env_prod` (there is env_production, env_staging, env_testing): it keeps its environment
    exit: 0
    --- stdout
    plain restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    --- stderr
    warning: plain has no `env_production` (there is env_testing): it keeps its environment
    exit: 0
    --- stdout
    api restarted (1 worker)
    plain restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    --- stderr
    warning: plain has no `env_production` (there is env_testing): it keeps its environment
    note: api: environment: added B, DB_PASSWORD; changed A, PORT
    exit: 0
    --- stdout
    other started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    | 1 | plain | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    | 2 | other | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    warning: --env production selects a block of a config file, but `app.js` is not a config file
    ");
    says(&sandbox, "api", "A=production B=production C=- PORT=80 OWN=-");
}

#[test]
fn blocks_outlive_the_daemon_and_are_not_shown() {
    let sandbox = apps();
    done(&sandbox, &["kill"]);
    done(&sandbox, &["resurrect"]);
    let shown = [
        &["list", "--json"][..],
        &["describe", "api", "--json"],
        &["describe", "api"],
        &["jlist"],
        &["report"],
    ]
    .map(|args| done(&sandbox, args))
    .concat();
    assert!(shown.contains("production") && !shown.contains("of-production"), "{shown}");
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["list", "--json"]))).unwrap();
    assert_eq!(
        list["apps"][0]["definition"]["env_sources"]["blocks"],
        json!({ "common": {}, "named": { "production": {}, "staging": {}, "testing": {} } })
    );
    let told = done(&sandbox, &["restart", "api", "--env", "production"]);
    assert!(told.contains("note: api: environment: added B, DB_PASSWORD"), "{told}");
    assert!(!told.contains("of-production"), "{told}");
    says(&sandbox, "api", "A=production B=production C=- PORT=80 OWN=-");
}
