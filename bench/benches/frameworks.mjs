// Apps with frameworks (examples/) at about 200 requests/s: 20 reloads, then 20 `kill -9`, every failed request by kind.

import { setTimeout as sleep } from 'node:timers/promises';
import { PATHS, prepareExamples, reloaded, withExample } from '../lib/examples.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave } from '../lib/rounds.mjs';
import { waitUntil } from '../lib/server.mjs';
import { casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';
import { startTraffic } from '../lib/traffic.mjs';

export const about = 'examples, 20 reloads and 20 kill -9 at 200 requests/s: failed requests by kind';
export const arms = ['forkful-auto'];
/** One round is enough: it counts failures in 20 reloads and 20 kills of each app. */
export const roundsMin = 1;

const TIMES = 20;
const PLAN = { close: 6, kept: 6, pauseMs: 57 };
const REPLACEMENT_MS_MAX = 60_000;
const STORMS = {
  'Express, 2 workers': { example: 'express', workers: 2 },
  'Next.js, 2 workers': { example: 'nextjs', workers: 2 },
  'Express, without -i': { example: 'express', workers: null },
  'Next.js, without -i': { example: 'nextjs', workers: null },
  'Express by `npm start`, without -i': { example: 'express', workers: null, npm: true },
};

/** Failures so far, under four headings. */
function sorted(failures) {
  const counts = { refused: 0, cutOff: 0, hung: 0, other: 0 };
  for (const [kind, count] of Object.entries(failures)) {
    counts[/REFUSED/.test(kind) ? 'refused' : /\(connect\)/.test(kind) ? 'other' : /RESET|closed|EPIPE/.test(kind) ? 'cutOff' : /timeout/.test(kind) ? 'hung' : 'other'] += count;
  }
  return counts;
}

/** Kills the process that answers, and waits until a new process answers. */
async function killOne(server, traffic) {
  const seen = Object.keys((await traffic.progress()).firstSeen).map(Number);
  const alive = seen.filter((pid) => server.members().some((member) => member.pid === pid));
  const victim = alive[Math.floor(alive.length / 2)];
  process.kill(victim, 'SIGKILL');
  await waitUntil('an answer of a new process', REPLACEMENT_MS_MAX, async () =>
    Object.keys((await traffic.progress()).firstSeen).some((pid) => !seen.includes(Number(pid))));
  await server.forgive();
  return String(victim);
}

async function stormOf(server, path, quick) {
  const traffic = await startTraffic({ ...PLAN, port: server.port, path });
  const times = quick ? 2 : TIMES;
  const startedAt = performance.now();
  const killed = [];
  try {
    await sleep(1000);
    for (let i = 0; i < times; i += 1) {
      await reloaded(server);
      await sleep(300);
    }
    const afterReloads = await traffic.progress();
    for (let i = 0; i < times; i += 1) {
      killed.push(await killOne(server, traffic));
      await sleep(300);
    }
    const report = await traffic.stop();
    return { times, killed, afterReloads, report, perSecond: report.requests / ((performance.now() - startedAt) / 1000) };
  } finally {
    traffic.abandon();
  }
}

async function storm(how, { quick }) {
  return withExample(how, async (server) => {
    const { result, cpu } = await measured(server, () => stormOf(server, PATHS[how.example], quick));
    const reloads = sorted(result.afterReloads.failures);
    const all = sorted(result.report.failures);
    const kills = Object.fromEntries(Object.entries(all).map(([kind, count]) => [kind, count - reloads[kind]]));
    const elsewhere = result.report.firstFailures.filter(({ worker }) => worker !== null && !result.killed.includes(worker)).length;
    return {
      ...result, reloads, kills, elsewhere, cpu,
      line: `${fixed(result.perSecond)}/s; ${result.times} reloads: ${result.afterReloads.requests} requests, ${JSON.stringify(reloads)}; ${result.times} kills: ${JSON.stringify(kills)}, ${elsewhere} on connections of other workers`,
    };
  });
}

export async function run(context) {
  prepareExamples();
  const names = Object.keys(STORMS).filter((name) => context.kinds?.some((kind) => name.includes(kind)) ?? true);
  return interleave(context, names, (name) => storm(STORMS[name], context));
}

export function tables(result) {
  const sum = (name, read) => fixed(finalSamples(result).filter((sample) => sample.case === name).reduce((total, sample) => total + read(sample), 0));
  return [{
    title: `examples on Node.js 24, up to 200 requests/s by ${PLAN.close} clients that connect for each request and ${PLAN.kept} that keep their connections: ${TIMES} reloads, then ${TIMES} kill -9`,
    columns: ['', 'requests/s', 'reloads', 'requests meanwhile', 'failed', 'kills', 'requests meanwhile', 'refused', 'cut off', 'no answer in 15 s', 'other', 'on connections of other workers'],
    rows: casesOf(result, Object.keys(STORMS)).map((name) => [
      name, spreadText(spreadOf(result, name, (s) => s.perSecond)),
      sum(name, (s) => s.times), sum(name, (s) => s.afterReloads.requests), sum(name, (s) => Object.values(s.reloads).reduce((a, b) => a + b, 0)),
      sum(name, (s) => s.times), sum(name, (s) => s.report.requests - s.afterReloads.requests), sum(name, (s) => s.kills.refused), sum(name, (s) => s.kills.cutOff), sum(name, (s) => s.kills.hung), sum(name, (s) => s.kills.other), sum(name, (s) => s.elsewhere),
    ]),
    notes: ['"Cut off" are requests on connections of the killed process. It keeps its connections until the kernel has taken it down, 10 to 40 ms after the signal on a machine as busy as this one; a request that comes meanwhile on a kept connection is lost with it.'],
  }];
}
