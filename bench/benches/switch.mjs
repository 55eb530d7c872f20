// Where `auto` should switch: what a connection costs that the daemon hands over (exact) and one that the kernel
// gives (direct), at rates below saturation. An open loop, a connection per request.

import { bench } from '../lib/engine.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'exact against direct by rate: server CPU per connection, and latency';
export const arms = ['forkful-exact', 'forkful-direct'];

/** Rates around that at which `auto` switches (800), and up to half of the capacity of two workers. */
const RATES = [200, 400, 800, 1600, 3200];

const caseName = (arm, rate) => `${arm}, ${rate}/s`;
let runs = 0;

async function loaded(server, rate, quick) {
  runs += 1;
  // A separate destination for each run, so that the ports of the previous run do not matter.
  const url = `http://127.0.7.${1 + (runs % 250)}:${server.port}/`;
  const load = ['--rate', String(rate), '--no-keepalive', '--connections-max', '200'];
  if (!quick) await bench([...load, '-d', '1s', url]);
  const { result, cpu } = await measured(server, () => bench([...load, '-d', quick ? '1s' : '5s', url]));
  const serverMicroseconds = (cpu.serverSeconds / result.requests.completed) * 1e6;
  const { p50, p99 } = result.latency_ms;
  return {
    serverMicroseconds, p50, p99, errors: result.errors.total, cpu,
    line: `${fixed(serverMicroseconds, 1)} µs, p50 ${fixed(p50, 2)} ms, p99 ${fixed(p99, 2)} ms, ${result.errors.total} errors`,
  };
}

export async function run(context) {
  const cases = new Map(context.arms.flatMap((arm) => RATES.map((rate) => [caseName(arm, rate), { arm, rate }])));
  return interleave(context, [...cases.keys()], (name) => {
    const { arm, rate } = cases.get(name);
    return withArm(arm, { workers: context.workers }, (server) => loaded(server, rate, context.quick));
  });
}

export function tables(result) {
  const present = casesOf(result, []);
  const cost = (sample) => sample.serverMicroseconds;
  const rows = RATES.filter((rate) => arms.every((arm) => present.includes(caseName(arm, rate)))).map((rate) => {
    const [exact, direct] = arms.map((arm) => caseName(arm, rate));
    const extra = spreadOf(result, exact, cost).median - spreadOf(result, direct, cost).median;
    return [
      fixed(rate),
      spreadText(spreadOf(result, exact, cost)), spreadText(spreadOf(result, direct, cost)), ratioText(ratioOf(result, exact, direct, cost)),
      `${fixed((extra * rate) / 1e4, 1)} %`,
      ...[exact, direct].map((name) => `${fixed(spreadOf(result, name, (s) => s.p50).median, 2)} / ${fixed(spreadOf(result, name, (s) => s.p99).median, 2)}`),
      fixed(finalSamples(result).filter((s) => s.case === exact || s.case === direct).reduce((sum, s) => sum + s.errors, 0)),
    ];
  });
  return [{
    title: `A connection per request at a given rate, ${result.workers} workers`,
    columns: ['connections/s', 'exact, µs of server CPU each', 'direct, µs', 'exact / direct', 'exact costs more, of a core', 'exact p50 / p99, ms', 'direct p50 / p99, ms', 'errors'],
    rows,
  }];
}
