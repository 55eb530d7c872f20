// What an app does when it is told to stop, it does at a reload and at a scale-down, too: also where its process would end by itself,
// because nothing is left to do when the last connection is closed.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

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
  if (process.env.HEARS !== 'nothing') process.on('SIGINT', () => stop('signal'));
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

test('an app that does nothing when it is told to stop ends by itself at a reload', async (t) => {
  const forkful = await sandbox(t, 24);
  const port = await freePort();
  const file = join(forkful.directory, 'kept');
  const app = await forkful.start(batching, { name: 'plain', env: { PORT: String(port), KEPT: file, HEARS: 'nothing' } });
  assert.equal((await get({ host: '127.0.0.1', port }, '/')).status, 200);
  const first = forkful.control.living(app.path);
  await forkful.ok(['reload', 'plain']);
  await waitUntil('the old workers to be gone', () => first.every((worker) => worker.gone));
  assert.ok(!/worker \d+: .*SIG/.test(readFileSync(join(forkful.home, 'daemon.log'), 'utf8')));
});
