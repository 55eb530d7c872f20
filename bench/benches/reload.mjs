// Reload three times under 50 closing and 50 kept connections, with slow answers in flight: every failed request counted
// by kind. Then the same with a new version that crashes at its start, and with one that never listens.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { measured } from '../lib/measure.mjs';
import { BENCH } from '../lib/paths.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed } from '../lib/summary.mjs';
import { startTraffic } from '../lib/traffic.mjs';

export const about = 'three reloads under load: failed requests by kind, also with a broken new version';
export const arms = ['pm2', 'forkful-auto', 'forkful-direct', 'forkful-exact'];

const RELOADS = 3;
const REQUESTS_MIN = 50_000;
const LOAD_MS_MAX = 120_000;
/** PM2's default, given to every arm: how long a version that never listens is waited for. */
const LISTEN_TIMEOUT_MS = 3_000;
const PLAN = { close: 50, kept: 50, pauseMs: 5, slowEvery: 50, slowMs: 300 };

const serve = (file) => `require(${JSON.stringify(path.join(BENCH, 'apps', file))});\n`;
const CRASHES = "throw new Error('this version is broken');\n";
const NEVER_LISTENS = 'setInterval(() => {}, 1000);\n';

/** The first version of the file, and its content during the reloads. */
const SCENARIOS = {
  'plain http': { first: serve('server.cjs'), next: serve('server.cjs') },
  'Express 5': { first: serve('express.cjs'), next: serve('express.cjs') },
  'new version crashes': { first: serve('server.cjs'), next: CRASHES },
  'new version never listens': { first: serve('server.cjs'), next: NEVER_LISTENS },
};

async function underLoad(server, file, scenario, quick) {
  const traffic = await startTraffic({ ...PLAN, port: server.port });
  const startedAt = performance.now();
  const reloads = [];
  try {
    await sleep(quick ? 300 : 1500);
    writeFileSync(file, scenario.next);
    for (let i = 0; i < (quick ? 1 : RELOADS); i += 1) {
      const from = performance.now();
      const { code, stdout, stderr } = await server.reload();
      reloads.push({ code, ms: Math.round(performance.now() - from), output: `${stdout}${stderr}`.slice(-600) });
      await sleep(quick ? 200 : 1000);
    }
    const wanted = quick ? 1000 : REQUESTS_MIN;
    while ((await traffic.progress()).requests < wanted && performance.now() - startedAt < LOAD_MS_MAX) await sleep(100);
    const report = await traffic.stop();
    return { report, reloads, seconds: (performance.now() - startedAt) / 1000 };
  } finally {
    traffic.abandon();
  }
}

async function sampleOf(arm, scenario, context) {
  const directory = mkdtempSync(path.join(tmpdir(), 'fb-app-'));
  const app = path.join(directory, 'app.cjs');
  writeFileSync(app, scenario.first);
  try {
    return await withArm(arm, { app, workers: context.workers, listenTimeoutMs: LISTEN_TIMEOUT_MS }, async (server) => {
      const { result, cpu } = await measured(server, () => underLoad(server, app, scenario, context.quick));
      const { report, reloads, seconds } = result;
      const failed = report.requests - report.answered;
      return {
        report, reloads, seconds, failed, cpu,
        line: `${fixed(report.requests)} requests, ${failed} failed, reload exit ${reloads.map((r) => r.code).join(',')} ${JSON.stringify(report.failures)}`,
      };
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const caseName = (arm, scenario) => `${arm}, ${scenario}`;

export async function run(context) {
  const cases = new Map(context.arms.flatMap((arm) =>
    Object.entries(SCENARIOS).map(([name, scenario]) => [caseName(arm, name), { arm, scenario }])));
  return interleave(context, [...cases.keys()], (name) => {
    const { arm, scenario } = cases.get(name);
    return sampleOf(arm, scenario, context);
  });
}

function failuresText(samples) {
  const total = {};
  for (const { report } of samples) for (const [kind, count] of Object.entries(report.failures)) total[kind] = (total[kind] ?? 0) + count;
  return Object.entries(total).sort((a, b) => b[1] - a[1]).map(([kind, count]) => `${fixed(count)} ${kind}`).join('; ') || 'none';
}

export function tables(result) {
  const present = casesOf(result, []);
  return Object.keys(SCENARIOS).map((scenario) => ({
    title: `${RELOADS} reloads under ${PLAN.close} closing and ${PLAN.kept} kept connections, ${result.workers} workers: ${scenario}`,
    columns: ['arm', 'requests, all rounds', 'failed', 'per million', 'slowest, ms', 'exit code of reload', 'failures by kind'],
    rows: [...new Set([...arms, ...result.arms])].filter((arm) => present.includes(caseName(arm, scenario))).map((arm) => {
      const samples = finalSamples(result).filter((sample) => sample.case === caseName(arm, scenario));
      const sum = (read) => samples.reduce((total, sample) => total + read(sample), 0);
      const [requests, failed] = [sum((s) => s.report.requests), sum((s) => s.failed)];
      const codes = [...new Set(samples.flatMap((s) => s.reloads.map((r) => r.code)))].join(', ');
      return [
        arm, fixed(requests), fixed(failed), fixed((failed / requests) * 1e6), fixed(Math.max(...samples.map((s) => s.report.slowest))), codes, failuresText(samples),
      ];
    }),
  }));
}
