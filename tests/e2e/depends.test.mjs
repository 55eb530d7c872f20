// Dependencies between apps: an app is started when its dependencies are ready, stopped before them, and not
// started if one of them fails; also after a reboot.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { FAILED, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Reports its start, is ready when a file exists, and reports its end. */
function member({ require }) {
  const fs = require('fs');
  const note = (what) => fs.appendFileSync(process.env.NOTES, `${process.env.NAME} ${what}\n`);
  note('begins');
  process.on('SIGINT', () => { note('ends'); process.exit(0); });
  const waiting = setInterval(() => {
    if (fs.existsSync(`${process.env.NOTES}.${process.env.NAME}.broken`)) process.exit(3);
    if (!fs.existsSync(`${process.env.NOTES}.${process.env.NAME}.ready`)) return;
    clearInterval(waiting);
    note('is ready');
    process.send('ready');
    setInterval(() => {}, 1000);
  }, 10);
}

async function prepare(t, needs) {
  const forkful = await sandbox(t);
  const notes = join(forkful.directory, 'notes');
  const script = forkful.script(member);
  const apps = Object.entries(needs).map(([name, depends]) => ({
    name, script, interpreter: nodeBinary(NEWEST), exec_mode: 'fork', wait_ready: true, listen_timeout: '100s', depends_on: depends, max_restarts: 2, restart_delay: 10, env: { NAME: name, NOTES: notes },
  }));
  const file = join(forkful.directory, 'forkful.config.json');
  writeFileSync(file, JSON.stringify({ apps }));
  return {
    forkful,
    file,
    notes: () => (existsSync(notes) ? readFileSync(notes, 'utf8').trim().split('\n') : []),
    forget: () => rmSync(notes, { force: true }),
    let: (name, what = 'ready') => writeFileSync(`${notes}.${name}.${what}`, ''),
    status: async () => Object.fromEntries((await forkful.jlist()).map((worker) => [worker.name, worker.pm2_env.status])),
  };
}

test('each is started when what it needs is ready, and stopped before that', async (t) => {
  const app = await prepare(t, { web: ['api'], api: ['db', 'cache'], db: [], cache: [] });
  const { forkful } = app;
  const starting = forkful.spawn(['start', app.file]);
  await waitUntil('the first ones', () => app.notes().length === 2);
  assert.deepEqual(app.notes().sort(), ['cache begins', 'db begins']);
  app.let('db');
  await waitUntil('one to be ready', () => app.notes().includes('db is ready'));
  // That alone proves nothing; a list is an answer of the daemon that is later than any start.
  await waitUntil('db to be online', async () => (await app.status()).db === 'online');
  assert.equal(app.notes().includes('api begins'), false);
  app.let('cache');
  await waitUntil('the next one', () => app.notes().includes('api begins'));
  assert.equal(app.notes().includes('web begins'), false);
  app.let('api');
  app.let('web');
  const { code, stdout, stderr } = await starting.outcome;
  assert.equal(code, 0, stderr);
  for (const name of ['web', 'api', 'db', 'cache']) assert.match(stdout, new RegExp(`${name} started`));
  const order = app.notes().filter((note) => note.endsWith('begins'));
  assert.deepEqual(order.slice(2), ['api begins', 'web begins']);

  app.forget();
  await forkful.ok(['stop', 'all']);
  const ends = app.notes();
  assert.deepEqual(ends.slice(0, 2), ['web ends', 'api ends']);
  assert.equal(ends.length, 4);

  app.forget();
  await forkful.ok(['restart', 'all']);
  assert.deepEqual(app.notes().filter((note) => note.endsWith('begins')).slice(2), ['api begins', 'web begins']);
  app.forget();
  await forkful.killDaemon();
  await forkful.ok(['resurrect']);
  const again = app.notes();
  assert.deepEqual(again.filter((note) => note.endsWith('begins')).slice(2), ['api begins', 'web begins']);
  assert.ok(again.indexOf('db is ready') < again.indexOf('api begins'));
  assert.deepEqual(new Set(Object.values(await app.status())), new Set(['online']));
});

test('what needs an app that fails is not started, and the reason is said', async (t) => {
  const app = await prepare(t, { web: ['api'], api: ['db'], db: [], other: [] });
  for (const name of ['web', 'api', 'other']) app.let(name);
  app.let('db', 'broken');
  const { code, stderr } = await app.forkful.fails(['start', app.file]);
  assert.equal(code, FAILED);
  assert.match(stderr, /api: .*not started: it depends on `db`, which does not run/);
  assert.match(stderr, /web: .*not started: it depends on `api`, which does not run/);
  await waitUntil('the end', async () => (await app.status()).db === 'errored');
  const { web, api, other } = await app.status();
  assert.deepEqual({ web, api, other }, { web: 'stopped', api: 'stopped', other: 'online' });
  assert.equal(app.notes().some((note) => /^(web|api) begins/.test(note)), false);
});

test('circles and apps that are not there are refused before anything is started', async (t) => {
  const app = await prepare(t, { web: ['api'], api: ['web'] });
  const circle = await app.forkful.fails(['start', app.file]);
  assert.match(circle.stderr, /web.*api|api.*web/);
  const missing = await prepare(t, { web: ['nobody'] });
  const { stderr } = await missing.forkful.fails(['start', missing.file]);
  assert.match(stderr, /`web` depends on `nobody`, and there is no such app/);
  assert.deepEqual(app.notes(), []);
  assert.deepEqual(missing.notes(), []);
});
