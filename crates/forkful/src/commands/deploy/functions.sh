fail() { echo "$1" >&2; exit 65; }
# Hooks run in shells of their own: what they set, where they go and how they end is theirs. The first word is an
# option of the shell.
run_hook() { in_env start_hook "$1" "$2"; }
# Git gets the target's variables, such as GIT_SSH_COMMAND. The variables of this script cannot be overwritten by them.
git() { in_env command git "$@"; }
resolve() {
  for candidate in "origin/$1" "$1"; do
    git rev-parse --verify --quiet "$candidate^{commit}" && return 0
  done
  return 1
}
# Keeps other deployments to this path out until this shell ends, however it ends. The commands that follow must not
# inherit the descriptor: a process that they leave in the background would hold the lock.
lock() {
  ( : >> "$path/.deploying" ) 2>/dev/null || fail "$path cannot be written to"
  exec 9>> "$path/.deploying"
  if command -v flock >/dev/null; then flock -n 9; else link_lock; fi ||
    fail "another deployment to $path is under way, by $(cat "$path/.deploying")"
  from=${SSH_CLIENT:+ from ${SSH_CLIENT%% *}}
  echo "$(id -un)$from since $(date '+%Y-%m-%d %H:%M:%S %z')" > "$path/.deploying"
}
# Without flock: a link to the number of this process. One that was left by a process that is gone counts as none.
link_lock() {
  until ln -s "process-$$" "$path/.deploying-process" 2>/dev/null; do
    holder=$(readlink "$path/.deploying-process" || :)
    if [ -n "$holder" ] && ps -p "${holder#process-}" >/dev/null 2>&1; then return 1; fi
    rm -f "$path/.deploying-process"
  done
  trap 'rm -f "$path/.deploying-process"' EXIT
}
enter() { cd "$path/source" 2>/dev/null || fail "$path/source is not there: set it up first, with the order setup"; }
undo_setup() { rm -rf "$path/source"; fail "$1"; }
need_client() { command -v curl >/dev/null || command -v wget >/dev/null || fail "neither curl nor wget is there to ask $1"; }
get() {
  if command -v curl >/dev/null; then curl -fsS -m 5 -o /dev/null "$1"; else wget -q -T 5 -O /dev/null "$1"; fi
}
switch() {
  git reset --quiet --hard "$1" && ln -sfn "$path/source" "$path/current" && cd "$path/current"
}
# Commands of the hook mark the deployment of this version on plots.
name_deployment() {
  FORKFUL_DEPLOYMENT=$(git log -1 --format='%h %s')
  export FORKFUL_DEPLOYMENT
}
is_healthy() {
  # The current second has begun already.
  deadline=$(($(date +%s) + health_seconds + 1))
  until check_in_time; do
    [ "$(date +%s)" -lt "$deadline" ] || return 1
    sleep 1
  done
}
# One check, which is ended at the deadline with all that it started.
check_in_time() {
  check >/dev/null 2>&1 &
  checking=$!
  ( while [ "$(date +%s)" -lt "$deadline" ]; do sleep 1; done; end_tree "$checking" ) >/dev/null 2>&1 &
  watching=$!
  if wait "$checking" 2>/dev/null; then health=0; else health=1; fi
  kill "$watching" 2>/dev/null || :
  wait "$watching" 2>/dev/null || :
  return "$health"
}
end_tree() {
  kill -STOP "$1" 2>/dev/null || :
  for child in $(ps -A -o pid= -o ppid= | while read -r pid parent; do [ "$parent" != "$1" ] || echo "$pid"; done); do
    end_tree "$child"
  done
  kill -KILL "$1" 2>/dev/null || :
}
activate() {
  switch "$1" && ( cd "$path/current" && name_deployment && post_deploy ) || { why="post-deploy failed"; return 1; }
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
  [ "$before" != "$(git rev-parse HEAD)" ] || fail "$broken was not deployed: $reason; there is no other version to go back to"
  if activate "$before"; then
    fail "$broken was not deployed: $reason; back at $(git log -1 --format='%h %s')"
  fi
  fail "$broken was not deployed: $reason; and going back failed: $why"
}
count_deployments() { if [ -e "$path/.deploys" ]; then wc -l < "$path/.deploys"; else echo 0; fi; }
deployment_before() { tail -n "$(($1 + 1))" "$path/.deploys" | head -n 1; }
revert_deployments() {
  [ "$(count_deployments)" -gt "$1" ] || fail "there are not $1 deployments to go back"
  deploy "$(deployment_before "$1")"
}
show_deployment() {
  [ -s "$path/.deploys" ] || fail "nothing was deployed yet"
  [ "$(count_deployments)" -gt "$1" ] || fail "nothing was deployed then"
  git log -1 --format='%h %s' "$(deployment_before "$1")"
}
list_deployments() {
  [ -s "$path/.deploys" ] || fail "nothing was deployed yet"
  number=$(count_deployments)
  while read -r commit; do
    number=$((number - 1))
    echo "$number  $(git log -1 --format='%h  %cs  %s' "$commit" 2>/dev/null || echo "$commit")"
  done < "$path/.deploys"
}
