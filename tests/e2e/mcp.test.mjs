// `forkful mcp` with the protocol's own client: what can be read, that nothing changes an app without
// --control, and that no answer contains a secret's value.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js';

import { get } from './lib/http.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const SECRET = 'correct-horse-battery-staple';
const READS = ['list_apps', 'describe_app', 'app_logs', 'doctor', 'stalls', 'metrics', 'incidents'];
const CHANGES = ['restart_app', 'reload_app', 'scale_app', 'stop_app'];

/** Writes its secret to its log, blocks its event loop at `/report/…`, and throws an error with its secret at `/crash`. */
function app({ require }) {
  console.log(`connecting with ${process.env.DATABASE_PASSWORD}`);
  function renderReport() {
    const end = performance.now() + 120;
    while (performance.now() < end);
  }
  require('http').createServer((request, response) => {
    if (request.url.startsWith('/report')) renderReport();
    response.end('done');
    if (request.url === '/crash') setImmediate(() => { throw new Error(`no access with ${process.env.DATABASE_PASSWORD}`); });
  }).listen(process.env.SOCKET);
}

/** A client of the protocol, and all its replies. */
async function connect(forkful, args = []) {
  const transport = new StdioClientTransport({ command: binary(), args: ['mcp', ...args], env: forkful.env, cwd: forkful.directory, stderr: 'pipe' });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  // Before the sandbox looks for what is left.
  const { close } = forkful;
  forkful.close = async () => {
    await client.close();
    await close.call(forkful);
  };
  const answers = [];
  const call = async (name, given = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: given });
    const text = content.map((part) => part.text).join('');
    answers.push(text);
    return { text, isError: isError === true };
  };
  return { client, call, answers };
}

async function start(forkful) {
  const socket = join(forkful.directory, 'app.sock');
  await forkful.start(app, { name: 'api', instances: 2, env: { SOCKET: socket, DATABASE_PASSWORD: SECRET } });
  return socket;
}

test('a client reads everything, and no answer has a secret in it', async (t) => {
  const forkful = await sandbox(t);
  const { client, call, answers } = await connect(forkful);
  assert.match((await call('list_apps')).text, /no daemon is running/);
  const socket = await start(forkful);
  assert.equal(client.getServerVersion().name, 'forkful');
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), READS);
  assert.ok((await client.listTools()).tools.every(({ annotations }) => annotations.readOnlyHint === true));
  assert.deepEqual(JSON.parse((await call('list_apps')).text).apps.map(({ name, workers }) => [name, workers.length]), [['api', 2]]);
  assert.ok(JSON.parse((await call('describe_app', { app: 'api' })).text).apps[0].env_names.includes('DATABASE_PASSWORD'));
  const logs = await waitUntil('the line', async () => {
    const { text } = await call('app_logs', { app: 'api', lines: 10, contains: 'connecting' });
    return text.includes('connecting') && text;
  });
  assert.match(logs, /^\[api:\d+ out\] connecting with \[redacted\]$/m);
  await waitUntil('the stall', async () => {
    await get(socket, '/report/1');
    const { apps: [{ groups }] } = JSON.parse((await call('stalls', { app: 'api' })).text);
    return groups.some(({ route }) => route === 'GET /report/:id');
  });
  const metrics = await waitUntil('the metrics', async () => {
    const { apps: [{ workers }] } = JSON.parse((await call('metrics')).text);
    return workers.every((worker) => worker.metrics.heap_used_bytes > 0) && workers;
  });
  assert.equal(metrics.length, 2);
  const of = async (app) => JSON.parse((await call('metrics', { app })).text).apps.map(({ app: name, workers }) => [name, workers.map(({ pm_id: id }) => id)]);
  assert.deepEqual([await of('api'), await of('1')], [[['api', [0, 1]]], [['api', [1]]]]);
  const { apps: [verdict] } = await waitUntil('a second', async () => {
    const reply = JSON.parse((await call('doctor', { app: 'api', seconds: 60 })).text);
    return reply.apps[0].seconds > 0 && reply;
  });
  assert.equal(verdict.app, 'api');
  assert.ok(verdict.headline && verdict.workers.length === 2);
  assert.match((await call('doctor', { app: 'api', ago: 3600 })).text, /the history does not have the 30 s/);
  assert.ok(answers.every((text) => !text.includes(SECRET)), 'a secret was told');
});

test('incidents are listed and read, within bounds and without secrets, also those of a deleted app', async (t) => {
  const forkful = await sandbox(t);
  const socket = await start(forkful);
  const { call, answers } = await connect(forkful);
  const list = async (given) => JSON.parse((await call('incidents', given)).text);
  assert.deepEqual(await list({ app: 'api' }), { incidents: [], left_out: 0 });
  for (const count of [1, 2]) {
    await get(socket, '/crash');
    await waitUntil(`${count} crashes`, async () => (await list({ app: 'api' })).incidents.length === count);
    await waitUntil('the worker again', async () => (await forkful.jlist('api')).every(({ pm2_env: { status } }) => status === 'online'));
  }
  const { incidents: [first, last] } = await list({});
  assert.deepEqual([first.kind, first.app], ['crash', 'api']);
  assert.equal(first.reason, 'uncaught error (exit code 1): Error: no access with [redacted]');
  assert.deepEqual(await list({ limit: 1, since: 3600 }), { incidents: [last], left_out: 1 });
  const whole = JSON.parse((await call('incidents', { id: first.id })).text);
  assert.deepEqual([whole.id, whole.end.exit_code], [first.id, 1]);
  assert.ok(whole.stderr_tail.includes('Error: no access with [redacted]'), JSON.stringify(whole.stderr_tail));
  await forkful.ok(['delete', 'api']);
  assert.deepEqual((await list({ app: 'api' })).incidents, [first, last]);
  await call('incidents', { id: first.id });
  for (const [given, why] of [
    [{ id: 999 }, /999/],
    [{ id: first.id, app: 'api' }, /`id` is for one incident/],
    [{ limit: 0 }, /`limit` must be 1 to 200/],
    [{ limit: 201 }, /`limit` must be 1 to 200/],
    [{ app: 'nobody' }, /nobody/],
    [{ since: -1 }, /the arguments are wrong/],
  ]) {
    const { text, isError } = await call('incidents', given);
    assert.ok(isError && why.test(text), `${JSON.stringify(given)}: ${text}`);
  }
  assert.ok(answers.every((text) => !text.includes(SECRET)), 'a secret was told');
});

