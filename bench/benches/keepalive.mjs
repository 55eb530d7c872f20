// Kept connections: 64 of them, each with the next request as soon as the answer is there (wrk, closed loop).

import { errorCount, missingGenerator, wrk } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'wrk, 64 kept connections';
export const arms = [
  'plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'plain-node24',
  'forkful-auto', 'forkful-direct', 'forkful-exact', 'forkful-shared', 'forkful-sticky',
];

const CONNECTIONS = 64;

export async function run(context) {
  const missing = missingGenerator('wrk');
  if (missing !== null) throw new Error(missing);
  return interleave(context, context.arms, (arm) =>
    withArm(arm, { workers: context.workers }, async (server) => {
      const load = { host: '127.0.0.1', port: server.port, path: '/', connections: CONNECTIONS };
      await wrk({ ...load, seconds: context.quick ? 0.5 : 2 });
      const { result, cpu } = await measured(server, () => wrk({ ...load, seconds: context.quick ? 1 : 4 }));
      const perSecond = result.requests / result.seconds;
      const serverMicroseconds = (cpu.serverSeconds / result.requests) * 1e6;
      return {
        perSecond, serverMicroseconds, p99Ms: result.p99Ms, report: result, errors: errorCount(result.errors), cpu,
        generatorShare: cpu.harnessSeconds / cpu.wallSeconds,
        line: `${fixed(perSecond)} req/s, ${fixed(serverMicroseconds, 1)} µs, p99 ${fixed(result.p99Ms, 2)} ms, ${errorCount(result.errors)} errors`,
      };
    }));
}

export function tables(result) {
  const speed = (sample) => sample.perSecond;
  const cost = (sample) => sample.serverMicroseconds;
  const rows = casesOf(result, arms).map((name) => [
    name,
    spreadText(spreadOf(result, name, speed)),
    spreadText(spreadOf(result, name, cost), 1),
    spreadText(spreadOf(result, name, (sample) => sample.p99Ms), 2),
    ratioText(ratioOf(result, name, 'plain', speed)),
    ratioText(ratioOf(result, name, 'node-cluster-rr', speed)),
    fixed(spreadOf(result, name, (sample) => sample.generatorShare * 100).median),
    fixed(finalSamples(result).filter((s) => s.case === name).reduce((sum, s) => sum + s.errors, 0)),
  ]);
  return [{
    title: `Keep-alive, wrk -t1 -c${CONNECTIONS}, ${result.workers} workers`,
    columns: ['arm', 'req/s', 'server CPU per request, µs', 'p99 under saturation, ms', 'req/s / plain', 'req/s / Node rr', 'generator, % of a core', 'errors'],
    rows,
  }];
}
