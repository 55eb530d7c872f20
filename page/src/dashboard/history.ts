// The daemon's history of an app's workers, and the series for plots.

import { useRepeated } from './repeated';
import { known, sum } from './types';

export type Values = (number | null)[];
export type WorkerHistory = { slot: number; pm_id: number; series: Record<string, Values> };
export type History = { app: string; from_ms: number; step_ms: number; points: number; workers: WorkerHistory[] };

/** A time range, the seconds of each point, and the interval between requests. */
export type Range = { name: string; seconds: number; step: number; every_ms: number };
export const RANGES: Range[] = [
  { name: '10 min', seconds: 600, step: 2, every_ms: 3000 },
  { name: '1 h', seconds: 3600, step: 10, every_ms: 10_000 },
  { name: '6 h', seconds: 21_600, step: 60, every_ms: 30_000 },
  { name: '24 h', seconds: 86_400, step: 240, every_ms: 60_000 },
  { name: '7 d', seconds: 604_800, step: 1800, every_ms: 300_000 },
];

/** The metrics of all plots. */
const METRICS = [
  'event_loop_utilization', 'main_thread_cpu', 'run_queue_wait', 'gc_pause_ms_per_s', 'event_loop_delay_p99_ms', 'http_requests_per_s', 'http_errors_per_s',
  'http_latency_p50_ms', 'http_latency_p95_ms', 'http_latency_p99_ms', 'memory_bytes', 'heap_used_bytes', 'pool_busy', 'cpu_throttled', 'accept_queue', 'http_in_flight',
  'memory_limit_bytes', 'connections', 'cpu_pressure', 'memory_pressure', 'io_pressure',
].join(',');

const isValues = (value: unknown): value is Values => Array.isArray(value) && value.every((one) => one === null || typeof one === 'number');

/** A reply with the parts of the right shape; null if it is no history. */
export function checked(value: unknown): History | null {
  const reply = value as Partial<History>;
  if (typeof reply !== 'object' || reply === null || !Array.isArray(reply.workers)) return null;
  const { app = '', from_ms = 0, step_ms = 0, points = 0 } = reply;
  if (!(points > 0 && points < 100_000 && step_ms > 0)) return null;
  const workers = reply.workers.flatMap((worker) => {
    if (typeof worker?.slot !== 'number' || typeof worker.pm_id !== 'number' || typeof worker.series !== 'object') return [];
    const series = Object.fromEntries(Object.entries(worker.series).filter(([, values]) => isValues(values)));
    return [{ slot: worker.slot, pm_id: worker.pm_id, series }];
  });
  return { app, from_ms, step_ms, points, workers };
}

/** The history of an app, requested repeatedly while the page is visible. */
export function useHistory(app: string, range: Range): { history: History | null; fault: string } {
  const { answer, fault } = useRepeated({
    path: () => {
      const to = Math.floor(Date.now() / 1000 / range.step) * range.step * 1000;
      return `history?${new URLSearchParams({ app, from: String(to - range.seconds * 1000), to: String(to), step: String(range.step), metrics: METRICS })}`;
    },
    every_ms: range.every_ms,
    read: checked,
    unreadable: 'The history cannot be read.',
  }, [app, range]);
  return { history: answer, fault };
}

export const series = (worker: WorkerHistory, name: string): Values => worker.series[name] ?? [];

/** For each point, a function of all known values of the workers. */
export function over(workers: WorkerHistory[], points: number, name: string, merge: (values: number[]) => number): Values {
  const all = workers.map((worker) => worker.series[name]).filter((values) => values !== undefined);
  if (all.length === 0) return [];
  return Array.from({ length: points }, (_, index) => {
    const values = known(all.map((one) => one[index]));
    return values.length > 0 ? merge(values) : null;
  });
}

export const mean = (values: number[]): number => sum(values) / values.length;
export const most = (values: number[]): number => Math.max(...values);

/** Percentiles of several workers, weighted by their requests: percentiles cannot be added up. */
export function weighted(workers: WorkerHistory[], points: number, name: string): Values {
  return Array.from({ length: points }, (_, index) => {
    let [total, weight] = [0, 0];
    for (const worker of workers) {
      const value = worker.series[name]?.[index];
      const rate = worker.series.http_requests_per_s?.[index] ?? 0;
      if (typeof value === 'number' && rate > 0) { total += value * rate; weight += rate; }
    }
    return weight > 0 ? total / weight : null;
  });
}

export type Split = { javascript: number; gc: number; waiting: number; blocked: number };

/** How a worker spent each second; the same shares as those of `forkful doctor`. */
export function splitAt(worker: WorkerHistory, index: number): Split | null {
  const at = (name: string): number | null => worker.series[name]?.[index] ?? null;
  const busy = at('event_loop_utilization');
  if (busy === null) return null;
  const [cpu, queue] = [at('main_thread_cpu'), at('run_queue_wait')];
  const waiting = Math.min(queue ?? 0, busy);
  const blocked = cpu === null || queue === null ? 0 : Math.min(Math.max(0, busy - cpu - queue), busy - waiting);
  const gc = Math.min((at('gc_pause_ms_per_s') ?? 0) / 1000, busy - waiting - blocked);
  return { javascript: busy - waiting - blocked - gc, gc, waiting, blocked };
}

/** The same as the mean of several workers, in percent. */
export function split(workers: WorkerHistory[], points: number): Record<keyof Split, Values> {
  const rows = Array.from({ length: points }, (_, index) => workers.map((worker) => splitAt(worker, index)).filter((one) => one !== null));
  const part = (name: keyof Split): Values => rows.map((row) => (row.length > 0 ? 100 * mean(row.map((one) => one[name])) : null));
  return { javascript: part('javascript'), gc: part('gc'), waiting: part('waiting'), blocked: part('blocked') };
}
