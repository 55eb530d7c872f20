// The demonstration: one plain process beside a Forkful cluster, the same app, the same load. It prints a
// table, writes `target/demo.json`, and leaves nothing running. Load goes to loopback and ends by itself.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const forkful = process.env.FORKFUL_BIN ?? path.join(root, 'target/release/forkful');
const script = path.join(root, 'examples/fast-slow/server.js');
const home = mkdtempSync(path.join(os.tmpdir(), 'forkful-demo-'));
const SECONDS = Number(process.env.DEMO_SECONDS ?? 4);
const CLIENTS = 32;
const BLOCK_MS = 2000;

const say = (text) => process.stderr.write(`${text}\n`);
const cli = (...args) =>
  execFileSync(forkful, args, { env: { ...process.env, FORKFUL_HOME: home, NO_COLOR: '1' }, encoding: 'utf8' });

/** A port that is free now. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** One request; resolves with its time in ms, rejects when it failed. */
function get(port, url, agent) {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const request = http.get({ host: '127.0.0.1', port, path: url, agent, timeout: 30_000 }, (response) => {
      response.resume();
      response.on('end', () =>
        response.statusCode === 200 ? resolve(performance.now() - began) : reject(new Error(`status ${response.statusCode}`)));
      response.on('error', reject);
    });
    request.on('timeout', () => request.destroy(new Error('timeout')));
    request.on('error', reject);
  });
}

/** Waits until a port answers. */
async function up(port, bound = 10_000) {
  const end = performance.now() + bound;
  for (;;) {
    try { return await get(port, '/fast'); } catch (error) { if (performance.now() > end) throw error; }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? NaN;

/** `CLIENTS` clients, each sending its next request when the last is answered. */
async function load(port, url, seconds, keepAlive, during) {
  const agent = new http.Agent({ keepAlive, maxSockets: CLIENTS });
  const times = [];
  let failed = 0;
  const end = performance.now() + seconds * 1000;
  const client = async () => {
    while (performance.now() < end) {
      try { times.push(await get(port, url, agent)); } catch { failed += 1; }
    }
  };
  const clients = Array.from({ length: CLIENTS }, client);
  const extra = during?.();
  await Promise.all(clients);
  await extra;
  agent.destroy();
  times.sort((a, b) => a - b);
  return { requests: times.length, failed, perSecond: times.length / seconds, p50: quantile(times, 0.5), p99: quantile(times, 0.99), max: times.at(-1) };
}

/** New connections, 100 a second, while one slow request after the other burns a worker's CPU. */
async function besideSlow(port) {
  const times = [];
  let failed = 0;
  const slow = get(port, `/delay?ms=${BLOCK_MS}`);
  const started = performance.now();
  const pending = [];
  for (let n = 0; performance.now() - started < BLOCK_MS; n += 1) {
    pending.push(get(port, '/fast').then((ms) => times.push(ms), () => { failed += 1; }));
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, started + (n + 1) * 10 - performance.now())));
  }
  await Promise.all([slow, ...pending]);
  times.sort((a, b) => a - b);
  return { requests: times.length, failed, p50: quantile(times, 0.5), p99: quantile(times, 0.99), max: times.at(-1) };
}

async function measure(port) {
  await load(port, '/fast', 1, true);
  const keepAlive = await load(port, '/fast', SECONDS, true);
  const short = await load(port, '/fast', SECONDS, false);
  // The rush is over before the next part: it is about everyday traffic beside a slow request.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  return { keepAlive, short, besideSlow: await besideSlow(port) };
}

const ms = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
const row = (label, one, many, note = '') => `${label.padEnd(46)}${one.padStart(12)}${many.padStart(14)}  ${note}`;

let plain;
try {
  const [single, cluster] = [await freePort(), await freePort()];
  plain = spawn(process.execPath, [script], { env: { ...process.env, PORT: String(single) }, stdio: 'ignore' });
  await up(single);
  process.env.PORT = String(cluster);
  process.stdout.write(cli('start', script, '-i', 'max', '--name', 'demo'));
  const workers = JSON.parse(cli('jlist')).length;

  say(`Load on one plain process (${CLIENTS} clients)…`);
  const one = await measure(single);
  say(`The same on ${workers} workers…`);
  const many = await measure(cluster);
  say('Reloading twice under load…');
  const reload = await load(cluster, '/fast', Math.max(SECONDS, 4), true, async () => {
    for (let n = 0; n < 2; n += 1) await new Promise((done, fail) =>
      spawn(forkful, ['reload', 'demo'], { env: { ...process.env, FORKFUL_HOME: home }, stdio: 'ignore' })
        .on('exit', (code) => (code === 0 ? done() : fail(new Error(`reload ended with ${code}`)))));
  });

  const ratio = (a, b) => `${(b / a).toFixed(2)} ×`;
  console.log(`
${row('', '1 process', `${workers} workers`)}
${row('/fast, kept connections, requests/s', one.keepAlive.perSecond.toFixed(0), many.keepAlive.perSecond.toFixed(0), ratio(one.keepAlive.perSecond, many.keepAlive.perSecond))}
${row('/fast, a connection per request, requests/s', one.short.perSecond.toFixed(0), many.short.perSecond.toFixed(0), ratio(one.short.perSecond, many.short.perSecond))}
${row(`/fast while /delay burns ${BLOCK_MS / 1000} s of CPU, median`, ms(one.besideSlow.p50), ms(many.besideSlow.p50))}
${row('                                   99th percentile', ms(one.besideSlow.p99), ms(many.besideSlow.p99))}
${row('                                           slowest', ms(one.besideSlow.max), ms(many.besideSlow.max))}
${row('failed requests', String(one.keepAlive.failed + one.short.failed + one.besideSlow.failed), String(many.keepAlive.failed + many.short.failed + many.besideSlow.failed))}

Two reloads under load: ${reload.requests} requests, ${reload.failed} failed.
The load generator shares the ${os.availableParallelism?.() ?? os.cpus().length} cores with the app, so the throughput is a rough figure; docs/BENCHMARKS.md measures it properly.`);
  const result = path.join(root, 'target/demo.json');
  writeFileSync(result, `${JSON.stringify({ node: process.version, cores: os.cpus().length, workers, one, many, reload }, null, 2)}\n`);
  console.log(`Written to ${path.relative(process.cwd(), result)}. To try it yourself: forkful start ${path.relative(process.cwd(), script)} -i max`);
  if (reload.failed > 0) process.exitCode = 1;
} finally {
  plain?.kill();
  try { cli('kill'); } catch { /* it never started */ }
  rmSync(home, { recursive: true, force: true });
}
