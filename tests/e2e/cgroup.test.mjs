// Control groups of apps: processes without any other mark are found, limits apply and are shown, and the
// kernel's values are shown. If no group can be created, limits are refused.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NODE = nodeBinary(NEWEST);

/** Double-forks a process without any mark of its worker, and continues. */
const SHEDS = '(env -i setsid prlimit --locks=unlimited sleep "$NAP" >/dev/null 2>&1 &)\nexec sleep 1000\n';

const usage = async (forkful, name) => JSON.parse((await forkful.ok(['describe', name, '--json'])).stdout).apps[0].usage;

/** An app whose worker leaves a process behind; reports if there are no groups. */
async function shedding(t, nap) {
  const forkful = await sandbox(t);
  const script = join(forkful.directory, 'sheds.sh');
  writeFileSync(script, SHEDS);
  const file = join(forkful.directory, 'forkful.config.json');
  writeFileSync(file, JSON.stringify({ apps: [{ name: 'sheds', script, interpreter: 'sh', env: { NAP: nap } }] }));
  await forkful.ok(['start', file, '--no-wait']);
  const left = () => forkful.processes(`sleep ${nap}`);
  await waitUntil('the process to be there', () => left().length === 1);
  t.after(() => { for (const { pid } of left()) process.kill(pid, 'SIGKILL'); });
  const hasGroup = (await usage(forkful, 'sheds')) !== undefined;
  if (!hasGroup) t.skip('no control group can be made here');
  return { forkful, left, hasGroup };
}

test('a stop ends what has shed every mark', async (t) => {
  const { forkful, left, hasGroup } = await shedding(t, '87654.321');
  if (!hasGroup) return;
  await forkful.ok(['stop', 'sheds']);
  assert.deepEqual(left(), []);
});

test('a crash of the worker ends it, too', async (t) => {
  const { forkful, left, hasGroup } = await shedding(t, '87654.322');
  if (!hasGroup) return;
  const [before] = left();
  process.kill((await forkful.jlist('sheds'))[0].pid, 'SIGKILL');
  await waitUntil('the next one', () => { const [now] = left(); return now && now.pid !== before.pid; });
  assert.equal(left().length, 1);
});

test('the next daemon ends what a killed one has left in its groups, and removes them', async (t) => {
  const { forkful, left, hasGroup } = await shedding(t, '87654.323');
  if (!hasGroup) return;
  const [instance] = readFileSync(join(forkful.home, 'instance'), 'utf8').split(' ');
  const find = () => spawnSync('find', ['/sys/fs/cgroup', '-name', `forkful-${instance}`]).stdout.toString();
  assert.notEqual(find(), '');
  await forkful.killDaemon();
  await forkful.ok(['kill']);
  assert.deepEqual(left(), []);
  assert.equal(find(), '');
});

test('limits hold, and a process that the kernel kills is told with its reason', async (t) => {
  const forkful = await sandbox(t);
  const script = forkful.script(({ require }) => {
    const kept = [];
    require('process').on('SIGUSR2', () => { for (;;) kept.push(Buffer.alloc(8 << 20, 1)); });
    setInterval(() => {}, 1000);
  });
  const start = ['start', script, '--name', 'limited', '--interpreter', NODE, '--memory-max', '200M', '--cpu-max', '50%'];
  const { code, stderr } = await forkful.run(start);
  if (code !== 0) {
    assert.match(stderr, /`memory_max` and `cpu_max` cannot be kept: this system lets the daemon make no control group|cannot set its (memory|CPU) limit/);
    return t.skip(stderr);
  }
  const before = await usage(forkful, 'limited');
  assert.ok(before.memory_bytes > 1 << 20 && before.memory_bytes < 200 << 20, JSON.stringify(before));
  assert.ok(before.cpu_time_ms > 0);
  // From the worker's own group, if the kernel has accounts for it (only version 2).
  const ofWorker = (await forkful.jlist('limited'))[0].usage;
  if (ofWorker) assert.ok(ofWorker.cpu_time_ms > 0 && ofWorker.cpu_time_ms <= (await usage(forkful, 'limited')).cpu_time_ms, JSON.stringify(ofWorker));
  const { stdout } = await forkful.ok(['describe', 'limited']);
  assert.match(stdout, /memory_max +200/);
  const [worker] = await forkful.jlist('limited');
  process.kill(worker.pid, 'SIGUSR2');
  await waitUntil('the next worker', async () => { const [now] = await forkful.jlist('limited'); return now.pid > 0 && now.pid !== worker.pid; });
  const app = JSON.parse((await forkful.ok(['describe', 'limited', '--json'])).stdout).apps[0];
  // The kernel may take so long that Forkful kills the worker.
  const [, byKernel] = /SIGKILL: (?:(the kernel killed it: its app had used all of its `memory_max` of 200\.0 MiB)|killed by Forkful: its event loop stood still .* of its `memory_max` of 200\.0 MiB)/
    .exec(app.workers[0].last_exit) ?? assert.fail(app.workers[0].last_exit);
  assert.ok(!byKernel || app.usage.out_of_memory_kills >= 1);
  // Another limit applies to the next process.
  await forkful.ok(['restart', 'limited', '--memory-max', '300M']);
  assert.equal(JSON.parse((await forkful.ok(['describe', 'limited', '--json'])).stdout).apps[0].definition.memory_max_bytes, 300 << 20);
});

