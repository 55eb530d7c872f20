//! What a deployment does on a host, as texts for its shell (POSIX sh). Nothing is run here.
//!
//! ```text
//! <path>/source    the clone          <path>/shared/{logs,pids}
//! <path>/current → source             <path>/.deploys   one commit a line, the newest last
//! ```

use std::time::Duration;

use forkful_config::DeployTarget;

/// How long a version may take to become healthy, unless the target says.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

/// Commits that a shallow clone has.
const SHALLOW_COMMITS: u32 = 5;

/// What a shell of its own does with a hook: the hook comes in a variable, which only its user can read, and not as an
/// argument, which everybody can.
pub(super) const HOOK: &str = r#"hook=$FORKFUL_HOOK; unset FORKFUL_HOOK; eval "$hook""#;

/// Functions that several scripts use. `fail` ends with a code that is told apart from those of hooks.
const FUNCTIONS: &str = r#"
fail() { echo "$1" >&2; exit 65; }
resolve() {
  for candidate in "origin/$1" "$1"; do
    git rev-parse --verify --quiet "$candidate^{commit}" && return 0
  done
  return 1
}
enter() { cd "$path/source" 2>/dev/null || fail "$path/source is not there: set it up first, with the order setup"; }
get() {
  if command -v curl >/dev/null; then curl -fsS -m 5 -o /dev/null "$1"
  elif command -v wget >/dev/null; then wget -q -T 5 -O /dev/null "$1"
  else fail "neither curl nor wget is there to ask $1"; fi
}
switch() {
  git reset --quiet --hard "$1" && ln -sfn "$path/source" "$path/current" && cd "$path/current"
}
is_healthy() {
  left=$health_seconds
  until check 2>/dev/null; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 1
  done
}
activate() {
  switch "$1" && ( cd "$path/current" && post_deploy ) || { why="post-deploy failed"; return 1; }
  is_healthy || { why="it is not healthy after $health_seconds s"; return 1; }
}
deploy() {
  before=$(git rev-parse HEAD)
  if activate "$1"; then
    git rev-parse HEAD >> "$path/.deploys"
    echo "deployed $(git log -1 --format='%h %s')"
    return 0
  fi
  broken=$(git rev-parse --short HEAD)
  reason=$why
  [ "$rollback" = yes ] || fail "$broken was not deployed: $reason"
  if activate "$before"; then
    fail "$broken was not deployed: $reason; back at $(git log -1 --format='%h %s')"
  fi
  fail "$broken was not deployed: $reason; and going back failed: $why"
}
"#;

/// What is asked of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Make the folders and clone.
    Setup,
    /// Bring this reference, or the target's.
    Update(Option<String>),
    /// Go back so many deployments.
    Revert(u32),
    /// Show all deployments.
    List,
    /// Show the commit of the deployment that is so many before the last.
    Show(u32),
    /// Run a command in the current version.
    Exec(String),
}

/// The script of an order.
pub(super) fn script(target: &DeployTarget, order: &Order) -> String {
    let mut text = String::from("set -eu\n");
    text.push_str(&variables(target));
    text.push_str(FUNCTIONS);
    text.push_str(&hooks(target));
    text.push_str(&match order {
        Order::Setup => setup(target),
        Order::Update(reference) => update(target, reference.as_deref().unwrap_or(&target.reference)),
        Order::Revert(steps) => format!(
            "enter\n[ \"$(wc -l < \"$path/.deploys\" 2>/dev/null || echo 0)\" -gt {steps} ] || fail \"there are not {steps} deployments to go back\"\n\
             deploy \"$(tail -n {} \"$path/.deploys\" | head -n 1)\"\n",
            steps + 1
        ),
        Order::List => "enter\n[ -s \"$path/.deploys\" ] || fail \"nothing was deployed yet\"\n\
             number=$(wc -l < \"$path/.deploys\")\n\
             while read -r commit; do\n  number=$((number - 1))\n  echo \"$number  $(git log -1 --format='%h  %cs  %s' \"$commit\" 2>/dev/null || echo \"$commit\")\"\ndone < \"$path/.deploys\"\n"
            .to_owned(),
        Order::Show(steps) => format!(
            "enter\n[ \"$(wc -l < \"$path/.deploys\" 2>/dev/null || echo 0)\" -gt {steps} ] || fail \"nothing was deployed then\"\n\
             git log -1 --format='%h %s' \"$(tail -n {} \"$path/.deploys\" | head -n 1)\"\n",
            steps + 1
        ),
        Order::Exec(command) => format!("enter\ncd \"$path/current\"\n{command}\n"),
    });
    text
}

