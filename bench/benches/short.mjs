// A connection per request: what a new connection costs, in requests per second and in server CPU.
// Driven by `ab -c 100` (HTTP/1.0) and by `wrk` with `Connection: close` (HTTP/1.1).

import { ab, missingGenerator, wrk } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { takeTurns, together } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'a connection per request: ab -c 100, and wrk with Connection: close';
export const arms = [
  'plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'plain-node24',
  'forkful-auto', 'forkful-direct', 'forkful-exact', 'forkful-shared', 'forkful-sticky',
];

const AB_CONNECTIONS = 100;
const WRK_CONNECTIONS = 64;
/** Of all arms in each round; long enough that the 256 connections which `auto` spreads exactly after a pause weigh little. */
const [TURNS, TURN_SECONDS] = [3, 3];
/** Below the 28,232 ephemeral ports that Linux has by default, for one destination address. */
const REQUESTS_PER_ADDRESS = 25_000;
/** The upper limit of an arm's warm-up: with eight workers it would take most of the time. */
const WARM_UP_RUNS_MAX = 4;

/** Every run talks to a loopback address of its own, so that TIME_WAIT of the one before cannot hinder it. */
let runs = 0;
function freshAddress() {
  runs += 1;
  return `127.0.${1 + (Math.floor(runs / 250) % 250)}.${1 + (runs % 250)}`;
}

const abRun = (server, requests) => ab({ host: freshAddress(), port: server.port, path: '/', requests, connections: AB_CONNECTIONS });
const wrkRun = (server, seconds) => wrk({ host: freshAddress(), port: server.port, path: '/', seconds, connections: WRK_CONNECTIONS, close: true });

/**
 * Every arm answers as many requests before it is measured: so many for each worker, up to four. V8 compiles the hot functions of every
 * process anew, so that the first 25,000 requests of a process cost a third more than later ones, in a cluster once for each worker.
 */
async function warmUp(server, context) {
  await wrkRun(server, context.quick ? 0.5 : 1.5);
  for (let i = 0; !context.quick && i < Math.min(context.workers, WARM_UP_RUNS_MAX); i += 1) await abRun(server, REQUESTS_PER_ADDRESS);
}

/** A generator's run as a piece of a turn. */
const piece = (run) => async (server) => {
  const { result, cpu } = await measured(server, () => run(server));
  const { requests, seconds, errors, report } = result;
  return { requests, seconds, errors, ...(report ? { report } : {}), cpu };
};

export async function run(context) {
  for (const generator of ['ab', 'wrk']) {
    const missing = missingGenerator(generator);
    if (missing !== null) throw new Error(missing);
  }
  return takeTurns(context, {
    turns: TURNS,
    warmUp: (server) => warmUp(server, context),
    pieces: [
      piece((server) => abRun(server, context.quick ? 5_000 : REQUESTS_PER_ADDRESS)),
      piece((server) => wrkRun(server, TURN_SECONDS)),
    ],
    sum([byAb, byWrk]) {
      const [one, other] = [together(byAb), together(byWrk)];
      const told = ({ perSecond, serverMicroseconds, errors }) => `${fixed(perSecond)} req/s ${fixed(serverMicroseconds, 1)} µs ${errors} errors`;
      return { ab: one, wrk: other, line: `ab ${told(one)} · wrk ${told(other)}` };
    },
  });
}

export const measures = Object.fromEntries(['ab', 'wrk'].flatMap((generator) => [
  [`${generator}: req/s`, (s) => s[generator].perSecond],
  [`${generator}: server CPU per request, µs`, (s) => s[generator].serverMicroseconds],
]));

export function tables(result) {
  return ['ab', 'wrk'].map((generator) => {
    const speed = (sample) => sample[generator].perSecond;
    const cost = (sample) => sample[generator].serverMicroseconds;
    const rows = casesOf(result, arms).map((name) => [
      name,
      spreadText(spreadOf(result, name, speed)),
      spreadText(spreadOf(result, name, cost), 1),
      ratioText(ratioOf(result, name, 'plain', cost)),
      ratioText(ratioOf(result, name, 'node-cluster-rr', speed)),
      ratioText(ratioOf(result, name, 'node-cluster-rr', cost)),
      ratioText(ratioOf(result, name, 'pm2', speed)),
      fixed(finalSamples(result).filter((s) => s.case === name).reduce((sum, s) => sum + s[generator].errors, 0)),
    ]);
    return {
      title: `A connection per request, ${generator === 'ab' ? `ab -c ${AB_CONNECTIONS}` : `wrk -c ${WRK_CONNECTIONS} -H "Connection: close"`}, ${result.workers} workers`,
      columns: ['arm', 'req/s', 'server CPU per request, µs', 'CPU / plain', 'req/s / Node rr', 'CPU / Node rr', 'req/s / PM2', 'errors'],
      rows,
    };
  });
}
