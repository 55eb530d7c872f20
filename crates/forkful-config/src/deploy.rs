//! The `deploy` section: hosts to which an app is deployed with ssh and git, one block per target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::error::Place;
use crate::faults::Faults;
use crate::tree::{Entry, Node, Value};
use crate::values::{self, Refusal};

/// Maximum targets of a configuration, which limits the work for one file.
const HOSTS_MAX: usize = 1000;

/// One block of `deploy`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeployTarget {
    pub name: String,
    /// The configuration file with the block.
    pub file: PathBuf,
    /// Hosts; at least one. `localhost` means this machine, without ssh.
    pub hosts: Vec<String>,
    /// Login name.
    pub user: Option<String>,
    /// Private key file.
    pub key: Option<String>,
    /// Port of ssh.
    pub port: Option<u16>,
    pub repo: String,
    /// Branch, tag or commit, with or without the remote's name.
    pub reference: String,
    /// Absolute folder on the hosts.
    pub path: String,
    /// Clone and fetch only the last few commits.
    pub shallow: bool,
    /// Let the hosts use this machine's ssh agent.
    pub forward_agent: bool,
    /// Request a terminal from ssh.
    pub needs_tty: bool,
    /// Options of ssh, each in the format of `-o`.
    pub ssh_options: Vec<String>,
    /// Variables for `post-deploy` and the other hooks on the hosts.
    pub env: BTreeMap<String, String>,
    /// Shell commands at the five stages.
    pub hooks: DeployHooks,
    /// A command on the host, or a URL that the host requests, which must succeed after `post-deploy`.
    pub health: Option<String>,
    /// Time limit for `health` to succeed.
    pub health_timeout: Option<std::time::Duration>,
    /// Restore the previous version if `post-deploy` or `health` fails.
    pub rollback: bool,
}

/// Shell commands of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeployHooks {
    /// On the host, before the folders are created; a command, or the path of a local script.
    pub pre_setup: Option<String>,
    /// On the host, after the first clone.
    pub post_setup: Option<String>,
    /// On this machine, before anything else.
    pub pre_deploy_local: Option<String>,
    /// On the host, after the fetch and before the checkout of the new version.
    pub pre_deploy: Option<String>,
    /// On the host, in the new version.
    pub post_deploy: Option<String>,
}

/// The keys of a block, in kebab-case as PM2 writes them.
const KEYS: &[(&str, &str)] = &[
    (
        "host",
        "Host or list of hosts; `localhost` is this machine, without ssh unless `user`, `key` or `port` is given.",
    ),
    ("user", "Login name; by default ssh's."),
    ("key", "Private key file for ssh."),
    ("port", "Port of ssh; by default ssh's."),
    ("repo", "What git clones."),
    ("ref", "Branch, tag or commit, such as `origin/main`."),
    ("path", "Folder on the hosts: absolute, or below `~/`."),
    ("fetch", "`fast` fetches only the last commits."),
    ("forward-agent", "Let the hosts use this machine's ssh agent."),
    ("needs-tty", "Request a terminal from ssh."),
    ("ssh-options", "Option or list of options of ssh, such as `StrictHostKeyChecking=yes`."),
    ("env", "Variables for the commands on the hosts, and for apps that are started with `--env TARGET`."),
    (
        "pre-setup",
        "Command on the host before the folders are made, or a local script of `sh`, beside the config, that is run there.",
    ),
    ("post-setup", "Command on the host after the first clone."),
    ("pre-deploy-local", "Command on this machine, before anything else."),
    ("pre-deploy", "Command on the host, before the new version is checked out."),
    (
        "post-deploy",
        "Command on the host, in the new version; `forkful reload FILE --env TARGET` by default.",
    ),
    ("health", "Command on the host, or URL that the host requests, which must succeed after `post-deploy`."),
    (
        "health-timeout",
        "Time limit for `health` to succeed, a check that does not end included; 60 s by default.",
    ),
    ("rollback", "Restore the previous version if `post-deploy` or `health` fails; off by default."),
];

/// The schema of one block.
pub(crate) fn json_schema() -> Json {
    let properties: serde_json::Map<String, Json> =
        KEYS.iter().map(|(key, doc)| ((*key).to_owned(), json!({ "description": doc }))).collect();
    json!({ "type": "object", "required": ["host", "repo", "ref", "path"], "properties": properties })
}

