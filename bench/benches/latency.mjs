// Are latencies right? The percentiles of Forkful's generator, compared with the times that a server with known service times records,
// and against the analytic answer where a whole server stalls; and how even the arrivals of `--rate` are.

import { existsSync } from 'node:fs';
import { bench, served } from '../lib/engine.mjs';
import { example } from '../lib/generators.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave } from '../lib/rounds.mjs';
import { byRound, casesOf, fixed, spreadOf, spreadText } from '../lib/summary.mjs';
import { quantile } from '../lib/stats.mjs';

export const about = 'our latencies against servers whose service times are known';
export const arms = [];

const RATE = 1000;
const BIN_US = 100_000;
/** A tenth of a stall: an answer that takes longer was due during a stall. */
const SLOW_US = 100_000;
/** The stall: of each ten seconds the first. */
const [PERIOD_MS, STALL_MS] = [10_000, 1000];
/** Whole periods, wherever they begin. */
const STALL_CASES_TAKE = '20s';
/** As the generator's document calls them. */
const PERCENTILES = { p50: 0.5, p75: 0.75, p95: 0.95, p99: 0.99 };

const open = (rate) => ['--rate', String(rate), '--connections-max', '400', '-c', '50'];
/**
 * `only`: the percentiles that say something; `slowMin`: so many of a hundred answers have to be slow, or nothing was tried;
 * `takes`: how long, if not ten seconds.
 * @type {Record<string, {server: string, load: string[], against: 'server' | 'analysis', only?: string[], slowMin?: number, takes?: string, even?: boolean}>}
 */
const CASES = {
  'constant, closed': { server: 'constant', load: ['-c', '10'], against: 'server' },
  'bimodal, closed': { server: 'bimodal', load: ['-c', '10'], against: 'server' },
  // With this many connections, answers may be read in batches.
  'constant, closed, 64': { server: 'constant', load: ['-c', '64'], against: 'server' },
  'bimodal, closed, 64': { server: 'bimodal', load: ['-c', '64'], against: 'server' },
  // The server's own times do not see what waits in front of it; in a closed loop nothing does. Each connection meets each
  // stall once: with pauses of 200 ms in the mean, that is one request of 46, and p99 lies among them. The other answers
  // take microseconds, and would say what waking up costs.
  'stall, closed': { server: 'stall', load: ['-c', '20', '--think', '0-400ms'], against: 'server', only: ['p99'], slowMin: 1.5, takes: STALL_CASES_TAKE },
  // Few enough that answering all that waited at the end of a stall takes no time against it.
  'stall, open': { server: 'stall', load: open(200), against: 'analysis', takes: STALL_CASES_TAKE },
  'constant, open': { server: 'constant', load: open(RATE), against: 'server', even: true },
};

/** Of evenly spaced arrivals, the share that falls into the stall waits for its end, each its own time. */
function stalled(q) {
  const share = STALL_MS / PERIOD_MS;
  return q <= 1 - share ? null : STALL_MS * (1 - (1 - q) / share);
}

/** The largest deviation of a percentile from its expected value, and whether all are within the bounds. */
function judged(document, expected, allowedMs, names = Object.keys(PERCENTILES)) {
  const found = names.flatMap((name) => {
    const [value, should] = [document.latency_ms[name], expected(PERCENTILES[name])];
    return value === null || should === null ? [] : [{ name, value, should, off: Math.abs(value - should), allowed: allowedMs(should) }];
  });
  const worst = found.reduce((one, other) => (other.off / other.allowed > one.off / one.allowed ? other : one));
  return { found, worst, kept: found.every(({ off, allowed }) => off <= allowed) };
}

