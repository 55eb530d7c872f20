//! A fuzz target: any `dump.pm2` is refused, or converted to a valid configuration with unique names, and no
//! secret in its environment is shown.

use std::collections::BTreeSet;
use std::path::Path;

use forkful_config::Format;
use forkful_core::spec::environment::{REDACTED, has_secret_name};
use forkful_testkit::{Chance, JSON_TOKENS, Spoil, fuzz};
use serde_json::Value;

use super::{config, read_dump, redact};

/// Maximum bytes of a dump here.
const BYTES_MAX: u64 = 1 << 20;

const DUMP: &str = r#"[
  { "name": "api", "pm_id": 0, "pm_exec_path": "/srv/a.js", "pm_cwd": "/srv", "exec_mode": "cluster_mode", "exec_interpreter": "node",
    "node_args": ["--no-warnings"], "args": ["a", "b c"], "status": "online", "increment_var": "PORT", "instances": 2,
    "pm_out_log_path": "/var/log/api-0.log", "pm_err_log_path": "/srv/pm/.pm2/logs/api-error-0.log", "kill_timeout": 3000,
    "max_memory_restart": 209715200, "cron_restart": "0 3 * * *", "watch": true, "ignore_watch": ["x", {}], "stop_exit_codes": [0],
    "env": { "PORT": "3001", "API_TOKEN": "never-shown", "api": "{}", "unique_id": "x" }, "env_live": { "A": "1", "DB_PASSWORD": "never-shown" } },
  { "name": "api", "pm_id": 1, "pm_exec_path": "/srv/a.js", "exec_mode": "cluster_mode", "status": "stopped", "env": { "PORT": 3000 } },
  { "name": "job", "pm_id": 2, "pm_exec_path": "/srv/job.py", "exec_mode": "fork_mode", "exec_interpreter": "python3", "merge_logs": true,
    "autorestart": false, "min_uptime": "10s", "pm_log_path": "/var/log/all-2.log", "uid": "www", "env": {} },
  { "name": "pm2-logrotate", "pmx_module": true }
]"#;

const TOKENS: &[&[u8]] = &[
    b"\"name\":\"",
    b"\"name\":null,",
    b"\"pm_exec_path\":[],",
    b"\"env\":[],",
    b"\"env_x\":{",
    b"\"pm_out_log_path\":\"/\",",
    b"\"pm_id\":-1,",
    b"\"instances\":\"max\",",
    b"\"ignore_watch\":{},",
    b"../",
];

#[test]
fn any_dump_is_refused_or_comes_to_a_configuration() {
    let tokens = [JSON_TOKENS, TOKENS].concat();
    let spoil = Spoil { tokens: &tokens, places: 6, span: 40, copies: 20, pile: 2000 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.pm2");
    let input = |chance: &mut Chance| {
        let mut bytes = DUMP.as_bytes().to_vec();
        spoil.spoil(&mut bytes, chance);
        bytes
    };
    let holds = |bytes: &Vec<u8>, _: &mut Chance| {
        fs_err::write(&path, bytes).unwrap();
        let Ok(processes) = read_dump(&path, BYTES_MAX) else { return };
        let mut imported = config(&processes, Path::new("/srv/pm/.pm2"));
        let apps = &imported.apps;
        let names: BTreeSet<&str> = apps.iter().map(|app| app["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), apps.len());
        // The result is a valid configuration, or is refused like an invalid one written by a user.
        let text = serde_json::json!({ "apps": apps }).to_string();
        match forkful_config::parse(&text, Format::Json, Path::new("dump.pm2")) {
            Ok(file) => assert_eq!(file.apps.len(), apps.len()),
            Err(fault) => assert!(fault.to_string().contains("dump.pm2"), "{fault}"),
        }
        redact(&mut imported.apps);
        hides_secrets(&imported.apps);
    };
    fuzz(input, holds, |bytes| format!("b\"{}\"", bytes.escape_ascii()));
}

/// No value of a variable with a secret's name is left.
fn hides_secrets(apps: &[Value]) {
    let apps = apps.iter().filter_map(Value::as_object);
    let blocks = apps.flatten().filter(|(key, _)| *key == "env" || key.starts_with("env_"));
    for (name, value) in blocks.filter_map(|(_, block)| block.as_object()).flatten() {
        let is_hidden = value.as_str().is_none_or(|text| text.is_empty() || text == REDACTED);
        assert!(is_hidden || !has_secret_name(name), "{name} is {value}");
    }
}
