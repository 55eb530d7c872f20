// A start that hangs in the kernel does not delay other apps: its working directory is on a FUSE file system
// whose server never answers (root only), or its script is a FIFO, whose `open` would wait for a writer.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, closeSync, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NODE = nodeBinary(NEWEST);
const ROUNDS_MAX = 5;

test('an app whose directory hangs delays no other app, no command, and fails with its name', async (t) => {
  let mounted = '';
  let server = -1;
  t.after(() => {
    if (server >= 0) closeSync(server);
    if (mounted) spawnSync('umount', ['--lazy', mounted]);
  });
  const forkful = await sandbox(t);
  if (userInfo().uid !== 0) return t.skip('only root may mount a file system');
  const folder = join(forkful.directory, 'hangs');
  mkdirSync(folder);
  const port = await freePort();
  const serving = forkful.script(({ require }) => {
    require('http').createServer((_, response) => response.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
  });
  const idle = forkful.script(() => { setInterval(() => {}, 1000); });
  const file = join(forkful.directory, 'hung.config.json');
  writeFileSync(file, JSON.stringify({ apps: [{ name: 'hung', script: idle, cwd: folder, interpreter: NODE, autorestart: false }] }));
  await forkful.ok(['start', serving, '--name', 'serving', '-i', '2', '--interpreter', NODE], { env: { PORT: String(port) } });
  await forkful.ok(['start', file]);
  await forkful.ok(['stop', 'hung']);
  const use = async () => {
    assert.match((await get(port)).body, /^\d+$/);
    await forkful.ok(['list']);
  };
  const reload = async () => {
    const before = (await forkful.jlist('serving')).map(({ pid }) => pid);
    await forkful.ok(['reload', 'serving']);
    assert.ok((await forkful.jlist('serving')).every(({ pid }) => pid > 0 && !before.includes(pid)));
  };
  server = openSync('/dev/fuse', 'r+');
  const { status, stderr } = spawnSync('mount', ['-i', '-t', 'fuse', '-o', 'fd=3,rootmode=40000,user_id=0,group_id=0', 'none', folder],
    { stdio: ['ignore', 'ignore', 'pipe', server] });
  if (status !== 0) return t.skip(String(stderr));
  mounted = folder;

  const daemon = await forkful.daemonPid();
  // The start is given up after 10 s, which may be too short for this on a busy machine: then the test
  // repeats it.
  let start;
  for (let round = 1; !start; round += 1) {
    assert.ok(round <= ROUNDS_MAX, 'other apps and commands are served while the start hangs');
    const hanging = forkful.spawn(['start', 'hung']);
    await waitUntil('the start to be under way', async () => (await forkful.jlist('hung'))[0].pm2_env.status === 'launching');
    await use();
    await reload();
    if ((await forkful.jlist('hung'))[0].pm2_env.status === 'launching' && hanging.child.exitCode === null) start = hanging;
    else await hanging.outcome;
  }

  const outcome = await start.outcome;
  assert.notEqual(outcome.code, 0);
  assert.match(outcome.stderr + outcome.stdout, new RegExp(`cannot enter the working directory ${folder}: no answer within \\d+ s`));
  assert.equal(await forkful.daemonPid(), daemon);
});

test('a script that has become a FIFO fails at once, the old version stays, and no other app is delayed', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const serve = ({ require }) => {
    require('http').createServer((_, response) => response.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
  };
  const serving = forkful.script(serve);
  const script = forkful.script(serve);
  const program = join(forkful.directory, 'program');
  writeFileSync(program, '#!/bin/sh\nexec sleep 1000\n');
  chmodSync(program, 0o755);
  await forkful.ok(['start', serving, '--name', 'serving', '--interpreter', NODE], { env: { PORT: String(port) } });
  await forkful.ok(['start', script, '--name', 'script', '-i', '2', '--interpreter', NODE], { env: { PORT: String(await freePort()) } });
  await forkful.ok(['start', program, '--name', 'program']);
  const pids = async () => (await forkful.jlist('script')).map(({ pid }) => pid);
  const before = await pids();
  for (const file of [script, program]) {
    rmSync(file);
    assert.equal(spawnSync('mkfifo', ['--mode', '755', file]).status, 0);
  }
  for (const [command, reason] of [
    [['reload', 'script'], `cannot execute ${script}: it is not a regular file`],
    [['restart', 'program'], `cannot execute ${program}: Permission denied`],
    [['start', script, '--name', 'again', '--interpreter', NODE], 'is a FIFO, not a regular file'],
  ]) {
    const { outcome } = forkful.spawn(command);
    assert.match((await get(port)).body, /^\d+$/);
    const { code, stderr } = await outcome;
    assert.notEqual(code, 0);
    assert.ok(stderr.includes(reason), stderr);
  }
  assert.deepEqual(await pids(), before);
});
