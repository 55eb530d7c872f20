#!/usr/bin/env node
// Measures for how long the API is unavailable during an update, with many apps:
//
//   dev/updates.mjs [--apps 100] [--workers 4] [--updates 5] [--from PROGRAM] [--to PROGRAM]
//
// Starts the apps in a private home, updates from one program to the other and back, and meanwhile sends requests to
// the daemon, each on a new connection: the longest wait for an answer is what a client notices. Without `--to` the other
// program is a copy with a few extra bytes at its end, which counts as another build of the same code. It fails if a worker
// was replaced.
import { execFile, execFileSync } from 'node:child_process';
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';

const { values } = parseArgs({
  options: {
    apps: { type: 'string', default: '100' }, workers: { type: 'string', default: '4' }, updates: { type: 'string', default: '5' },
    from: { type: 'string', default: new URL('../target/release/forkful', import.meta.url).pathname }, to: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'fku-'));
const env = { ...process.env, FORKFUL_HOME: join(folder, 'home'), NO_COLOR: '1' };
const forkful = (program, ...args) => execFileSync(program, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28 });
const copy = join(folder, 'copy');
if (!values.to) {
  copyFileSync(values.from, copy);
  appendFileSync(copy, 'x');
}
const programs = [values.to ?? copy, values.from];

/** Milliseconds until the daemon answers on a new connection. */
const ask = () => new Promise((resolve) => {
  const began = performance.now();
  const request = http.get({ socketPath: join(env.FORKFUL_HOME, 'forkful.sock'), path: '/v1/ping', agent: false }, (response) => {
    response.resume().on('end', () => resolve(performance.now() - began));
  });
  request.on('error', () => resolve(ask().then((more) => more + performance.now() - began)));
});

try {
  const script = join(folder, 'app.js');
  writeFileSync(script, "require('http').createServer((_, response) => response.end('ok')).listen(Number(process.env.PORT));\n");
  const apps = Array.from({ length: Number(values.apps) }, (_, n) => ({
    name: `app-${n}`, script, instances: Number(values.workers), env: { PORT: String(21000 + n) },
  }));
  const config = join(folder, 'forkful.config.json');
  writeFileSync(config, JSON.stringify({ apps }));
  forkful(values.from, 'start', config);
  const pids = () => JSON.parse(forkful(values.from, 'jlist')).map(({ pid }) => pid).join();
  const before = pids();
  const away = [];
  for (let n = 0; n < Number(values.updates); n += 1) {
    let running = true;
    const update = promisify(execFile)(programs[n % 2], ['update', '--json'], { env, maxBuffer: 1 << 28 }).finally(() => { running = false; });
    let longest = 0;
    while (running) longest = Math.max(longest, await ask());
    await update;
    if (pids() !== before) throw new Error('a worker is another one now');
    away.push(longest);
    console.log(`update ${n + 1}: the API was unavailable for ${longest.toFixed(0)} ms`);
  }
  away.sort((one, other) => one - other);
  console.log(`${values.apps} apps, ${values.workers} workers each, ${values.updates} updates: median ${away[away.length >> 1].toFixed(0)} ms, longest ${away.at(-1).toFixed(0)} ms`);
  console.log(readFileSync(join(env.FORKFUL_HOME, 'daemon.log'), 'utf8').split('\n').slice(-3).join('\n'));
} finally {
  forkful(values.from, 'kill');
  rmSync(folder, { recursive: true, force: true });
}
