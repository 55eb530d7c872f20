#!/usr/bin/env node
// Does a platform's SIGTERM lose requests? `forkful run --probes` under a fixed rate of requests; a client that honours readiness
// sends no new request once `/readyz` says no, as a load balancer does. Counts failed requests over many runs, of a script with two
// workers and of `npm start`. In each run a worker of the script is killed first: liveness has to stay green.
//
//   node bench/stop.mjs --runs 20 --rate 300 --node /path/to/node [--json FILE]
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

import { freePort } from './lib/server.mjs';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '20' },
    rate: { type: 'string', default: '300' },
    node: { type: 'string', default: process.execPath },
    delay: { type: 'string', default: '3s' },
    json: { type: 'string' },
  },
});
const binary = process.env.FORKFUL_BIN ?? fileURLToPath(new URL('../target/release/forkful', import.meta.url));
const rate = Number(options.rate);
/** How often a load balancer asks. */
const ASK_MS = 100;
/** How long each run is under load before the signal. */
const BEFORE_MS = 1500;
/** The time limit of a run. */
const RUN_MS_MAX = 120_000;

const SERVER = `
const server = require('http').createServer((question, response) => setTimeout(() => response.end(String(process.pid)), 5));
server.listen(Number(process.env.PORT), '127.0.0.1');
process.on('SIGTERM', () => { server.close(); server.closeIdleConnections(); });
`;

/** One request; its status and body. @returns {Promise<{ status: number, body: string }>} */
function get(where) {
  return new Promise((resolve, reject) => {
    http.get(where, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text) => { body += text; });
      response.on('end', () => resolve({ status: response.statusCode, body }));
      response.on('error', reject);
    }).on('error', reject);
  });
}

async function until(what, check) {
  for (const end = Date.now() + RUN_MS_MAX; Date.now() < end; await sleep(20)) {
    const found = await check().catch(() => false);
    if (found) return found;
  }
  throw new Error(`never: ${what}`);
}

/** A run from start to end. */
async function run(target, directory, killsOne) {
  const port = await freePort();
  const path = join(directory, `probes-${port}.sock`);
  const env = { ...process.env, PORT: String(port), PATH: dirname(options.node) + delimiter + process.env.PATH, FORKFUL_HOME: join(directory, 'home'), NO_COLOR: '1' };
  const child = spawn(binary, ['run', ...target, '--probes', `unix:${path}`, '--shutdown-delay', options.delay], { cwd: directory, env, stdio: 'ignore' });
  const ended = new Promise((resolve) => { child.once('exit', (code, signal) => resolve({ code, signal })); });
  const probe = async (name) => (await get({ socketPath: path, path: `/${name}`, agent: false })).status;
  const counts = { sent: 0, failed: 0 };
  const failures = [];
  const agent = new http.Agent({ keepAlive: true, maxSockets: 50 });
  const waiting = new Set();
  let [ready, dead] = [true, 0];
  try {
    const all = async () => /: (\d) of \1 workers can serve/.test((await get({ socketPath: path, path: '/readyz', agent: false })).body);
    await until('ready', async () => existsSync(path) && all());
    await until('an answer', () => get({ host: '127.0.0.1', port, agent: false }));
    const send = (kept) => {
      counts.sent += 1;
      const answer = get({ host: '127.0.0.1', port, agent: kept ? agent : false }).catch((error) => {
        counts.failed += 1;
        failures.push(error.message);
      }).finally(() => waiting.delete(answer));
      waiting.add(answer);
    };
    if (killsOne) {
      process.kill(Number((await get({ host: '127.0.0.1', port, agent: false })).body), 'SIGKILL');
      for (let look = 0; look < 5; look += 1) if (await probe('livez') !== 200) dead += 1;
      await until('ready again', all);
    }
    const balancer = (async () => {
      while (ready) {
        await sleep(ASK_MS);
        ready = await probe('readyz').then((status) => status === 200, () => false);
      }
    })();
    const begun = performance.now();
    let signalled = false;
    while (ready) {
      const due = (performance.now() - begun) * rate / 1000;
      while (counts.sent < due && ready) send(counts.sent % 2 === 0);
      if (!signalled && performance.now() - begun >= BEFORE_MS) {
        child.kill('SIGTERM');
        signalled = true;
      }
      await sleep(1000 / rate);
    }
    await balancer;
    await Promise.all(waiting);
    const { code, signal } = await ended;
    return { ...counts, dead, code: code ?? signal, failures: failures.slice(0, 3) };
  } finally {
    agent.destroy();
    child.kill('SIGKILL');
    await ended;
  }
}

const directory = mkdtempSync(join(tmpdir(), 'forkful-stop-'));
try {
  writeFileSync(join(directory, 'app.cjs'), SERVER);
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ scripts: { start: 'node app.cjs' } }));
  const rows = [];
  for (const [what, target, killsOne] of [
    ['script, 2 workers', ['app.cjs', '-i', '2', '--interpreter', options.node], true],
    ['npm start', ['npm start', '--name', 'app'], false],
  ]) {
    const runs = [];
    for (let count = 0; count < Number(options.runs); count += 1) runs.push(await run(target, directory, killsOne));
    const sum = (of) => runs.reduce((all, one) => all + of(one), 0);
    const row = {
      what, runs: runs.length, rate, requests: sum((one) => one.sent), failed: sum((one) => one.failed), not_alive: sum((one) => one.dead),
      codes: [...new Set(runs.map((one) => one.code))], failures: [...new Set(runs.flatMap((one) => one.failures))],
    };
    console.log(JSON.stringify(row));
    rows.push(row);
  }
  if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
  process.exitCode = rows.some((row) => row.failed + row.not_alive > 0) ? 1 : 0;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