/** Arrivals in each whole tenth of a second: the largest distance from what the rate says, as a share. */
function unevenness(arrived) {
  const begun = arrived[0];
  const bins = new Map();
  for (const at of arrived) {
    const bin = Math.floor((at - begun) / BIN_US);
    bins.set(bin, (bins.get(bin) ?? 0) + 1);
  }
  const last = Math.floor((arrived.at(-1) - begun) / BIN_US);
  const due = (RATE * BIN_US) / 1e6;
  const off = [...bins].filter(([bin]) => bin < last).map(([, count]) => Math.abs(count / due - 1));
  return { worst: Math.max(...off), within: off.filter((share) => share <= 0.05).length / off.length };
}

async function sample(name, quick) {
  const { server, load, against, only, slowMin = 0, takes = quick ? '4s' : '10s', even: isEven = false } = CASES[name];
  const timed = await served(example('timed'), [server]);
  let document;
  let cpu;
  let own;
  try {
    ({ result: document, cpu } = await measured(null, () => bench([...load, '-d', takes, timed.url])));
  } finally {
    own = JSON.parse(await timed.stop());
  }
  const service = (q) => quantile(own.service_us, q) / 1000;
  const slow = 100 * own.service_us.filter((us) => us > SLOW_US).length / own.service_us.length;
  if (slow < slowMin) throw new Error(`${name}: only ${fixed(slow, 2)} % of the answers took longer than ${SLOW_US / 1000} ms`);
  const { found, worst, kept } = against === 'server'
    ? judged(document, service, (should) => Math.max(0.01 * should, 0.1), only)
    : judged(document, stalled, (should) => 0.02 * should, only);
  const even = isEven ? unevenness(own.arrived_us) : null;
  const slipMs = document.phases_ms.slip.p99;
  return {
    found, kept, slow, even, slipMs, requests: document.requests.completed, errors: document.errors.total, against,
    offMs: worst.off, offShare: worst.off / worst.should, trust: document.headline,
    // The servers are not arms of the harness, so their CPU time would count as that of another program.
    cpu: { ...cpu, disturbed: false },
    line: `${worst.name} ${fixed(worst.value, 3)} ms, ${against} ${fixed(worst.should, 3)} ms: ${kept ? 'right' : 'off'}`
      + `${even === null ? '' : `; ${fixed(even.within * 100, 1)} % of 100 ms within 5 %, worst ${fixed(even.worst * 100, 1)} %, p99 of slip ${fixed(slipMs, 3)} ms`}`,
  };
}

export async function run(context) {
  if (!existsSync(example('timed'))) throw new Error(`${example('timed')} is missing: cargo build --release -p forkful-load --examples`);
  return interleave(context, Object.keys(CASES), (name) => sample(name, context.quick));
}

/** "2 of 3". */
function kept(result, name) {
  const rounds = [...byRound(result, name, (s) => s.kept).values()];
  return `${rounds.filter(Boolean).length} of ${rounds.length}`;
}

export function tables(result) {
  const names = casesOf(result, Object.keys(CASES));
  const of = (name, value) => spreadOf(result, name, value);
  const rows = names.map((name) => [
    name,
    CASES[name].against === 'server' ? "the server's own times" : 'analysis',
    spreadText(of(name, (s) => s.offMs * 1000)),
    spreadText(of(name, (s) => (s.offShare > 1 ? NaN : s.offShare * 100)), 2),
    kept(result, name),
    spreadText(of(name, (s) => (s.even === null ? NaN : s.even.within * 100)), 1),
    spreadText(of(name, (s) => (s.slipMs === null ? NaN : s.slipMs * 1000))),
    fixed(of(name, (s) => s.errors).max),
  ]);
  return [{
    title: 'Percentiles (p50, p75, p95, p99) against what they should be; the worst of each run',
    columns: ['load', 'against', 'off, µs', 'off, %', 'rounds within the bound', '100 ms with 1,000/s within 5 %, %', 'slip p99, µs', 'errors'],
    rows,
    notes: ["Bounds: 1 % or 100 µs of the server's own times of the same requests; 2 % of the analytic answer for the stall (1 s in every 10 s).",
      'Closed loops on the stalling server: 20 connections that pause for 0 to 400 ms; p99 alone, which lies among those that met a stall.'],
  }];
}
