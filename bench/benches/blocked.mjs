// `/fast` while most of the workers are blocked: 200 requests a second, each on a new connection, open loop.
// Two settings: 1 of 2 workers blocked, against idle; and 3 of 4 blocked, against three unrelated CPU burners.

import { setTimeout as sleep } from 'node:timers/promises';
import { blockWorkers } from '../lib/blocker.mjs';
import { startBurners } from '../lib/burner.mjs';
import { measured } from '../lib/measure.mjs';
import { probe } from '../lib/prober.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { latencySummary, median } from '../lib/stats.mjs';
import { byRound, casesOf, finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';
import { wrk } from '../lib/load.mjs';

export const about = 'open-loop latency of /fast while 1 of 2, and 3 of 4, workers are blocked';
export const arms = [
  'plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'forkful-auto', 'forkful-direct', 'forkful-exact',
];

const RATE = 200;
const BLOCK_MS = 700;
const SETTINGS = [
  { name: '1 of 2', workers: 2, blocked: 1, phases: ['idle', 'blocked'] },
  { name: '3 of 4', workers: 4, blocked: 3, phases: ['idle', 'burners', 'blocked'] },
];
const caseName = (arm, setting) => `${arm}, ${setting.name}`;

async function phase(kind, server, setting, seconds, gapMs) {
  const plan = { port: server.port, path: '/fast', rate: RATE, seconds };
  if (kind === 'idle') return probe(plan);
  if (kind === 'burners') {
    const stop = startBurners(setting.blocked, (seconds + 30) * 1000);
    try {
      return await probe(plan);
    } finally {
      await stop();
    }
  }
  const blocker = await blockWorkers(server.port, Math.min(setting.blocked, server.workersWanted), BLOCK_MS, gapMs);
  const report = await probe(plan);
  return { ...report, blocker: { workers: blocker.workers, ...(await blocker.stop()) } };
}

async function sampleOf(server, setting, { quick, blockGapMs }) {
  await wrk({ host: '127.0.0.1', port: server.port, path: '/fast', seconds: quick ? 0.5 : 2, connections: 16 * setting.workers });
  const sample = {};
  for (const kind of setting.phases) {
    await sleep(200); // lets the previous phase's connections end
    const seconds = quick ? 2 : kind === 'blocked' ? 10 : 6;
    const { result: report, cpu } = await measured(server, () => phase(kind, server, setting, seconds, blockGapMs));
    sample[kind] = { ...report, cpu, latency: latencySummary(report.latenciesUs), slip: latencySummary(report.slipsUs) };
  }
  sample.cpu = { disturbed: setting.phases.some((kind) => sample[kind].cpu.disturbed) };
  const text = setting.phases.map((kind) => `${kind} p99 ${fixed(p99(sample, kind), 1)} max ${fixed(sample[kind].latency.max, 1)} ms`);
  sample.line = `${text.join(' · ')} · ${sample.blocked.latency.over15ms} of ${sample.blocked.latency.n} above 15 ms`;
  return sample;
}

/** The 99th percentile, or in a smoke test with too few values the largest. */
const p99 = (sample, kind) => sample[kind].latency.p99 ?? sample[kind].latency.max;

export async function run(context) {
  const fits = (arm, setting) => setting.workers === 2 || !arm.startsWith('plain'); // one process has no three of four
  const cases = new Map(context.arms.flatMap((arm) =>
    SETTINGS.filter((setting) => fits(arm, setting)).map((setting) => [caseName(arm, setting), { arm, setting }])));
  return interleave(context, [...cases.keys()], (name) => {
    const { arm, setting } = cases.get(name);
    return withArm(arm, { workers: setting.workers }, (server) => sampleOf(server, setting, context));
  });
}

export const measures = {
  'idle p99, ms': (s) => p99(s, 'idle'), 'blocked p99, ms': (s) => p99(s, 'blocked'), 'blocked max, ms': (s) => s.blocked.latency.max,
};

function row(result, arm, setting) {
  const name = caseName(arm, setting);
  const samples = finalSamples(result).filter((sample) => sample.case === name);
  const [base] = setting.phases.slice(-2);
  const added = [...byRound(result, name, (s) => p99(s, 'blocked') - p99(s, base)).values()];
  const pooled = latencySummary(samples.flatMap((s) => s.blocked.latenciesUs));
  const total = (read) => samples.reduce((sum, s) => sum + read(s), 0);
  return [
    arm,
    spreadText(spreadOf(result, name, (s) => p99(s, base)), 1),
    spreadText(spreadOf(result, name, (s) => p99(s, 'blocked')), 1),
    fixed(median(added), 1),
    fixed(pooled.p999, 1),
    fixed(Math.max(...samples.map((s) => s[base].latency.max)), 1),
    fixed(Math.max(...samples.map((s) => s.blocked.latency.max)), 1),
    fixed(total((s) => s.blocked.latency.over15ms)),
    fixed(total((s) => s.blocked.latency.over50ms)),
    fixed(total((s) => s.blocked.latency.n)),
    fixed(total((s) => Object.values(s.blocked.failures).reduce((a, b) => a + b, 0) + s.blocked.unanswered)),
    fixed(Math.max(...samples.map((s) => s.blocked.slip.max)), 1),
  ];
}

export function tables(result) {
  return SETTINGS.map((setting) => {
    const base = setting.phases.at(-2);
    const present = casesOf(result, []);
    return {
      title: `/fast at ${RATE}/s on new connections, ${setting.name} workers blocked ${BLOCK_MS} ms at a time with ${result.blockGapMs} ms between; baseline: ${base === 'idle' ? 'idle' : `${setting.blocked} unrelated CPU burners`}`,
      columns: [
        'arm', `${base} p99, ms`, 'blocked p99, ms', 'p99 added, ms', 'blocked p99.9 of all, ms', `${base} max, ms`, 'blocked max, ms',
        '> 15 ms', '> 50 ms', 'of', 'failed', 'prober slip max, ms',
      ],
      rows: [...new Set([...arms, ...result.arms])].filter((arm) => present.includes(caseName(arm, setting))).map((arm) => row(result, arm, setting)),
      notes: base !== 'idle' ? [] : ['`plain` has one process and nowhere else to go; it shows what a block costs without any balancing.'],
    };
  });
}
