// What `forkful doctor` says of apps whose limit is known (examples/doctor), on several versions of Node.js: the table of
// docs/DOCTOR.md.
//
//   node bench/doctor.mjs [--node 20,24] [--only cpu-long,garbage] [--for 12s]
//
// Load comes from this process, with few connections: on two cores a load generator that uses a core of its own would make the
// app wait for a CPU, which would be a different verdict.
import { execFile, execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

import { nodeBinary, nodeVersion } from '../tests/e2e/lib/nodes.mjs';
import { binary } from '../tests/e2e/lib/sandbox.mjs';

const APPS = fileURLToPath(new URL('../examples/doctor/', import.meta.url));
/** From the first request to the first second that counts. */
const WARM_UP_MS = 3000;
/** The group in which the quota's app runs. */
const QUOTA_GROUP = '/sys/fs/cgroup/cpu/forkful-doctor';

/**
 * A case: the app, the verdict that is right, options of `start`, closed-loop connections or requests per second, and what is
 * started besides.
 */
const CASES = [
  { name: 'idle', app: 'idle.js', right: 'idle', rate: 20 },
  { name: 'cpu-short', app: 'cpu-short.js', right: 'cpu-short-callbacks', connections: 8 },
  { name: 'cpu-long', app: 'cpu-long.js', right: 'cpu-long-callbacks', connections: 8 },
  { name: 'sync-call', app: 'sync-call.js', right: 'synchronous-call', connections: 8 },
  { name: 'garbage', app: 'garbage.js', right: 'garbage-collection', connections: 8 },
  { name: 'memory-limit', app: 'memory-limit.js', right: 'memory-limit', rate: 200, options: ['--node-args=--max-old-space-size=128 --max-semi-space-size=16'] },
  { name: 'pool-cpu', app: 'pool-cpu.js', right: 'pool-cpu', connections: 8, options: ['--env', 'UV_THREADPOOL_SIZE=1'] },
  { name: 'pool-waiting', app: 'pool-waiting.js', right: 'pool-waiting', connections: 16 },
  { name: 'upstream', app: 'upstream.js', right: 'upstream', connections: 16, service: 'slow-service.js' },
  { name: 'other-waiting', app: 'slow-service.js', right: 'other-waiting', connections: 16 },
  { name: 'quota', app: 'cpu-short.js', right: 'cpu-quota', connections: 8, quota: 0.4 },
  { name: 'contention', app: 'cpu-short.js', right: 'cpu-contention', connections: 64, workers: 8 },
  { name: 'imbalance', app: 'cpu-short.js', right: 'imbalance', connections: 8, workers: 2, options: ['--balance', 'sticky'] },
];

const run = promisify(execFile);

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** One request; the next one follows even if it fails. */
function ask(port, agent) {
  return new Promise((resolve) => {
    const request = http.get({ port, host: '127.0.0.1', agent }, (response) => {
      response.resume();
      response.once('close', resolve);
    });
    request.once('error', () => setTimeout(resolve, 50));
  });
}

/** Load until `stop` is called: a loop per connection, or requests at a rate. */
function load(port, { connections = 4, rate }) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: rate ? 16 : connections });
  let on = true;
  const loop = async () => {
    while (on) await ask(port, agent);
  };
  const loops = rate ? [] : Array.from({ length: connections }, loop);
  const timer = rate && setInterval(() => ask(port, agent), 1000 / rate);
  return async () => {
    on = false;
    clearInterval(timer);
    await Promise.race([Promise.all(loops), wait(2000)]);
    agent.destroy();
  };
}

/** A control group with a quota, for a daemon and its workers; `null` without the rights for it. */
function quotaGroup(cores) {
  try {
    mkdirSync(QUOTA_GROUP);
    writeFileSync(join(QUOTA_GROUP, 'cpu.cfs_quota_us'), String(cores * 100_000));
    return QUOTA_GROUP;
  } catch {
    return null;
  }
}

async function tryCase(one, node, seconds) {
  const home = mkdtempSync(join(tmpdir(), 'forkful-doctor-'));
  const env = { ...process.env, FORKFUL_HOME: home };
  const group = one.quota ? quotaGroup(one.quota) : null;
  if (one.quota && !group) return { verdict: 'not run', certainty: 'no rights to control groups' };
  // The first command starts the daemon, and processes stay in the group in which they were started.
  const inGroup = ['-c', `echo $$ > ${group}/cgroup.procs; exec "$@"`, 'sh'];
  const forkful = (...args) => {
    const [program, ...words] = group && args[0] === 'start' ? ['sh', ...inGroup, binary(), ...args] : [binary(), ...args];
    return run(program, words, { env, maxBuffer: 1 << 24 });
  };
  const start = (app, name, port, workers = 1, options = []) =>
    forkful('start', join(APPS, app), '--name', name, '-i', String(workers), '--interpreter', node, '--env', `PORT=${port}`, ...options);
  let stop = async () => {};
  try {
    const port = await freePort();
    const options = [...(one.options ?? [])];
    if (one.service) {
      const upstream = await freePort();
      await start(one.service, 'service', upstream);
      options.push('--env', `UPSTREAM=http://127.0.0.1:${upstream}/`);
    }
    await start(one.app, one.name, port, one.workers, options);
    stop = load(port, one);
    await wait(WARM_UP_MS);
    const { stdout } = await forkful('doctor', one.name, '--for', seconds, '--json');
    return JSON.parse(stdout).apps[0];
  } finally {
    await stop();
    await forkful('kill').catch(() => {});
    if (group) await removeGroup(group);
    rmSync(home, { recursive: true, force: true });
  }
}

/** A group can be removed when the last of its processes has ended. */
async function removeGroup(group) {
  for (let tries = 0; tries < 50; tries += 1) {
    try {
      return rmdirSync(group);
    } catch {
      await wait(100);
    }
  }
}

/** How busy the machine is before anything starts: other programs on its cores make every app wait for a CPU. */
function others() {
  const [load1] = execFileSync('cat', ['/proc/loadavg'], { encoding: 'utf8' }).split(' ');
  return load1;
}

const { values } = parseArgs({
  options: { node: { type: 'string', default: '20,24' }, only: { type: 'string' }, for: { type: 'string', default: '12s' }, out: { type: 'string' } },
});
const only = values.only?.split(',');
const cases = CASES.filter(({ name }) => !only || only.includes(name));
const majors = values.node.split(',').map(Number);
const out = values.out ? openSync(values.out, 'w') : 1;
const print = (text) => writeFileSync(out, `${text}\n`);
print(`| app | right | ${majors.map((major) => `Node.js ${nodeVersion(major)}`).join(' | ')} |`);
print(`| --- | --- |${' --- |'.repeat(majors.length)}`);
const wrong = [];
for (const one of cases) {
  const cells = [];
  for (const major of majors) {
    process.stderr.write(`${one.name} on ${major} (load average ${others()})\n`);
    const found = await tryCase(one, nodeBinary(major), values.for);
    const isRight = found.verdict === one.right;
    if (!isRight) wrong.push(found.certainty);
    cells.push(`${isRight ? '' : '**'}${found.verdict}${isRight ? '' : '**'}, ${found.certainty}`);
    process.stderr.write(`${JSON.stringify(found, null, 1)}\n`);
  }
  print(`| \`${one.name}\` | ${one.right} | ${cells.join(' | ')} |`);
}
const all = cases.length * majors.length;
print(`\n${all - wrong.length} of ${all} right; certain and wrong: ${wrong.filter((certainty) => certainty === 'certain').length}.`);
if (values.out) closeSync(out);
