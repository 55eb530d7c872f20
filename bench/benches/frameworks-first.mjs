// The first five seconds after a reload of apps with frameworks (examples/): latencies at a fixed rate compared with the five
// seconds before, with their own configurations, and with neither `warmup` nor the cache of compiled code.

import { setTimeout as sleep } from 'node:timers/promises';
import { PATHS, prepareExamples, reloaded, withExample } from '../lib/examples.mjs';
import { measured } from '../lib/measure.mjs';
import { probe } from '../lib/prober.mjs';
import { interleave } from '../lib/rounds.mjs';
import { quantile } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'Next.js and NestJS: latencies of the first 5 s after a reload, with and without warmup and compile cache';
export const arms = ['forkful-auto'];

/** Below the capacity of two cores that the generator shares: at 200 requests/s Next.js is always late here, before a reload as well as after it. */
const RATES = { nextjs: 50, nestjs: 100 };
const SECONDS = 5;
/** The agent writes the cache up to 4 s after a worker listens. */
const CACHED_AFTER_MS = 5_000;
const FIRSTS = {};
for (const [name, example] of [['Next.js', 'nextjs'], ['NestJS', 'nestjs']]) {
  FIRSTS[`${name}, compile cache and warmup`] = { example, options: ['--warmup', PATHS[example]] };
  FIRSTS[`${name}, neither`] = { example, options: ['--no-compile-cache'] };
}

/** Percentiles in ms, and failures. */
function judged({ latenciesUs, failures }) {
  const at = (q) => quantile(latenciesUs, q) / 1000;
  return { p50: at(0.5), p99: at(0.99), max: at(1), failed: Object.values(failures).reduce((sum, count) => sum + count, 0) };
}

async function first({ example, options }, { quick, workers }) {
  const plan = { path: PATHS[example], rate: RATES[example], seconds: quick ? 1 : SECONDS };
  return withExample({ example, workers, options }, async (server) => {
    Object.assign(plan, { port: server.port });
    await probe(plan);
    await sleep(CACHED_AFTER_MS);
    const { result: [before, after], cpu } = await measured(server, async () => {
      const steady = judged(await probe(plan));
      const [fresh] = await Promise.all([probe(plan), reloaded(server)]);
      return [steady, judged(fresh)];
    });
    const ratio = after.p99 / before.p99;
    return { before, after, ratio, cpu, line: `p99 ${fixed(before.p99, 1)} ms, after a reload ${fixed(after.p99, 1)} ms (× ${fixed(ratio, 2)}), max ${fixed(after.max, 1)} ms, ${after.failed} failed` };
  });
}

export async function run(context) {
  prepareExamples();
  return interleave(context, Object.keys(FIRSTS), (name) => first(FIRSTS[name], context));
}

export function tables(result) {
  return [{
    title: `examples on Node.js 24, ${RATES.nextjs} (Next.js) and ${RATES.nestjs} (NestJS) requests/s, each by a new connection: ${SECONDS} s from the beginning of a reload, and ${SECONDS} s before it, ${result.workers} workers`,
    columns: ['', 'p99 before, ms', 'p99 after, ms', 'after ÷ before, of one run', 'max after, ms', 'failed'],
    rows: casesOf(result, Object.keys(FIRSTS)).map((name) => {
      const of = (read, digits = 1) => spreadText(spreadOf(result, name, read), digits);
      const failed = finalSamples(result).filter((sample) => sample.case === name).reduce((sum, sample) => sum + (sample.after?.failed ?? 0), 0);
      return [name, of((s) => s.before.p99), of((s) => s.after.p99), of((s) => s.ratio, 2), of((s) => s.after.max), fixed(failed)];
    }),
  }];
}
