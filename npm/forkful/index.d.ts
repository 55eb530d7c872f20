// Types of `forkful`. Its documentation explains each command; this file has the types of arguments and results.
/// <reference types="node" />

import type { AppView, LogLine, Ping, Pm2Env, Process, WorkerReply } from './index.views.js';

export * from './index.views.js';

/** A worker's state, in PM2's words. */
export type Status = 'online' | 'launching' | 'stopping' | 'stopped' | 'finished' | 'errored' | 'waiting restart';

/** The target of a command: the name of an app, the id of a worker, or `'all'`. */
export type Target = string | number;

/** The options of an app: the keys of a configuration file. */
export interface App {
  // From the table of keys; `UPDATE_DOCS=1 cargo test -p forkful-config reference` writes this.
  /** What to start: a file, a program in PATH, or a shell command line (a text with a space that is not a file). */
  script: string;
  /** Name of the app. By default the script's base name without its last extension. */
  name?: string;
  /** Arguments of the script. */
  args?: string | number | (string | number | boolean)[];
  /** Number of workers: a number, "max" (or 0) for one per usable core, or a negative number for that many fewer than the usable cores. `{ "min": 1, "max": 4 }` (or `"1..4"`) changes the number by the load. */
  instances?: number | 'max' | string | {
    /** Least number of workers. */ min?: number;
    /** Largest number of workers: a number, "max", or a negative number for that many fewer than the usable cores. */ max: number | 'max' | string;
  };
  /** "cluster": workers share ports; "fork": they do not. By default "cluster" when `instances` is given and the app is a Node.js program, else "fork". */
  exec_mode?: 'cluster' | 'fork' | 'cluster_mode' | 'fork_mode';
  /** Run in fork mode. */
  execute_command?: boolean;
  /** Program that runs the script, by name or path. "none" runs the script itself; "node@22" is the newest Node.js 22 of nvm. By default chosen by the script's extension. */
  interpreter?: string;
  /** Arguments of the interpreter. */
  node_args?: string | number | (string | number | boolean)[];
  /** Run Node.js with `--enable-source-maps`: stack traces name the original sources. By default on when `<script>.map` exists. */
  source_map_support?: boolean;
  /** Working directory, relative to the configuration file. By default the directory of that file. */
  cwd?: string;
  /** Environment variables, added to the environment of the caller. A block `env_<name>` is added when `--env <name>` is given. */
  env?: Record<string, string | number | boolean | null | undefined>;
  /** `.env` files, relative to the working directory; `env` overrides them. They are read again at `resurrect`, and their values are never saved. */
  env_file?: string | string[];
  /** Variables of the caller's environment to leave out: all (`true`), one (a name), or those whose names contain one of the texts of a list. By default none, but an app that runs as another user gets only the locale, PATH, TERM, TZ, NODE_ENV and PORT, unless this is `false`. */
  filter_env?: boolean | string | string[];
  /** Save the values of all variables of the caller's environment. By default only harmless ones such as PATH are saved. */
  save_env?: boolean;
  /** Sets the environment variable PORT. */
  port?: number | string;
  /** How new connections are distributed over the workers of a cluster. */
  balance?: 'auto' | 'direct' | 'exact' | 'least' | 'shared' | 'sticky';
  /** Time in which the share of new connections of a worker that became ready rises to the full one. */
  slow_start?: number | string;
  /** User that the workers run as; needs root. By default the daemon's user. */
  uid?: string | number;
  /** Group that the workers run as. By default the user's group. */
  gid?: string | number;
  /** Let an app that runs as another user (`uid`) listen on ports below 1024 in cluster mode, where the daemon of root binds them. */
  low_ports?: boolean;
  /** Preload Forkful's agent into Node.js workers: exact drains, sockets lent to one instance, and metrics of the event loop, heap and requests. */
  agent?: boolean;
  /** Note each time that the event loop of a worker stands still for so long, with the route and the function (`forkful stalls`); `0` notes none. */
  stall_threshold?: number | string;
  /** What a scrape of the app's own prom-client gives: `"own"` the values of the worker that answers, `"merge"` those of all workers together, by prom-client's rules. */
  metrics?: 'own' | 'merge';
  /** Where the app's metrics are sent for OpenTelemetry, as OTLP over HTTP: a URL, or an object. Headers come from `OTEL_EXPORTER_OTLP_HEADERS` in the app's environment. */
  otlp?: string | false | {
    /** URL of the receiver, without a password and a query. */ endpoint: string;
    /** Time from one message to the next; at least 1 s. */ interval?: number | string;
  };
  /** Group of apps; commands accept its name in place of app names. */
  namespace?: string;
  /** Prefix of the name, joined by a colon. */
  name_prefix?: string;
  /** Append the name of the chosen `env_<name>` block to the app's name. */
  append_env_to_name?: boolean;
  /** Environment variable that holds the worker's slot, counted from 0. */
  instance_var?: string;
  /** Environment variable from `env` that holds a number; it is one higher for each further worker. */
  increment_var?: string;
  /** File that holds a worker's process id while the worker runs, relative to the working directory; `-<id>` is inserted before the extension. */
  pid_file?: string;
  /** Start the app when it is created; with `false` it is created stopped, and with `cron_restart` it starts at the next of these times. */
  autostart?: boolean;
  /** A worker is ready when it calls `process.send('ready')`; by default when it listens. */
  wait_ready?: boolean;
  /** Time limit for a worker to become ready. By default, and with `0`, 3 s at a start, 30 s at a reload. */
  listen_timeout?: number | string;
  /** Requests that a new worker answers before it is ready and gets traffic: a path, a list of paths, or an object. */
  warmup?: string | string[] | false | {
    /** Path that a new worker answers. */ path?: string | string[];
    /** The same for several paths. */ paths?: string | string[];
    /** Number of requests to each path. */ requests?: number;
    /** After this time the worker gets traffic, whatever it has answered. */ timeout?: number | string;
  };
  /** Keep compiled code of Node.js 22.1 and later in Forkful's folder, for all workers of the app (`NODE_COMPILE_CACHE`). */
  compile_cache?: boolean;
  /** Apps that must be ready before this app is started. Apps that run are restarted and reloaded without waiting for each other. */
  depends_on?: string | string[];
  /** Signal that asks a worker to stop. */
  kill_signal?: string | number;
  /** Time between that signal and SIGKILL; `0` is the default. */
  kill_timeout?: number | string;
  /** Time limit for requests in progress during a reload. */
  drain_timeout?: number | string;
  /** Ask a worker to stop by `process.send('shutdown')` instead of a signal. */
  shutdown_with_message?: boolean;
  /** Send the stop signal to the worker's descendants too. Descendants that remain after the timeout are killed in any case. */
  treekill?: boolean;
  /** Restart a worker that exits. Unless `true` is given, a program that exits with code 0 right after its start (before it listens, and within `min_uptime`, at most 3 s) is finished, and is not restarted. */
  autorestart?: boolean;
  /** A worker is given up after this many unstable exits within 10 minutes, or within a longer time where each exit takes long. */
  max_restarts?: number | string;
  /** An exit after less uptime is unstable. */
  min_uptime?: number | string;
  /** Fixed delay before each restart. By default the delay grows from restart to restart. */
  restart_delay?: number | string;
  /** First delay before a restart; it grows with each consecutive restart, up to 15 s. */
  exp_backoff_restart_delay?: number | string;
  /** Longest delay before a restart where the delay grows. */
  max_restart_delay?: number | string;
  /** Exit codes after which a worker stays stopped. */
  stop_exit_codes?: number | string | (number | string)[];
  /** Reload when files change: in the working directory (`true`), or at the given paths. A path may be a pattern such as `src/*.js` (`**` is any number of folders), and `!` before it leaves it out. */
  watch?: boolean | string | string[];
  /** Files that are not watched: patterns as in .gitignore (blanks separate those in one text), or regular expressions in a .js configuration. `node_modules`, files whose names begin with a dot, and what a `.gitignore` excludes are never watched; a path that `watch` names is. */
  ignore_watch?: string | RegExp | (string | RegExp)[] | false;
  /** Debounce before reloading: time without further changes. */
  watch_delay?: number | string;
  /** Options of the watcher, as in chokidar. */
  watch_options?: {
    /** Watch what symbolic links point to. */ follow_symlinks?: boolean;
    /** Compare the files again and again, where the kernel reports no changes. */ use_polling?: boolean;
    /** Time from one comparison to the next. */ interval?: number | string;
    /** Patterns of paths whose changes do not count. */ ignored?: string | RegExp | (string | RegExp)[] | false;
    [option: string]: unknown;
  };
  /** Reload at these times: a cron pattern of 5 fields (from minutes) or 6 fields (from seconds); 0 for never. */
  cron_restart?: string | 0 | false;
  /** Reload a worker whose process tree uses more memory. */
  max_memory_restart?: number | string;
  /** Memory that all processes of the app together may use. The kernel kills a process that would use more. Needs a control group. */
  memory_max?: number | string;
  /** `"auto"` divides the memory that the app may use (`memory_max`, else the limit of the control group, else the machine's memory) over its workers: it sets the heap limit of Node.js, and a worker is replaced before its heap is full or the kernel kills it. */
  memory?: 'off' | 'auto';
  /** CPU that all processes of the app together may use: cores, or a share of one core as `150%`. Needs a control group. */
  cpu_max?: number | string;
  /** Reload a worker after roughly this many requests. */
  max_requests?: number | string;
  /** Reload a worker after roughly this age. */
  max_age?: number | string;
  /** Health check of a worker: a path or URL to request, "tcp", or an object with one of `http`, `tcp` and `command`. */
  health?: string | false | {
    /** Path, or URL of this machine, to request. A status from 200 to 399 is healthy. */ http?: string;
    /** Port to connect to; `true` for the port on which the worker listens. */ tcp?: number | true;
    /** Command whose exit code 0 means healthy. */ command?: string | number | (string | number | boolean)[];
    /** Time from one check to the next. */ interval?: number | string;
    /** A check that takes longer has failed. */ timeout?: number | string;
    /** No checks are made for this time after a start. */ start_period?: number | string;
    /** After this many failed checks in a row the worker is replaced. */ failures?: number | string;
    /** A worker whose event loop is blocked for this long is killed. */ stuck_limit?: number | string;
  };
  /** Where alerts of incidents go: a URL to which they are posted as JSON (https, or http to this machine), a command that gets the JSON on stdin, or an object. */
  alerts?: string | string[] | false | {
    /** URL to which alerts are posted as JSON: https, or http to this machine. */ webhook?: string;
    /** Command that gets the alert as JSON on stdin. */ command?: string | number | (string | number | boolean)[];
    /** Kinds of incidents that are told; by default all faults. */ on?: 'crash' | 'crash_loop' | 'failed_reload' | 'unhealthy' | 'stuck' | 'disk_full' | 'scaled_up' | 'scaled_down' | 'not_scaled_up' | 'fix_tried' | 'fix_reverted' | 'deployed' | ('crash' | 'crash_loop' | 'failed_reload' | 'unhealthy' | 'stuck' | 'disk_full' | 'scaled_up' | 'scaled_down' | 'not_scaled_up' | 'fix_tried' | 'fix_reverted' | 'deployed')[];
    /** Alerts of a kind are no more frequent; at least 10 s. */ every?: number | string;
    /** Longest time of a request or command; at most 60 s. */ timeout?: number | string;
  };
  /** File for stdout, relative to the working directory; "/dev/null" for none. By default a file in Forkful's folder. */
  out_file?: string;
  /** File for stderr, relative to the working directory; "/dev/null" for none. By default a file in Forkful's folder. */
  error_file?: string;
  /** Additional file for both streams of all workers: `true` for the default path, or a path. */
  log_file?: boolean | string;
  /** One file per stream for all workers instead of one per worker. By default `true` for a single worker in fork mode. */
  merge_logs?: boolean;
  /** Prefix each log line with the time. */
  time?: boolean;
  /** Prefix each log line with the local time in this format (tokens of Moment.js and Day.js). */
  log_date_format?: string | false;
  /** Format of log lines: unchanged, or JSON with time, stream and app. */
  log_type?: 'raw' | 'json';
  /** Keep or strip colours and other terminal control sequences in log files. */
  log_ansi?: 'keep' | 'strip';
  /** When log files are rotated: `true`, a size, or an object; `false` for never. */
  log_rotate?: boolean | string | {
    /** A file that would grow beyond it is rotated first; `false` for no limit. */ max_size?: number | string | false;
    /** A file whose first line is older is rotated before the next line; `false` for never. */ max_age?: number | string | false;
    /** How many rotated files of each log file are kept. */ keep?: number;
    /** Maximum size of all log files of the app together; the oldest rotated files are removed first. */ total?: number | string | false;
    /** Compress rotated files with gzip. */ compress?: boolean;
    /** While the file system has less free space, lines are dropped and counted; "auto" is 2 % of its size, at most 1 GiB; `false` for no minimum. */ min_free?: number | string | boolean;
  };
  /** Write no log files; `forkful logs` still shows new lines. */
  disable_logs?: boolean;
  // End of the keys.
  /** `env_<name>` blocks, keys in camelCase, and other names of keys. */
  [key: string]: unknown;
}

