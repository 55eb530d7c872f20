// What a start that hangs in the kernel costs another app: its working directory is on a FUSE file system whose server
// never answers. 200 requests a second to the app that serves, each on a new connection, open loop; without and
// with such a start in progress. Needs root for the mount.

import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { measured } from '../lib/measure.mjs';
import { probe } from '../lib/prober.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { latencySummary, median } from '../lib/stats.mjs';
import { byRound, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = "open-loop latency of an app while another app's start hangs on a file system (as root)";
export const arms = ['forkful-auto', 'forkful-exact'];

const RATE = 200;
const PHASES = ['idle', 'hung'];

/** Mounts a file system that answers nothing over a folder for as long as `use` takes. */
async function withHungFolder(folder, use) {
  const server = openSync('/dev/fuse', 'r+');
  try {
    const options = 'fd=3,rootmode=40000,user_id=0,group_id=0';
    const { status, stderr } = spawnSync('mount', ['-i', '-t', 'fuse', '-o', options, 'none', folder], { stdio: ['ignore', 'ignore', 'pipe', server] });
    if (status !== 0) throw new Error(`cannot mount a file system: ${stderr}`);
    return await use();
  } finally {
    closeSync(server); // ends everything that waits for an answer
    spawnSync('umount', ['--lazy', folder]);
  }
}

async function sampleOf(server, { quick }) {
  const seconds = quick ? 2 : 8; // a start is given up after 10 s
  const folder = path.join(server.directory, 'hangs');
  const config = path.join(server.directory, 'hung.config.json');
  const idle = path.join(server.directory, 'idle.cjs');
  writeFileSync(idle, 'setInterval(() => {}, 1000);\n');
  writeFileSync(config, JSON.stringify({ apps: [{ name: 'hung', script: idle, cwd: folder, autorestart: false }] }));
  const asked = () => measured(server, () => probe({ port: server.port, path: '/fast', rate: RATE, seconds }));
  const sample = {};
  const note = (phase, { result: report, cpu }) => {
    sample[phase] = { ...report, cpu, latency: latencySummary(report.latenciesUs), slip: latencySummary(report.slipsUs) };
  };
  mkdirSync(folder);
  await server.forkful('start', config);
  await server.forkful('stop', 'hung');
  await asked(); // the first requests of an app are slow
  note('idle', await asked());
  await withHungFolder(folder, async () => {
    const start = server.forkful('start', 'hung');
    await sleep(200);
    note('hung', await asked());
    sample.startFailed = (await start).code !== 0;
  });
  if (!sample.startFailed) throw new Error('the start did not hang');
  sample.cpu = { disturbed: PHASES.some((phase) => sample[phase].cpu.disturbed) };
  sample.line = PHASES.map((phase) => `${phase} p99 ${fixed(sample[phase].latency.p99 ?? sample[phase].latency.max, 1)} max ${fixed(sample[phase].latency.max, 1)} ms`).join(' · ');
  return sample;
}

export async function run(context) {
  return interleave(context, context.arms, (arm) => withArm(arm, { workers: context.workers }, (server) => sampleOf(server, context)));
}

export function tables(result) {
  const rows = result.arms.map((arm) => {
    const samples = finalSamples(result).filter((sample) => sample.case === arm);
    const of = (phase, read) => spreadText(spreadOf(result, arm, (s) => read(s[phase].latency)), 1);
    const p99 = (latency) => latency.p99 ?? latency.max;
    const added = [...byRound(result, arm, (s) => p99(s.hung.latency) - p99(s.idle.latency)).values()];
    return [
      arm, of('idle', p99), of('hung', p99), fixed(median(added), 1), of('idle', ({ max }) => max), of('hung', ({ max }) => max),
      fixed(samples.reduce((sum, s) => sum + Object.values(s.hung.failures).reduce((a, b) => a + b, 0) + s.hung.unanswered, 0)),
    ];
  });
  return [{
    title: `/fast at ${RATE}/s on new connections while another app's start hangs`,
    columns: ['arm', 'idle p99, ms', 'hung p99, ms', 'p99 added, ms', 'idle max, ms', 'hung max, ms', 'failed'],
    rows,
    notes: [],
  }];
}
