// Kept connections: 64 of them, each with the next request as soon as the answer is there (wrk, closed loop).

import { missingGenerator, wrk } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { takeTurns, together } from '../lib/rounds.mjs';
import { median } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'wrk, 64 kept connections';
export const arms = [
  'plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'plain-node24',
  'forkful-auto', 'forkful-direct', 'forkful-exact', 'forkful-shared', 'forkful-sticky',
];

const CONNECTIONS = 64;
/** The turns of all arms in each round, and the length of a turn. */
const [TURNS, TURN_SECONDS] = [6, 2];

export async function run(context) {
  const missing = missingGenerator('wrk');
  if (missing !== null) throw new Error(missing);
  const load = (server, seconds) => wrk({ host: '127.0.0.1', port: server.port, path: '/', connections: CONNECTIONS, seconds });
  return takeTurns(context, {
    turns: TURNS,
    warmUp: (server) => load(server, context.quick ? 0.5 : 3),
    pieces: [async (server) => {
      const { result, cpu } = await measured(server, () => load(server, context.quick ? 1 : TURN_SECONDS));
      return { ...result, cpu };
    }],
    sum([pieces]) {
      const sums = together(pieces);
      const { perSecond, serverMicroseconds, errors } = sums;
      const p99Ms = median(pieces.map((one) => one.p99Ms));
      return {
        ...sums, p99Ms,
        line: `${fixed(perSecond)} req/s, ${fixed(serverMicroseconds, 1)} µs, p99 ${fixed(p99Ms, 2)} ms, ${errors} errors`,
      };
    },
  });
}

export const measures = {
  'req/s': (s) => s.perSecond, 'server CPU per request, µs': (s) => s.serverMicroseconds, 'p99 under saturation, ms': (s) => s.p99Ms,
};

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
