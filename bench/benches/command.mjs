// What a command costs: `list` of one app beside /bin/true, in turns: time from spawn to exit, page faults and system calls. And the memory of
// daemon and keeper with that app.

import { execFileSync, spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { forkfulBinary } from '../lib/arms/forkful.mjs';
import { proportionalBytes, residentBytes } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { median, quantile } from '../lib/stats.mjs';
import { casesOf, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = '`list` of one app beside /bin/true: time, page faults, system calls; memory of daemon and keeper';
export const arms = ['forkful-auto', 'baseline-auto'];

const RUNS = 100;
const REST_MS = 3_000;
const MEBIBYTE = 2 ** 20;
const TRUE = ['/bin/true'];

function run1([file, ...args], env) {
  const from = performance.now();
  const { status, stderr } = spawnSync(file, args, { env, stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`${file} exited with ${status}: ${String(stderr).slice(0, 500)}`);
  return performance.now() - from;
}

/** What a tool that may be missing says of a command; `null` where it is. */
function told(tool, args, command, env, pattern) {
  const { stderr } = spawnSync(tool, [...args, ...command], { env, stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  const found = pattern.exec(stderr ?? '');
  return found === null ? null : Number(found[1]);
}
const faults = (command, env) => told('perf', ['stat', '-x,', '-e', 'page-faults', '--'], command, env, /^(\d+),/m);
const calls = (command, env) => told('strace', ['-f', '-c', '--'], command, env, /(\d+)\s+(?:\d+\s+)?total/);

async function sampleOf(server, quick) {
  const env = server.environment();
  const list = server.listCommand;
  const times = { list: [], true: [] };
  for (let turn = 0; turn < (quick ? 10 : RUNS); turn += 1) {
    const [one, other] = [run1(list, env), run1(TRUE, env)];
    if (turn < 3) continue; // they warm the page cache
    times.list.push(one);
    times.true.push(other);
  }
  await sleep(quick ? 500 : REST_MS);
  const managers = server.managerPids();
  const sum = (read) => managers.reduce((total, pid) => total + (read(pid) ?? 0), 0) / MEBIBYTE;
  // Before `perf` and `strace` run more lists, which map code of the daemon again.
  const [residentMiB, proportionalMiB] = [sum(residentBytes), sum(proportionalBytes)];
  const of = (name) => ({ median: median(times[name]), p25: quantile(times[name], 0.25), p75: quantile(times[name], 0.75) });
  const above = of('list').median - of('true').median;
  return {
    list: of('list'), true: of('true'), above,
    faults: { list: faults(list, env), true: faults(TRUE, env) },
    calls: { list: calls(list, env), true: calls(TRUE, env) },
    managers: managers.length, residentMiB, proportionalMiB,
    line: `list ${fixed(of('list').median, 2)} ms, ${fixed(above, 2)} above /bin/true; ${managers.length} processes, ${fixed(residentMiB, 1)} MiB resident, ${fixed(proportionalMiB, 1)} proportional`,
  };
}

export async function run(context) {
  execFileSync(forkfulBinary(), ['--version']);
  return interleave(context, context.arms, (arm) => withArm(arm, { workers: context.workers }, (server) => sampleOf(server, context.quick)));
}

export const measures = {
  '`list` above /bin/true, ms': (s) => s.above, 'page faults of `list`': (s) => s.faults.list,
  'daemon and keeper, resident MiB': (s) => s.residentMiB, 'daemon and keeper, proportional MiB': (s) => s.proportionalMiB,
};

export function tables(result) {
  return [{
    title: `\`list\` of one app of ${result.workers} workers beside /bin/true, ${RUNS} runs of each in turns a round`,
    columns: ['arm', '`list`, ms', '/bin/true, ms', 'above it, ms', 'page faults (/bin/true)', 'system calls (/bin/true)', 'daemon and keeper, resident MiB', 'proportional MiB'],
    rows: casesOf(result, arms).map((name) => {
      const of = (read, digits) => spreadText(spreadOf(result, name, read), digits);
      const beside = (read) => `${fixed(spreadOf(result, name, (s) => read(s).list).median)} (${fixed(spreadOf(result, name, (s) => read(s).true).median)})`;
      return [
        name, of((s) => s.list.median, 2), of((s) => s.true.median, 2), of((s) => s.above, 2), beside((s) => s.faults), beside((s) => s.calls),
        of((s) => s.residentMiB, 1), of((s) => s.proportionalMiB, 1),
      ];
    }),
    notes: ['Times are medians of a round. Page faults are counted by `perf stat`, system calls by `strace -c`.'],
  }];
}
