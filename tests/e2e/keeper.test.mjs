// With a keeper, the apps survive their daemon: it is killed in the middle of everything, another one takes its place, and
// neither a client nor a worker notices. The requests are counted by kind; the clients retry nothing (lib/load.mjs).
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';

import { accepts, freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { MAJORS, NEWEST, nodeBinary } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const KEEPER = { FORKFUL_KEEPER: '1' };
const KILLS = 3;
const CLOSING = 8;
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };
const PID = /^\d+$/;

/** Answers with its pid. */
function plain({ require }) {
  require('http').createServer((_request, response) => {
    const text = String(process.pid);
    response.setHeader('Content-Length', text.length).end(text);
  }).listen(Number(process.env.PORT));
}

/** Writes a numbered line for each of them, without pause, and answers with its pid. */
function writing({ require }) {
  let number = 0;
  const write = () => {
    for (let line = 0; line < 5; line += 1) process.stdout.write(`line ${number += 1} of ${process.pid} ${'x'.repeat(number % 200)} end\n`);
    setTimeout(write, 5);
  };
  write();
  require('http').createServer((_request, response) => response.end(String(number))).listen(Number(process.env.PORT));
}

const isLiving = (pid) => {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)[0] !== 'Z';
  } catch {
    return false;
  }
};

const parentOf = (pid) => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1).split(' ')[1]);

/** Kills the daemon and waits until another one answers; gives its pid. */
async function killDaemon(forkful) {
  const killed = await forkful.daemonPid();
  process.kill(killed, 'SIGKILL');
  return waitUntil('another daemon', async () => {
    const pid = await forkful.daemonPid();
    return pid !== killed && pid;
  });
}

/** Starts an app with a keeper; gives what the tests ask again and again. */
async function kept(t, body, { major = NEWEST, options = [], instances = 2 } = {}) {
  const forkful = await sandbox(t, major);
  const port = await freePort();
  await forkful.start(body, { name: 'app', instances, options, env: { PORT: String(port), ...KEEPER } });
  const workers = async () => (await forkful.jlist('app')).map(({ pid, pm2_env: { status } }) => `${pid} ${status}`);
  const pids = async () => (await forkful.jlist('app')).map(({ pid }) => pid);
  return { forkful, port, workers, pids };
}

for (const [balance, majors] of Object.entries({ direct: MAJORS, exact: [18, NEWEST], auto: [18, NEWEST] })) {
  for (const major of majors) {
    test(`Node ${major}, ${balance}: a daemon that is killed under load takes nothing with it`, async (t) => {
      const { forkful, port, workers } = await kept(t, plain, { major, options: ['--balance', balance] });
      const before = await workers();
      const load = startLoad({ port, closing: CLOSING, keeping: 8, expect: PID });
      t.after(() => load.stop());
      for (let kill = 1; kill <= KILLS; kill += 1) {
        const reached = load.counts.success + 2000;
        await waitUntil('a busy app', () => load.counts.success >= reached || load.failed > KILLS * CLOSING, 120_000);
        await killDaemon(forkful);
        assert.deepEqual(await workers(), before, `kill ${kill}`);
      }
      const reached = load.counts.success + 2000;
      await waitUntil('the app to go on', () => load.counts.success >= reached || load.failed > KILLS * CLOSING, 120_000);
      const { success, ...failed } = await load.stop();
      assert.ok(success > 0);
      const lost = Object.values(failed).reduce((sum, count) => sum + count, 0);
      // Where the daemon hands connections over, those that it has accepted and nobody else has end with it: one that waits for
      // a worker, and one on its way to each worker.
      if (balance === 'direct') assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
      else assert.ok(lost <= KILLS * (1 + before.length), `${JSON.stringify(failed)} ${load.failures.join('\n')}`);
      // A reload by the daemon that has taken over loses nothing either.
      const again = startLoad({ port, closing: 4, keeping: 4, expect: PID });
      await forkful.ok(['reload', 'app']);
      const { success: answers, ...missed } = await again.stop();
      assert.ok(answers > 0);
      assert.deepEqual(missed, NONE_FAILED, again.failures.join('\n'));
      const after = await workers();
      assert.equal(after.length, before.length);
      assert.ok(after.every((worker) => !before.includes(worker) && worker.endsWith('online')), after.join());
    });
  }
}