/** How `start`, `restart` and `reload` proceed. */
export interface How {
  /** Resolve only when each app is ready or has failed; `true` by default. */
  wait?: boolean;
  /** Only these apps of a configuration. */
  only?: string | string[];
  /** The `env_<name>` block of a configuration to choose. */
  envName?: string;
  /** The base of relative paths; the process's working directory by default. */
  cwd?: string;
  /** Existing apps get the caller's environment; by default they keep the one they have. */
  updateEnv?: boolean;
}

/** The keys that `restart` and `reload` change in the named apps; all other keys stay as they are. */
export type Changes = Partial<Omit<App, 'cwd'>> & How;

/** The result of a command for one app. */
export interface AppOutcome {
  name: string;
  ok: boolean;
  /** All its workers have ended with code 0 and are not restarted. */
  finished: boolean;
  /** It was left alone, because nothing has changed. */
  unchanged: boolean;
  /** `restart`, `reload`: whether it did not exist before, and was started. */
  started: boolean;
  /** `scale`: the numbers of workers before and after. */
  scaled?: { from: number; to: number };
  /** Ids of the affected workers. */
  pm_ids: number[];
  error: string | null;
  hint: string | null;
  /** The URL of the page that explains the hint. */
  see?: string;
  notes: string[];
  /** The last stderr lines of the worker that failed. */
  stderr_tail: string[];
}

