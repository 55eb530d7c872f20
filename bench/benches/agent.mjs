// What the agent costs: Fastify's hello world on two clusters, with the agent and without it, by turns.

import { fileURLToPath } from 'node:url';
import { missingGenerator, wrk } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { residentBytes } from '../lib/proc.mjs';
import { takeTurns, together } from '../lib/rounds.mjs';
import { casesOf, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = "Fastify's hello world with the agent and without it";
export const arms = ['forkful-auto', 'forkful-bare'];

const APP = fileURLToPath(new URL('../apps/fastify.cjs', import.meta.url));
const CONNECTIONS = 64;
/** The turns of both arms in each round, and the length of a turn. */
const [TURNS, TURN_SECONDS] = [10, 2];
const MIB = 2 ** 20;

export async function run(context) {
  const missing = missingGenerator('wrk');
  if (missing !== null) throw new Error(missing);
  const load = (server, seconds) => wrk({ host: '127.0.0.1', port: server.port, path: '/', connections: CONNECTIONS, seconds });
  return takeTurns(context, {
    app: APP,
    turns: TURNS,
    warmUp: (server) => load(server, context.quick ? 0.5 : 4),
    pieces: [async (server) => {
      const { result, cpu } = await measured(server, () => load(server, context.quick ? 1 : TURN_SECONDS));
      const pids = server.workerPids();
      const workerMiB = pids.reduce((sum, pid) => sum + (residentBytes(pid) ?? 0), 0) / pids.length / MIB;
      return { ...result, cpu, workerMiB };
    }],
    sum([pieces]) {
      const sums = together(pieces);
      const workerMiB = Math.max(...pieces.map((piece) => piece.workerMiB));
      return { ...sums, workerMiB, line: `${fixed(sums.perSecond)} req/s, ${fixed(sums.serverMicroseconds, 1)} µs, ${fixed(workerMiB, 1)} MiB in a worker, ${sums.errors} errors` };
    },
  });
}

export const measures = { 'req/s': (s) => s.perSecond, 'server CPU per request, µs': (s) => s.serverMicroseconds, 'worker, MiB': (s) => s.workerMiB };

export function tables(result) {
  const names = casesOf(result, arms);
  return [{
    title: `Fastify's hello world, wrk -t1 -c${CONNECTIONS}, ${result.workers} workers, ${TURNS} turns of ${TURN_SECONDS} s in each round`,
    columns: ['arm', 'req/s', 'server CPU per request, µs', 'a worker, most, MiB', 'req/s / without', 'CPU / without', 'memory / without'],
    rows: names.map((name) => [
      name,
      ...Object.values(measures).map((read, index) => spreadText(spreadOf(result, name, read), index === 0 ? 0 : 1)),
      ...Object.values(measures).map((read) => ratioText(ratioOf(result, name, 'forkful-bare', read))),
    ]),
  }];
}
