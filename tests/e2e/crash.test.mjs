// Workers that die, run out of descriptors or block while requests arrive: only the requests inside them may
// be lost.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { basename, join } from 'node:path';
import { test } from 'node:test';

import { differentAnswers, freePort } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { FAILED, sandbox } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

const KILLS = 8;
const CLIENTS = { closing: 12, keeping: 4 };
const PID = /^\d+$/;
/** A start waits until the workers listen, even on a machine that is too busy for the default of 3 s. */
const LISTENING = ['--listen-timeout', '50s'];

/** A request on a new connection: resolves when connected, and collects everything received until the end. */
function rawGet(port, path) {
  const socket = net.connect({ host: '127.0.0.1', port });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece) => { text += piece; });
  socket.on('error', (error) => { text = `${path}: ${error.message}`; });
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  return { connected: once(socket, 'connect'), answer: new Promise((resolve) => { socket.on('close', () => resolve(text)); }) };
}

/**
 * Answers with its pid after a turn of the event loop, as an app that does some work. By default Node.js closes a connection that has been quiet
 * for 5 s, also when a request has come while the worker stood still.
 */
function app({ require }) {
  require('http').createServer({ keepAliveTimeout: 600_000 }, (_request, response) => setImmediate(() => {
    response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  })).listen(Number(process.env.PORT), '127.0.0.1');
}

for (const balance of ['auto', 'direct', 'exact', 'shared']) {
  test(`balance ${balance}: ${KILLS} workers killed under load cost nobody but their own requests`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    const { workers } = await forkful.start(app, {
      name: 'victim',
      env: { PORT: String(port) },
      // Killed on purpose and often: no delay, and no life is unstable.
      options: ['--restart-delay', '0', '--min-uptime', '1ms', '--balance', balance, ...LISTENING],
    });
    const load = startLoad({ port, ...CLIENTS, expect: PID });
    t.after(() => load.stop());
    for (let n = 0; n < KILLS; n += 1) {
      const before = load.counts.success;
      await waitUntil('traffic', () => load.counts.success > before + 100);
      const victim = (await workers())[n % 2];
      process.kill(victim.pid, 'SIGKILL');
      await waitUntil('the victim to be gone', () => victim.gone);
      const replaced = (await workers())[n % 2];
      await waitUntil('the new worker to answer', () => load.answers.has(String(replaced.pid)));
    }
    const { success, reset, ...others } = await load.stop();
    assert.deepEqual(others, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    // A client has one request in progress, so a kill loses at most one; half of the clients use other
    // workers.
    const clients = CLIENTS.closing + CLIENTS.keeping;
    t.diagnostic(`${reset} of ${success + reset} requests lost in ${KILLS} kills`);
    assert.ok(reset <= KILLS * clients, `${reset} resets`);
    assert.deepEqual((await forkful.jlist('victim')).map((worker) => worker.pm2_env.restart_time), [KILLS / 2, KILLS / 2]);
  });

  test(`balance ${balance}: a blocked worker holds nobody's request but its own`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    const { workers } = await forkful.start(app, { name: 'blocked', env: { PORT: String(port) }, options: ['--balance', balance, ...LISTENING] });
    const [blocked, free] = await workers();
    const load = startLoad({ port, closing: 8, expect: PID });
    t.after(() => load.stop());
    await waitUntil('both to answer', () => load.answers.size === 2);
    const gate = join(forkful.directory, 'gate');
    // It blocks until the test has seen enough, or for longer than the test waits, so that it ends if the test fails.
    const blocking = blocked.run((path) => {
      const end = Date.now() + 200_000;
      while (Date.now() < end && !require('fs').existsSync(path));
      return Date.now() < end;
    }, gate);
    const before = load.answers.get(String(free.pid)) ?? 0;
    // Eight clients with one request each: if all were stuck at the blocked worker, the answers would stop.
    await waitUntil('the other to answer', () => (load.answers.get(String(free.pid)) ?? 0) > before + 100);
    writeFileSync(gate, '');
    assert.equal(await blocking, true);
    const during = load.answers.get(String(blocked.pid)) ?? 0;
    await waitUntil('the blocked one to answer again', () => (load.answers.get(String(blocked.pid)) ?? 0) > during + 20);
    const { success: _success, ...failed } = await load.stop();
    assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
  });

  test(`balance ${balance}: a worker out of descriptors comes back`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    const { workers } = await forkful.start(app, { name: 'emfile', env: { PORT: String(port) }, options: ['--balance', balance, ...LISTENING] });
    const [poor, rich] = await workers();
    assert.deepEqual(await differentAnswers(port), [poor, rich].map(({ pid }) => String(pid)).sort());
    execFileSync('prlimit', ['--pid', String(poor.pid), '--nofile=64:64']);
    await poor.run(() => {
      const fs = require('fs');
      global.held = [];
      for (;;) {
        try { global.held.push(fs.openSync('/dev/null')); } catch (error) { if (error.code === 'EMFILE') return; throw error; }
      }
    });
    const load = startLoad({ port, closing: 4, expect: PID });
    t.after(() => load.stop());
    await waitUntil('the other to serve', () => (load.answers.get(String(rich.pid)) ?? 0) > 200);
    assert.equal(load.answers.has(String(poor.pid)), false);
    await poor.run(() => { for (const fd of global.held.splice(0)) require('fs').closeSync(fd); });
    await waitUntil('the poor one to serve again', () => (load.answers.get(String(poor.pid)) ?? 0) > 20);
    const { refused, timeout, unexpected } = await load.stop();
    assert.deepEqual({ refused, timeout, unexpected }, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    assert.equal(poor.gone, false);
  });
}