/** Allocates HOLDS_MIB in small steps before it listens, so that the kernel can kill it in between. */
function holding({ require }) {
  const kept = [];
  for (let mebi = 0; mebi < Number(process.env.HOLDS_MIB); mebi += 10) kept.push(Buffer.alloc(10 << 20, 1));
  globalThis.kept = kept;
  require('http').createServer((request, response) => response.end(String(process.pid))).listen(Number(process.env.PORT));
}

test('a new version without room for its memory fails: the old one serves on, with its own limits', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  const script = forkful.script(holding);
  const file = join(forkful.directory, 'forkful.config.json');
  const write = (limit, mebi) => writeFileSync(file, JSON.stringify({ apps: [{
    name: 'holding', script, interpreter: NODE, exec_mode: 'cluster', instances: 1, max_restarts: 0, memory_max: limit, cpu_max: limit === '400M' ? 2 : 0.5, env: { PORT: String(port), HOLDS_MIB: String(mebi) },
  }] }));
  write('400M', 180);
  const { code, stderr } = await forkful.run(['start', file]);
  if (code !== 0) {
    assert.match(stderr, /cannot be kept: this system lets the daemon make no control group|cannot set its (memory|CPU) limit/);
    return t.skip(stderr);
  }
  const [before] = await forkful.jlist('holding');
  const [instance] = readFileSync(join(forkful.home, 'instance'), 'utf8').split(' ');
  const limits = () => ['memory.max', 'memory.limit_in_bytes', 'cpu.max', 'cpu.cfs_quota_us'].flatMap((name) => {
    const found = spawnSync('find', ['/sys/fs/cgroup', '-path', `*forkful-${instance}/app-*`, '-maxdepth', '8', '-name', name]).stdout.toString().trim().split('\n');
    return found.filter((path) => path && /app-[0-9]+\/[^/]+$/.test(path)).map((path) => `${name} ${readFileSync(path, 'utf8').trim()}`);
  });
  const set = limits();
  assert.ok(set.some((line) => line.endsWith(` ${400 << 20}`)), set.join(', '));
  // Both together hold more than either limit.
  write('300M', 230);
  const failed = await forkful.fails(['reload', file]);
  assert.match(failed.stderr, /the kernel killed it|its event loop stood still/);
  const [after] = await forkful.jlist('holding');
  assert.equal(after.pid, before.pid);
  assert.equal((await get({ host: '127.0.0.1', port }, '/')).body, String(before.pid));
  assert.deepEqual(limits(), set);
});

test('faulty limits are refused', async (t) => {
  const forkful = await sandbox(t);
  for (const option of [['--memory-max', '0'], ['--memory-max', 'much'], ['--cpu-max', '0'], ['--cpu-max', '-1']]) {
    const { code } = await forkful.fails(['start', 'sleep 1000', ...option.slice(0, 1).map((name) => `${name}=${option[1]}`)]);
    assert.equal(code, 2);
  }
  assert.ok(!existsSync(join(forkful.home, 'forkful.sock')) || (await forkful.jlist()).length === 0);
});
