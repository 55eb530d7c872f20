// What it costs that Prometheus scrapes 8 workers each second: CPU of manager and workers with it and without it, in turns.

import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { APP } from '../lib/arms.mjs';
import { cpuSecondsExact } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'metrics of 8 workers scraped each second: CPU of manager and workers';
export const arms = ['forkful-auto'];

const WORKERS = 8;
const SECONDS = 20;
const TURNS = 3;
const REQUESTS = 2 * WORKERS;
const CASES = {
  'what Forkful measures': APP,
  'with prom-client in the app': fileURLToPath(new URL('../apps/prom.cjs', import.meta.url)),
};

/** The bytes of a page. */
function get(options) {
  return new Promise((resolve, reject) => {
    http.get({ agent: false, ...options }, (response) => {
      let bytes = 0;
      response.on('data', (chunk) => { bytes += chunk.length; });
      response.on('end', () => (response.statusCode === 200 ? resolve(bytes) : reject(new Error(`${options.path}: status ${response.statusCode}`))));
    }).on('error', reject);
  });
}

/** How much CPU time processes use, in percent of a core, while `each` runs once a second for some seconds. */
async function percentOf(pids, seconds, each) {
  const used = () => pids.reduce((sum, pid) => sum + cpuSecondsExact(pid), 0);
  const [before, from] = [used(), performance.now()];
  for (let second = 1; second <= seconds; second += 1) {
    await each();
    await sleep(Math.max(0, from + second * 1000 - performance.now()));
  }
  return (100 * (used() - before)) / ((performance.now() - from) / 1000);
}

async function sampleOf(server, quick) {
  const page = { socketPath: path.join(server.extraEnv.FORKFUL_HOME, 'forkful.sock'), path: '/v1/metrics' };
  const pids = [...server.managerPids(), ...server.workerPids()];
  let bytes = 0;
  // Requests keep all workers measuring once a second, with a scrape and without one.
  const turn = (isScraped) => percentOf(pids, quick ? 2 : SECONDS, async () => {
    for (let n = 0; n < REQUESTS; n += 1) await get({ port: server.port, path: '/fast' });
    if (isScraped) bytes = await get(page);
  });
  await turn(true); // the code is compiled
  const [idle, busy] = [[], []];
  for (let number = 0; number < (quick ? 1 : TURNS); number += 1) {
    idle.push(await turn(false));
    busy.push(await turn(true));
  }
  const mean = (values) => values.reduce((sum, value) => sum + value) / values.length;
  const [without, scrape] = [mean(idle), mean(busy)];
  return {
    without, scrape, cost: scrape - without, kilobytes: bytes / 1000,
    line: `${fixed(without, 2)} % of a core without, ${fixed(scrape, 2)} % with a scrape each second: ${fixed(scrape - without, 2)} %; ${fixed(bytes / 1000)} KB`,
  };
}

export async function run(context) {
  return interleave(context, Object.keys(CASES), (name) => (
    withArm('forkful-auto', { workers: WORKERS, app: CASES[name] }, (server) => sampleOf(server, context.quick))));
}

export function tables(result) {
  const of = (name, read, digits) => spreadText(spreadOf(result, name, read), digits);
  return [{
    title: `${WORKERS} workers, scraped each second, ${TURNS} turns of ${SECONDS} s with and without it a round`,
    columns: ['page', 'KB', 'CPU without a scrape, % of a core', 'with one each second', 'difference'],
    rows: Object.keys(CASES).map((name) => [
      name, of(name, (s) => s.kilobytes, 0), of(name, (s) => s.without, 2), of(name, (s) => s.scrape, 2), of(name, (s) => s.cost, 2),
    ]),
    notes: [`CPU of daemon, keeper and all workers together. Each second ${REQUESTS} requests, so that the workers measure all the time.`],
  }];
}
