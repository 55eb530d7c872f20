// Types of the daemon's messages. stream.ts checks messages when they arrive, as far as drawing needs it.

export type Worker = {
  pm_id: number; slot: number; pid?: number; status: string; restarts: number; crashes: number; unstable_restarts: number;
  started_at_ms?: number; cpu_percent: number; memory_bytes: number; last_exit?: string; exit_code?: number; reason?: string;
  renewed?: string; health_fault?: string; loop_delay_ms?: number; blocked_ms?: number; log_fault?: string;
  dropped_log_lines?: number; node_version?: string; metrics?: Record<string, number>;
};
export type Dispatch = { address: string; mode: string; handed_over: number; rescued: number; lost: number; suspected: number; steered: number };
/**
 * What limits an app, in the words of `forkful doctor`. `text` is the title as a sentence, with the certainty; `places` are functions and routes
 * in which event loops stood still.
 */
export type Verdict = { verdict: string; certainty: string; title: string; text: string; places: string[]; advice: string[]; gain?: string };
export type App = {
  script?: string; mode: string; namespace?: string; instances: number; memory_limit_bytes?: number; notes?: string[]; listening?: string[];
  created_at_ms?: number; dispatch?: Dispatch[]; workers: Record<string, Worker>; verdict?: Verdict;
  /** The bounds of a number of workers that follows the load, and its last change with the reason. */
  autoscale?: { min: number; max: number }; last_scaling?: string;
};
export type State = { at_ms: number; notes?: string[]; apps: Record<string, App> };
export type Happening = {
  at_ms: number; event: string; manually: boolean; app: string; pm_id: number; slot?: number; pid?: number; restarts?: number; exit_code?: number;
};
/** What happened to an app without a command: a crash, a failed reload, a change of the number of workers. */
export type Incident = { id: number; at_ms: number; kind: string; app: string; pm_id?: number | null; reason: string; next?: string | null };
/** What is known of the process of an incident. */
export type ProcessEnd = {
  pid?: number | null; uptime_ms: number; exit_code?: number | null; signal?: string | null; restarts_in_a_row: number; restarts: number; node_version?: string | null;
};
export type IncidentDetails = Incident & { end?: ProcessEnd | null; stderr_tail: string[]; hint?: string | null; metrics: Record<string, number> };
export type LogLine = { app: string; pm_id?: number | null; stream: string; at_ms?: number | null; line: string };

/** The workers of an app, by slot. */
export const workersOf = (app: App): Worker[] => Object.values(app.workers ?? {}).sort((a, b) => a.slot - b.slot || a.pm_id - b.pm_id);
export const metric = (worker: Worker, name: string): number | undefined => worker.metrics?.[name];
/** The values that are known. */
export const known = (values: (number | undefined | null)[]): number[] => values.filter((value): value is number => typeof value === 'number');
export const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
