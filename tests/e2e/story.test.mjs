// The README's promises in the order in which a user would try them, with the sample app under constant load:
// start, list, reload, a killed worker, stop.
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { accepts, freePort } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { NO_DAEMON, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const EXAMPLE = fileURLToPath(new URL('../../examples/fast-slow/server.js', import.meta.url));
/** How long a slow request blocks its worker's event loop. */
const DELAY_MS = 300;
const FAST = { closing: 6, keeping: 4, path: '/fast', expect: /^\d+$/ };
const SLOW = { closing: 1, path: `/delay?ms=${DELAY_MS}`, expect: /^burnt/ };
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };

test('the sample app from start to end, under load on its fast and its slow route', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const env = { PORT: String(port), PATH: `${dirname(nodeBinary(NEWEST))}:${process.env.PATH}` };
  await forkful.ok(['start', EXAMPLE, '-i', '2', '--name', 'sample', '--listen-timeout', '50s'], { env });
  const pids = async () => (await forkful.jlist('sample')).map(({ pid }) => String(pid));
  const loads = [startLoad({ port, ...FAST }), startLoad({ port, ...SLOW })];
  t.after(() => Promise.all(loads.map((load) => load.stop())));
  const answers = async (more) => {
    const before = loads.map((load) => load.counts.success);
    await waitUntil('answers', () => loads.every((load, at) => load.counts.success >= before[at] + more[at]));
  };
  await answers([200, 2]);

  const first = await pids();
  const { stdout: list } = await forkful.ok(['list']);
  for (const pid of first) assert.match(list, new RegExp(`sample.*${pid}.*(online|blocked)`));
  assert.match((await forkful.ok(['logs', '--nostream'])).stdout, new RegExp(`listens on port ${port}`));

  await forkful.ok(['reload', 'all']);
  const second = await pids();
  assert.deepEqual(second.filter((pid) => first.includes(pid)), []);
  await answers([200, 2]);
  assert.deepEqual(loads.map(({ failed }) => failed), [0, 0], loads.flatMap(({ failures }) => failures).join('\n'));

  // The worker that burns CPU for a request, so that at least this one is lost.
  const lostBefore = loads[1].failed;
  await waitUntil('a slow request inside a worker', async () => (await forkful.jlist('sample')).some(({ monit }) => monit.cpu > 0));
  process.kill(Number(second[0]), 'SIGKILL');
  await waitUntil('its successor to serve', async () => {
    const now = await pids();
    return !now.includes(second[0]) && now.includes(second[1]) && now.every((pid) => (loads[0].answers.get(pid) ?? 0) > 0);
  });
  const [fast, slow] = await Promise.all(loads.map((load) => load.stop()));
  // Lost is what was inside the killed worker: of each client one request at most. Nothing was refused.
  const { success: _fast, reset: fastLost, ...fastOthers } = fast;
  const { success: _slow, reset: slowLost, ...slowOthers } = slow;
  const { reset: _none, ...none } = NONE_FAILED;
  assert.deepEqual([fastOthers, slowOthers], [none, none], loads.flatMap(({ failures }) => failures).join('\n'));
  assert.ok(fastLost <= FAST.closing + FAST.keeping && slowLost <= lostBefore + SLOW.closing, `${fastLost} and ${slowLost} lost`);

  const processes = (await pids()).concat(String(await forkful.daemonPid()));
  await forkful.ok(['delete', 'all']);
  assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  assert.deepEqual(await forkful.jlist(), []);
  await forkful.ok(['kill']);
  assert.equal((await forkful.run(['ping'])).code, NO_DAEMON);
  await waitUntil('all processes to be gone', () => processes.every((pid) => !forkful.processes(forkful.directory).some((left) => String(left.pid) === pid)));
  assert.deepEqual(forkful.processes(forkful.directory), []);
});