for (const balance of ['auto', 'direct', 'exact', 'shared']) {
  test(`balance ${balance}: what waits while all workers stand still is served once, though one of them is killed`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    const log = join(forkful.directory, 'served');
    const { workers } = await forkful.start(({ require }) => {
      require('http').createServer((request, response) => {
        require('fs').appendFileSync(process.env.SERVED, `${request.url}\n`);
        response.setHeader('Content-Length', 2).setHeader('Connection', 'close').end('ok');
      }).listen(Number(process.env.PORT), '127.0.0.1');
    }, { name: 'queue', env: { PORT: String(port), SERVED: log }, options: ['--balance', balance, ...LISTENING] });
    const [killed, left] = await workers();
    for (const { pid } of [killed, left]) process.kill(pid, 'SIGSTOP');
    const paths = Array.from({ length: 32 }, (_, at) => `/${at}`);
    const outcomes = paths.map((path) => rawGet(port, path));
    await within('all connections to be made', Promise.all(outcomes.map(({ connected }) => connected)));
    process.kill(killed.pid, 'SIGKILL');
    process.kill(left.pid, 'SIGCONT');
    const answers = await within('all answers', Promise.all(outcomes.map(({ answer }) => answer)));
    // None of them had read a byte, so nothing was inside a worker.
    assert.deepEqual(answers.filter((answer) => !answer.endsWith('ok')), []);
    const served = readFileSync(log, 'utf8').trim().split('\n');
    assert.deepEqual(served.sort(), paths.sort(), 'each was served once');
  });
}

test('a worker that is stopped (SIGSTOP) under load holds what it has, and serves it when it goes on', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const { workers } = await forkful.start(app, { name: 'stopped', env: { PORT: String(port) }, options: LISTENING });
  const [stopped, free] = await workers();
  const load = startLoad({ port, ...CLIENTS, expect: PID });
  t.after(() => load.stop());
  await waitUntil('both to answer', () => load.answers.size === 2);
  process.kill(stopped.pid, 'SIGSTOP');
  const before = load.answers.get(String(free.pid)) ?? 0;
  await waitUntil('the other to answer', () => (load.answers.get(String(free.pid)) ?? 0) > before + 500);
  process.kill(stopped.pid, 'SIGCONT');
  const during = load.answers.get(String(stopped.pid)) ?? 0;
  await waitUntil('the stopped one to answer again', () => (load.answers.get(String(stopped.pid)) ?? 0) > during + 20);
  const { success: _success, ...failed } = await load.stop();
  assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
});

for (const balance of ['direct', 'exact']) {
  test(`balance ${balance}: workers that say much on their channel lose no connection`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    await forkful.start(({ require }) => {
      require('http').createServer((_request, response) => {
        // More than one read of the channel, so that lines and handles interleave in every way.
        process.send({ type: 'process:msg', data: 'x'.repeat(70_000) });
        response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
      }).listen(Number(process.env.PORT), '127.0.0.1');
    }, { name: 'talkative', env: { PORT: String(port) }, options: ['--balance', balance, ...LISTENING] });
    const load = startLoad({ port, ...CLIENTS, expect: PID });
    t.after(() => load.stop());
    // The daemon reads 70 kB for each of them before the lines that prove a running event loop.
    await waitUntil('answers', () => load.counts.success > 200);
    const { success: _success, ...failed } = await load.stop();
    assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
  });
}

test('a new version that fails just after it listens replaces no more workers', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const options = ['--min-uptime', '50s', '--max-restarts', '1000', ...LISTENING];
  const { path } = await forkful.start(app, { name: 'app', instances: 4, env: { PORT: String(port) }, options });
  const pids = async () => (await forkful.jlist('app')).map(({ pid }) => pid);
  const before = await pids();
  forkful.script(({ require }) => {
    require('http').createServer((_request, response) => response.end()).listen(Number(process.env.PORT), '127.0.0.1', () => {
      setTimeout(() => { throw new Error('found too late'); }, 50);
    });
    // The next worker's start takes longer than the failure of this one.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
  }, basename(path));
  const { code, stderr } = await forkful.fails(['reload', 'app']);
  assert.equal(code, FAILED);
  assert.match(stderr, /the new version failed soon after it had replaced [12] of 4 workers, the others serve on: worker \d ended with exit code 1 soon after it was ready: Error: found too late/);
  const after = await pids();
  assert.deepEqual(after.slice(2), before.slice(2));
});
