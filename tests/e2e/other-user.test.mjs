// Apps of another user under a root daemon: the daemon's file operations for them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, lchownSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { differentAnswers } from './lib/http.mjs';
import { aloneWithAgents } from './lib/agents.mjs';
import { sandbox } from './lib/sandbox.mjs';

const NOBODY = 65534;

const APP = `require('http').createServer((_q, r) => r.end(process.pid + ' ' + process.getuid()))
  .listen({ path: process.env.SOCKET, writableAll: true });`;

const skip = userInfo().uid === 0 ? false : 'only root runs apps of others';

/** A sandbox that other users can look into, and no trace of it elsewhere. @param {import('node:test').TestContext} t */
async function openSandbox(t) {
  const letGo = await aloneWithAgents(t);
  const forkful = await sandbox(t);
  letGo();
  chmodSync(forkful.directory, 0o755);
  return forkful;
}

test('its workers find the agent, whom the home is closed to', { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const script = join(forkful.directory, 'app.cjs');
  writeFileSync(script, APP);
  const socket = join(forkful.directory, 'open', 'app.sock');
  mkdirSync(dirname(socket));
  chownSync(dirname(socket), NOBODY, NOBODY);
  await forkful.ok(['start', script, '--name', 'other', '-i', '2', '--uid', String(NOBODY), '--env', `SOCKET=${socket}`]);
  const before = await differentAnswers(socket);
  for (const answer of before) assert.match(answer, / 65534$/);
  await forkful.ok(['reload', 'other']);
  const after = await differentAnswers(socket);
  assert.equal(before.some((answer) => after.includes(answer)), false);
  for (const { pid } of await forkful.jlist('other')) {
    assert.match(readFileSync(`/proc/${pid}/cmdline`, 'latin1'), /--require\0\/run\/forkful\/agent-[0-9a-f]{16}\/agent\.cjs\0/);
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
  await forkful.ok(['start', script, '--name', 'other', '-i', '2', '--uid', String(NOBODY), '--env', `SOCKET=${socket}`]);
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

/** The environment of a process, as it was started. @param {number} pid */
function environment(pid) {
  const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
}

test("root's environment stays root's, and the user's own variables are set", { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const script = join(forkful.directory, 'idle.cjs');
  writeFileSync(script, 'setInterval(() => {}, 1e6);');
  const env = { DATABASE_URL: 'postgres://root:secret@db/x', LC_TIME: 'C', KEEP_ME: '1' };
  const started = await forkful.ok(['start', script, '--name', 'other', '--uid', String(NOBODY), '--env', 'WRITTEN=2'], { env });
  assert.match(started.stderr, /DATABASE_URL/);
  assert.doesNotMatch(started.stderr, /secret/);
  const seen = async () => environment((await forkful.jlist('other'))[0].pid);
  const first = await seen();
  assert.deepEqual([first.DATABASE_URL, first.KEEP_ME, first.E2E_CONTROL], [undefined, undefined, undefined]);
  assert.deepEqual([first.LC_TIME, first.WRITTEN, first.LOGNAME === first.USER], ['C', '2', true]);
  assert.notEqual(first.HOME, process.env.HOME);
  assert.ok(first.SHELL && first.PATH);
  await forkful.ok(['restart', 'other', '--update-env'], { env });
  assert.equal((await seen()).DATABASE_URL, undefined);

  // The one way to pass everything, by wish.
  await forkful.ok(['start', script, '--name', 'open', '--uid', String(NOBODY), '--filter-env', 'false'], { env });
  assert.equal(environment((await forkful.jlist('open'))[0].pid).KEEP_ME, '1');
});

test('an environment file that its user has replaced stops only its app', { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const folder = join(forkful.directory, 'app');
  mkdirSync(folder);
  chownSync(folder, NOBODY, NOBODY);
  const script = join(forkful.directory, 'idle.cjs');
  writeFileSync(script, 'setInterval(() => {}, 1e6);');
  const file = join(folder, '.env');
  writeFileSync(file, 'COLOUR=blue\n');
  chownSync(file, NOBODY, NOBODY);
  await forkful.ok(['start', script, '--name', 'other', '--uid', String(NOBODY), '--env-file', file]);
  await forkful.ok(['start', script, '--name', 'well']);
  const secret = join(forkful.directory, 'secret');
  writeFileSync(secret, 'STOLEN=1\n', { mode: 0o600 });

  const replacements = {
    'a fifo': () => execFileSync('mkfifo', [file]),
    "a link to root's file": () => { symlinkSync(secret, file); lchownSync(file, NOBODY, NOBODY); },
    'a device': () => symlinkSync('/dev/zero', file),
  };
  for (const [what, replace] of Object.entries(replacements)) {
    await forkful.killDaemon();
    rmSync(file);
    replace();
    if (what !== 'a fifo') lchownSync(file, NOBODY, NOBODY);
    const outcome = await forkful.fails(['resurrect']);
    assert.match(outcome.stdout, /well resurrected/, what);
    assert.match(outcome.stderr, /other: its environment file .*\.env cannot be read/, what);
    assert.deepEqual((await forkful.jlist()).map(({ name }) => name), ['well'], what);
  }
  rmSync(file);
  writeFileSync(file, 'COLOUR=green\n');
  await forkful.ok(['resurrect']);
  const seen = environment((await forkful.jlist('other'))[0].pid);
  assert.deepEqual([seen.COLOUR, seen.STOLEN], ['green', undefined]);
});

test('ports below 1024 are for the apps of others that are allowed them', { skip }, async (t) => {
  const forkful = await openSandbox(t);
  const script = join(forkful.directory, 'low.cjs');
  writeFileSync(script, `require('http').createServer((_q, r) => r.end('low')).listen(+process.env.LOW, '127.0.0.1');`);
  const low = await freeLowPort();
  const options = ['-i', '2', '--uid', String(NOBODY), '--env', `LOW=${low}`, '--listen-timeout', '100s'];
  const refused = await forkful.fails(['start', script, '--name', 'refused', ...options]);
  assert.match(refused.stderr, /permission denied/);
  assert.match(refused.stderr, /low_ports: true/);
  await forkful.ok(['delete', 'refused']);
  await forkful.ok(['start', script, '--name', 'allowed', '--low-ports', ...options]);
  assert.equal(await (await fetch(`http://127.0.0.1:${low}/`)).text(), 'low');
  // It is kept with the app.
  await forkful.ok(['restart', 'allowed']);
  assert.equal(await (await fetch(`http://127.0.0.1:${low}/`)).text(), 'low');
});

/** A free port below 1024 that browsers and fetch do not refuse. */
async function freeLowPort() {
  for (let port = 700; port < 800; port++) {
    const server = createServer();
    const bound = await new Promise((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (bound) {
      await new Promise((resolve) => { server.close(resolve); });
      return port;
    }
  }
  throw new Error('no free port from 700 to 799');
}
