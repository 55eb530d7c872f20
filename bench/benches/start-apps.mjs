// Fifty workers of an idle app and of one with Express, Fastify and socket.io, beside fifty bare `node app` starts without a cache of
// compiled code: the time until the last worker listens, and the CPU time of all processes until then. An earlier start has filled the cache
// of compiled code that Forkful's workers use.

import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepareForkful } from '../lib/arms/forkful.mjs';
import { APP } from '../lib/arms.mjs';
import { BENCH } from '../lib/paths.mjs';
import { interleave } from '../lib/rounds.mjs';
import { Server, freePort, waitUntil } from '../lib/server.mjs';
import { measured } from '../lib/measure.mjs';
import { fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = '50 workers, idle and with frameworks, beside bare node starts without a cache: time and CPU';
export const arms = ['forkful-auto'];

const WORKERS = 50;
const START_MS_MAX = 120_000;
/** The agent writes the cache up to 4 s after a worker listens. */
const CACHED_AFTER_MS = 5_000;
const APPS = { idle: APP, 'Express, Fastify and socket.io': path.join(BENCH, 'apps/frameworks.cjs') };

/** The time from `begin` until the last of `count` workers listens, or listens again. */
async function timed(server, count, begin) {
  const before = server.listened().length;
  const from = process.hrtime.bigint();
  const { cpu } = await measured(server, async () => {
    await begin();
    await waitUntil('the last start', START_MS_MAX, () => server.listened().length >= before + count, 1);
  });
  const last = server.listened().slice(before, before + count).reduce((latest, { atNs }) => (atNs > latest ? atNs : latest), 0n);
  const readyMs = Number(last - from) / 1e6;
  // The server itself is the only intended load.
  return { readyMs, cpuSeconds: cpu.serverSeconds, cpu, line: `${fixed(readyMs)} ms, ${fixed(cpu.serverSeconds, 2)} s of CPU` };
}

async function bare(app, count) {
  const server = new Server('bare', { app, workers: count, node: process.execPath });
  const children = [];
  server.shutdown = async () => { for (const child of children) child.kill('SIGKILL'); };
  try {
    return await timed(server, count, async () => { while (children.length < count) children.push(server.spawn(server.node, [app])); });
  } finally {
    await server.stop();
  }
}

async function managed(app, count) {
  const server = new Server('forkful', { app, workers: count, node: process.execPath });
  server.port = await freePort();
  const must = async (...args) => {
    const { code, stdout, stderr } = await server.forkful(...args);
    if (code !== 0) throw new Error(`forkful ${args[0]} exited with ${code}\n${stdout}${stderr}`);
  };
  try {
    prepareForkful(server);
    await must('start', app, '-i', '1', '--name', 'bench');
    await sleep(CACHED_AFTER_MS);
    await must('stop', 'bench');
    await must('scale', 'bench', String(count));
    return await timed(server, count, () => must('start', 'bench'));
  } finally {
    await server.stop();
  }
}

export async function run(context) {
  const count = context.quick ? 6 : WORKERS;
  const cases = new Map(Object.entries(APPS).flatMap(([name, app]) => [
    [`bare node: ${name}`, () => bare(app, count)],
    [`forkful: ${name}`, () => managed(app, count)],
  ]));
  return interleave(context, [...cases.keys()], (name) => cases.get(name)());
}

export function tables(result) {
  return [{
    title: `${result.quick ? 6 : WORKERS} workers on Node.js ${result.machine.node}, from the start to the last listening callback`,
    columns: ['', 'ms', 'CPU, s', 'ms / bare node', 'CPU / bare node'],
    rows: Object.keys(APPS).flatMap((app) => ['bare node', 'forkful'].map((who) => {
      const [name, base] = [`${who}: ${app}`, `bare node: ${app}`];
      const of = (read, digits) => spreadText(spreadOf(result, name, read), digits);
      const ratio = (read) => ratioText(ratioOf(result, name, base, read));
      return [name, of((s) => s.readyMs, 0), of((s) => s.cpuSeconds, 2), ratio((s) => s.readyMs), ratio((s) => s.cpuSeconds)];
    })),
    notes: ['Bare processes start all at once. CPU is that of all processes of the arm, manager and command included, from the first command to the last listening callback.'],
  }];
}
