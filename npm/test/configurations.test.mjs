// Configurations in the package's functions, which read them as the command does.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from '../forkful/index.mjs';

import { binary, sandbox } from './lib/sandbox.mjs';

const APP = new URL('./fixtures/app.js', import.meta.url).pathname;

/** A client of a sandbox's daemon. */
function clientOf(t) {
  const { home, ...box } = sandbox(t);
  const warnings = [];
  const client = new Client({ home, binary: binary(), onWarning: (text) => warnings.push(text) });
  return { ...box, client, warnings };
}

/** A configuration in JavaScript with an app for each of these names, which does not listen. */
function configOf(write, ...names) {
  const script = write('idle.cjs', 'setInterval(() => {}, 1000);');
  const apps = names.map((name) => ({ name, script, port: 3000, kill_timeout: 3000 }));
  return write('forkful.config.cjs', `module.exports = ${JSON.stringify({ apps })}`);
}

test('options of a call win over the keys of a configuration file', async (t) => {
  const { client, write } = clientOf(t);
  const file = configOf(write, 'api');
  const seen = async () => {
    const [{ definition: { kill_timeout_ms: timeout }, workers }] = await client.list();
    return [timeout, workers.length, (await client.environment('api')).api.PORT];
  };
  await client.start(file, { instances: 2, exec_mode: 'fork' });
  assert.deepEqual(await seen(), [3000, 2, '3000']);
  await client.reload(file, { kill_timeout: '4s', env: { PORT: 4000 } });
  assert.deepEqual(await seen(), [4000, 1, '4000']);
  await client.restart(file, { kill_timeout: '5s' });
  assert.deepEqual(await seen(), [5000, 1, '3000']);
  await assert.rejects(client.start(file, { kill_timeout: 'soon' }), { code: 'BAD_REQUEST', message: /kill_timeout is "soon"/ });
});

test('the names of chosen apps may contain commas and blanks', async (t) => {
  const { client, write } = clientOf(t);
  const file = configOf(write, 'a, b', 'a', 'b');
  await client.start(file, { only: 'a, b' });
  assert.deepEqual((await client.list()).map(({ definition }) => definition.name), ['a, b']);
  await client.start(file, { only: ['a', 'b'] });
  assert.equal((await client.list()).length, 3);
});

test('numbers that JSON does not have are refused, and patterns keep their flags', async (t) => {
  const { client } = clientOf(t);
  for (const number of [NaN, Infinity]) {
    await assert.rejects(client.start({ script: APP, max_restarts: number }), { code: 'BAD_REQUEST', message: new RegExp(`max_restarts is "${number}"`) });
  }
  const [{ watch }] = await client.definitions({ script: APP, watch: true, ignore_watch: [/UPLOADS/gi, /\.tmp$/] });
  assert.deepEqual(watch.ignore.filter(({ regex }) => regex), [{ regex: '(?i)UPLOADS' }, { regex: '\\.tmp$' }]);
});

test('apps of the last daemon that are not started are named', async (t) => {
  const { client, warnings } = clientOf(t);
  await client.start([{ script: APP, name: 'first' }, { script: APP, name: 'second' }]);
  await client.kill();
  const dry = await client.apply({ script: APP, name: 'third' }, { dryRun: true });
  assert.deepEqual(dry, { plan: [{ name: 'third', change: 'start', notes: [] }], apps: [], undone: [] });
  await assert.rejects(client.apply({ script: APP, depends_on: 'nobody' }, { dryRun: true }), { code: 'BAD_REQUEST', message: /depends on `nobody`/ });
  assert.deepEqual([await client.ping(), warnings], [null, []]);
  await client.start({ script: APP, name: 'second' });
  const [told] = warnings;
  assert.match(told, /^apps of the last daemon that are not started: first; `forkful resurrect`/);
  assert.equal(warnings.length, 1);
});

test('a command line of any length is listed', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api' });
  await client.start({ script: `/bin/sh -c 'exec sleep 1000' ${'long'.repeat(100)}/x`, name: 'line' });
  assert.deepEqual((await client.jlist()).map(({ name, pm2_env: { version } }) => [name, version]), [['api', '1.2.3'], ['line', 'N/A']]);
});
