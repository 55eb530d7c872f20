// The current state of apps and workers, as the daemon sends it.
import type { Status } from './index.js';

/** The current state of an app. */
export interface AppView {
  /** The complete definition, without the environment's values. */
  definition: { name: string; program: string; script: string | null; args: string[]; cwd: string; mode: 'cluster' | 'fork'; instances: number; [key: string]: unknown };
  env_names: string[];
  /** Features that do not work as the app expects, and the remedy, such as that log4js loses lines. */
  notes?: string[];
  /** As `tcp://127.0.0.1:3000`. */
  listening: string[];
  created_at_ms: number;
  /** The use of all its processes, from its control group, if it has one. */
  usage?: AppUsage;
  /** The event loops that were blocked since the app was added, if any were. */
  stalls?: StallCost;
  /** A change of `forkful doctor --fix` that is in place and undecided. */
  trial?: OpenTrial;
  /** How its memory is divided over its workers, with `memory: 'auto'`. */
  memory_plan?: MemoryPlan;
  /** The last change of the number of workers by the load, and the reason. */
  last_scaling?: string;
  /** The hosts to which its workers have opened connections, such as databases: at most 16, those with most connections. */
  outgoing?: HostLoad[];
  dispatch: DispatchView[];
  workers: WorkerView[];
}

/** The use of all processes of an app, from its control group. */
export interface AppUsage {
  memory_bytes: number | null;
  /** A share of one core, between the last two samples. */
  cpu_percent: number | null;
  /** Since the app's first start. */
  cpu_time_ms: number | null;
  /** How often the kernel has killed one of its processes because memory ran out. */
  out_of_memory_kills: number;
}

/** The cost of blocked event loops. */
export interface StallCost {
  stalls: number;
  stalled_ms: number;
  longest_ms: number;
  /** CPU time that the processes used while they were blocked. */
  cpu_ms: number;
  /** Requests that waited. */
  requests: number;
  waited_ms: number;
}

/** A change of `forkful doctor --fix` that is undecided. */
export interface OpenTrial {
  id: string;
  since_ms: number;
  state: 'changing' | 'changed' | 'reverting' | 'cut_off';
  /** The command that keeps the change; words, if the command would show a secret. */
  keep: string;
  /** The command that undoes the change; words, if the command would show a secret. */
  undo: string;
}

/** How the memory of an app is divided over its workers. */
export interface MemoryPlan {
  /** The plan in words. */
  text: string;
  limit_bytes: number;
  /** Where the limit comes from: `memory_max`, a control group, or the machine. */
  limit_of: string;
  /** What each worker may have for itself, without pages that all share. */
  worker_bytes: number;
  /** The heap limit of each worker; null if it has one already, or if there is too little memory. */
  heap_mib: number | null;
  /** A worker that has more for itself is replaced. */
  replaced_above_bytes: number | null;
}

/** The connections of all workers of an app to a host. */
export interface HostLoad {
  /** Host and port, such as `db:5432`. */
  host: string;
  connections: number;
  /** Workers that have any. */
  workers: number;
  /** The most connections of one worker; of a host that has refused some, only those that were open at two readings in a row. */
  most: number;
  /** Connections that the host refused because it had too many, since the start of the present workers. */
  refused: number;
  /** The connections that the app had while the host refused others: what the host's limit leaves for this app. */
  limit?: number;
}

/** The connections of a worker to a host. */
export interface HostUse {
  host: string;
  connections: number;
  /** Since the start of the worker. */
  refused: number;
}

/** Counters of one listening address. */
export interface DispatchView {
  address: string;
  mode: 'auto' | 'direct' | 'exact' | 'least' | 'shared' | 'sticky';
  handed_over: number;
  rescued: number;
  /** Connections that a worker may have had when it ended, so that no other worker was given them. */
  lost: number;
  suspected: number;
  steered: number;
}

/** The use of all processes of a worker, from its control group. */
export interface WorkerUsage {
  memory_bytes: number | null;
  /** A share of one core, between the last two samples. */
  cpu_percent: number | null;
  /** Since the worker's process was started. */
  cpu_time_ms: number | null;
}

