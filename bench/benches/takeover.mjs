// kill -9 of the daemon, fifty times, under load of connections for one request, kept connections and WebSockets: how many requests clients lose, how long the API takes to serve again,
// whether the workers stay the same, and the memory of keeper and daemon.

import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { residentBytes } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { waitUntil } from '../lib/server.mjs';
import { median } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';
import { startTraffic } from '../lib/traffic.mjs';

export const about = 'kill -9 of the daemon 50 times under load: losses, and time until its API serves again';
export const arms = ['forkful-direct', 'forkful-auto', 'forkful-exact'];

const KILLS = 50;
const SERVES_MS_MAX = 15_000;
const PAUSE_MS = 2500; // after five deaths within 10 s the keeper starts no daemon
const PLAN = { close: 8, kept: 8, sockets: 8, pauseMs: 5, slowEvery: 50, slowMs: 300 };
const MEBIBYTE = 2 ** 20;

/** The daemon's information about itself. */
function ping(server) {
  const socketPath = path.join(server.extraEnv.FORKFUL_HOME, 'forkful.sock');
  return new Promise((resolve, reject) => {
    http.get({ socketPath, path: '/v1/ping', agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => { text += part; });
      response.on('error', reject).on('end', () => resolve(JSON.parse(text)));
    }).on('error', reject);
  });
}

/** Kills the daemon; says how long it took until another one answered. */
async function killOne(server) {
  const { pid } = await ping(server);
  const from = performance.now();
  process.kill(pid, 'SIGKILL');
  await waitUntil('another daemon', SERVES_MS_MAX, async () => (await ping(server).catch(() => null))?.pid !== pid);
  return performance.now() - from;
}

async function sampleOf(server, { quick }) {
  const before = server.workerPids().join();
  const traffic = await startTraffic({ ...PLAN, port: server.port });
  const times = [];
  let memory;
  try {
    await sleep(500);
    for (let kill = 0; kill < (quick ? 4 : KILLS); kill += 1) {
      times.push(await killOne(server));
      await sleep(PAUSE_MS);
    }
    const { pid, keeper } = await ping(server);
    memory = { daemon: residentBytes(pid) / MEBIBYTE, keeper: residentBytes(keeper) / MEBIBYTE };
  } catch (error) {
    traffic.abandon();
    throw error;
  }
  const report = await traffic.stop();
  const lost = Object.values(report.failures).reduce((sum, count) => sum + count, 0);
  const same = server.workerPids().join() === before;
  return {
    times, report, lost, same, memory, serves: median(times), slowest: Math.max(...times),
    line: `${report.requests} requests, ${lost} lost in ${times.length} kills; API after ${fixed(median(times))} ms, at most ${fixed(Math.max(...times))}; ${same ? 'the same' : 'OTHER'} workers; keeper ${fixed(memory.keeper, 1)} MiB, daemon ${fixed(memory.daemon, 1)} MiB`,
  };
}

export async function run(context) {
  return interleave(context, context.arms, (arm) => withArm(arm, { workers: context.workers }, (server) => sampleOf(server, context)));
}

export function tables(result) {
  const rows = casesOf(result, arms).map((name) => {
    const samples = finalSamples(result).filter((sample) => sample.case === name);
    const sum = (read) => fixed(samples.reduce((total, sample) => total + read(sample), 0));
    const of = (read, digits) => spreadText(spreadOf(result, name, read), digits);
    return [
      name, sum((s) => s.times.length), sum((s) => s.report.requests), sum((s) => s.lost), samples.every((s) => s.same) ? 'yes' : 'no',
      of((s) => s.serves), of((s) => s.slowest), of((s) => s.memory.keeper, 1), of((s) => s.memory.daemon, 1),
    ];
  });
  return [{
    title: `kill -9 of the daemon under ${PLAN.close} closing and ${PLAN.kept} kept connections and ${PLAN.sockets} WebSockets, ${result.workers} workers`,
    columns: ['arm', 'kills', 'requests', 'lost', 'same workers', 'kill to API, ms', 'slowest, ms', 'keeper, MiB', 'daemon, MiB'],
    rows,
    notes: ['"Lost" are requests and messages without an answer, of whatever kind, and WebSockets that did not open. The API\'s socket is open all the time: a request that comes while there is no daemon waits in its queue.'],
  }];
}
