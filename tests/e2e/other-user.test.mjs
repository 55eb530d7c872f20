// Apps of another user under a root daemon: what the daemon does for them in the file system.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { differentAnswers } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';

const NOBODY = 65534;

const APP = `require('http').createServer((_q, r) => r.end(process.pid + ' ' + process.getuid()))
  .listen({ path: process.env.SOCKET, writableAll: true });`;

test("the file of its unix socket is the user's, and nobody else's file is touched for it", { skip: userInfo().uid === 0 ? false : 'only root runs apps of others' }, async (t) => {
  const forkful = await sandbox(t);
  chmodSync(forkful.directory, 0o755);
  const script = join(forkful.directory, 'app.cjs');
  writeFileSync(script, APP);
  const [folder, moved, victim] = ['run', 'moved', 'victim'].map((name) => join(forkful.directory, name));
  for (const path of [folder, victim]) mkdirSync(path);
  chownSync(folder, NOBODY, NOBODY);
  writeFileSync(join(victim, 'app.sock'), 'keep', { mode: 0o600 });
  const socket = join(folder, 'app.sock');
  await forkful.ok(['start', script, '--name', 'other', '-i', '2', '--uid', String(NOBODY), '--no-agent'], { env: { SOCKET: socket } });
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