/** The current state of a worker. */
export interface WorkerView {
  pm_id: number;
  slot: number;
  pid: number | null;
  status: Status;
  restarts: number;
  /** Unexpected exits after which the worker was restarted (`restarts` counts these as well) or given up. */
  crashes: number;
  unstable_restarts: number;
  started_at_ms: number | null;
  cpu_percent: number;
  memory_bytes: number;
  /** How long its event loop has been blocked, if it counts as blocked. */
  blocked_ms?: number;
  /** The use of its process and all descendants, from its control group, if it has one. */
  usage?: WorkerUsage;
  out_log_path: string;
  error_log_path: string;
  last_exit: string | null;
  exit_code: number | null;
  reason: string | null;
  /** Why Forkful last replaced the worker: its limits, its health, changed files, the clock. */
  renewed: string | null;
  /** What was wrong at the last health check. */
  health_fault: string | null;
  /** Delay of the event loop in milliseconds (99th percentile of the last second), if it is measured. */
  loop_delay_ms: number | null;
  stderr_tail: string[];
  dropped_log_lines: number;
  /** Which log file cannot be written now, and why. */
  log_fault: string | null;
  /** Its Node.js version, as `22.11.0`; null until its agent has reported it. */
  node_version: string | null;
  /** Its agent's measurements, by the names in docs/METRICS.md. */
  metrics?: Record<string, number>;
  /** The hosts to which it has opened connections, such as databases: at most 16, those with most connections. */
  outgoing?: HostUse[];
  /** Its metrics reported with `@pm2/io`. */
  reports: { metrics: Record<string, Metric>; actions: Action[]; options: Record<string, unknown> };
}

export interface Metric {
  value: unknown;
  unit?: string;
  type?: string;
  historic?: boolean;
}

export interface Action {
  action_name: string;
  action_type: string | null;
  arity: number | null;
}

export interface Ping {
  version: string;
  api: number;
  pid: number;
  /** The process id of the daemon's keeper, if it has one. */
  keeper?: number;
  started_at_ms: number;
  /** The daemon is in the portable mode, which lacks what only Linux has. */
  portable?: boolean;
}

/** One line of an app's output. */
export interface LogLine {
  app: string;
  /** Null for a file that several workers write to, and for a line of Forkful itself, whose app is `forkful`: some lines were skipped here. */
  pm_id: number | null;
  stream: 'out' | 'err';
  /** Null for lines that were read from disk. */
  at_ms: number | null;
  line: string;
}

/** The result of a message or an action at one worker. */
export interface WorkerReply {
  app: string;
  pm_id: number;
  error: string | null;
  /** An action's result. */
  result?: unknown;
}

/** A worker in PM2's format. */
export interface Process {
  /** 0 when there is no process. */
  pid: number;
  name: string;
  pm2_env: Pm2Env;
  pm_id: number;
  monit: { memory: number; cpu: number; blocked_ms?: number };
  /** The use of its process and all descendants, from its control group, if it has one. */
  usage?: WorkerUsage;
  /** The hosts to which it has opened connections, such as databases: at most 16, those with most connections. */
  outgoing?: HostUse[];
}

/** PM2's mix of configuration and state, including the environment's variables. */
export interface Pm2Env {
  name: string;
  namespace: string;
  pm_id: number;
  status: Status;
  restart_time: number;
  unstable_restarts: number;
  pm_uptime: number;
  created_at: number;
  exec_mode: 'cluster_mode' | 'fork_mode';
  instances: number;
  NODE_APP_INSTANCE: number;
  pm_exec_path: string;
  /** Its Node.js version, if known. */
  node_version?: string;
  pm_cwd: string;
  exec_interpreter: string;
  pm_out_log_path: string;
  pm_err_log_path: string;
  axm_actions: Action[];
  axm_monitor: Record<string, Metric>;
  exit_code?: number;
  env?: Record<string, string>;
  [key: string]: unknown;
}