test('a worker that ends together with its daemon is noticed and replaced once', async (t) => {
  const { forkful, port, pids } = await kept(t, plain);
  const [first, second] = await pids();
  process.kill(first, 'SIGKILL');
  await killDaemon(forkful);
  const after = await waitUntil('another worker', async () => {
    const [now, other] = await forkful.jlist('app');
    return now.pid !== first && now.pm2_env.status === 'online' && other.pm2_env.status === 'online' && [now, other];
  });
  assert.equal(after[1].pid, second);
  assert.equal(after[0].pm2_env.restart_time, 1);
  assert.match(readFileSync(join(forkful.home, 'daemon.log'), 'utf8'), /app worker 0: .*SIGKILL/);
  assert.match((await get(port)).body, PID);
  assert.equal((await pids()).length, 2);
});

test('no line of an app is lost, torn or written twice while its daemons are killed', async (t) => {
  const { forkful, pids } = await kept(t, writing);
  const before = await pids();
  const files = (await forkful.jlist('app')).map(({ pm2_env }) => pm2_env.pm_out_log_path);
  const lines = (file) => readFileSync(file, 'utf8').split('\n').slice(0, -1);
  for (let kill = 0; kill < 10; kill += 1) {
    const counts = files.map((file) => lines(file).length);
    await waitUntil('more lines', () => files.every((file, at) => lines(file).length > counts[at] + 200));
    await killDaemon(forkful);
  }
  assert.deepEqual(await pids(), before);
  await forkful.ok(['stop', 'app']);
  for (const file of files) {
    const all = lines(file);
    assert.ok(all.length > 1000, `${all.length}`);
    all.forEach((line, at) => assert.match(line, new RegExp(`^line ${at + 1} of \\d+ x* end$`), `${file}:${at + 1}`));
  }
});

test('the daemon that has taken over scales, stops and starts, and leaves nothing at its end', async (t) => {
  const { forkful, port, pids } = await kept(t, plain);
  const before = await pids();
  const keeper = parentOf(await forkful.daemonPid());
  await killDaemon(forkful);
  await forkful.ok(['scale', 'app', '3']);
  const scaled = await pids();
  assert.deepEqual(scaled.slice(0, 2), before);
  assert.equal(scaled.length, 3);
  for (const pid of scaled) assert.equal(parentOf(pid), keeper);
  await killDaemon(forkful);
  assert.deepEqual(await pids(), scaled);
  await forkful.ok(['stop', 'app']);
  assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  assert.ok(scaled.every((pid) => !isLiving(pid)));
  await killDaemon(forkful);
  assert.deepEqual((await forkful.jlist('app')).map(({ pm2_env: { status } }) => status), ['stopped', 'stopped', 'stopped']);
  await forkful.ok(['start', 'app']);
  assert.match((await get(port)).body, PID);
  const last = [...await pids(), await forkful.daemonPid(), keeper];
  await forkful.ok(['kill']);
  await waitUntil('everything to end', () => last.every((pid) => !isLiving(pid)));
  assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  assert.equal(existsSync(join(forkful.home, 'instance')), false);
});

test('a plain process goes on, too, and can be written to', async (t) => {
  const forkful = await sandbox(t);
  const script = forkful.script(({ report }) => {
    process.stdin.on('data', (data) => report({ said: String(data) }));
    setInterval(() => {}, 1000);
  });
  await forkful.start(script, { name: 'plain', instances: 1, options: ['-x'], env: KEEPER });
  const [{ pid }] = await forkful.jlist('plain');
  await killDaemon(forkful);
  assert.equal((await forkful.jlist('plain'))[0].pid, pid);
  await forkful.ok(['restart', 'plain']);
  assert.ok(!isLiving(pid));
  assert.notEqual((await forkful.jlist('plain'))[0].pid, pid);
});

