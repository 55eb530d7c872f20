// Interpreters that compile the app before running it, such as ts-node and tsx: `start` waits for the app,
// not only for the interpreter.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** How long `start` waits for an app that is compiled first. */
const COMPILE_MS_MAX = 10_000;

/** Starts an app with an interpreter that compiles until the test allows it to continue, and runs the app in a separate process. */
async function compiling(t, app) {
  const forkful = await sandbox(t);
  const file = (name) => join(forkful.directory, name);
  writeFileSync(file('ts-node'), `#!/bin/sh\n: > begun\nwhile [ ! -e done ]; do sleep 0.05; done\n${nodeBinary(NEWEST)} "$@"\nexit $?\n`, { mode: 0o755 });
  writeFileSync(file('app.ts'), app);
  const startedAt = Date.now();
  const options = ['--name', 'compiled', '--interpreter', file('ts-node'), '--min-uptime', '1ms', '--no-autorestart'];
  const command = forkful.spawn(['start', file('app.ts'), ...options]);
  await waitUntil('the compiler', () => existsSync(file('begun')));
  // A start that does not wait for the app would have returned by now, or soon.
  const [worker] = await waitUntil('the worker', async () => {
    const workers = await forkful.jlist('compiled');
    return workers.length === 1 && workers;
  });
  const hasWaited = () => Date.now() - startedAt < COMPILE_MS_MAX;
  if (hasWaited()) assert.equal(worker.pm2_env.status, 'launching');
  writeFileSync(file('done'), '');
  const outcome = await command.outcome;
  // On such a slow machine the test cannot decide anything.
  if (!hasWaited()) t.diagnostic('the machine was too slow for this test');
  return { outcome, file, inTime: hasWaited() };
}

test('an app that is compiled first is started when it listens', async (t) => {
  const { outcome, file, inTime } = await compiling(t, `
    const server = require('net').createServer().listen(0, () => require('fs').writeFileSync('listening', ''));
  `);
  assert.equal(outcome.code, 0, outcome.stderr);
  if (inTime) await waitUntil('the app', () => existsSync(file('listening')));
});

test('an app that fails after it was compiled is told to have failed', async (t) => {
  const { outcome, inTime } = await compiling(t, 'throw new Error("no such type");');
  if (!inTime) return;
  assert.equal(outcome.code, 1, outcome.stderr);
  assert.match(outcome.stderr, /no such type/);
});