/** Options of `apply`. */
export interface ApplyOptions extends Omit<How, 'wait'> {
  /** Delete all other apps in the namespaces of these; `false` by default. */
  prune?: boolean;
  /** Only make the plan; `false` by default. */
  dryRun?: boolean;
}

/** A step of `apply` for one app. */
export interface PlannedApp {
  name: string;
  change: 'start' | 'reload' | 'scale' | 'keep' | 'delete';
  /** The differences from now, one sentence each. */
  notes: string[];
}

/** The plan of `apply`, and its results. */
export interface Applied {
  /** All apps of the configuration and those that are deleted, in the order of the steps. */
  plan: PlannedApp[];
  /** The outcome of each step that was carried out; empty with `dryRun`. */
  apps: AppOutcome[];
  /** Always empty: if a step fails, `apply` throws. */
  undone: AppOutcome[];
}

/** A change of a worker's state. */
export interface ProcessEvent {
  type: 'process:event';
  event: 'online' | 'exit' | 'start' | 'stop' | 'restart' | 'reload' | 'delete' | 'restart overlimit';
  /** Whether a command caused it. */
  manually: boolean;
  at_ms: number;
  app: string;
  pm_id: number;
  pid: number | null;
  /** The worker in PM2's format, without its environment. */
  process: Pm2Env;
}

