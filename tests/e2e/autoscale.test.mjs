// The number of workers follows the load: up while event loops are busy, down after it, and no request is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { printsLike } from './lib/elsewhere.mjs';
import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { WRONG_USE, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };
const PID = /^\d+$/;
/** A machine with other work may show too few idle seconds in a row for long. */
const SLOW_MS_MAX = 600_000;

/**
 * Answers with its pid. A request for /heavy keeps the event loop busy for 100 ms, and a core for a part of that: a machine
 * whose cores are all in use, as one that runs other tests, has no room for another worker that needs a whole core.
 */
function heavy({ require }) {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  require('http').createServer((request, response) => {
    if (request.url === '/heavy') {
      for (let i = 0; i < 1e5; i += 1) cell[0] ^= i;
      Atomics.wait(cell, 0, cell[0], 100);
    }
    response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  }).listen(Number(process.env.PORT));
}

/** What happened to an app, by kind. */
async function events(forkful, kind) {
  const { incidents } = JSON.parse((await forkful.ok(['events', '--json'])).stdout);
  return incidents.filter((incident) => incident.kind === kind);
}

const online = async (forkful) => (await forkful.jlist('app')).filter(({ pm2_env: { status } }) => status === 'online');

test('busy workers get another one, a reload keeps it, and it goes when the load ends', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const path = forkful.script(heavy);
  await forkful.ok(['start', path, '--name', 'app', '-i', '1..2'], { env: { PORT: String(port) } });
  await waitUntil('the app to serve', async () => (await get(port)).status === 200);
  assert.equal((await online(forkful)).length, 1);

  const load = startLoad({ port, path: '/heavy', closing: 4, keeping: 2, expect: PID });
  t.after(() => load.stop());
  await waitUntil('two workers to answer', async () => load.answers.size === 2 && (await online(forkful)).length === 2, SLOW_MS_MAX);
  const [up] = await waitUntil('the event', async () => { const found = await events(forkful, 'scaled_up'); return found.length > 0 && found; });
  assert.match(up.reason, /% busy.* for \d+ s$/);
  assert.equal(up.next, 'from 1 to 2 workers');
  assert.match((await forkful.ok(['list'])).stdout, /cluster 2 of 1–2/);
  const described = (await forkful.ok(['describe', 'app'])).stdout;
  assert.match(described, /app \(2 of 1–2 workers\)/);
  assert.match(described, /scaling +scaled up from 1 to 2 workers: /);

  const refused = await forkful.run(['scale', 'app', '3']);
  assert.equal(refused.code, WRONG_USE, refused.stderr);
  assert.match(refused.stderr, /the app has 1 to 2 workers by its load, but this would make 3/);
  await forkful.ok(['reload', 'app']);
  assert.equal((await online(forkful)).length, 2, 'a reload keeps the number');
  const { success, ...failed } = await load.stop();
  assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
  assert.ok(success > 0);

  // On a busy machine an event loop that waits for a core counts as busy: a few requests leave it room.
  const light = startLoad({ port, closing: 1, keeping: 1, pauseMs: 500, expect: PID });
  t.after(() => light.stop());
  await waitUntil('one worker to be left', async () => (await forkful.jlist('app')).length === 1, SLOW_MS_MAX);
  const [down] = await events(forkful, 'scaled_down');
  assert.match(down.reason, /^with 1 worker, each would have been at most \d+ % busy for \d+ s$/);
  assert.equal(down.next, 'from 2 to 1 worker');
  // The reason of the other one depends on the machine, and here it may have been refused a few times.
  const told = (await forkful.ok(['events', 'app'])).stdout;
  printsLike('AUTOSCALING.md', 'forkful events api', told, { names: { 'api:': 'app:' }, without: /event loops? w|not scaled/ });
  const { success: served, ...lost } = await light.stop();
  assert.deepEqual(lost, NONE_FAILED, light.failures.join('\n'));
  assert.ok(served > 0);
});
