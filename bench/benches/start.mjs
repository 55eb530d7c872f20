// Fifty idle workers: from the command to the last listening callback, beside fifty bare `node app` starts,
// all at once and as many at a time as there are cores.

import os from 'node:os';
import { ARMS, APP } from '../lib/arms.mjs';
import { interleave } from '../lib/rounds.mjs';
import { Server, waitUntil } from '../lib/server.mjs';
import { casesOf, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = '50 idle workers: time until the last one listens, beside bare node starts';
export const arms = ['node-cluster-rr', 'pm2', 'forkful-auto'];

const WORKERS = 50;
const START_MS_MAX = 120_000;
const CORES = os.availableParallelism();
const ALL_AT_ONCE = 'bare node, all at once';
const BY_CORES = `bare node, ${CORES} at a time`;

/** Milliseconds from the first command to the last listening line. */
function lastListening(server, count) {
  const lines = server.listened();
  if (lines.length < count) throw new Error(`${lines.length} of ${count} workers listened`);
  const last = lines.slice(0, count).reduce((latest, { atNs }) => (atNs > latest ? atNs : latest), 0n);
  return Number(last - server.begunNs) / 1e6;
}

async function bare(count, width) {
  const server = new Server('bare', { app: APP, workers: count, node: process.execPath });
  const children = [];
  server.shutdown = async () => { for (const child of children) child.kill('SIGKILL'); };
  try {
    while (children.length < count) {
      if (children.length - server.listened().length < width) children.push(server.spawn(server.node, [APP])); // PORT=0: any port
      else await waitUntil('a start', START_MS_MAX, () => children.length - server.listened().length < width, 1);
    }
    await waitUntil('the last start', START_MS_MAX, () => server.listened().length >= count);
    const readyMs = lastListening(server, count);
    return { readyMs, line: `${Math.round(readyMs)} ms` };
  } finally {
    await server.stop();
  }
}

/** The command's own time belongs to it: tool start, daemon start and all. */
async function managed(arm, count) {
  const server = await ARMS[arm].start({ workers: count });
  try {
    const readyMs = lastListening(server, count);
    return { readyMs, line: `${Math.round(readyMs)} ms` };
  } finally {
    await server.stop();
  }
}

export async function run(context) {
  const count = context.quick ? 6 : WORKERS;
  const cases = {
    [ALL_AT_ONCE]: () => bare(count, count),
    [BY_CORES]: () => bare(count, CORES),
    ...Object.fromEntries(context.arms.map((arm) => [arm, () => managed(arm, count)])),
  };
  return interleave(context, Object.keys(cases), (name) => cases[name]());
}

export function tables(result) {
  const ready = (sample) => sample.readyMs;
  return [{
    title: `${result.quick ? 6 : WORKERS} idle workers, from the command to the last listening callback`,
    columns: ['arm', 'ms', `/ ${ALL_AT_ONCE}`, `/ ${BY_CORES}`],
    rows: casesOf(result, [ALL_AT_ONCE, BY_CORES, ...arms]).map((name) => [
      name, spreadText(spreadOf(result, name, ready)), ratioText(ratioOf(result, name, ALL_AT_ONCE, ready)), ratioText(ratioOf(result, name, BY_CORES, ready)),
    ]),
  }];
}
