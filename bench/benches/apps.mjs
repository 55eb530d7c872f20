// Two hundred apps of one idle process each (`sleep`, to measure only the manager): the time to start one configuration,
// the time of a `list`, the manager's memory, and the time until the apps run again after the manager was killed.

import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { proportionalBytes, residentBytes } from '../lib/proc.mjs';
import { interleave } from '../lib/rounds.mjs';
import { Server, waitUntil } from '../lib/server.mjs';
import { MANAGERS } from '../lib/sleepers.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = '200 idle apps: start, list, memory of the manager, and back after it was killed';
export const arms = ['pm2', 'forkful-auto'];

const APPS = 200;
const LIST_RUNS = 50;
const SETTLE_MS_MAX = 120_000;
const MEBIBYTE = 2 ** 20;

const isSleeper = ({ comm }) => comm === 'sleep';

/** The duration of a function in milliseconds. */
async function timed(work) {
  const from = performance.now();
  const value = await work();
  return [performance.now() - from, value];
}

function must({ code, stdout, stderr }, what) {
  if (code !== 0) throw new Error(`${what} exited with ${code}\n${stdout}${stderr}`.slice(0, 2000));
  return stdout;
}

function listTimes(server, runs) {
  const [file, ...args] = server.listCommand;
  const times = [];
  for (let run = 0; run < runs + 3; run += 1) {
    const from = performance.now();
    const { status, stderr } = spawnSync(file, args, { env: server.environment(), stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', maxBuffer: 64 << 20 });
    if (status !== 0) throw new Error(`list exited with ${status}: ${stderr.slice(0, 500)}`);
    if (run >= 3) times.push(performance.now() - from); // the first ones warm the page cache
  }
  return { median: median(times), p95: quantile(times, 0.95) };
}

async function withApps(name, context) {
  const count = context.quick ? APPS / 10 : APPS;
  const server = new Server(name, { app: '/bin/sleep', workers: count, node: process.execPath });
  try {
    MANAGERS[name].prepare(server);
    const run = MANAGERS[name].run(server);
    const config = path.join(server.directory, 'bench.config.json');
    const apps = Array.from({ length: count }, (_, number) => ({ name: `app-${number}`, script: '/bin/sleep', args: '3600', interpreter: 'none', exec_mode: 'fork' }));
    writeFileSync(config, JSON.stringify({ apps }));
    const sleepers = () => server.members().filter(isSleeper);
    const settled = (what) => waitUntil(what, SETTLE_MS_MAX, () => sleepers().length >= count, 20);
    const [startMs] = await timed(async () => {
      must(await run('start', config), 'start');
      await settled(`${count} sleepers`);
    });
    await sleep(context.quick ? 500 : 3000);
    const managers = server.members().filter((member) => !isSleeper(member)).map(({ pid }) => pid);
    const memory = (read) => managers.reduce((sum, pid) => sum + (read(pid) ?? 0), 0) / MEBIBYTE;
    const [residentMiB, proportionalMiB] = [memory(residentBytes), memory(proportionalBytes)];
    const list = listTimes(server, context.quick ? 5 : LIST_RUNS);
    const [saveMs] = await timed(async () => must(await run('save'), 'save'));
    const before = new Set(sleepers().map(({ pid }) => pid));
    for (const pid of managers) process.kill(pid, 'SIGKILL');
    // The next manager has to clean up what this one left behind: that is part of the time.
    const [backMs] = await timed(async () => {
      must(await run('resurrect'), 'resurrect');
      await waitUntil('all of them again', SETTLE_MS_MAX, () => sleepers().filter(({ pid }) => !before.has(pid)).length >= count, 20);
    });
    const left = sleepers().filter(({ pid }) => before.has(pid)).length;
    return {
      count, startMs, list, saveMs, residentMiB, proportionalMiB, backMs, left, surplus: sleepers().length - count,
      line: `start ${fixed(startMs)} ms, list ${fixed(list.median, 1)} ms, manager ${fixed(residentMiB, 1)} MiB, back ${fixed(backMs)} ms, ${left} left over`,
    };
  } finally {
    await server.stop();
  }
}

export async function run(context) {
  const managers = Object.keys(MANAGERS).filter((name) => MANAGERS[name].present() && context.arms.some((arm) => arm.startsWith(name)));
  return interleave(context, managers, (name) => withApps(name, context));
}

export const measures = {
  'start, ms': (s) => s.startMs, '`list` median, ms': (s) => s.list.median, '`save`, ms': (s) => s.saveMs,
  'resident MiB': (s) => s.residentMiB, 'back after a kill, ms': (s) => s.backMs,
};

export function tables(result) {
  const of = (name, read, digits = 0) => spreadText(spreadOf(result, name, read), digits);
  const names = [...new Set(result.samples.map((sample) => sample.case))].sort();
  return [{
    title: `${APPS} apps of one idle process each`,
    columns: ['manager', 'start, ms', '`list` median, ms', '`list` 95th percentile, ms', '`save`, ms', 'resident MiB', 'proportional MiB', 'back after a kill, ms', 'of before, still running'],
    rows: names.map((name) => [
      name, of(name, (s) => s.startMs), of(name, (s) => s.list.median, 1), of(name, (s) => s.list.p95, 1), of(name, (s) => s.saveMs),
      of(name, (s) => s.residentMiB, 1), of(name, (s) => s.proportionalMiB, 1), of(name, (s) => s.backMs), fixed(spreadOf(result, name, (s) => s.left).max),
    ]),
    notes: [
      'Start and back: from the command until the last process runs. "Back" begins right after SIGKILL to the manager; "still running" counts '
      + 'processes of the killed manager beside the new ones, which would hold their ports. `list` is a whole command, from spawn to exit.',
    ],
  }];
}
