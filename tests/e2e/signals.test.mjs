// Signals without a meaning for a supervisor do not end it, and its child processes do not inherit that they
// are ignored.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const STRAY = ['SIGUSR1', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGXCPU', 'SIGIO', 'SIGPWR', 'SIGSTKFLT', 'SIGSYS'];
const REAL_TIME = [34, 40, 64];

test('a daemon outlives stray signals, and its workers have the default dispositions', async (t) => {
  const forkful = await sandbox(t);
  await forkful.ok(['start', 'sleep 1000', '--name', 'one']);
  const daemon = await forkful.daemonPid();
  for (const signal of [...STRAY, ...REAL_TIME]) process.kill(daemon, signal);
  assert.equal(await forkful.daemonPid(), daemon);
  const [worker] = await forkful.jlist('one');
  assert.match(readFileSync(`/proc/${worker.pid}/status`, 'utf8'), /^SigIgn:\t0000000000000000$/m);
  process.kill(worker.pid, 'SIGUSR1');
  const next = await waitUntil('the next worker', async () => {
    const [now] = await forkful.jlist('one');
    return now.pid > 0 && now.pid !== worker.pid && now;
  });
  assert.equal(next.pm2_env.restart_time, 1);
});

test('a name that would be shown as another one is refused', async (t) => {
  const forkful = await sandbox(t);
  for (const name of ['a\u202Egpj', 'a\u2066b', '\u200Fa']) {
    const { code, stderr } = await forkful.fails(['start', 'sleep 1000', '--name', name]);
    assert.equal(code, 2);
    assert.match(stderr, /a name cannot hold '\\u\{2/);
  }
});

test('a command waits for a daemon that does not answer yet, and says so', async (t) => {
  const forkful = await sandbox(t);
  // A keeper would take a daemon that stands still for one that hangs.
  await forkful.ok(['start', 'sleep 1000', '--name', 'one'], { env: { FORKFUL_KEEPER: '0' } });
  const daemon = await forkful.daemonPid();
  process.kill(daemon, 'SIGSTOP');
  const list = forkful.spawn(['list']);
  await waitUntil('the note', () => list.stderr.includes('note: the daemon has not answered yet; waiting up to 60 s'));
  process.kill(daemon, 'SIGCONT');
  const { code, stdout, stderr } = await list.outcome;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /one/);
});
