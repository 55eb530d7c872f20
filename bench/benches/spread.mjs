// How evenly a few long-lived connections are distributed over the workers: opened at once, and one by one.
// The number is the busiest worker's connections over the mean: 1.00 is even, N is "all on one of N".

import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, clientAddress } from '../lib/http.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { median } from '../lib/stats.mjs';
import { casesOf, fixed, spreadOf } from '../lib/summary.mjs';

export const about = 'few long-lived connections over the workers: busiest worker against the mean';
export const arms = [
  'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt',
  'forkful-auto', 'forkful-direct', 'forkful-exact', 'forkful-shared', 'forkful-sticky',
];

/** One round is enough: it has ten tries, and its counts do not depend on the load of the machine. */
export const roundsMin = 1;

const WORKERS = [2, 4, 8];
const CONNECTIONS = [4, 16, 64];
const PATTERNS = ['at once', 'one by one'];
const TRIES = 10;
/** The pause between tries, in which the server notices that the connections are closed. */
const SETTLE_MS = 100;

let clients = 0;
async function open(port) {
  clients += 1;
  const connection = new Connection(port, { localAddress: clientAddress(clients) });
  const { kind, body } = await connection.request('/pid');
  return { connection, worker: kind === 'ok' ? body : null };
}

/** One try: the busiest worker's share over the mean, and connections that failed. */
async function oneTry(port, workers, connections, pattern) {
  const opened = [];
  if (pattern === 'at once') opened.push(...(await Promise.all(Array.from({ length: connections }, () => open(port)))));
  else for (let i = 0; i < connections; i += 1) opened.push(await open(port));
  const counts = new Map();
  for (const { worker } of opened) if (worker !== null) counts.set(worker, (counts.get(worker) ?? 0) + 1);
  for (const { connection } of opened) connection.close();
  await sleep(SETTLE_MS);
  const answered = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return { worst: Math.max(...counts.values()) / (answered / workers), used: counts.size, failed: connections - answered };
}

async function sampleOf(server, workers, quick) {
  const settings = {};
  for (const connections of CONNECTIONS) {
    for (const pattern of PATTERNS) {
      const tries = [];
      for (let i = 0; i < (quick ? 2 : TRIES); i += 1) tries.push(await oneTry(server.port, workers, connections, pattern));
      settings[`${connections} ${pattern}`] = { tries, worst: median(tries.map((one) => one.worst)) };
    }
  }
  return { settings, line: Object.entries(settings).map(([name, { worst }]) => `${name} ${fixed(worst, 2)}`).join(' · ') };
}

const caseName = (arm, workers) => `${arm}, ${workers} workers`;

export async function run(context) {
  const cases = new Map(context.arms.flatMap((arm) => WORKERS.map((workers) => [caseName(arm, workers), { arm, workers }])));
  return interleave(context, [...cases.keys()], (name) => {
    const { arm, workers } = cases.get(name);
    return withArm(arm, { workers }, (server) => sampleOf(server, workers, context.quick));
  });
}

export function tables(result) {
  const present = casesOf(result, []);
  return WORKERS.map((workers) => ({
    title: `Busiest worker over the mean, ${workers} workers: median of ${TRIES} tries, then median and worst of the rounds`,
    columns: ['arm', ...CONNECTIONS.flatMap((connections) => PATTERNS.map((pattern) => `${connections} ${pattern}`))],
    rows: [...new Set([...arms, ...result.arms])].filter((arm) => present.includes(caseName(arm, workers))).map((arm) => [
      arm,
      ...CONNECTIONS.flatMap((connections) => PATTERNS.map((pattern) => {
        const s = spreadOf(result, caseName(arm, workers), (sample) => sample.settings[`${connections} ${pattern}`].worst);
        return s.n > 1 && s.max !== s.median ? `${fixed(s.median, 2)} (${fixed(s.max, 2)})` : fixed(s.median, 2);
      })),
    ]),
    notes: ['Every connection comes from a loopback address of its own. With 4 connections over 8 workers even is 2.00: four workers with one each, and a mean of a half.'],
  }));
}