test('nothing changes an app without --control', async (t) => {
  const forkful = await sandbox(t);
  await start(forkful);
  const { call } = await connect(forkful);
  const state = async () => (await forkful.jlist('api')).map(({ pid, pm2_env: { status } }) => [pid, status]);
  const before = await state();
  for (const name of CHANGES) {
    const { text, isError } = await call(name, name === 'scale_app' ? { app: 'api', workers: 1 } : { app: 'api' });
    assert.ok(isError && text.includes('--control'), `${name}: ${text}`);
  }
  assert.deepEqual(await state(), before);
});

test('with --control a client restarts, reloads, scales and stops', async (t) => {
  const forkful = await sandbox(t);
  await start(forkful);
  const { client, call } = await connect(forkful, ['--control']);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), [...READS, ...CHANGES]);
  assert.deepEqual(tools.filter(({ annotations }) => annotations.readOnlyHint).map(({ name }) => name), READS);
  const pids = async () => (await forkful.jlist('api')).map(({ pid }) => pid);
  for (const name of ['restart_app', 'reload_app']) {
    const before = await pids();
    assert.equal((await call(name, { app: 'api' })).isError, false);
    assert.ok((await pids()).every((pid) => pid > 0 && !before.includes(pid)), name);
  }
  assert.equal((await call('scale_app', { app: 'api', workers: 1 })).isError, false);
  assert.equal((await pids()).length, 1);
  assert.equal((await call('stop_app', { app: 'api' })).isError, false);
  assert.deepEqual((await forkful.jlist('api')).map(({ pm2_env: { status } }) => status), ['stopped']);
});

test('what makes no sense is refused with the reason', async (t) => {
  const forkful = await sandbox(t);
  await start(forkful);
  const { client, call } = await connect(forkful, ['--control']);
  for (const [name, given, why] of [
    ['describe_app', { app: 'nobody' }, /no app `nobody`/],
    // Other targets that a command takes: all apps, a pattern, a namespace.
    ...['stop_app', 'restart_app', 'app_logs', 'doctor'].flatMap((tool) => ['all', '/./', 'default', 'a*'].map((app) => [tool, { app }, /`app` is the name of one app or the id of one worker/])),
    ['scale_app', { app: 'all', workers: 1 }, /there is no app `all`/],
    ['describe_app', {}, /missing field `app`/],
    ['describe_app', { app: 'api', more: 1 }, /unknown field `more`/],
    ['app_logs', { app: 'api', lines: 0 }, /`lines` must be 1 to 1000/],
    ['app_logs', { app: 'x'.repeat(300) }, /1 to 256/],
    ['scale_app', { app: 'api', workers: 'many' }, /invalid type/],
    ['lab_reports', {}, /--reports/],
  ]) {
    const { text, isError } = await call(name, given);
    assert.ok(isError && why.test(text), `${name} ${JSON.stringify(given)}: ${text}`);
  }
  await assert.rejects(client.callTool({ name: 'kill', arguments: {} }), /no such tool/);
  await assert.rejects(client.request({ method: 'tools/call' }, EmptyResultSchema), { code: -32602 });
  await assert.rejects(client.request({ method: 'tools/none' }, EmptyResultSchema), { code: -32601 });
  assert.equal((await forkful.jlist('api')).length, 2);
});

test('an answer has its bound, and reports are files of their folder alone', async (t) => {
  const forkful = await sandbox(t);
  const folder = join(forkful.directory, 'results');
  mkdirSync(folder);
  writeFileSync(join(folder, 'small.json'), '{"requests": 3}');
  writeFileSync(join(folder, 'large.json'), JSON.stringify({ text: 'x'.repeat(200_000) }));
  writeFileSync(join(forkful.directory, 'outside.json'), '{"secret": 1}');
  symlinkSync('../outside.json', join(folder, 'link.json'));
  const { call } = await connect(forkful, ['--reports', folder]);
  assert.deepEqual(JSON.parse((await call('lab_reports')).text).reports, ['large.json', 'small.json']);
  assert.deepEqual(JSON.parse((await call('lab_reports', { name: 'small.json' })).text), { requests: 3 });
  const { text } = await call('lab_reports', { name: 'large.json' });
  assert.ok(text.length < 70_000 && /cut here: \d+ of \d+ bytes/.test(text), text.slice(-200));
  for (const name of ['link.json', '../outside.json', '/etc/passwd', '']) {
    const { text: why, isError } = await call('lab_reports', { name });
    assert.ok(isError && why.startsWith('there is no report'), why);
  }
});
