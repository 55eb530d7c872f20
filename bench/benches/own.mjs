// Sockets that processes open by themselves (`reusePort` of Node.js, `Bun.serve`): what clients see of kills, of reloads and of a blocked process.
// 200 requests a second, each on a new connection, open loop. Node.js 23.1 and later has `reusePort`; Bun comes with `npm ci` in npm/test.

import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { blockWorkers } from '../lib/blocker.mjs';
import { reloaded } from '../lib/examples.mjs';
import { measured } from '../lib/measure.mjs';
import { BENCH } from '../lib/paths.mjs';
import { probe } from '../lib/prober.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { waitUntil } from '../lib/server.mjs';
import { quantile } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'sockets that processes open by themselves: kills, reloads, and a block of 700 ms';
export const arms = ['forkful-auto', 'forkful-bun'];

const APP = path.join(BENCH, 'apps/own.cjs');
const APPS = { 'forkful-bun': path.join(BENCH, 'apps/own-bun.mjs') };
const RATE = 200;
const TIMES = 10;
const BLOCK_MS = 700;
const PAUSE_MS = 500;
const REPLACEMENT_MS_MAX = 15_000;

async function kill(server) {
  const [victim] = server.workerPids();
  const before = server.listened().length;
  process.kill(victim, 'SIGKILL');
  await waitUntil('a new worker', REPLACEMENT_MS_MAX, () => server.listened().length > before);
  await server.forgive();
}

/** The events that are repeated while requests arrive. */
const EVENTS = { 'kill -9 of a worker': kill, reload: reloaded };

/** Requests while `happen` goes on. */
async function meanwhile(server, seconds, happen) {
  const [report, times] = await Promise.all([probe({ port: server.port, path: '/fast', rate: RATE, seconds }), happen(performance.now() + seconds * 1000)]);
  const failed = Object.values(report.failures).reduce((sum, count) => sum + count, report.unanswered);
  const at = (q) => quantile(report.latenciesUs, q) / 1000;
  return { times, requests: report.latenciesUs.length, failed, failures: report.failures, p99: at(0.99), max: at(1) };
}

async function repeated(server, event, quick) {
  const seconds = quick ? 3 : 15;
  return meanwhile(server, seconds, async (until) => {
    let times = 0;
    while (times < TIMES && performance.now() < until - 2 * PAUSE_MS) {
      await EVENTS[event](server);
      times += 1;
      await sleep(PAUSE_MS);
    }
    return times;
  });
}

async function blocked(server, { quick, blockGapMs }) {
  const blocker = await blockWorkers(server.port, 1, BLOCK_MS, blockGapMs);
  return meanwhile(server, quick ? 2 : 10, async (until) => {
    await sleep(until - performance.now());
    return (await blocker.stop()).blocks;
  });
}

const BLOCKED = `${BLOCK_MS} ms block of 1 of 2`;

export async function run(context) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const isNode = context.arms.some((arm) => !(arm in APPS));
  if (isNode && (major < 23 || (major === 23 && minor < 1))) throw new Error(`Node.js ${process.versions.node} has no reusePort: run this with tests/e2e/node_modules/node24/bin/node`);
  const cases = context.arms.flatMap((arm) => [...Object.keys(EVENTS), BLOCKED].map((event) => ({ arm, event })));
  const named = new Map(cases.map((one) => [`${one.arm}: ${one.event}`, one]));
  return interleave(context, [...named.keys()], (name) => {
    const { arm, event } = named.get(name);
    return withArm(arm, { app: APPS[arm] ?? APP, workers: context.workers }, async (server) => {
      await probe({ port: server.port, path: '/fast', rate: RATE, seconds: 1 });
      const { result, cpu } = await measured(server, () => (event === BLOCKED ? blocked(server, context) : repeated(server, event, context.quick)));
      return { ...result, cpu, line: `${result.times} times, ${result.requests} requests, ${result.failed} failed, p99 ${fixed(result.p99, 1)}, max ${fixed(result.max, 1)} ms` };
    });
  });
}

export function tables(result) {
  return [{
    title: `\`reusePort\`, ${RATE} requests/s on new connections, ${result.workers} workers`,
    columns: ['', 'times', 'requests', 'failed', 'p99, ms', 'max, ms'],
    rows: casesOf(result, []).map((name) => {
      const samples = finalSamples(result).filter((sample) => sample.case === name);
      const sum = (read) => fixed(samples.reduce((total, sample) => total + read(sample), 0));
      return [
        name, sum((s) => s.times), sum((s) => s.requests), sum((s) => s.failed),
        spreadText(spreadOf(result, name, (s) => s.p99), 1), spreadText(spreadOf(result, name, (s) => s.max), 1),
      ];
    }),
    notes: ['Blocks come again and again, with the pause of `--block-gap` between them.'],
  }];
}
