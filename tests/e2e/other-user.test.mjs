// Apps of another user under a root daemon: what the daemon does for them in the file system.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { differentAnswers } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';

const NOBODY = 65534;

const APP = `require('http').createServer((_q, r) => r.end(process.pid + ' ' + process.getuid()))
  .listen({ path: process.env.SOCKET, writableAll: true });`;

const AGENTS = '/run/forkful';

const skip = userInfo().uid === 0 ? false : 'only root runs apps of others';

/** A sandbox that other users can look into, and no trace of it elsewhere. @param {import('node:test').TestContext} t */
async function openSandbox(t) {
  const isThere = existsSync(AGENTS);
  const forkful = await sandbox(t);
  t.after(() => isThere || rmSync(AGENTS, { recursive: true, force: true }));
  chmodSync(forkful.directory, 0o755);
  return forkful;
}

test('its workers find the agent, whom the home is closed to', { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const script = join(forkful.directory, 'app.cjs');
  writeFileSync(script, APP);
  const socket = join(forkful.directory, 'open', 'app.sock');
  mkdirSync(dirname(socket));
  await forkful.ok(['start', script, '--name', 'other', '-i', '2', '--uid', String(NOBODY)], { env: { SOCKET: socket } });
  const before = await differentAnswers(socket);
  for (const answer of before) assert.match(answer, / 65534$/);
  await forkful.ok(['reload', 'other']);
  const after = await differentAnswers(socket);
  assert.equal(before.some((answer) => after.includes(answer)), false);
  for (const { pid } of await forkful.jlist('other')) {
    assert.match(readFileSync(`/proc/${pid}/cmdline`, 'latin1'), /--require\0\/run\/forkful\/agent-[0-9a-f]{16}\.cjs\0/);
  }
});

test("the file of its unix socket is the user's, and nobody else's file is touched for it", { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const script = join(forkful.directory, 'app.cjs');
  writeFileSync(script, APP);
  const [folder, moved, victim] = ['run', 'moved', 'victim'].map((name) => join(forkful.directory, name));
  for (const path of [folder, victim]) mkdirSync(path);
  chownSync(folder, NOBODY, NOBODY);
  writeFileSync(join(victim, 'app.sock'), 'keep', { mode: 0o600 });
  const socket = join(folder, 'app.sock');
  await forkful.ok(['start', script, '--name', 'other', '-i', '2', '--uid', String(NOBODY)], { env: { SOCKET: socket } });
  for (const answer of await differentAnswers(socket)) assert.match(answer, / 65534$/);
  const { uid, mode } = statSync(socket);
  assert.deepEqual([uid, mode & 0o222], [NOBODY, 0o222]);
  assert.match((await forkful.ok(['describe', 'other'])).stdout, new RegExp(`unix:${socket}`));

  renameSync(folder, moved);
  symlinkSync(victim, folder);
  await forkful.ok(['delete', 'other']);
  assert.equal(readFileSync(join(victim, 'app.sock'), 'utf8'), 'keep');
  assert.equal(statSync(join(victim, 'app.sock')).mode & 0o777, 0o600);
  assert.equal(existsSync(join(moved, 'app.sock')), false);
});
