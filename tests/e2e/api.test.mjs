// The API against `openapi.json`: calls each operation of the real daemon, and validates requests, replies,
// refusals, lines and events.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** Sends and receives messages, reports a metric, and has an action of `@pm2/io`. */
function app({ require, report }) {
  const send = (message) => process.send(message);
  process.on('message', (message) => {
    if (message?.msg === 'double') send({ type: 'axm:reply', data: { return: { got: message.opts }, action_name: 'double' } });
    else report({ heard: message });
  });
  process.stdin.on('data', (text) => report({ read: String(text) }));
  send({ type: 'axm:action', data: { action_name: 'double', action_type: 'custom', arity: 2 } });
  send({ type: 'axm:monitor', data: { Hits: { value: 3, unit: 'req', historic: true } } });
  process.on('SIGUSR2', () => { console.log('a line'); console.error('a fault'); send({ said: 'it' }); });
  setInterval(() => {}, 1000);
  require('http').createServer((_, response) => response.end('ok')).listen(process.env.SOCKET, () => report({ ready: true }));
}

describe('the API is what openapi.json says', () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  /** @type {Contract} */
  let api;
  /** @type {any} */
  let definition;
  before(async () => {
    forkful = await sandbox(null);
    const env = { SOCKET: join(forkful.directory, 'app.sock'), API_TOKEN: 'of nobody' };
    await forkful.start(app, { name: 'api', instances: 1, env, options: ['--listen-timeout', '100s', '--max-memory-restart', '900M', '--cron-restart', '0 3 1 1 *'] });
    api = new Contract(join(forkful.home, 'forkful.sock'));
  });
  after(() => forkful.close());

  const worker = () => forkful.control.seen.findLast(({ gone }) => !gone) ?? assert.fail('there is no worker');
  const ok = async (...request) => {
    const { status, reply } = await api.ask(...request);
    assert.equal(status, '200', JSON.stringify(reply));
    return reply;
  };
  const act = async (verb, more = {}) => {
    const { apps } = await ok('POST', `/v1/actions/${verb}`, { targets: ['api'], ...more });
    for (const outcome of apps) assert.equal(outcome.error, null);
    return apps;
  };

  test('who it is, and what runs', async () => {
    assert.equal((await ok('GET', '/v1/ping')).pid, await forkful.daemonPid());
    const list = await waitUntil('the metric', async () => {
      const found = await ok('GET', '/v1/apps?measure=true');
      return 'Hits' in found.apps[0].workers[0].reports.metrics && found;
    });
    assert.deepEqual(list.apps.map((app) => app.definition.name), ['api']);
    assert.deepEqual((await ok('GET', '/v1/stalls/api')).apps.map(({ app: name, threshold_ms: ms }) => [name, ms]), [['api', 50]]);
    const [row] = (await ok('GET', '/v1/table')).apps;
    assert.deepEqual([row.name, row.workers.map((shown) => shown.pid)], ['api', list.apps[0].workers.map((seen) => seen.pid)]);
    assert.equal((await ok('GET', '/v1/history?app=api&step=1&metrics=memory_bytes')).app, 'api');
    assert.match((await api.ask('GET', '/v1/metrics?app=api&format=prometheus')).text, /^forkful_worker_up\{app="api",worker="0"\} 1\.0$/m);
    ({ definition } = (await ok('GET', '/v1/apps/api')).apps[0]);
    const { env } = (await ok('GET', '/v1/jlist?show_secrets=true'))[0].pm2_env;
    assert.equal(env.API_TOKEN, 'of nobody');
    assert.notEqual((await ok('GET', '/v1/environment/api')).apps.api.API_TOKEN, 'of nobody');
    assert.equal((await ok('GET', '/v1/environment/all?show_secrets=true')).apps.api.API_TOKEN, 'of nobody');
    definition.env = env;
  });

  test('talking with workers', async () => {
    await ok('POST', '/v1/messages', { targets: ['0'], message: { any: ['thing', null] } });
    assert.deepEqual((await worker().reported('heard')).heard, { any: ['thing', null] });
    const { workers: [answer] } = await ok('POST', '/v1/trigger', { targets: ['all'], action: 'double', params: 'x' });
    assert.deepEqual(answer.result, { got: 'x' });
    const { workers: [refused] } = await ok('POST', '/v1/stdin', { targets: ['api'], text: 'a line\n' });
    assert.match(refused.error, /cluster/, 'in cluster mode there is no stdin');
  });

  test('a profile of a worker', async () => {
    const { status, text } = await api.ask('POST', '/v1/profile', { target: '0', kind: 'cpu', for_ms: 1000 });
    assert.equal(status, '200', text);
    assert.ok(JSON.parse(text).nodes.length > 0);
  });

  test('the dashboard', async () => {
    const { url, expires_in_ms: life } = await ok('POST', '/v1/dashboard', { control: false });
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#token=[0-9a-f]{64}$/);
    assert.ok(life > 0);
    assert.equal((await fetch(url)).status, 200);
  });

  test('every action', async () => {
    await act('scale', { instances: 2 });
    await act('reload');
    await act('restart', { changes: [{ name: 'api', definition: { max_memory_bytes: 2 ** 30 }, env: { MORE: '1' }, caller_env: {} }] });
    await act('restart', { definitions: [definition] });
    await act('signal', { signal: 18 });
    await act('flush');
    await act('reload_logs');
    await act('reset');
    await act('stop', { wait: false });
    await waitUntil('the app to rest', async () => (await ok('GET', '/v1/apps')).apps[0].workers.every(({ status }) => status === 'stopped'));
    await act('delete');
    assert.deepEqual((await ok('GET', '/v1/apps')).apps, []);
    const { apps: [started] } = await ok('POST', '/v1/apps', { apps: [definition], wait: true });
    assert.equal(started.error, null);
    const { plan: [keeps] } = await ok('POST', '/v1/apply', { apps: [definition], dry_run: true, code_changed_at_ms: { api: 1 } });
    assert.deepEqual([keeps.name, keeps.change], ['api', 'keep']);
    const { plan: [reloads], apps: [reloaded] } = await ok('POST', '/v1/apply', { apps: [definition] });
    assert.deepEqual([reloads.change, reloaded.ok], ['reload', true]);
  });

  test('lines and events', async () => {
    const { response, keys } = await api.open('GET', '/v1/events?logs=true&messages=true&targets=api');
    const names = new Set();
    const done = (async () => {
      for await (const { name, event } of api.events(keys, response.setEncoding('utf8'))) {
        names.add(event.event ? `${name} ${event.event}` : name);
        if (name === 'daemon:ending') return;
        if (['log:out', 'log:err', 'process:msg', 'process:event restart'].every((wanted) => names.has(wanted))) return;
      }
    })();
    await act('restart');
    await act('signal', { signal: 12 });
    await within('the lines and events', done);
    response.destroy();
    assert.ok(names.has('process:event online') && names.has('process:event exit'), [...names].join());
    await waitUntil('the lines to be written', async () => {
      const { text, keys: place } = await api.ask('GET', '/v1/logs?targets=api&lines=5&stream=out');
      const lines = text.split('\n').filter(Boolean).map((line) => api.line(line, place));
      return lines.some(({ line, stream }) => line.includes('a line') && stream === 'out');
    });
  });

  test('what nobody asked for', async () => {
    const living = async () => (await ok('GET', '/v1/apps')).apps[0].workers.find(({ status, pid }) => status === 'online' && pid);
    const { pid } = await living();
    process.kill(pid, 'SIGKILL');
    const { incidents: [{ id, kind }] } = await waitUntil('the incident', async () => {
      const found = await ok('GET', '/v1/incidents?targets=api&since_ms=1&after=0');
      return found.incidents.length > 0 && found;
    });
    const { end } = await ok('GET', `/v1/incidents/${id}`);
    assert.deepEqual([kind, end.signal, end.pid], ['crash', 'SIGKILL', pid]);
    await waitUntil('another worker', async () => ((await living())?.pid ?? pid) !== pid);
  });

  test('what comes back', async () => {
    const saved = await ok('POST', '/v1/save', { with_env: true });
    assert.deepEqual(saved.apps.map(({ name }) => name), ['api']);
    await act('delete');
    const { apps: [back] } = await ok('POST', '/v1/resurrect', { saved: true, env: {}, wait: true });
    assert.deepEqual([back.name, back.error], ['api', null]);
    assert.ok((await ok('POST', '/v1/cleardump')).removed.includes(saved.path));
  });

  test('another daemon in the place of this one', async () => {
    const { pid } = await ok('GET', '/v1/ping');
    await ok('POST', '/v1/update', { program: binary() });
    await waitUntil('the other daemon', async () => (await forkful.daemonPid()) !== pid);
    assert.deepEqual((await ok('GET', '/v1/apps')).apps.map((app) => app.definition.name), ['api']);
  });

  test('refusals', async () => {
    const refused = async (code, ...request) => {
      const { reply } = await api.ask(...request);
      assert.equal(reply.code, code, JSON.stringify(reply));
    };
    const targets = ['nobody'];
    await refused('bad_request', 'GET', '/v1/apps?no_such=1', undefined, { wrong: true });
    await refused('bad_request', 'GET', '/v1/logs?lines=100001', undefined, { wrong: true });
    await refused('bad_request', 'POST', '/v1/apps', { apps: [], wait: true }, { wrong: true });
    await refused('bad_request', 'POST', '/v1/apps', { apps: [{ ...definition, no_such: 1 }], wait: true }, { wrong: true });
    await refused('bad_request', 'POST', '/v1/actions/dance', { targets }, { wrong: true });
    await refused('bad_request', 'POST', '/v1/trigger', { targets, action: 'x', timeout_ms: 0 }, { wrong: true });
    await refused('bad_request', 'POST', '/v1/profile', { target: '0', kind: 'cpu', for_ms: 999 }, { wrong: true });
    await refused('bad_request', 'POST', '/v1/profile', { target: '0', kind: 'other' }, { wrong: true });
    await refused('no_such_target', 'POST', '/v1/profile', { target: 'nobody', kind: 'heap' });
    await refused('bad_request', 'POST', '/v1/messages', { targets: ['api'], message: { cmd: 'NODE_HANDLE' } });
    await refused('bad_request', 'POST', '/v1/update', { program: 'forkful' });
    await refused('conflict', 'POST', '/v1/update', { program: '/nowhere' });
    await refused('no_such_target', 'GET', '/v1/apps/nobody');
    await refused('no_such_target', 'GET', '/v1/environment/nobody');
    await refused('no_such_target', 'GET', '/v1/stalls/nobody');
    await refused('no_such_target', 'GET', '/v1/incidents?targets=nobody');
    await refused('no_such_target', 'GET', '/v1/incidents/9999999');
    await refused('no_such_target', 'GET', '/v1/logs?targets=nobody');
    await refused('no_such_target', 'POST', '/v1/actions/stop', { targets });
    await refused('no_such_target', 'POST', '/v1/messages', { targets, message: 1 });
    await refused('no_such_target', 'POST', '/v1/resurrect', { saved: true, env: {}, wait: true });
    await refused('conflict', 'POST', '/v1/apps', { apps: [definition], wait: true });
    await act('delete');
    await refused('conflict', 'POST', '/v1/save', {});
  });

  test('the end, and nothing was left out', async () => {
    const { response, keys } = await api.open('GET', '/v1/events');
    const names = [];
    const ended = (async () => {
      for await (const { name } of api.events(keys, response.setEncoding('utf8'))) names.push(name);
    })();
    await ok('POST', '/v1/kill');
    await ended;
    assert.equal(names.at(-1), 'daemon:ending');
    assert.deepEqual([...api.seen].filter((answer) => answer.endsWith(' 200')).sort(), Contract.operations);
  });
});
