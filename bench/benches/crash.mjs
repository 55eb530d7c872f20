// kill -9 of a worker, twenty times, under load: what clients lose, and how long until a new worker listens and serves,
// beside bare `node app` starts on the same loaded machine.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { measured } from '../lib/measure.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { freePort, waitUntil } from '../lib/server.mjs';
import { median } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';
import { startTraffic } from '../lib/traffic.mjs';

export const about = 'kill -9 of a worker 20 times under load: losses, and time to a new worker';
export const arms = ['node-cluster-rr', 'node-cluster-none', 'pm2', 'forkful-auto', 'forkful-direct', 'forkful-exact'];

const KILLS = 20;
const REPLACEMENT_MS_MAX = 15_000;
const PLAN = { close: 50, kept: 50, pauseMs: 10, slowEvery: 50, slowMs: 300 };

const now = () => process.hrtime.bigint();
const milliseconds = (ns) => Number(ns) / 1e6;

/** From spawn to the listening callback of a bare `node app`, in ms. */
async function bareStart(server, index) {
  const log = path.join(server.directory, `bare-${index}`);
  const environment = { ...process.env, NODE_ENV: 'production', PORT: String(await freePort()), BENCH_LISTEN_LOG: log };
  const from = now();
  const child = spawn(server.node, [server.app], { env: environment, stdio: 'ignore' });
  try {
    await waitUntil('a bare node listening', REPLACEMENT_MS_MAX, () => existsSync(log) && readFileSync(log, 'utf8').endsWith('\n'));
    return milliseconds(BigInt(readFileSync(log, 'utf8').trim().split(' ')[1]) - from);
  } finally {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }
}

/** Kills one worker; returns when a new worker listened and when it first answered a client. */
async function killOne(server, traffic) {
  const [victim] = server.workerPids();
  const before = server.listened().length;
  const from = now();
  process.kill(victim, 'SIGKILL');
  const newcomer = await waitUntil('a new worker listening', REPLACEMENT_MS_MAX, () => server.listened()[before]);
  const serving = await waitUntil('a new worker serving', REPLACEMENT_MS_MAX, async () => (await traffic.progress()).firstSeen[newcomer.worker]);
  return { listeningMs: milliseconds(newcomer.atNs - from), servingMs: milliseconds(BigInt(serving) - from) };
}

/** Counts of a report's failures under four headings. */
function countFailures(failures) {
  const counts = { refused: 0, reset: 0, hung: 0, other: 0 };
  for (const [kind, count] of Object.entries(failures)) {
    const to = /REFUSED/.test(kind) ? 'refused' : /RESET|closed|EPIPE/.test(kind) ? 'reset' : /timeout/.test(kind) ? 'hung' : 'other';
    counts[to] += count;
  }
  return counts;
}

async function killsUnderLoad(server, quick) {
  const traffic = await startTraffic({ ...PLAN, port: server.port });
  const kills = [];
  const bareMs = [];
  try {
    await sleep(quick ? 500 : 2000);
    for (let i = 0; i < (quick ? 3 : KILLS); i += 1) {
      kills.push(await killOne(server, traffic));
      await server.forgive?.();
      await sleep(quick ? 100 : 700);
      bareMs.push(await bareStart(server, i));
    }
    return { report: await traffic.stop(), kills, bareMs };
  } finally {
    traffic.abandon();
  }
}

async function sampleOf(server, { quick }) {
  const { result, cpu } = await measured(server, () => killsUnderLoad(server, quick));
  const { report, kills, bareMs } = result;
  const counts = countFailures(report.failures);
  const listening = median(kills.map((kill) => kill.listeningMs));
  const serving = median(kills.map((kill) => kill.servingMs));
  const bare = median(bareMs);
  return {
    ...result, cpu, counts, listening, serving, bare, toListening: listening / bare, toServing: serving / bare,
    line: `${report.requests} requests, refused ${counts.refused}, reset ${counts.reset}, hung ${counts.hung}, other ${counts.other}; listening ${fixed(listening)} ms, serving ${fixed(serving)} ms, bare ${fixed(bare)} ms`,
  };
}

export async function run(context) {
  return interleave(context, context.arms, (arm) =>
    withArm(arm, { workers: context.workers }, (server) => sampleOf(server, context)));
}

export function tables(result) {
  const rows = casesOf(result, arms).map((name) => {
    const samples = finalSamples(result).filter((sample) => sample.case === name);
    const sum = (read) => fixed(samples.reduce((total, sample) => total + read(sample), 0));
    const of = (read, digits) => spreadText(spreadOf(result, name, read), digits);
    return [
      name, sum((s) => s.kills.length), sum((s) => s.report.requests), sum((s) => s.counts.refused), sum((s) => s.counts.reset), sum((s) => s.counts.hung), sum((s) => s.counts.other),
      of((s) => s.listening), of((s) => s.serving), of((s) => s.bare), of((s) => s.toListening, 2), of((s) => s.toServing, 2),
    ];
  });
  return [{
    title: `kill -9 of a worker under ${PLAN.close} closing and ${PLAN.kept} kept connections, ${result.workers} workers`,
    columns: [
      'arm', 'kills', 'requests', 'refused', 'cut off', 'no answer in 15 s', 'other',
      'kill to listening, ms', 'kill to first answer, ms', 'bare node start, ms', 'listening / bare', 'first answer / bare',
    ],
    rows,
    notes: ['"Cut off" are connections that ended without an answer: at least those that were inside the killed worker. Node cluster refills as its documentation shows, with `fork()` on `exit`. Kills come less than a second apart, which by default is a crash loop to Forkful and gets growing pauses; `forkful reset` after each kill makes every one a first crash, as the others treat it anyway.'],
  }];
}
