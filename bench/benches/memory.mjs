// What the manager itself costs: memory with one app of two workers and with hundreds of idle ones, CPU while nothing
// happens, and how long a `list` takes with a hundred workers.

import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { wrk } from '../lib/load.mjs';
import { cpuSecondsExact, proportionalBytes, residentBytes } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { MANAGERS, withSleepers } from '../lib/sleepers.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { casesOf, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'memory and idle CPU of the manager, and the time of `list`';
export const arms = ['node-cluster-rr', 'pm2', 'watt', 'forkful-auto'];

const MANY = { forkful: 500, pm2: 50 };
const LISTED = 100;
const LIST_RUNS = 50;
const IDLE_SECONDS = 30;
const MEBIBYTE = 2 ** 20;

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
const memoryOf = (pids) => ({ residentMiB: sum(pids.map(residentBytes)) / MEBIBYTE, proportionalMiB: sum(pids.map(proportionalBytes)) / MEBIBYTE });

/** Manager with a running app: after some load, then at rest. */
async function withApp(arm, context) {
  return withArm(arm, { workers: context.workers }, async (server) => {
    await wrk({ host: '127.0.0.1', port: server.port, path: '/', seconds: context.quick ? 1 : 3, connections: 64, close: true });
    await sleep(context.quick ? 500 : 3000);
    const managers = server.managerPids();
    const cpu = () => sum(managers.map(cpuSecondsExact));
    const [cpuBefore, from] = [cpu(), performance.now()];
    await sleep((context.quick ? 2 : IDLE_SECONDS) * 1000);
    const idlePercent = managers.length === 0 ? NaN : (100 * (cpu() - cpuBefore)) / ((performance.now() - from) / 1000);
    const manager = managers.length > 0 ? memoryOf(managers) : { residentMiB: NaN, proportionalMiB: NaN };
    const all = memoryOf(server.members().map(({ pid }) => pid));
    return { kind: 'app', manager, all, idlePercent, line: `manager ${fixed(manager.residentMiB, 1)} MiB, all ${fixed(all.proportionalMiB, 1)} MiB, idle ${fixed(idlePercent, 3)} %` };
  });
}

async function withMany(name, context) {
  const count = context.quick ? MANY[name] / 10 : MANY[name];
  return withSleepers(name, count, async (_server, managers) => {
    await sleep(context.quick ? 500 : 3000);
    const manager = memoryOf(managers);
    return { kind: 'many', count, manager, line: `${count} workers: ${fixed(manager.residentMiB, 1)} MiB` };
  });
}

/** Wall times of a command, one after the other, in ms. */
function timeCommand([file, ...args], environment, runs) {
  const times = [];
  for (let i = 0; i < runs + 3; i += 1) {
    const from = performance.now();
    const { status, stderr } = spawnSync(file, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', maxBuffer: 16 << 20 });
    if (status !== 0) throw new Error(`${file} ${args.join(' ')} exited with ${status}: ${stderr.slice(0, 500)}`);
    if (i >= 3) times.push(performance.now() - from); // the first three warm the page cache
  }
  return { times, median: median(times), p95: quantile(times, 0.95), max: Math.max(...times) };
}

async function listTime(name, context) {
  const runs = context.quick ? 5 : LIST_RUNS;
  const line = (time) => `${fixed(time.median, 1)} ms`;
  if (name === 'true') {
    const time = timeCommand(['/bin/true'], process.env, runs);
    return { kind: 'list', count: 0, time, line: line(time) };
  }
  const count = context.quick ? 10 : LISTED;
  return withSleepers(name, count, async (server) => {
    const time = timeCommand(server.listCommand, server.environment(), runs);
    return { kind: 'list', count, time, line: line(time) };
  });
}

export async function run(context) {
  const managers = Object.keys(MANAGERS).filter((name) => MANAGERS[name].present() && context.arms.some((arm) => arm.startsWith(name)));
  const cases = new Map([
    ...context.arms.map((arm) => [`app: ${arm}`, () => withApp(arm, context)]),
    ...managers.map((name) => [`many: ${name}`, () => withMany(name, context)]),
    ...managers.map((name) => [`list: ${name}`, () => listTime(name, context)]),
    ['list: true', () => listTime('true', context)],
  ]);
  return interleave(context, [...cases.keys()], (name) => cases.get(name)());
}

export function tables(result) {
  const named = (kind) => casesOf(result, []).filter((name) => name.startsWith(`${kind}: `)).sort();
  const short = (name) => name.slice(name.indexOf(': ') + 2);
  const of = (name, read, digits = 1) => spreadText(spreadOf(result, name, read), digits);
  const countOf = (name) => fixed(spreadOf(result, name, (s) => s.count).median);
  return [
    {
      title: `One app of ${result.workers} workers, after load, at rest`,
      columns: ['arm', 'manager, resident MiB', 'manager, proportional MiB', 'everything, proportional MiB', 'manager CPU at rest, %'],
      rows: named('app').map((name) => [
        short(name), of(name, (s) => s.manager.residentMiB), of(name, (s) => s.manager.proportionalMiB), of(name, (s) => s.all.proportionalMiB), of(name, (s) => s.idlePercent, 3),
      ]),
      notes: ['Watt runs its workers as threads of one process: it has no manager to weigh apart, so see "everything".'],
    },
    {
      title: 'Manager with many idle workers (`sleep`)',
      columns: ['manager', 'workers', 'resident MiB', 'proportional MiB'],
      rows: named('many').map((name) => [short(name), countOf(name), of(name, (s) => s.manager.residentMiB), of(name, (s) => s.manager.proportionalMiB)]),
    },
    {
      title: `One \`list\`, ${LIST_RUNS} runs a round, from spawn to exit`,
      columns: ['command', 'workers', 'median, ms', '95th percentile, ms', 'max, ms'],
      rows: named('list').map((name) => [
        short(name) === 'true' ? '/bin/true (what a spawn costs here)' : `${short(name)} list`, countOf(name),
        of(name, (s) => s.time.median), of(name, (s) => s.time.p95), of(name, (s) => s.time.max),
      ]),
    },
  ];
}