for (const byNpm of [false, true]) {
  const what = byNpm ? 'an instance below `npm start`' : 'one instance';
  test(`${what} is lent its sockets by the daemon that has taken over, too`, async (t) => {
    const forkful = await sandbox(t, NEWEST);
    const port = await freePort();
    const path = forkful.script(plain);
    writeFileSync(join(forkful.directory, 'package.json'), JSON.stringify({ scripts: { start: `node ${basename(path)}` } }));
    const node = nodeBinary(NEWEST);
    const env = { PORT: String(port), PATH: `${dirname(node)}:${process.env.PATH}`, ...KEEPER };
    const start = byNpm ? ['npm', '--name', 'app', '--', 'start'] : [path, '--name', 'app', '--interpreter', node];
    await forkful.ok(['start', ...start], { env });
    await waitUntil('the app to serve', async () => (await get(port)).status === 200);
    for (let round = 0; round < 2; round += 1) {
      const serving = (await get(port)).body;
      const load = startLoad({ port, closing: 4, keeping: 4, expect: PID });
      t.after(() => load.stop());
      await killDaemon(forkful);
      assert.equal((await get(port)).body, serving, 'the process is the same');
      const { stdout, stderr } = await forkful.ok(['reload', 'app']);
      assert.doesNotMatch(stdout + stderr, /stopped, then started/);
      await waitUntil('an answer of its successor', async () => (await get(port)).body !== serving);
      const { success, ...failed } = await load.stop();
      assert.ok(success > 0);
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
    }
  });
}

test('a daemon that dies in the middle of a reload is followed by one that ends up with all workers', async (t) => {
  const { forkful, port } = await kept(t, plain, { instances: 4 });
  for (let round = 0; round < 5; round += 1) {
    const reloading = forkful.spawn(['reload', 'app']);
    const daemon = await forkful.daemonPid();
    await waitUntil('a reload under way', async () => round === 0
      || (await forkful.jlist('app')).some(({ pm2_env: { status } }) => status !== 'online') || reloading.child.exitCode !== null);
    process.kill(daemon, 'SIGKILL');
    await reloading.outcome;
    const workers = await waitUntil('four workers', async () => {
      const all = await forkful.jlist('app');
      return all.length === 4 && all.every(({ pm2_env: { status } }) => status === 'online') && all;
    });
    assert.match((await get(port)).body, PID);
    const living = new Set(workers.map(({ pid }) => pid));
    await waitUntil('no other worker', () => forkful.control.living(`${workers[0].pm2_env.pm_exec_path}`).every(({ pid }) => living.has(pid)));
  }
});

test('without its keeper a daemon goes on; after both are killed the next start finds its ports free and no worker twice', async (t) => {
  const { forkful, port, pids } = await kept(t, plain);
  const before = await pids();
  const daemon = await forkful.daemonPid();
  const keeper = parentOf(daemon);
  process.kill(keeper, 'SIGKILL');
  await waitUntil('the keeper to end', () => !isLiving(keeper));
  assert.equal(await forkful.daemonPid(), daemon);
  assert.deepEqual(await pids(), before);
  await forkful.ok(['reload', 'app']);
  assert.match((await get(port)).body, PID);
  const reloaded = await pids();
  assert.ok(reloaded.every((pid) => !before.includes(pid)));
  await waitUntil('the old workers to end', () => before.every((pid) => !isLiving(pid)));
  process.kill(daemon, 'SIGKILL');
  await waitUntil('the daemon to end', () => !isLiving(daemon));
  await forkful.ok(['resurrect'], { env: KEEPER });
  assert.ok(reloaded.every((pid) => !isLiving(pid)));
  const now = await pids();
  assert.equal(now.length, 2);
  assert.match((await get(port)).body, PID);
});