/// Reads the `deploy` section of a document; without the section there are no targets. Errors are recorded.
pub(crate) fn all_targets(tree: &Node, file: &Path, faults: &mut Faults) -> Vec<DeployTarget> {
    let Some(section) = tree.get("deploy").filter(|entry| !entry.node.is_null()) else {
        return Vec::new();
    };
    let place = |key: String| Place::in_file(file, None, key);
    let Value::Table(entries) = &section.node.value else {
        let refusal = Refusal::new(&section.node, "an object with a block per target");
        faults.add(refusal.of(place("deploy".to_owned())));
        return Vec::new();
    };
    let mut targets = Vec::new();
    for entry in entries {
        match target(entry, file) {
            Ok(target) => targets.push(target),
            Err(refusals) => {
                let place = place(format!("deploy.{}", entry.key));
                refusals.into_iter().for_each(|refusal| faults.add(refusal.of(place.clone())));
            }
        }
    }
    targets
}

/// One target, or all its errors.
fn target(block: &Entry, file: &Path) -> Result<DeployTarget, Vec<Refusal>> {
    let Value::Table(entries) = &block.node.value else {
        return Err(vec![Refusal::new(&block.node, "an object with host, repo, ref and path")]);
    };
    let mut refusals = Vec::new();
    let mut target =
        DeployTarget { name: block.key.clone(), file: file.to_owned(), ..DeployTarget::default() };
    for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
        if let Err(refusal) = read(&mut target, entry) {
            refusals.push(refusal.below(&format!(".{}", entry.key)));
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let missing = [
        ("host", target.hosts.is_empty()),
        ("repo", target.repo.is_empty()),
        ("ref", target.reference.is_empty()),
        ("path", target.path.is_empty()),
    ];
    match missing.iter().find(|(_, is_missing)| *is_missing) {
        Some((key, _)) => {
            let mut refusal = Refusal::new(&block.node, format!("the key `{key}` in it"));
            refusal.value = "incomplete".to_owned();
            Err(vec![refusal])
        }
        None => Ok(target),
    }
}

fn read(target: &mut DeployTarget, entry: &Entry) -> Result<(), Refusal> {
    let node = &entry.node;
    let hook = || values::filled_text(node).map(Some);
    match entry.key.replace('_', "-").as_str() {
        "host" => target.hosts = hosts(node)?,
        "user" => target.user = Some(word(node)?),
        "key" => target.key = Some(values::filled_text(node)?),
        "port" => target.port = Some(values::port(node)?),
        "repo" => target.repo = word(node)?,
        "ref" => target.reference = word(node)?,
        "path" => target.path = folder(node)?,
        "fetch" => target.shallow = values::text(node)? == "fast",
        "forward-agent" => target.forward_agent = values::flag(node)?,
        "needs-tty" => target.needs_tty = values::flag(node)?,
        "ssh-options" => target.ssh_options = values::names(node)?,
        "env" => target.env = values::environment(node)?,
        "pre-setup" => target.hooks.pre_setup = hook()?,
        "post-setup" => target.hooks.post_setup = hook()?,
        "pre-deploy-local" => target.hooks.pre_deploy_local = hook()?,
        "pre-deploy" => target.hooks.pre_deploy = hook()?,
        "post-deploy" => target.hooks.post_deploy = hook()?,
        "health" => target.health = hook()?,
        "health-timeout" => target.health_timeout = Some(values::period(node)?),
        "rollback" => target.rollback = values::flag(node)?,
        other => {
            let nearest = crate::keys::nearest(other, KEYS.iter().map(|(key, _)| *key));
            let mut refusal = match nearest {
                Some(nearest) => Refusal::new(node, format!("`{nearest}`, or another key of a deployment")),
                None => Refusal::new(node, "a key of a deployment"),
            };
            refusal.value = "an unknown key".to_owned();
            return Err(refusal);
        }
    }
    Ok(())
}

/// One word that no program could read as an option.
fn word(node: &Node) -> Result<String, Refusal> {
    let word = values::filled_text(node)?;
    if word.starts_with('-') || word.contains(char::is_whitespace) {
        return Err(Refusal::new(node, "one word that does not begin with `-`"));
    }
    Ok(word)
}

/// Hosts; PM2 also takes objects with a host in them.
fn hosts(node: &Node) -> Result<Vec<String>, Refusal> {
    let one = |node: &Node| match node.get("host") {
        Some(entry) => word(&entry.node),
        None => word(node),
    };
    let hosts = match &node.value {
        Value::List(items) => items.iter().map(one).collect::<Result<Vec<_>, _>>()?,
        _ => vec![one(node)?],
    };
    if hosts.is_empty() || hosts.len() > HOSTS_MAX {
        return Err(Refusal::new(node, format!("1 to {HOSTS_MAX} hosts")));
    }
    Ok(hosts)
}

fn folder(node: &Node) -> Result<String, Refusal> {
    let path = values::filled_text(node)?;
    let is_home = path == "~" || path.starts_with("~/");
    if !(path.starts_with('/') || is_home) || path.trim_end_matches('/').is_empty() || path.contains('\n') {
        return Err(Refusal::new(node, "an absolute folder such as /srv/app"));
    }
    Ok(path.trim_end_matches('/').to_owned())
}
