// What a daemon that dies leaves half done, its successor completes: lines that a worker has read in part, and more descriptors
// than a shell allows.
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { freePort, get } from './lib/http.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** A worker's pid and restarts, for all workers. */
const lives = async (forkful) => (await forkful.jlist('app')).map(({ pid, pm2_env: { restart_time: restarts } }) => [pid, restarts]);

test('a daemon takes over more descriptors than the shell allows that started the first one', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const path = forkful.script(({ require }) => {
    require('http').createServer((_request, response) => response.end(String(process.pid))).listen(Number(process.env.PORT));
  });
  const start = ['start', path, '--name', 'app', '-i', '12', '--interpreter', nodeBinary(NEWEST)];
  const limited = ['-c', 'ulimit -Sn 40; exec "$0" "$@"', binary(), ...start];
  const { code, stderr } = await forkful.run(limited, { program: '/bin/sh', env: { PORT: String(port) } });
  assert.equal(code, 0, stderr);
  const all = async () => {
    const found = await lives(forkful);
    return found.length === 12 && found.every(([pid]) => pid > 0) && found;
  };
  const before = await waitUntil('all workers', all);
  await get(port);
  await forkful.replaceDaemon();
  assert.deepEqual(await all(), before);
  const answered = Number((await get(port)).body);
  assert.ok(before.some(([pid]) => pid === answered));
});

for (const [how, next] of [
  ['killed', (forkful) => forkful.replaceDaemon()],
  ['updated', (forkful) => {
    const next = join(forkful.directory, 'next');
    copyFileSync(binary(), next);
    appendFileSync(next, 'next');
    return forkful.ok(['update'], { program: next });
  }],
]) {
  test(`a worker gets a long message whole, also when its daemon is ${how} in the midst of it`, async (t) => {
    const forkful = await sandbox(t);
    const [blocks, goes] = ['blocks', 'goes'].map((name) => join(forkful.directory, name));
    await forkful.start(({ require, report }) => {
      const { existsSync: exists, writeFileSync: write } = require('fs');
      process.on('message', ({ text, blocks: until }) => {
        report({ heard: text.length });
        if (!until) return;
        write(until, '');
        const cell = new Int32Array(new SharedArrayBuffer(4));
        while (!exists(process.env.GOES)) Atomics.wait(cell, 0, 0, 5);
      });
      require('http').createServer((_request, response) => response.end('ok')).listen(process.env.SOCKET);
    }, { name: 'app', instances: 1, env: { SOCKET: join(forkful.directory, 'app.sock'), GOES: goes } });
    const api = new Contract(join(forkful.home, 'forkful.sock'));
    const send = (message) => api.ask('POST', '/v1/messages', { targets: ['app'], message });
    const before = await lives(forkful);
    assert.equal((await send({ text: '', blocks })).status, '200');
    await waitUntil('a worker that blocks', () => existsSync(blocks));
    // More than the socket has room for, and another one behind it.
    const lengths = [400_000, 40_000];
    for (const length of lengths) assert.equal((await send({ text: 'ö'.repeat(length / 2) })).status, '200');
    await next(forkful);
    writeFileSync(goes, '');
    const worker = await waitUntil('the worker', () => forkful.control.seen.find(({ gone }) => !gone));
    await waitUntil('both messages', () => worker.reports.filter(({ heard }) => heard > 0).length === 2);
    assert.deepEqual(worker.reports.map(({ heard }) => heard).filter((heard) => heard > 0), lengths.map((length) => length / 2));
    assert.deepEqual(await lives(forkful), before);
  });
}