fn variables(target: &DeployTarget) -> String {
    let path = match target.path.strip_prefix("~") {
        Some(rest) => format!("\"$HOME\"{}", quoted(rest)),
        None => quoted(&target.path),
    };
    let seconds = target.health_timeout.unwrap_or(HEALTH_TIMEOUT).as_secs().max(1);
    let mut text = format!(
        "path={path}\nrepo={}\nrollback={}\nhealth_seconds={seconds}\n",
        quoted(&target.repo),
        if target.rollback { "yes" } else { "no" },
    );
    for (name, value) in &target.env {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // What no shell takes as a name cannot be exported, and is an app's business.
        if is_name && !name.starts_with(|c: char| c.is_ascii_digit()) {
            text.push_str(&format!("export {name}={}\n", quoted(value)));
        }
    }
    text
}

fn hooks(target: &DeployTarget) -> String {
    let file = target.file.file_name().unwrap_or_default().to_string_lossy();
    let usual = format!("forkful reload {} --env {}", quoted(&file), quoted(&target.name));
    let post_deploy = target.hooks.post_deploy.as_deref().unwrap_or(&usual);
    let check = match &target.health {
        None => ":".to_owned(),
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            format!("get {}", quoted(url))
        }
        Some(command) => format!("FORKFUL_HOOK={} sh -c '{HOOK}'", quoted(command)),
    };
    // In shells of their own: whatever a hook sets or leaves, the first command that fails is the end of it.
    format!(
        "post_deploy() {{ FORKFUL_HOOK={} sh -ec '{HOOK}'; }}\ncheck() {{ {check}; }}\n",
        quoted(post_deploy)
    )
}

fn setup(target: &DeployTarget) -> String {
    let reference = quoted(target.reference.strip_prefix("origin/").unwrap_or(&target.reference));
    let depth =
        if target.shallow { format!(" --depth={SHALLOW_COMMITS} --no-single-branch") } else { String::new() };
    let pre = target.hooks.pre_setup.as_deref().unwrap_or(":");
    let post = target.hooks.post_setup.as_deref().unwrap_or(":");
    format!(
        "{pre}\n[ ! -e \"$path/source\" ] || fail \"$path/source is there already: it was set up before\"\n\
         mkdir -p \"$path/shared/logs\" \"$path/shared/pids\"\n\
         git clone --quiet{depth} -- \"$repo\" \"$path/source\" || fail \"$repo cannot be cloned\"\n\
         enter\ncommit=$(resolve {reference}) || fail \"there is no \"{reference}\" in $repo\"\n\
         switch \"$commit\"\n{post}\necho \"set up at $(git log -1 --format='%h %s')\"\n"
    )
}

fn update(target: &DeployTarget, reference: &str) -> String {
    let depth = if target.shallow { format!(" --depth={SHALLOW_COMMITS}") } else { String::new() };
    let pre = target.hooks.pre_deploy.as_deref().unwrap_or(":");
    let reference = quoted(reference.strip_prefix("origin/").unwrap_or(reference));
    format!(
        "enter\ngit fetch --quiet --tags --force --prune{depth} origin || fail \"$repo cannot be fetched\"\n\
         commit=$(resolve {reference}) || fail \"there is no \"{reference}\" in $repo\"\n\
         {pre}\ndeploy \"$commit\"\n"
    )
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    shell_words::quote(text).into_owned()
}
