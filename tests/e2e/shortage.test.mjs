// A supervisor without free descriptors: workers wait for their start, which does not count as a failure.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const limit = (pid, files) => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:`]);

test('a worker that cannot be started for want of descriptors is no crash loop', async (t) => {
  const forkful = await sandbox(t);
  await forkful.ok(['start', 'sleep 1000', '--name', 'one']);
  const [worker] = await forkful.jlist('one');
  const daemon = await forkful.daemonPid();
  const [, before] = /Max open files\s+(\d+)/.exec(readFileSync(`/proc/${daemon}/limits`, 'utf8'));
  limit(daemon, 3);
  process.kill(worker.pid, 'SIGKILL');
  await waitUntil('the daemon to say so', () => /starts wait: no descriptors/.test(readFileSync(join(forkful.home, 'daemon.log'), 'utf8')));
  limit(daemon, before);
  const next = await waitUntil('the next worker', async () => {
    const [now] = await forkful.jlist('one');
    return now.pid > 0 && now.pid !== worker.pid && now.pm2_env.status === 'online' && now;
  });
  assert.equal(next.pm2_env.restart_time, 1);
  const { workers } = JSON.parse((await forkful.ok(['describe', 'one', '--json'])).stdout).apps[0];
  assert.ok(workers[0].unstable_restarts <= 1, 'the kill alone');
});
