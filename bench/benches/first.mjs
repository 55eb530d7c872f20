// The first five seconds after a reload: latencies of requests at a fixed rate, each by a new connection, beside those of the
// five seconds before; with neither a cache of compiled code nor a warm-up, with each, and with both. Node.js 22.10 or later has the cache.

import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { measured } from '../lib/measure.mjs';
import { BENCH } from '../lib/paths.mjs';
import { probe } from '../lib/prober.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { quantile } from '../lib/stats.mjs';
import { fixed, ratioText, ratioOf, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'latencies of the first 5 s after a reload, with and without warmup and compile cache';
export const arms = ['forkful-auto'];

const RATE = 200;
const SECONDS = 5;
/** The agent writes the cache up to 4 s after a worker listens. */
const CACHED_AFTER_MS = 5_000;
const WARMUP = ['--warmup', '/fast'];

/** The settings that the first reload changes. */
const CASES = {
  neither: ['--no-compile-cache'],
  'compile cache': [],
  'compile cache and warmup': WARMUP,
  warmup: ['--no-compile-cache', ...WARMUP],
};

async function reloaded(server, args = []) {
  const { code, stdout, stderr } = await server.forkful('reload', 'bench', ...args);
  if (code !== 0) throw new Error(`reload exited with ${code}\n${stdout}${stderr}`);
}

/** Percentiles in ms, and failures. */
function judged({ latenciesUs, failures }) {
  const at = (q) => quantile(latenciesUs, q) / 1000;
  return { p50: at(0.5), p99: at(0.99), max: at(1), failures: Object.values(failures).reduce((sum, count) => sum + count, 0) };
}

async function sampleOf(server, args, quick) {
  const seconds = quick ? 1 : SECONDS;
  const plan = { port: server.port, path: '/fast', rate: RATE, seconds };
  await reloaded(server, args);
  await probe({ ...plan, seconds: 1 });
  await sleep(CACHED_AFTER_MS);
  const { result: [steady, first], cpu } = await measured(server, async () => {
    const before = await probe(plan);
    const [after] = await Promise.all([probe(plan), reloaded(server)]);
    return [judged(before), judged(after)];
  });
  return {
    steady, first, cpu,
    line: `p99 ${fixed(steady.p99, 1)} ms, in the first ${seconds} s after a reload ${fixed(first.p99, 1)} ms, max ${fixed(first.max, 1)} ms, ${first.failures} failed`,
  };
}

export async function run(context) {
  const app = path.join(BENCH, 'apps', 'express.cjs');
  return interleave(context, Object.keys(CASES), (name) =>
    withArm('forkful-auto', { app, workers: context.workers }, (server) => sampleOf(server, CASES[name], context.quick)));
}

export function tables(result) {
  return [{
    title: `Express 5, ${RATE} requests/s, each by a new connection: ${SECONDS} s from the beginning of a reload, and ${SECONDS} s before it, ${result.workers} workers`,
    columns: ['', 'p99 before, ms', 'p99 after, ms', 'p50 after, ms', 'max after, ms', 'p99 after ÷ that with neither', 'failed'],
    rows: Object.keys(CASES).map((name) => {
      const of = (read) => spreadText(spreadOf(result, name, read), 1);
      const failed = result.samples.filter((sample) => sample.final && sample.case === name).reduce((sum, sample) => sum + (sample.first?.failures ?? 0), 0);
      return [
        name, of((s) => s.steady.p99), of((s) => s.first.p99), of((s) => s.first.p50), of((s) => s.first.max),
        name === 'neither' ? '' : ratioText(ratioOf(result, name, 'neither', (s) => s.first.p99)), fixed(failed),
      ];
    }),
  }];
}
