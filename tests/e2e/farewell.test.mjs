// What an app does when it is told to stop, it does at a reload and at a scale-down, too: also where its process would end by itself,
// because nothing is left to do when the last connection is closed.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Writes down that it ends by itself, and before that what it does after its responses. */
function late({ require }) {
  const { appendFileSync, existsSync } = require('fs');
  const server = require('http').createServer((request, response) => {
    const answer = () => {
      if (!existsSync(process.env.RELEASED)) return void setTimeout(answer, 20);
      response.end(String(process.pid));
      setTimeout(() => appendFileSync(process.env.KEPT, 'work\n'), 200);
    };
    answer();
  });
  if (process.env.HEARS === 'signal') process.on('SIGINT', () => process.exit(0));
  if (process.env.HEARS === 'nothing more') process.on('SIGINT', () => {});
  process.on('exit', () => appendFileSync(process.env.KEPT, 'exit\n'));
  server.listen(Number(process.env.PORT));
}

/** Keeps what it was asked in memory, and writes it down when it is told to stop. */
function batching({ require }) {
  let kept = 0;
  const server = require('http').createServer((request, response) => {
    kept += 1;
    response.end(String(process.pid));
  });
  const stop = (by) => server.close((fault) => {
    require('fs').appendFileSync(process.env.KEPT, `${by} ${fault ? fault.code : kept}\n`);
  });
  process.on('SIGINT', () => stop('signal'));
  process.on('message', (message) => { if (message === 'shutdown') stop('message'); });
  server.listen(Number(process.env.PORT));
}

for (const [by, options] of [['signal', []], ['message', ['--shutdown-with-message']]]) {
  test(`an app that is told to stop by a ${by} hears it in a reload and in a scale-down, and no request is lost`, async (t) => {
    const forkful = await sandbox(t, 24);
    const port = await freePort();
    const file = join(forkful.directory, 'kept');
    const written = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []).map((line) => line.split(' '));
    await forkful.start(batching, { name: 'batching', env: { PORT: String(port), KEPT: file }, options });
    const load = startLoad({ port, closing: 4, keeping: 4, expect: /^\d+$/ });
    await waitUntil('answers', () => load.counts.success > 200);
    await forkful.ok(['reload', 'batching']);
    await waitUntil('more answers', () => load.counts.success > 400);
    const { success, ...failed } = await load.stop();
    assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    await waitUntil('two lines', () => written().length === 2);
    await forkful.ok(['scale', 'batching', '1']);
    await waitUntil('three lines', () => written().length === 3);
    await forkful.ok(['stop', 'batching']);
    assert.deepEqual(written().map(([told]) => told), [by, by, by, by]);
    assert.equal(written().reduce((sum, [, kept]) => sum + Number(kept), 0), success, JSON.stringify(written()));
  });
}

for (const hears of ['nothing', 'signal', 'nothing more']) {
  test(`at a reload, an app ends by itself after the work that follows its responses (handler: ${hears})`, async (t) => {
    const forkful = await sandbox(t, 24);
    const port = await freePort();
    const [file, released] = ['kept', 'released'].map((name) => join(forkful.directory, name));
    const written = (what) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []).filter((line) => line === what).length;
    const app = await forkful.start(late, { name: 'late', env: { PORT: String(port), KEPT: file, RELEASED: released, HEARS: hears } });
    const first = await app.workers();
    const asked = Array.from({ length: 20 }, () => get({ host: '127.0.0.1', port, timeout: 120_000 }, '/'));
    const reload = forkful.spawn(['reload', 'late']);
    const old = first.map(({ pid }) => pid);
    await waitUntil('the new workers to serve', async () => (await forkful.jlist('late')).every(({ pid, pm2_env }) => pm2_env.status === 'online' && !old.includes(pid)));
    writeFileSync(released, '');
    assert.ok((await Promise.all(asked)).every(({ status }) => status === 200));
    const { code, stderr } = await reload.outcome;
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /killed/);
    await waitUntil('the old workers to be gone', () => first.every((worker) => worker.gone));
    // Some may have reached a new worker on a busy machine.
    await waitUntil('all work to be done', () => written('work') === 20);
    assert.equal(written('exit'), 2);
  });
}
