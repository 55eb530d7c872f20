//! `forkful init`: a configuration to begin with.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use forkful_config::{Support, known_keys};

use crate::cli::{InitArgs, InitKind};
use crate::exit::{Exit, Failure};
use crate::output;

const FILE_DEFAULT: &str = "forkful.config.js";

pub(super) fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let script = entry_point(Path::new(""));
    let text = match args.kind.unwrap_or(InitKind::Simple) {
        InitKind::Simple => simple(&script),
        InitKind::Full => full(&script),
    };
    let path = match &args.output {
        Some(path) => path.clone(),
        None if std::io::stdout().is_terminal() => PathBuf::from(FILE_DEFAULT),
        None => {
            output::print(&text)?;
            return Ok(Exit::Done);
        }
    };
    if path.exists() && !args.force {
        return Err(Failure::new(Exit::WrongUse, format!("{} is there already", path.display()))
            .hint("`--force` overwrites it, `--output` names another file"));
    }
    fs_err::write(&path, text).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::say(&format!("{} written; `forkful start` starts it\n", path.display()))?;
    Ok(Exit::Done)
}

/// The script that this directory's package names, or the usual one.
fn entry_point(directory: &Path) -> String {
    let package = fs_err::read_to_string(directory.join("package.json")).unwrap_or_default();
    let main = serde_json::from_str::<serde_json::Value>(&package)
        .ok()
        .and_then(|package| package["main"].as_str().map(str::to_owned))
        .filter(|main| directory.join(main).is_file());
    let usual = ["server.js", "app.js", "index.js", "src/index.js"];
    main.or_else(|| usual.iter().find(|file| directory.join(file).is_file()).map(|file| (*file).to_owned()))
        .unwrap_or_else(|| "app.js".to_owned())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn simple(script: &str) -> String {
    format!(
        "module.exports = {{\n  apps: [{{\n    script: {},\n    instances: 'max',\n    env: {{\n      NODE_ENV: 'development'\n    }},\n    env_production: {{\n      NODE_ENV: 'production'\n    }}\n  }}]\n}}\n",
        quoted(script)
    )
}

/// Every key with its meaning, commented out but for those of the simple one.
fn full(script: &str) -> String {
    let mut text = String::from("module.exports = {\n  apps: [{\n");
    text.push_str(&format!("    // {}\n    script: {},\n", doc("script"), quoted(script)));
    text.push_str(&format!("\n    // {}\n    instances: 'max',\n", doc("instances")));
    let shown = known_keys().iter().filter(|key| key.support != Support::Foreign);
    for key in shown.filter(|key| !matches!(key.name, "script" | "instances" | "env")) {
        text.push_str(&format!(
            "\n    // {}\n    // {}: {},\n",
            key.doc,
            key.name,
            key.example.replace('"', "'")
        ));
    }
    text.push_str(&format!("\n    // {}\n    env: {{\n      NODE_ENV: 'development'\n    }},\n", doc("env")));
    text.push_str("    env_production: {\n      NODE_ENV: 'production'\n    }\n  }],\n");
    text.push_str(
        "\n  // `forkful deploy production setup`, then `forkful deploy production`.\n  \
         // deploy: {\n  //   production: {\n  //     user: 'node',\n  //     host: ['one.example.com', 'two.example.com'],\n  \
         //     ref: 'origin/main',\n  //     repo: 'git@example.com:you/app.git',\n  //     path: '/srv/app',\n  \
         //     'post-deploy': 'npm ci && forkful reload forkful.config.js --env production',\n  \
         //     health: 'http://127.0.0.1:3000/healthz',\n  //     rollback: true\n  //   }\n  // }\n}\n",
    );
    text
}

fn doc(name: &str) -> &'static str {
    known_keys().iter().find(|key| key.name == name).map_or("", |key| key.doc)
}