/** A message that a worker sent with `process.send`. */
export interface MessageEvent {
  type: 'process:msg';
  at_ms: number;
  app: string;
  pm_id: number;
  message: unknown;
}

/** An event loop was blocked; it runs again. */
export interface StallEvent {
  type: 'process:stall';
  app: string;
  /** When it began. */
  at_ms: number;
  pm_id: number;
  /** How long before the report it began. */
  ago_ms: number;
  for_ms: number;
  /** CPU time that the process used while it was blocked. */
  cpu_ms: number;
  /** The request that was handled: its method, and its path without the parts that differ from request to request. */
  route: string | null;
  /** The function with most of the time, with file and line. */
  function: string | null;
  /** That function and its callers, innermost first. */
  stack: string[];
  /** Requests that waited. */
  requests: number;
  waited_ms: number;
}

/** An unexpected event of an app, in short: `forkful events`. */
export interface IncidentSummary {
  /** Later incidents have higher numbers. */
  id: number;
  at_ms: number;
  kind: 'crash' | 'crash_loop' | 'failed_reload' | 'unhealthy' | 'stuck' | 'disk_full' | 'scaled_up' | 'scaled_down' | 'not_scaled_up' | 'fix_tried' | 'fix_reverted' | 'deployed';
  app: string;
  /** The worker, if the event concerns one. */
  pm_id: number | null;
  /** The reason, in words. */
  reason: string;
  /** What Forkful does next, in words. */
  next: string | null;
}

