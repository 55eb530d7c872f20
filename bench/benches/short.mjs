// A connection per request: what a new connection costs, in requests per second and in server CPU.
// Driven by `ab -c 100` (HTTP/1.0) and by `wrk` with `Connection: close` (HTTP/1.1).

import { ab, errorCount, missingGenerator, wrk } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'a connection per request: ab -c 100, and wrk with Connection: close';
export const arms = [
  'plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'plain-node24',
  'forkful-auto', 'forkful-direct', 'forkful-exact', 'forkful-shared', 'forkful-sticky',
];

const AB_CONNECTIONS = 100;
const WRK_CONNECTIONS = 64;
/** Below the 28,232 ephemeral ports that Linux has by default, for one destination address. */
const REQUESTS_PER_ADDRESS = 25_000;
const BATCHES = 2;

/** Every batch talks to a loopback address of its own, so that TIME_WAIT of the one before cannot hinder it. */
let batches = 0;
function freshAddress() {
  batches += 1;
  return `127.0.${1 + (Math.floor(batches / 250) % 250)}.${1 + (batches % 250)}`;
}

async function abBatches(port, context) {
  const total = { requests: 0, seconds: 0, errors: {} };
  for (let i = 0; i < (context.quick ? 1 : BATCHES); i += 1) {
    const requests = context.quick ? 5_000 : REQUESTS_PER_ADDRESS;
    const report = await ab({ host: freshAddress(), port, path: '/', requests, connections: AB_CONNECTIONS });
    total.requests += report.requests;
    total.seconds += report.seconds;
    for (const [kind, count] of Object.entries(report.errors)) total.errors[kind] = (total.errors[kind] ?? 0) + count;
    if (report.report) total.report = report.report;
  }
  return total;
}

/**
 * Every arm answers as many requests before it is measured: a batch for each worker. V8 compiles the hot functions of every
 * process anew, so that the first 25,000 requests of a process cost a third more than later ones, in a cluster once for each worker.
 */
async function warmUp(port, context) {
  await wrk({ host: freshAddress(), port, path: '/', seconds: context.quick ? 0.5 : 1.5, connections: WRK_CONNECTIONS, close: true });
  for (let i = 0; !context.quick && i < context.workers; i += 1) {
    await ab({ host: freshAddress(), port, path: '/', requests: REQUESTS_PER_ADDRESS, connections: AB_CONNECTIONS });
  }
}

async function drive(server, generator, context) {
  const port = server.port;
  const work = generator === 'ab'
    ? () => abBatches(port, context)
    : () => wrk({ host: freshAddress(), port, path: '/', seconds: context.quick ? 1 : 3, connections: WRK_CONNECTIONS, close: true });
  const { result, cpu } = await measured(server, work);
  const perSecond = result.requests / result.seconds;
  const serverMicroseconds = (cpu.serverSeconds / result.requests) * 1e6;
  return { perSecond, serverMicroseconds, report: result, errors: errorCount(result.errors), cpu };
}

export async function run(context) {
  for (const generator of ['ab', 'wrk']) {
    const missing = missingGenerator(generator);
    if (missing !== null) throw new Error(missing);
  }
  return interleave(context, context.arms, (arm) =>
    withArm(arm, { workers: context.workers }, async (server) => {
      await warmUp(server.port, context);
      const byAb = await drive(server, 'ab', context);
      const byWrk = await drive(server, 'wrk', context);
      return {
        ab: byAb, wrk: byWrk, cpu: { disturbed: byAb.cpu.disturbed || byWrk.cpu.disturbed },
        line: `ab ${fixed(byAb.perSecond)} req/s ${fixed(byAb.serverMicroseconds, 1)} µs ${byAb.errors} errors · wrk ${fixed(byWrk.perSecond)} req/s ${fixed(byWrk.serverMicroseconds, 1)} µs ${byWrk.errors} errors`,
      };
    }));
}

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
