// The supervisor's own log cannot be written: its disk is full, its reader has exited, or its reader does not
// read. Apps are still supervised, and every command and signal works.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const APP = () => { setInterval(() => {}, 1000); };

/** Kills a worker of a script and waits for the next one. */
async function nextAfterKill(forkful, script) {
  const worker = await waitUntil('a worker', () => forkful.control.living(script)[0]);
  process.kill(worker.pid, 'SIGKILL');
  return waitUntil('the next worker', () => forkful.control.living(script).find(({ pid }) => pid !== worker.pid));
}

test('a daemon whose home is on a full disk restarts workers, starts others and obeys', async (t) => {
  let mounted = '';
  t.after(() => { if (mounted) execFileSync('umount', ['--lazy', mounted]); });
  const forkful = await sandbox(t);
  if (userInfo().uid !== 0) return t.skip('only root may mount a small disk');
  mkdirSync(forkful.home, { mode: 0o700 });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=0700', 'tmpfs', forkful.home], { stdio: 'pipe' });
    mounted = forkful.home;
  } catch (error) {
    return t.skip(String(error.stderr ?? error));
  }
  const script = forkful.script(APP);
  const start = (path, name) => forkful.run(['start', path, '--name', name, '--interpreter', nodeBinary(NEWEST)]);
  assert.equal((await start(script, 'one')).code, 0);
  const daemon = await forkful.daemonPid();
  const ballast = join(forkful.home, 'ballast');
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(2 << 20)), { code: 'ENOSPC' });
  // The rest of the log's last page.
  const log = openSync(join(forkful.home, 'daemon.log'), 'a');
  assert.throws(() => { for (;;) writeSync(log, '\n'.repeat(512)); }, { code: 'ENOSPC' });
  closeSync(log);
  for (let round = 0; round < 3; round += 1) await nextAfterKill(forkful, script);
  const other = forkful.script(APP);
  await start(other, 'two');
  assert.equal(await forkful.daemonPid(), daemon, 'the daemon goes on');
  assert.equal((await forkful.jlist('one'))[0].pm2_env.restart_time, 3);
  rmSync(ballast);
  await nextAfterKill(forkful, script);
  await waitUntil('what was dropped to be told', () =>
    /^\S+Z forkful: \d+ messages? could not be written to this log and were dropped$/m.test(readFileSync(join(forkful.home, 'daemon.log'), 'utf8')));
  process.kill(daemon, 'SIGTERM');
  await waitUntil('the daemon to obey', () => forkful.processes(forkful.directory).every(({ pid }) => pid !== daemon));
});

/** A pipe's write end, for a child that should block if it writes; `fill` fills it. */
function pipe(forkful, fill) {
  const path = join(forkful.directory, 'stderr.pipe');
  execFileSync('mkfifo', [path]);
  const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const writer = openSync(path, constants.O_WRONLY);
  if (fill) assert.throws(() => { for (;;) writeSync(both, Buffer.alloc(4096, 'x')); }, { code: 'EAGAIN' });
  return { writer, both };
}

for (const [what, isRead] of [['does not read', false], ['has gone', null]]) {
  test(`a foreground supervisor whose reader of stderr ${what} restarts workers and obeys`, async (t) => {
    const forkful = await sandbox(t);
    const script = forkful.script(APP);
    const { writer, both } = pipe(forkful, isRead === false);
    const child = spawn(binary(), ['run', script, '--interpreter', nodeBinary(NEWEST)], {
      cwd: forkful.directory, env: forkful.env, stdio: ['ignore', 'ignore', writer],
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = new Promise((resolve) => { child.on('exit', (code, signal) => resolve({ code, signal })); });
    closeSync(writer);
    if (isRead === null) closeSync(both);
    for (let round = 0; round < 3; round += 1) await nextAfterKill(forkful, script);
    child.kill('SIGTERM');
    const { signal } = await ended;
    assert.equal(signal, null, 'it ends by itself');
    if (isRead !== null) closeSync(both);
  });
}