/** An incident with all that was known then: `forkful events --show NUMBER`. */
export interface Incident extends IncidentSummary {
  /** How the process ended, where one did. */
  end: {
    pid: number | null;
    uptime_ms: number;
    exit_code: number | null;
    signal: string | null;
    restarts_in_a_row: number;
    restarts: number;
    node_version: string | null;
  } | null;
  /** The last lines that the process wrote to stderr; at most 20. */
  stderr_tail: string[];
  /** Whether an error that no code caught has ended the process; `stderr_tail` begins with it. */
  is_uncaught: boolean;
  /** What to do about it, where that is known. */
  hint: string | null;
  /** What was measured of the process last, by name. */
  metrics: Record<string, number>;
}

/** An incident, as it happens. */
export interface IncidentEvent extends IncidentSummary {
  type: 'app:incident';
}

export interface IncidentsOptions {
  /** Only of these apps, also of ones that are gone. */
  targets?: Target | Target[];
  /** Only what happened at this time or later, in milliseconds since the Unix epoch. */
  sinceMs?: number;
  /** Only incidents with a higher number. */
  after?: number;
}

export interface LogEvent extends LogLine {
  type: 'log:out' | 'log:err';
}

/** Events were dropped here, because they arrived faster than they were read. */
export interface SkippedEvent {
  type: 'events:skipped';
  count: number;
}

/** The last event: the daemon has stopped, and no other goes on with its apps. */
export interface EndingEvent {
  type: 'daemon:ending';
  at_ms: number;
}

export type Event = ProcessEvent | MessageEvent | StallEvent | IncidentEvent | LogEvent | SkippedEvent | EndingEvent;

/** Live events from the daemon. `break` or `close()` ends the stream. */
export interface Stream<T> extends AsyncIterableIterator<T> {
  /** Resolves when the stream has begun: it contains all later events. */
  readonly ready: Promise<void>;
  close(): void;
}

export interface EventsOptions {
  /** Only these; they need not exist yet. */
  targets?: Target | Target[];
  /** Include output lines. */
  logs?: boolean;
  /** Include messages that apps send with `process.send`. */
  messages?: boolean;
  signal?: AbortSignal;
}

export interface LogsOptions {
  targets?: Target | Target[];
  /** Number of lines from the end of each file; 15 by default. */
  lines?: number;
  /** Continue with new lines. */
  follow?: boolean;
  stream?: 'out' | 'err';
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** The daemon's directory; by default `$FORKFUL_HOME`, or `~/.forkful`. */
  home?: string;
  /** The native program; by default `$FORKFUL_BIN`, or the program in the platform's package. */
  binary?: string;
  /** Gets the warnings about a configuration; by default they are emitted as process warnings. */
  onWarning?: (text: string) => void;
}

/** An error with a code and a hint. */
export class ForkfulError extends Error {
  code: 'BAD_REQUEST' | 'NO_SUCH_TARGET' | 'CONFLICT' | 'INTERNAL' | 'FAILED' | 'NO_DAEMON' | 'FOREIGN_HOME' | 'OTHER_VERSION' | 'NO_BINARY' | 'LOST';
  /** What to do about it. */
  hint?: string;
  /** The URL of the page that explains the hint. */
  see?: string;
  /** The result for each app, if the command failed for one of them. */
  outcomes?: AppOutcome[];
  /** `apply`: the result of undoing each step, in the order of undoing. */
  undone?: AppOutcome[];
}

