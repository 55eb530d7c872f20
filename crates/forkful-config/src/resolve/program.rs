//! Finding programs in a PATH, and what version of Node.js one of them is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forkful_core::interpreter::check_strips_types;
pub(crate) use forkful_os::process::is_executable;

use crate::error::ConfigError;

/// Where programs are when the environment has no PATH, as execvp(3) has it.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The PATH of an environment.
pub(crate) fn path_variable(env: &BTreeMap<String, String>) -> &str {
    env.get("PATH").filter(|path| !path.is_empty()).map_or(DEFAULT_PATH, String::as_str)
}

/// The absolute path of a program: by name in the environment's PATH, or by path from `cwd`.
pub(crate) fn find(name: &str, cwd: &Path, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|path| is_executable(path));
    }
    std::env::split_paths(path_variable(env))
        .map(|directory| cwd.join(directory).join(name))
        .find(|path| is_executable(path))
}

/// The newest Node.js of nvm(1) that a text as `node@22` or `node@22.18` asks for.
pub(crate) fn find_in_nvm(wanted: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let numbers = |text: &str| -> Option<Vec<u32>> {
        text.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect()
    };
    let wanted = numbers(wanted.strip_prefix("node@")?)?;
    let nvm = match env.get("NVM_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env.get("HOME")?).join(".nvm"),
    };
    let installed = fs_err::read_dir(nvm.join("versions/node")).ok()?;
    installed
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((numbers(entry.file_name().to_str()?)?, entry.path().join("bin/node")))
        })
        .filter(|(version, program)| version.starts_with(&wanted) && is_executable(program))
        .max()
        .map(|(_, program)| program)
}

/// Whether a program is Node.js, by its name: `node`, `nodejs`, `node22`, `node-v24.1.0`.
pub(crate) fn is_node(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let Some(rest) = name.strip_prefix("node") else { return false };
    let rest = rest.strip_prefix("js").unwrap_or(rest);
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let rest = rest.strip_prefix('v').unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Refuses a Node.js that cannot run TypeScript by itself, for `what` that needs it.
pub(crate) fn require_typescript(
    node: &Path,
    what: &str,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    let found = version(node, cwd, env);
    let checked = check_strips_types(what, &node.to_string_lossy(), found.as_ref().ok().map(String::as_str));
    checked.map_err(|fault| {
        let error = ConfigError::refused(&fault);
        found.err().into_iter().fold(error, ConfigError::caused_by)
    })
}

/// The major version of a Node.js; `None` where it does not say.
pub(crate) fn major(node: &Path, cwd: &Path, env: &BTreeMap<String, String>) -> Option<u16> {
    version(node, cwd, env).ok()?.split('.').next()?.parse().ok()
}

/// The version of a Node.js, without `v`.
pub(crate) fn version(node: &Path, cwd: &Path, env: &BTreeMap<String, String>) -> std::io::Result<String> {
    let output = Command::new(node)
        .arg("--version")
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().trim_start_matches('v');
    if output.status.success() && version.starts_with(|c: char| c.is_ascii_digit()) {
        Ok(version.to_owned())
    } else {
        Err(std::io::Error::other(format!("it ended with {} and no version", output.status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_known_by_its_name() {
        for name in ["node", "/usr/bin/nodejs", "node22", "/opt/node-v24.1.0", "node-18"] {
            assert!(is_node(Path::new(name)), "{name}");
        }
        for name in ["nodemon", "node_exporter", "bun", "deno", "tsx", "python3", "mynode"] {
            assert!(!is_node(Path::new(name)), "{name}");
        }
    }
}
