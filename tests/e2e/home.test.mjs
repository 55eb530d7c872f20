// The home of a daemon: copies of it, a lock that is gone, and what is started from there. What a daemon that lives has started is
// its own, whoever finds a note of it.
import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** The exit code of a daemon that cannot be started. */
const NO_DAEMON = 4;

function plain({ require }) {
  require('http').createServer((_request, response) => response.end(String(process.pid))).listen(Number(process.env.PORT));
}

async function serving(t) {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  const { path } = await forkful.start(plain, { name: 'app', instances: 2, env: { PORT: String(port) } });
  const workers = async () => (await forkful.jlist('app')).map(({ pid, pm2_env: { status, restart_time } }) => `${pid} ${status} ${restart_time}`);
  return { forkful, port, path, workers };
}

test('commands in a copy of a home end nothing of the daemon that it was copied from', async (t) => {
  const { forkful, port, path, workers } = await serving(t);
  const before = await workers();
  const copy = join(forkful.directory, 'copy');
  // The socket is not copied: nobody listens there.
  cpSync(forkful.home, copy, { recursive: true, filter: (source) => !source.endsWith('.sock') && !source.endsWith('.lends') });
  const inCopy = { env: { FORKFUL_HOME: copy } };
  const { stderr } = await forkful.ok(['list'], inCopy);
  assert.doesNotMatch(stderr, /stopped unexpectedly|still run/);
  assert.match((await forkful.ok(['kill'], inCopy)).stdout, /^no daemon is running\n$/);
  const other = { ...inCopy, env: { ...inCopy.env, PORT: String(await freePort()) } };
  await forkful.ok(['start', path, '--name', 'other'], other);
  assert.match(readFileSync(join(copy, 'daemon.log'), 'utf8'), /is a copy of the home of a running daemon/);
  assert.deepEqual(await workers(), before);
  assert.match((await get(port)).body, /^\d+$/);
  await forkful.ok(['kill'], inCopy);
  assert.deepEqual(await workers(), before);
});

test('a lock that is removed is made anew, and no second daemon starts', async (t) => {
  const { forkful, workers } = await serving(t);
  const before = await workers();
  const lock = join(forkful.home, 'forkful.lock');
  rmSync(lock);
  // Before or after the lock is there again.
  const { code, stderr } = await forkful.run(['daemon', '--resurrect']);
  assert.equal(code, NO_DAEMON);
  assert.match(stderr, /another daemon (serves at|holds) /);
  await waitUntil('the lock', () => existsSync(lock));
  assert.deepEqual(await workers(), before);
});

test('what was saved and deleted does not come back', async (t) => {
  const { forkful } = await serving(t);
  await forkful.ok(['save']);
  await forkful.ok(['delete', 'app']);
  assert.match((await forkful.fails(['resurrect'])).stderr, /there is nothing saved/);
  assert.deepEqual(await forkful.jlist(), []);
  await forkful.ok(['resurrect', '--saved']);
  await forkful.ok(['stop', 'app']);
  assert.doesNotMatch((await forkful.ok(['kill'])).stderr, /starts .* again/);
});
