#!/usr/bin/env node
// Does an app that leaks lose requests? Four workers in 512 MiB with `memory: auto`, each request keeps 16 kB of the heap for
// ever, a fixed rate of requests. Counts failed requests, kills by the kernel, deaths by a full heap, and replacements.
//
//   node bench/leak.mjs --minutes 10 --rate 150 --node /path/to/node [--json FILE]
//
// Needs a system that lets Forkful limit memory (root, or a service with `Delegate=yes`).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '150' },
    node: { type: 'string', default: process.execPath },
    workers: { type: 'string', default: '4' },
    limit: { type: 'string', default: '512M' },
    kilobytes: { type: 'string', default: '16' },
    json: { type: 'string' },
  },
});
const binary = process.env.FORKFUL_BIN ?? fileURLToPath(new URL('../target/release/forkful', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'forkful-leak-'));
const env = { ...process.env, FORKFUL_HOME: join(directory, 'home'), NO_COLOR: '1' };

/** Runs a command of Forkful; gives its output. */
function forkful(...args) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text; });
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
    child.on('error', reject);
    // 6: a report whose timings are not reliable. This benchmark uses counts, not timings.
    child.on('close', (code) => (code === 0 || code === 6 ? resolve({ stdout, stderr }) : reject(new Error(`forkful ${args.join(' ')}: ${code}\n${stderr}`))));
  });
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

const LEAKS = `
const kept = [];
const each = Number(process.env.KILOBYTES) * 128;
require('http').createServer((question, response) => {
  kept.push(Array.from({ length: each }, () => Math.random()));
  response.end('ok');
}).listen(Number(process.env.PORT), '127.0.0.1');
`;

try {
  const port = await freePort();
  writeFileSync(join(directory, 'leaks.js'), LEAKS);
  const app = {
    name: 'leaks', script: 'leaks.js', instances: Number(options.workers), interpreter: options.node, memory: 'auto', memory_max: options.limit,
    env: { PORT: String(port), KILOBYTES: options.kilobytes },
  };
  writeFileSync(join(directory, 'forkful.config.json'), JSON.stringify({ apps: [app] }));
  await forkful('start', 'forkful.config.json');
  const describe = async () => JSON.parse((await forkful('describe', 'leaks', '--json')).stdout).apps[0];
  const plan = (await describe()).memory_plan;
  const load = ['bench', `http://127.0.0.1:${port}/`, '--rate', options.rate, '-d', `${options.minutes}m`, '-c', '20', '--json', '--no-progress'];
  const report = JSON.parse((await forkful(...load)).stdout);
  const after = await describe();
  const sum = (of) => after.workers.map(of).reduce((all, one) => all + one, 0);
  const result = {
    node: after.workers[0].node_version,
    plan: plan.text,
    minutes: Number(options.minutes),
    requests: report.requests.completed,
    failed: report.errors.total,
    p50_ms: report.latency_ms.p50,
    p99_ms: report.latency_ms.p99,
    max_ms: report.latency_ms.max,
    leaked_mib: Math.round(report.requests.completed * Number(options.kilobytes) / 1024),
    replacements: sum((worker) => worker.restarts - worker.crashes),
    crashes: sum((worker) => worker.crashes),
    kills_by_the_kernel: after.usage.out_of_memory_kills,
  };
  console.log(JSON.stringify(result, null, 2));
  if (options.json) writeFileSync(options.json, `${JSON.stringify({ result, report, after }, null, 2)}\n`);
  process.exitCode = result.failed + result.crashes + result.kills_by_the_kernel > 0 ? 1 : 0;
} finally {
  await forkful('kill').catch(() => {});
  rmSync(directory, { recursive: true, force: true });
}
