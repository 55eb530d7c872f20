// The cost of the daemon's commands: CPU time of daemon and keeper for lists, scales, reloads and restarts of one app. With --baseline an
// older build does the same, in turns. `cargo run --release -p forkful-core --example step` measures the decisions alone.

import { forkfulBinary } from '../lib/arms/forkful.mjs';
import { cpuSecondsExact } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { casesOf, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'CPU of daemon and keeper for each list, scale, reload and restart of one app';
export const arms = ['forkful-auto', 'baseline-auto'];

const LISTS = 300;
const CHANGES = 20;

/** CPU of daemon and keeper, in microseconds for each time that `work` ran. Workers are not counted. */
async function cpuOf(server, times, work) {
  const pids = server.managerPids();
  const spent = () => pids.reduce((sum, pid) => sum + cpuSecondsExact(pid), 0);
  const before = spent();
  for (let turn = 0; turn < times; turn += 1) await work(turn);
  return ((spent() - before) * 1e6) / times;
}

async function command(server, ...args) {
  const { code, stdout, stderr } = await server.forkful(...args);
  if (code !== 0) throw new Error(`forkful ${args.join(' ')} exited with ${code}\n${stdout}${stderr}`);
}

async function sampleOf(server, workers, quick) {
  const changes = quick ? 2 : CHANGES;
  const of = {
    list: await cpuOf(server, quick ? 10 : LISTS, () => command(server, 'list')),
    scale: await cpuOf(server, changes, (turn) => command(server, 'scale', 'bench', String(turn % 2 === 0 ? workers + 1 : workers))),
    reload: await cpuOf(server, changes, () => command(server, 'reload', 'bench')),
    restart: await cpuOf(server, changes, () => command(server, 'restart', 'bench')),
  };
  return { ...of, line: Object.entries(of).map(([name, us]) => `${name} ${fixed(us)} µs`).join(', ') };
}

export async function run(context) {
  forkfulBinary();
  return interleave(context, context.arms, (arm) =>
    withArm(arm, { workers: context.workers }, (server) => sampleOf(server, context.workers, context.quick)));
}

const MEASURED = ['list', 'scale', 'reload', 'restart'];

export const measures = Object.fromEntries(MEASURED.map((name) => [`\`${name}\`, µs of CPU`, (sample) => sample[name]]));

export function tables(result) {
  return [{
    title: `CPU of daemon and keeper for each command, one app of ${result.workers} workers, in µs`,
    columns: ['arm', ...MEASURED.map((name) => `\`${name}\``)],
    rows: casesOf(result, arms).map((name) => [name, ...MEASURED.map((measure) => spreadText(spreadOf(result, name, (sample) => sample[measure]), 0))]),
    notes: [`${LISTS} lists and ${CHANGES} of each other command in a round. A scale adds a worker or takes one away; the CPU of workers is not counted.`],
  }];
}
