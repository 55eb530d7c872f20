// A watched tree of twenty thousand files: what it costs while nothing changes, and how soon a change begins a reload.

import { appendFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { APP } from '../lib/arms.mjs';
import { preparePm2 } from '../lib/arms/pm2.mjs';
import { prepareForkful } from '../lib/arms/forkful.mjs';
import { cpuSecondsExact, residentBytes } from '../lib/proc.mjs';
import { interleave } from '../lib/rounds.mjs';
import { Server, waitUntil } from '../lib/server.mjs';
import { median } from '../lib/stats.mjs';
import { fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'a watch of 20,000 files: idle CPU, and from a change to the new process';
export const arms = ['pm2', 'forkful-auto'];

const FOLDERS = 200;
const FILES = 100;
const IDLE_SECONDS = 5;
const CHANGES = 10;
const READY_MS_MAX = 60_000;
const POLL_MS = 1;

const MANAGERS = {
  forkful: { prepare: prepareForkful, isManager: ({ comm }) => comm === 'forkful' },
  pm2: { prepare: preparePm2, isManager: ({ comm }) => comm.startsWith('PM2') },
};

/** The children of a process, whichever of its threads started them. */
function childrenOf(pid) {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) => {
    try {
      return readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean);
    } catch {
      return []; // the thread has ended
    }
  });
}

function makeTree(root, quick) {
  const files = [];
  for (let folder = 0; folder < (quick ? FOLDERS / 10 : FOLDERS); folder += 1) {
    const directory = path.join(root, 'src', `part-${Math.floor(folder / 20)}`, `folder-${folder}`);
    mkdirSync(directory, { recursive: true });
    for (let file = 0; file < FILES; file += 1) {
      files.push(path.join(directory, `file-${file}.js`));
      writeFileSync(files.at(-1), '');
    }
  }
  return files;
}

/** The time from a change until the manager has a new child process. */
async function beginOf(pid, change) {
  const before = new Set(childrenOf(pid));
  const from = performance.now();
  change();
  for (;;) {
    if (childrenOf(pid).some((child) => !before.has(child))) return performance.now() - from;
    if (performance.now() - from > READY_MS_MAX) throw new Error('a change was not seen');
    await sleep(POLL_MS);
  }
}

async function withTree(name, context) {
  const server = new Server(name, { app: APP, workers: 1, node: process.execPath });
  try {
    const manager = MANAGERS[name];
    manager.prepare(server);
    const root = path.join(server.directory, 'app');
    const files = makeTree(root, context.quick);
    const config = path.join(server.directory, 'bench.config.json');
    const app = { name: 'watched', script: APP, cwd: root, watch: [root], exec_mode: 'cluster', instances: 1 };
    writeFileSync(config, JSON.stringify({ apps: [app] }));
    const { code, stdout, stderr } = await server[name]('start', config);
    if (code !== 0) throw new Error(`${name} start exited with ${code}\n${stdout}${stderr}`.slice(0, 2000));
    await waitUntil('a worker', READY_MS_MAX, () => server.listened().length >= 1);
    const [pid] = server.members().filter(manager.isManager).map((member) => member.pid);
    await sleep(3000); // until the whole tree is watched
    const [cpuBefore, from] = [cpuSecondsExact(pid), performance.now()];
    await sleep(IDLE_SECONDS * 1000);
    const idlePercent = (100 * (cpuSecondsExact(pid) - cpuBefore)) / ((performance.now() - from) / 1000);
    const begins = [];
    for (let change = 0; change < (context.quick ? 2 : CHANGES); change += 1) {
      const listened = server.listened().length;
      begins.push(await beginOf(pid, () => appendFileSync(files[(change * 1999) % files.length], '// changed\n')));
      await waitUntil('the new worker', READY_MS_MAX, () => server.listened().length > listened);
      await sleep(1000); // the reload and the drain of the old worker have ended
    }
    const begin = { median: median(begins), max: Math.max(...begins) };
    const memoryMiB = (residentBytes(pid) ?? NaN) / 2 ** 20;
    return {
      files: files.length, idlePercent, begin, memoryMiB,
      line: `idle ${fixed(idlePercent, 3)} %, a change begins a reload after ${fixed(begin.median)} ms, at most ${fixed(begin.max)} ms; ${fixed(memoryMiB, 1)} MiB`,
    };
  } finally {
    await server.stop();
  }
}

export async function run(context) {
  const names = Object.keys(MANAGERS).filter((name) => context.arms.some((arm) => arm.startsWith(name)));
  return interleave(context, names, (name) => withTree(name, context));
}

export function tables(result) {
  const of = (name, read, digits = 0) => spreadText(spreadOf(result, name, read), digits);
  const names = [...new Set(result.samples.map((sample) => sample.case))].sort();
  return [{
    title: `A watched tree of ${fixed(FOLDERS * FILES)} files in ${FOLDERS} folders`,
    columns: ['manager', `CPU while nothing changes, % over ${IDLE_SECONDS} s`, 'from a change to the new process, median ms', 'at most, ms', 'resident MiB'],
    rows: names.map((name) => [
      name, of(name, (s) => s.idlePercent, 3), of(name, (s) => s.begin.median), fixed(spreadOf(result, name, (s) => s.begin.max).max), of(name, (s) => s.memoryMiB, 1),
    ]),
    notes: [`${CHANGES} changes a round, each of another file. The default \`watch_delay\` of each manager: Forkful waits 100 ms for more changes, PM2 not at all (and restarts instead of reloading).`],
  }];
}