/** One user's daemon. Its methods correspond to the functions with the same names. */
export class Client {
  constructor(options?: ClientOptions);
  readonly home: string;
  connect(): Promise<Ping>;
  ping(): Promise<Ping | null>;
  list(): Promise<AppView[]>;
  describe(target: Target): Promise<AppView[]>;
  jlist(options?: { showSecrets?: boolean; target?: Target }): Promise<Process[]>;
  environment(target: Target, options?: { showSecrets?: boolean }): Promise<Record<string, Record<string, string>>>;
  start(script: string, options?: Partial<App> & How): Promise<AppOutcome[]>;
  start(apps: App | App[] | { apps: App[] }, how?: How): Promise<AppOutcome[]>;
  apply(what: string | App | App[] | { apps: App[] }, options?: ApplyOptions): Promise<Applied>;
  restart(targets: Target | Target[], changes?: Changes): Promise<AppOutcome[]>;
  restart(what: App | App[] | { apps: App[] }, how?: How): Promise<AppOutcome[]>;
  reload(targets: Target | Target[], changes?: Changes): Promise<AppOutcome[]>;
  reload(what: App | App[] | { apps: App[] }, how?: How): Promise<AppOutcome[]>;
  stop(targets: Target | Target[], how?: { wait?: boolean }): Promise<AppOutcome[]>;
  delete(targets: Target | Target[], how?: { wait?: boolean }): Promise<AppOutcome[]>;
  /** A number of workers, `'max'` for one per core, or a change of the current number: `'+2'`, `'-1'`. */
  scale(target: Target, instances: number | 'max' | `+${number}` | `-${number}` | (string & {}), how?: { wait?: boolean }): Promise<AppOutcome[]>;
  flush(targets?: Target | Target[]): Promise<AppOutcome[]>;
  reset(targets?: Target | Target[]): Promise<AppOutcome[]>;
  signal(targets: Target | Target[], signal: string | number): Promise<AppOutcome[]>;
  send(targets: Target | Target[], message: unknown): Promise<WorkerReply[]>;
  trigger(targets: Target | Target[], action: string, params?: unknown, options?: { timeoutMs?: number }): Promise<WorkerReply[]>;
  incidents(options?: IncidentsOptions): Promise<IncidentSummary[]>;
  incident(id: number): Promise<Incident>;
  logs(options?: LogsOptions): Stream<LogLine>;
  events(options?: EventsOptions): Stream<Event>;
  /** Runs a command of the command line; returns its output. */
  command(args: string[]): Promise<string>;
  kill(): Promise<AppOutcome[]>;
}

/** A client of a daemon, which is started if necessary, unless `start` is false. */
export function connect(options?: ClientOptions & { start?: boolean }): Promise<Client>;
/** The path of the native program. */
export function binaryPath(): string;

/** Starts a script with options, or the apps of a configuration file. Starts the daemon if it does not run. */
export function start(script: string, options?: Partial<App> & How): Promise<AppOutcome[]>;
/** Starts apps. If some of them run already, they stay as they are, the others start, and the promise rejects with `CONFLICT`. */
export function start(apps: App | App[] | { apps: App[] }, how?: How): Promise<AppOutcome[]>;
/**
 * Applies a configuration: starts missing apps, reloads changed apps, and leaves the others running. If a
 * new version does not become ready, every step is undone. The daemon is started if it does not run.
 */
export const apply: Client['apply'];
/** Restarts apps: stops and starts them; with a configuration, applies it. */
export const restart: Client['restart'];
/** Replaces workers one by one without losing a request; with a configuration, applies it. */
export const reload: Client['reload'];
/** Stops apps; they stay in the list. */
export const stop: Client['stop'];
/** Stops apps and forgets them. */
export const remove: Client['delete'];
declare const del: Client['delete'];
export { del as delete };
/** Changes the number of workers of an app: `4`, `'+2'`, `'-1'`. */
export const scale: Client['scale'];
/** All apps; empty if no daemon runs. */
export const list: Client['list'];
/** Full details of the given apps, with their last stderr lines. */
export const describe: Client['describe'];
/** All workers in PM2's format; secrets are redacted unless requested. */
export const jlist: Client['jlist'];
/** The environments of apps by name; secrets are redacted unless requested. */
export const environment: Client['environment'];
/** Unexpected events of apps, the oldest first. Without a daemon, what earlier daemons have kept. */
export const incidents: Client['incidents'];
/** An incident by its number, with all that is known of it. */
export const incident: Client['incident'];
/** The last lines of the log files and, with `follow`, new lines. */
export const logs: Client['logs'];
/**
 * A live stream of the apps' events. After an update or a crash of the daemon it goes on with the next daemon, and misses what happens until it
 * is connected again. It ends after `daemon:ending`, and throws `NO_DAEMON` if the daemon ended unexpectedly and no other has taken over.
 */
export const events: Client['events'];
/** Empties log files. */
export const flush: Client['flush'];
/** Resets the restart counters to zero. */
export const reset: Client['reset'];
/** Sends a signal to workers. */
export const signal: Client['signal'];
/** Sends a message to `process.on('message')` in workers. */
export const send: Client['send'];
/** Runs an action that apps have registered with `@pm2/io`. */
export const trigger: Client['trigger'];
/** The daemon; null if none runs. */
export const ping: Client['ping'];
/** Stops all apps and the daemon. */
export const kill: Client['kill'];
