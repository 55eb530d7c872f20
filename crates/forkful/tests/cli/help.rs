//! All help texts, so that each change of them is visible.

use crate::sandbox::Sandbox;
use insta::assert_snapshot;

#[test]
fn help_of_the_command() {
    assert_snapshot!(Sandbox::new().transcript(&["--help"]), @"
    exit: 0
    --- stdout
    Runs Node.js apps on every core, and keeps them up

    Usage: forkful <COMMAND> [OPTIONS]

    Apps
      start      Start scripts, command lines, config files, or existing apps
      stop       Stop apps
      restart    Stop apps and start them again
      reload     Replace an app's workers one by one without losing a request
      scale      Change the number of an app's workers
      delete     Stop apps and remove them from the list
      run        Run apps in the foreground: for containers, systemd and development
      also: apply, deploy, serve, signal, trigger, send, attach, reset

    Logs and status
      list       Show all workers
      describe   Show everything about an app
      monit      Watch and control apps, workers and their output in the terminal
      logs       Show and follow the output of apps
      also: dashboard, events, stalls, metrics, mcp, flush, env, id, pid, ping, report

    Measure
      doctor     Diagnose why an app is slow, with evidence and what to do
      bench      Load-test a server and check whether the results are reliable
      compare    Compare two setups by load test, such as one process and a cluster
      tune       Find the best number of workers and thread-pool size by measurement
      also: experiment, heap

    Setup
      init       Write an initial config file
      validate   Check a config and show the resolved apps
      startup    Start the daemon and its apps at boot
      import     Import the apps of PM2
      also: completion, export, unstartup, save, resurrect, cleardump, set, get, unset, update, kill

    PM2 compatibility
      jlist, prettylist, multiset, conf, reloadLogs

    `forkful <COMMAND> --help` shows options and examples; `-s` prints only errors and results.
    Files and the daemon's socket are in $FORKFUL_HOME (default ~/.forkful).
    ");
}

#[test]
fn help_of_start() {
    assert_snapshot!(Sandbox::new().transcript(&["start", "--help"]), @r#"
    exit: 0
    --- stdout
    Start scripts, command lines, config files, or existing apps

    Usage: forkful start [OPTIONS] [SCRIPT|CONFIG|APP]... [-- <ARGS>...]

    Arguments:
      [SCRIPT|CONFIG|APP]...  Scripts, programs, quoted command lines, config files (`-` for JSON from
                              stdin), or existing apps (name, id, pattern)
      [ARGS]...               Arguments of the script

    Options:
          --no-wait                     Return at once instead of when the apps are ready
      -f, --force                       Start a second copy, under another name, of a script that is
                                        already running
          --json                        Print JSON
          --attach                      Follow the apps' output after the start
          --no-daemon                   Run in the foreground, as `forkful run` does
      -n, --name <NAME>                 The app's name; by default the script's without its extension
      -i, --instances <NUMBER>          Number of workers: a number, `max` or 0 for one per core, -1 for
                                        one less, 1..4 by the load
      -x, --execute-command             Run in fork mode
          --interpreter <PROGRAM>       Program that runs the script; `none` for the script itself
          --node-args <ARGS>            Arguments of the interpreter, split as a shell does [alias:
                                        --interpreter-args]
          --source-map-support          Stack traces name the sources
          --cwd <DIRECTORY>             Working directory; by default this one
          --balance <MODE>              How connections are spread over the workers; auto by default
                                        [possible values: auto, direct, exact, least, shared, sticky]
          --slow-start <DURATION>       Time in which a new worker's share of connections rises
          --no-agent                    Do not preload the agent
          --stall-threshold <DURATION>  Event loops that stand still for so long are noted; 50ms by
                                        default, 0 for never
          --metrics <MODE>              merge: a scrape of the app's own metrics (prom-client) gives
                                        those of all workers
          --otlp <URL>                  Send the app's metrics to this receiver of OTLP over HTTP
          --namespace <NAME>            Group of apps that commands can address together
      -p, --pid <FILE>                  File for a worker's process id [alias: --pid-file]
          --env <KEY=VALUE|NAME>        KEY=VALUE adds a variable; NAME selects the config's block
                                        `env_NAME`. Repeatable
          --only <NAMES>                Config files: only the apps with these names
      -h, --help                        Print help

    Environment and user:
          --env-file <FILE>       A `.env` file; values of `--env` win. Repeatable
          --filter-env [<TEXTS>]  Leave out variables of this environment whose names contain one of
                                  these texts; `true` for all
      -u, --uid <USER>            User that the workers run as; needs root [alias: --user]
          --gid <GROUP>           Group that the workers run as
          --low-ports             Let an app of another user listen on ports below 1024

    Starting:
          --no-autostart               Add the app to the list without starting it
          --wait-ready                 The app says `process.send('ready')` when it is ready
          --listen-timeout <DURATION>  Time for a worker to become ready (default 3 s, for a reload 30
                                       s)
          --warmup <PATH>              New workers answer this path before they get traffic
          --no-compile-cache           Do not keep compiled code for the next start
          --depends-on <NAMES>         Apps that must be ready before this app starts

    Stopping:
          --kill-signal <SIGNAL>      First signal of a stop; SIGINT by default
      -k, --kill-timeout <DURATION>   Time from the first signal to SIGKILL
          --drain-timeout <DURATION>  Time for open requests to finish at a reload
          --shutdown-with-message     Ask a worker to stop by a message instead of a signal
          --no-treekill               Send the first signal of a stop to the worker alone, not to its
                                      descendants

    Restarting:
          --autorestart                           Also restart programs that exit with code 0
          --no-autorestart                        Do not restart workers that exit
          --max-restarts <NUMBER>                 Unstable exits before restarts end
          --min-uptime <DURATION>                 An exit before this uptime counts as unstable
          --restart-delay <DURATION>              Pause before each restart
          --exp-backoff-restart-delay <DURATION>  First step of a pause that grows with each restart
          --max-restart-delay <DURATION>          Longest pause of those that grow; 15 s by default
          --stop-exit-codes <CODES>               Exit codes after which a worker stays stopped
          --alerts <URL|COMMAND>                  Send alerts to this URL or command; `false` for none

    Renewing and limiting workers:
          --watch[=<PATHS>]             Reload when files change: here, or at these paths
          --ignore-watch <PATTERNS>     Paths that are not watched
          --watch-delay <SECONDS>       Debounce before reloading: seconds, or a string such as 500ms
      -c, --cron-restart <PATTERN>      Reload at these times; 0 for never [alias: --cron]
          --max-memory-restart <BYTES>  Reload workers that use more memory, such as 300M
          --memory-max <BYTES>          Memory limit of all processes of the app together, such as 512M
          --memory <MODE>               auto: divide the memory over the workers, and replace a worker
                                        in time
          --cpu-max <CORES>             CPU limit of all processes together, such as 1.5 or 150%
          --max-requests <NUMBER>       Reload workers after roughly this number of requests
          --max-age <DURATION>          Reload workers after roughly this age
          --health <PATH>               Health check at this path or URL; `tcp` only connects
          --ext <EXTENSIONS>            Watch only files with these extensions

    Output:
      -o, --output <FILE>           File for stdout
      -e, --error <FILE>            File for stderr
      -l, --log [<FILE>]            One more file for both streams
          --merge-logs              One file per stream for all workers
          --time                    Begin each line with the time
          --log-date-format <FORM>  Begin each line with the time in this form, as "YYYY-MM-DD HH:mm:ss"
          --log-type <TYPE>         How lines are written: raw or json
          --disable-logs            Write no log files

    Without an argument, this directory's config file is used: forkful.config.* or ecosystem.config.*.
    Durations are milliseconds, or strings such as 500ms, 10s, 2m.
    Existing apps (name, id, namespace, `/pattern/` of names or `all`) are started, or restarted if they
    are running; options change them as in `restart`. This also applies to the apps of a config file. A
    script that is already running is refused. A target without a slash and an extension is first
    looked up as the name of an app, then as a file; all others are first looked up as a file.

    Balance, how new connections are spread over the workers:
    - `auto`: Exact while connections come slowly, direct when they come fast.
    - `direct`: The kernel spreads connections at random over healthy workers.
    - `exact`: Each connection goes to the worker with the fewest whose event loop has just answered.
    - `least`: As `exact`, without asking the event loop first: less CPU time for each connection.
    - `shared`: One listening socket for all workers, as Node's `SCHED_NONE`.
    - `sticky`: A client address stays with its worker.

    Examples:
      forkful start app.js -i max                        one worker per core
      PORT=3000 forkful start app.js --name api -- --verbose
      forkful start "python3 -m http.server" --name files
      forkful start forkful.config.js --only api --env production
      forkful start api                                  an existing app
      forkful start api -i 4 --update-env                with other options and this environment
      forkful start all
    "#);
}

#[test]
fn help_of_reload() {
    assert_snapshot!(Sandbox::new().transcript(&["reload", "--help"]), @r#"
    exit: 0
    --- stdout
    Replace an app's workers one by one without losing a request

    Usage: forkful reload [OPTIONS] <APP|CONFIG>... [-- <ARGS>...]

    Arguments:
      <APP|CONFIG>...  Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or
                       config files
      [ARGS]...        Arguments of the script

    Options:
      -f, --force                       `reload` of a config file: also reload unchanged apps
          --no-wait                     Return at once instead of when the action is done
          --json                        Print JSON
          --attach                      Follow the apps' output afterwards
      -n, --name <NAME>                 The app's name; by default the script's without its extension
      -i, --instances <NUMBER>          Number of workers: a number, `max` or 0 for one per core, -1 for
                                        one less, 1..4 by the load
      -x, --execute-command             Run in fork mode
          --interpreter <PROGRAM>       Program that runs the script; `none` for the script itself
          --node-args <ARGS>            Arguments of the interpreter, split as a shell does [alias:
                                        --interpreter-args]
          --source-map-support          Stack traces name the sources
          --cwd <DIRECTORY>             Working directory; by default this one
          --balance <MODE>              How connections are spread over the workers; auto by default
                                        [possible values: auto, direct, exact, least, shared, sticky]
          --slow-start <DURATION>       Time in which a new worker's share of connections rises
          --no-agent                    Do not preload the agent
          --stall-threshold <DURATION>  Event loops that stand still for so long are noted; 50ms by
                                        default, 0 for never
          --metrics <MODE>              merge: a scrape of the app's own metrics (prom-client) gives
                                        those of all workers
          --otlp <URL>                  Send the app's metrics to this receiver of OTLP over HTTP
          --namespace <NAME>            Group of apps that commands can address together
      -p, --pid <FILE>                  File for a worker's process id [alias: --pid-file]
          --env <KEY=VALUE|NAME>        KEY=VALUE adds a variable; NAME selects the config's block
                                        `env_NAME`. Repeatable
          --only <NAMES>                Config files: only the apps with these names
      -h, --help                        Print help

    Environment and user:
          --env-file <FILE>       A `.env` file; values of `--env` win. Repeatable
          --filter-env [<TEXTS>]  Leave out variables of this environment whose names contain one of
                                  these texts; `true` for all
      -u, --uid <USER>            User that the workers run as; needs root [alias: --user]
          --gid <GROUP>           Group that the workers run as
          --low-ports             Let an app of another user listen on ports below 1024

    Starting:
          --no-autostart               Add the app to the list without starting it
          --wait-ready                 The app says `process.send('ready')` when it is ready
          --listen-timeout <DURATION>  Time for a worker to become ready (default 3 s, for a reload 30
                                       s)
          --warmup <PATH>              New workers answer this path before they get traffic
          --no-compile-cache           Do not keep compiled code for the next start
          --depends-on <NAMES>         Apps that must be ready before this app starts

    Stopping:
          --kill-signal <SIGNAL>      First signal of a stop; SIGINT by default
      -k, --kill-timeout <DURATION>   Time from the first signal to SIGKILL
          --drain-timeout <DURATION>  Time for open requests to finish at a reload
          --shutdown-with-message     Ask a worker to stop by a message instead of a signal
          --no-treekill               Send the first signal of a stop to the worker alone, not to its
                                      descendants

    Restarting:
          --autorestart                           Also restart programs that exit with code 0
          --no-autorestart                        Do not restart workers that exit
          --max-restarts <NUMBER>                 Unstable exits before restarts end
          --min-uptime <DURATION>                 An exit before this uptime counts as unstable
          --restart-delay <DURATION>              Pause before each restart
          --exp-backoff-restart-delay <DURATION>  First step of a pause that grows with each restart
          --max-restart-delay <DURATION>          Longest pause of those that grow; 15 s by default
          --stop-exit-codes <CODES>               Exit codes after which a worker stays stopped
          --alerts <URL|COMMAND>                  Send alerts to this URL or command; `false` for none

    Renewing and limiting workers:
          --watch[=<PATHS>]             Reload when files change: here, or at these paths
          --ignore-watch <PATTERNS>     Paths that are not watched
          --watch-delay <SECONDS>       Debounce before reloading: seconds, or a string such as 500ms
      -c, --cron-restart <PATTERN>      Reload at these times; 0 for never [alias: --cron]
          --max-memory-restart <BYTES>  Reload workers that use more memory, such as 300M
          --memory-max <BYTES>          Memory limit of all processes of the app together, such as 512M
          --memory <MODE>               auto: divide the memory over the workers, and replace a worker
                                        in time
          --cpu-max <CORES>             CPU limit of all processes together, such as 1.5 or 150%
          --max-requests <NUMBER>       Reload workers after roughly this number of requests
          --max-age <DURATION>          Reload workers after roughly this age
          --health <PATH>               Health check at this path or URL; `tcp` only connects
          --ext <EXTENSIONS>            Watch only files with these extensions

    Output:
      -o, --output <FILE>           File for stdout
      -e, --error <FILE>            File for stderr
      -l, --log [<FILE>]            One more file for both streams
          --merge-logs              One file per stream for all workers
          --time                    Begin each line with the time
          --log-date-format <FORM>  Begin each line with the time in this form, as "YYYY-MM-DD HH:mm:ss"
          --log-type <TYPE>         How lines are written: raw or json
          --disable-logs            Write no log files

    A config file as target applies its changes, and starts its new apps. `reload` skips apps whose
    definition and files have not changed, unless `--force` is given; `restart` restarts all apps.
    If the new version does not become ready, `reload` keeps the old one and exits with 1.

    Other targets keep their options and their environment, except for what is given here.
    `--update-env` (`-a`) adds this environment to the app's, `--env KEY=VALUE` one variable, `--env
    NAME` the block `env_NAME` of its config file; `--name` renames it, `--node-args null` removes the
    interpreter's arguments.

    Examples:
      forkful reload api
      forkful reload all
      forkful reload api --max-memory-restart 300M -i 4
      PORT=4000 forkful restart api --update-env
      forkful reload api --env production
      forkful restart forkful.config.js --env production --only api,worker
    "#);
}

#[test]
fn help_of_logs() {
    assert_snapshot!(Sandbox::new().transcript(&["logs", "--help"]), @r#"
    exit: 0
    --- stdout
    Show and follow the output of apps

    Usage: forkful logs [OPTIONS] [APP|CONFIG]...

    Arguments:
      [APP|CONFIG]...  Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config
                       files; by default all

    Options:
      -n, --lines <NUMBER>      Show this many lines of each file before new ones [default: 15]
          --err                 Only stderr
          --out                 Only stdout
          --json                Print each line as a JSON object with PM2's keys
          --format              Print each line as `timestamp=… app=… id=… type=… message=…`
          --raw                 Print the lines as the app wrote them, without a prefix. Bytes that are
                                not UTF-8 are replaced
          --timestamp [<FORM>]  Begin lines with the time, if known, in this format (tokens of
                                Moment.js)
          --highlight [<TEXT>]  Highlight this text
          --nostream            Print the existing lines and exit
      -f, --follow              Show new lines as they arrive (the default)
      -h, --help                Print help

    Rotated and compressed files are read too. Slow readers miss lines; the count is shown.

    Examples:
      forkful logs                        follow all apps
      forkful logs api --lines 100
      forkful logs '/^api-/' --highlight timeout
      forkful logs api --err --nostream   print the last lines of stderr and exit
      forkful logs --json | jq -r 'select(.type == "err") | .message'
    "#);
}

#[test]
fn short_help_of_start_shows_what_most_people_need() {
    let told = Sandbox::new().transcript(&["start", "-h"]);
    assert!(told.lines().count() <= 50, "{}", told.lines().count());
    for word in [
        "--instances",
        "--max-memory-restart",
        "--watch",
        "`forkful start --help` shows all options",
        "Examples:",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("--exp-backoff-restart-delay"), "{told}");
    let whole = Sandbox::new().transcript(&["start", "--help"]);
    assert!(whole.contains("--exp-backoff-restart-delay"), "{whole}");
    let reload = Sandbox::new().transcript(&["reload", "-h"]);
    assert!(
        reload.contains("`forkful reload --help` shows all options") && !reload.contains("--health"),
        "{reload}"
    );
}

#[test]
fn the_overview_fits_on_a_screen() {
    let told = Sandbox::new().transcript(&["--help"]);
    // Two lines belong to the transcript.
    assert!(told.lines().count() <= 40 + 2, "{told}");
    for hidden in ["guard", "daemon,", "serve-files", "complete,"] {
        assert!(!told.contains(hidden), "{hidden}");
    }
}

#[test]
fn a_word_that_is_not_utf8_is_an_unknown_command() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let output = sandbox.command(&[]).arg(std::ffi::OsStr::from_bytes(b"st\xffart")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.starts_with("error: ") && !told.contains("panicked"), "{told}");
}
