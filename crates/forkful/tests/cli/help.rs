//! The help texts, whole, so that each change of them is seen.

use crate::sandbox::Sandbox;
use insta::assert_snapshot;

#[test]
fn help_of_the_command() {
    assert_snapshot!(Sandbox::new().transcript(&["--help"]), @"
    exit: 0
    --- stdout
    Runs a Node.js app on every core, and keeps it up

    Usage: forkful <COMMAND>

    Commands:
      start       Start apps: scripts, command lines, config files, or apps by name
      stop        Stop apps; they stay in the list
      restart     Stop apps and start them again [alias: startOrRestart]
      reload      Replace an app's workers one by one, without losing a request [alias: startOrReload]
      delete      Stop apps and forget them [alias: del]
      scale       Change an app's number of workers
      list        Show all workers [aliases: ls, l, ps, status]
      jlist       Show all workers as JSON in PM2's shape
      prettylist  Show the same as JavaScript would print it
      describe    Show everything about an app [aliases: desc, info, show]
      monit       Watch apps, workers and their output on one screen; restart, reload and stop them
                  [aliases: dash, dashboard]
      logs        Show and follow the output of apps [alias: log]
      flush       Empty the log files of apps
      reloadLogs  Open all log files anew, after another program moved them [alias: reload-logs]
      signal      Send a signal to the workers of apps [alias: sendSignal]
      trigger     Perform an action that an app has registered with `@pm2/io`
      send        Write a line to the stdin of an app's workers
      attach      Write to a worker's stdin and see its output, line by line
      reset       Set the restart counters of apps to zero
      ping        Ask whether the daemon is there
      kill        Stop all apps and end the daemon
      update      Replace the daemon by one of this program's version, with the same apps
      run         Run apps in the foreground, without a daemon: for containers, systemd and development
      serve       Serve the files of a directory over HTTP [alias: expose]
      bench       Load-test a server and check whether the results are reliable
      compare     Compare two setups: one process and a cluster, or anything else
      tune        Find the best number of workers and size of the thread pool by measurement
      experiment  Reproduce a published Node.js multi-core benchmark
      save        Save what should run, to come back to it; at every change it is saved by itself
                  [alias: dump]
      resurrect   Start what was saved and does not run
      cleardump   Forget what was saved
      import      Take over the apps of another process manager
      startup     Have the daemon, and the apps that ran, start with the machine
      unstartup   The reverse of `startup`
      set         Keep a setting
      multiset    Keep several settings
      get         Show settings
      unset       Forget a setting
      conf        Show a setting, or keep it [alias: config]
      init        Write a configuration to begin with [alias: ecosystem]
      validate    Say what a configuration comes to, or what is wrong with it
      deploy      Bring an app to other machines, by ssh and git
      id          Print the ids of the workers of apps
      pid         Print the process ids of the workers of apps, or the daemon's
      env         Show the environment of the workers of apps
      report      Print what a bug report should hold
      completion  Print the completion script of a shell
      help        Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      forkful start app.js -i max        one worker per core, one port, restarts
      forkful list                       the table of workers
      forkful logs api                   follow the output
      forkful reload api                 new code without a lost request
      forkful delete all && forkful kill stop everything

    With each command: `--silent` (`-s`) says nothing but errors and what was asked for, `--no-color`
    leaves colours out.

    Exit codes:
      0  done
      1  an app failed, or the action did not succeed
      2  the command line or the configuration is wrong
      3  no such app
      4  the daemon cannot be reached or started, or is of another version
      5  bench: an expectation was missed
      6  bench: what was measured cannot be trusted
      7  bench: the target cannot be reached
      `forkful run` ends with the app's own code (128 + n after signal n)

    Files and the daemon's socket are in $FORKFUL_HOME (default ~/.forkful).
    ");
}

#[test]
fn help_of_start() {
    assert_snapshot!(Sandbox::new().transcript(&["start", "--help"]), @r#"
    exit: 0
    --- stdout
    Start apps: scripts, command lines, config files, or apps by name

    Usage: forkful start [OPTIONS] [SCRIPT|CONFIG|APP]... [-- <ARGS>...]

    Arguments:
      [SCRIPT|CONFIG|APP]...  Scripts, programs, quoted command lines, config files (`-` for JSON from
                              stdin), or what names apps
      [ARGS]...               Arguments of the script

    Options:
          --no-wait                Return at once instead of when the apps are ready
      -f, --force                  Start it once more, under another name, though it is running
          --json                   Print JSON
          --attach                 Follow the apps' output when they are started
          --no-daemon              Run in the foreground, as `forkful run` does
      -i, --instances <NUMBER>     Number of workers: a number, `max` or 0 for one per core, -1 for one
                                   less
      -n, --name <NAME>            The app's name; by default the script's without its extension
          --cwd <DIRECTORY>        Working directory; by default this one
          --env <KEY=VALUE|NAME>   KEY=VALUE adds a variable; NAME chooses the config's block
                                   `env_NAME`. Repeatable
          --only <NAMES>           Config files: only the apps of these names
          --interpreter <PROGRAM>  Program that runs the script; `none` for the script itself
          --node-args <ARGS>       Arguments of the interpreter, split as a shell does [alias:
                                   --interpreter-args]
          --balance <MODE>         How connections are spread over the workers; auto by default
                                   [possible values: auto, direct, exact, shared, sticky]
          --no-agent               Do not preload the agent
      -h, --help                   Print help

    Output:
      -o, --output <FILE>           File for stdout
      -e, --error <FILE>            File for stderr
          --merge-logs              One file per stream for all workers
          --time                    Begin each line with the time
      -l, --log [<FILE>]            One more file for both streams
          --log-type <TYPE>         How lines are written: raw or json
          --log-date-format <FORM>  Begin each line with the time in this form, as "YYYY-MM-DD HH:mm:ss"
          --disable-logs            Write no log files

    Readiness:
          --wait-ready                 The app says `process.send('ready')` when it is ready
          --listen-timeout <DURATION>  Time that a worker has to become ready (3 s; a reload: 30 s)

    Stopping:
      -k, --kill-timeout <DURATION>   From the first signal to SIGKILL
          --kill-signal <SIGNAL>      First signal of a stop; SIGINT by default
          --drain-timeout <DURATION>  Time that requests under way have at a reload

    Restarting:
          --no-autorestart
              Do not restart workers that exit
          --autorestart
              Restart every worker that exits, even a program that ends with code 0 right after its
              start
          --max-restarts <NUMBER>
              Unstable exits before the app is given up
          --min-uptime <DURATION>
              A worker that lived for less was unstable
          --restart-delay <DURATION>
              Pause before each restart
          --exp-backoff-restart-delay <DURATION>
              First step of a pause that grows with each restart
          --stop-exit-codes <CODES>
              Exit codes after which a worker stays stopped

    Renewing workers:
          --watch[=<PATHS>]             Reload when files change: here, or at these paths
          --ignore-watch <PATTERNS>     What is not watched
          --ext <EXTENSIONS>            Watch only files with these extensions
          --watch-delay <SECONDS>       How long nothing more may change before the reload: seconds, or
                                        a text as 500ms
          --max-memory-restart <BYTES>  Reload a worker that takes more memory
          --max-requests <NUMBER>       Reload a worker that has answered about so many requests
          --max-age <DURATION>          Reload a worker that is about so old
      -c, --cron-restart <PATTERN>      Reload at these times; 0 for never [alias: --cron]
          --health <PATH>               Ask workers at this path or URL whether they still work; `tcp`
                                        for a connection alone
          --shutdown-with-message       Ask a worker to stop by a message instead of a signal
          --no-treekill                 Send the first signal of a stop to the worker alone, not to its
                                        descendants

    Grouping and environment:
          --namespace <NAME>      A group that commands can name instead of its apps
          --env-file <FILE>       A `.env` file; values of `--env` win. Repeatable
          --filter-env [<TEXTS>]  Leave out variables of this environment whose names contain one of
                                  these texts; `true` for all
      -u, --uid <USER>            User that the workers run as; needs root [alias: --user]
          --gid <GROUP>           Group that the workers run as
          --no-autostart          Make the app without starting it
          --depends-on <NAMES>    Apps that are ready before this one is started
      -x, --execute-command       Run in fork mode
          --source-map-support    Stack traces name the sources
      -p, --pid <FILE>            File for a worker's process id [alias: --pid-file]

    Without an argument this directory's config file is used: forkful.config.* or ecosystem.config.*.
    Durations are milliseconds, or texts as 500ms, 10s, 2m.
    Balance: with `direct` the kernel spreads connections over the healthy workers, with `exact` each
    goes to the worker with the fewest; `auto` is exact while they come slowly and direct when they
    come fast; `shared` is one socket for all; `sticky` keeps a client address at one worker.
    Apps that exist are named by name, id, namespace, `/pattern/` of names or `all`: they are started,
    and restarted where they run; options change them as those of `restart` do. The same holds for the
    apps of a config file; a script that runs already is refused. A name without slash and extension
    comes before a file of that name, a file before any other name.

    Examples:
      forkful start app.js -i max                        one worker per core
      PORT=3000 forkful start app.js --name api -- --verbose
      forkful start "python3 -m http.server" --name files
      forkful start forkful.config.js --only api --env production
      forkful start api                                  an app that exists, once more
      forkful start api -i 4 --update-env                with other options, this environment
      forkful start all
    "#);
}

#[test]
fn help_of_reload() {
    assert_snapshot!(Sandbox::new().transcript(&["reload", "--help"]), @r#"
    exit: 0
    --- stdout
    Replace an app's workers one by one, without losing a request

    Usage: forkful reload [OPTIONS] <APP|CONFIG>... [-- <ARGS>...]

    Arguments:
      <APP|CONFIG>...  Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or
                       config files
      [ARGS]...        Arguments of the script

    Options:
          --no-wait                Return at once instead of when it is done
          --json                   Print JSON
          --attach                 Follow the apps' output when it is done
      -i, --instances <NUMBER>     Number of workers: a number, `max` or 0 for one per core, -1 for one
                                   less
      -n, --name <NAME>            The app's name; by default the script's without its extension
          --cwd <DIRECTORY>        Working directory; by default this one
          --env <KEY=VALUE|NAME>   KEY=VALUE adds a variable; NAME chooses the config's block
                                   `env_NAME`. Repeatable
          --only <NAMES>           Config files: only the apps of these names
          --interpreter <PROGRAM>  Program that runs the script; `none` for the script itself
          --node-args <ARGS>       Arguments of the interpreter, split as a shell does [alias:
                                   --interpreter-args]
          --balance <MODE>         How connections are spread over the workers; auto by default
                                   [possible values: auto, direct, exact, shared, sticky]
          --no-agent               Do not preload the agent
      -h, --help                   Print help

    Output:
      -o, --output <FILE>           File for stdout
      -e, --error <FILE>            File for stderr
          --merge-logs              One file per stream for all workers
          --time                    Begin each line with the time
      -l, --log [<FILE>]            One more file for both streams
          --log-type <TYPE>         How lines are written: raw or json
          --log-date-format <FORM>  Begin each line with the time in this form, as "YYYY-MM-DD HH:mm:ss"
          --disable-logs            Write no log files

    Readiness:
          --wait-ready                 The app says `process.send('ready')` when it is ready
          --listen-timeout <DURATION>  Time that a worker has to become ready (3 s; a reload: 30 s)

    Stopping:
      -k, --kill-timeout <DURATION>   From the first signal to SIGKILL
          --kill-signal <SIGNAL>      First signal of a stop; SIGINT by default
          --drain-timeout <DURATION>  Time that requests under way have at a reload

    Restarting:
          --no-autorestart
              Do not restart workers that exit
          --autorestart
              Restart every worker that exits, even a program that ends with code 0 right after its
              start
          --max-restarts <NUMBER>
              Unstable exits before the app is given up
          --min-uptime <DURATION>
              A worker that lived for less was unstable
          --restart-delay <DURATION>
              Pause before each restart
          --exp-backoff-restart-delay <DURATION>
              First step of a pause that grows with each restart
          --stop-exit-codes <CODES>
              Exit codes after which a worker stays stopped

    Renewing workers:
          --watch[=<PATHS>]             Reload when files change: here, or at these paths
          --ignore-watch <PATTERNS>     What is not watched
          --ext <EXTENSIONS>            Watch only files with these extensions
          --watch-delay <SECONDS>       How long nothing more may change before the reload: seconds, or
                                        a text as 500ms
          --max-memory-restart <BYTES>  Reload a worker that takes more memory
          --max-requests <NUMBER>       Reload a worker that has answered about so many requests
          --max-age <DURATION>          Reload a worker that is about so old
      -c, --cron-restart <PATTERN>      Reload at these times; 0 for never [alias: --cron]
          --health <PATH>               Ask workers at this path or URL whether they still work; `tcp`
                                        for a connection alone
          --shutdown-with-message       Ask a worker to stop by a message instead of a signal
          --no-treekill                 Send the first signal of a stop to the worker alone, not to its
                                        descendants

    Grouping and environment:
          --namespace <NAME>      A group that commands can name instead of its apps
          --env-file <FILE>       A `.env` file; values of `--env` win. Repeatable
          --filter-env [<TEXTS>]  Leave out variables of this environment whose names contain one of
                                  these texts; `true` for all
      -u, --uid <USER>            User that the workers run as; needs root [alias: --user]
          --gid <GROUP>           Group that the workers run as
          --no-autostart          Make the app without starting it
          --depends-on <NAMES>    Apps that are ready before this one is started
      -x, --execute-command       Run in fork mode
          --source-map-support    Stack traces name the sources
      -p, --pid <FILE>            File for a worker's process id [alias: --pid-file]

    A config file as target applies what changed in it, and starts the apps in it that are new.
    When the new version does not become ready, `reload` keeps the old one and exits with 1.

    An app that is named otherwise keeps its options and its environment, but for what is given here.
    `--update-env` (`-a`) adds this environment to its own, `--env KEY=VALUE` one variable, `--env NAME`
    the block `env_NAME` that its config file had; `--name` renames it, `--node-args null` takes the
    interpreter's arguments away.

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
                       files; all when none is named

    Options:
      -n, --lines <NUMBER>      Show this many lines of each file before new ones [default: 15]
          --err                 Only stderr
          --out                 Only stdout
          --json                Print each line as a JSON object with PM2's keys
          --format              Print each line as `timestamp=… app=… id=… type=… message=…`
          --raw                 Print the lines as the app wrote them, without a prefix
          --timestamp [<FORM>]  Begin lines with the time, in this form (tokens of Moment.js), where it
                                is known
          --highlight [<TEXT>]  Show this text in another colour
          --nostream            End after the lines that are there
      -f, --follow              Show new lines as they come, as is the default
      -h, --help                Print help

    Lines that were set aside by rotation are read too, compressed ones as well. Who reads more slowly
    than lines come misses some, and is told how many.

    Examples:
      forkful logs                       follow all apps
      forkful logs api --lines 100
      forkful logs '/^api-/' --highlight timeout
      forkful logs api --err --nostream  the last lines of stderr, then end
      forkful logs --json | jq -r 'select(.type == "err") | .message'
    "#);
}
