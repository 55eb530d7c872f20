// The package's functions against the real binary.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Client, ForkfulError, connect } from '../forkful/index.mjs';
import * as forkful from '../forkful/index.mjs';

import { binary, build, loseDaemon, sandbox, waitUntil, within } from './lib/sandbox.mjs';

const APP = new URL('./fixtures/app.js', import.meta.url).pathname;
const METRICS = new URL('./fixtures/metrics.cjs', import.meta.url).pathname;

/** A client of a sandbox's daemon. */
function clientOf(t) {
  const { home, ...box } = sandbox(t);
  const warnings = [];
  const client = new Client({ home, binary: binary(), onWarning: (text) => warnings.push(text) });
  return { ...box, home, client, warnings };
}

/** Reads events until one matches; returns all events. */
async function eventsUntil(stream, isLast) {
  const seen = [];
  await within('the event', (async () => {
    for (;;) {
      const { done, value } = await stream.next();
      if (done) throw new Error(`the stream ended after ${JSON.stringify(seen)}`);
      seen.push(value);
      if (isLast(value)) return;
    }
  })());
  return seen;
}

test('without a daemon there is nothing, and nothing is started', async (t) => {
  const { client, home } = clientOf(t);
  assert.equal(await client.ping(), null);
  assert.deepEqual(await client.list(), []);
  assert.deepEqual(await client.jlist(), []);
  assert.deepEqual(await client.incidents(), []);
  assert.deepEqual(await client.kill(), []);
  await assert.rejects(client.incident(1), { name: 'ForkfulError' });
  await assert.rejects(client.stop('api'), { name: 'ForkfulError', code: 'NO_SUCH_TARGET' });
  await assert.rejects(connect({ home, start: false }), { code: 'NO_DAEMON' });
  await assert.rejects(client.events().ready, { code: 'NO_DAEMON' });
  await assert.rejects(client.events().next(), { code: 'NO_DAEMON' });
  await assert.rejects(client.startText('no-such-file', {}), { code: 'BAD_REQUEST', message: /no-such-file/ });
  await assert.rejects(client.startText('./no-such-file.js', {}), { code: 'BAD_REQUEST', message: /no-such-file/ });
  await assert.rejects(client.startText('7', {}), { code: 'NO_SUCH_TARGET', message: /7/ });
  await assert.rejects(client.startText('nobody', {}, { isScript: false }), { code: 'NO_SUCH_TARGET', message: /nobody/ });
  assert.equal(await client.ping(), null);
});

test('incidents are told with and without a daemon', async (t) => {
  const { client } = clientOf(t);
  await client.start(APP, { name: 'api', instances: 1 });
  const { workers: [{ pid }] } = (await client.list())[0];
  process.kill(pid, 'SIGKILL');
  const told = async () => (await client.incidents({ targets: 'api' }))[0];
  const incident = await waitUntil('the incident', told);
  assert.deepEqual([incident.kind, incident.app, incident.pm_id], ['crash', 'api', 0]);
  const whole = await client.incident(incident.id);
  assert.deepEqual([whole.end.signal, whole.end.pid, whole.reason], ['SIGKILL', pid, incident.reason]);
  assert.deepEqual(await client.incidents({ after: incident.id }), []);
  assert.deepEqual(await client.incidents({ sinceMs: incident.at_ms + 1 }), []);
  await client.kill();
  assert.deepEqual(await client.incidents({ targets: ['api'] }), [incident]);
  assert.deepEqual(await client.incident(incident.id), whole);
  assert.deepEqual(await client.incidents({ after: incident.id }), []);
  assert.equal(await client.ping(), null);
});

test('a home that another user owns or may write to is refused', async (t) => {
  const { client, home } = clientOf(t);
  mkdirSync(home, { recursive: true });
  chmodSync(home, 0o777);
  await assert.rejects(client.list(), { name: 'ForkfulError', code: 'FOREIGN_HOME', hint: `\`chmod 700 ${home}\`` });
  await assert.rejects(client.stop('api'), { code: 'FOREIGN_HOME' });
  chmodSync(home, 0o700);
  assert.equal(await client.ping(), null);
  if (process.geteuid() !== 0) return;
  chownSync(home, 65534, 65534);
  await assert.rejects(client.ping(), { code: 'FOREIGN_HOME', message: /belongs to user id 65534, not to yours, 0/ });
  chownSync(home, 0, 0);
});

test('the functions of the module speak with the daemon of the environment', async (t) => {
  const { env } = sandbox(t);
  const before = { ...process.env };
  t.after(() => { process.env = before; });
  process.env = { ...before, FORKFUL_HOME: env.FORKFUL_HOME, FORKFUL_BIN: binary() };
  const outcomes = await forkful.start(APP, { name: 'api', instances: 2 });
  assert.deepEqual(outcomes.map(({ name, ok, pm_ids }) => ({ name, ok, pm_ids: pm_ids.sort() })), [{ name: 'api', ok: true, pm_ids: [0, 1] }]);
  assert.equal((await forkful.list())[0].workers.length, 2);
  assert.equal((await forkful.describe('api'))[0].definition.mode, 'cluster');
  assert.equal((await forkful.ping()).pid > 0, true);
  await forkful.scale('api', '+1');
  await forkful.scale('api', 2);
  await forkful.stop(1);
  assert.deepEqual((await forkful.list())[0].workers.map(({ status }) => status), ['online', 'stopped']);
  await forkful.restart('api');
  await forkful.reload('api');
  await forkful.reset('api');
  await forkful.flush('api');
  assert.deepEqual((await forkful.list())[0].workers.map(({ status, restarts }) => [status, restarts]), [['online', 0], ['online', 0]]);
  await forkful.remove('api');
  await forkful.kill();
  assert.equal(await forkful.ping(), null);
});

test('an app is a script, an object, several, or a configuration file', async (t) => {
  const { client, write, directory } = clientOf(t);
  write('one/forkful.config.cjs', `module.exports = { apps: [{ name: 'file', script: ${JSON.stringify(APP)}, env_production: { MODE: 'production' } }, { name: 'left-out', script: ${JSON.stringify(APP)} }] }`);
  await client.start({ script: APP, name: 'object', env: { ANSWER: 42 } });
  await client.start([{ script: APP, name: 'first' }, { script: APP, name: 'second' }]);
  await client.start({ apps: [{ script: 'fixtures/app.js', name: 'relative' }] }, { cwd: new URL('.', import.meta.url).pathname });
  await client.start('one/forkful.config.cjs', { cwd: directory, envName: 'production', only: 'file' });
  assert.deepEqual((await client.list()).map((app) => app.definition.name).sort(), ['file', 'first', 'object', 'relative', 'second']);
  assert.equal((await client.environment('object')).object.ANSWER, '42');
  assert.equal((await client.environment('file')).file.MODE, 'production');
  // As for the command, the name of a configuration file means that file, also where an app has this name.
  await client.start({ script: APP, name: 'one/forkful.config.cjs' });
  const outcomes = await client.restart('one/forkful.config.cjs', { cwd: directory });
  assert.deepEqual(outcomes.map(({ name, started }) => [name, started ?? false]).sort(), [['file', false], ['left-out', true]]);
  await assert.rejects(client.restart('one/none.js', { cwd: directory }), { code: 'NO_SUCH_TARGET' });
});

test('what is wrong is an error that says so', async (t) => {
  const { client, warnings } = clientOf(t);
  await assert.rejects(client.start({ script: APP, max_restarts: 'many' }), (error) => {
    assert.ok(error instanceof ForkfulError);
    assert.equal(error.code, 'BAD_REQUEST');
    assert.match(error.message, /max_restarts/);
    assert.match(error.message, /many/);
    return true;
  });
  await assert.rejects(client.start('no-such-file.js'), { code: 'BAD_REQUEST', message: /no-such-file\.js/ });
  await assert.rejects(client.start(17), { code: 'BAD_REQUEST' });
  await client.start({ script: APP, name: 'api', instance: 3 });
  assert.match(warnings.join('\n'), /instance.*did you mean `instances`/);
  await assert.rejects(client.start({ script: APP, name: 'api' }), { code: 'CONFLICT', message: /api/ });
  await assert.rejects(client.stop('nobody'), { code: 'NO_SUCH_TARGET', message: /nobody/ });
  await assert.rejects(client.signal('api', 'SIGNONE'), { code: 'BAD_REQUEST' });
  await assert.rejects(client.scale('api', 'few'), { code: 'BAD_REQUEST' });
  await assert.rejects(client.stop(undefined), { code: 'BAD_REQUEST' });
  await assert.rejects(client.restart(undefined), { code: 'BAD_REQUEST', message: 'no target' });
  await assert.rejects(client.reload(null, { updateEnv: true }), { code: 'BAD_REQUEST', message: 'no target' });
});

test('what JSON cannot represent is refused by the name of its place', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', instances: 1 });
  const circle = { name: 'circle' };
  circle.self = circle;
  const refused = (message) => ({ name: 'ForkfulError', code: 'BAD_REQUEST', message });
  await assert.rejects(client.send('api', { a: 10n }), refused('the message cannot be written as JSON: Do not know how to serialize a BigInt'));
  await assert.rejects(client.send('api', circle), refused('the message cannot be written as JSON: Converting circular structure to JSON'));
  await assert.rejects(client.send('api', undefined), refused('a message is a value that JSON has, not undefined'));
  await assert.rejects(client.trigger('api', 'clear', 1n), refused(/^what the action is given cannot be written as JSON: /));
  await assert.rejects(client.start({ script: APP, name: 'new', env: { A: '1', BIG: 10n } }), refused(/^new: `env\.BIG` cannot be written as JSON: /));
  await assert.rejects(client.start(APP, { name: 'new', env: circle }), refused(/^new: `env\.self` cannot be written as JSON: /));
  await assert.rejects(client.startText(APP, { name: 'new', port: 1n }), refused(/^new: `port` cannot be written as JSON: /));
  await assert.rejects(client.restart('api', { port: 1n }), refused(/^`port` cannot be written as JSON: /));
});

test('an older daemon that does not know a request is told with the hint of the command', async (t) => {
  const { client, home } = clientOf(t);
  mkdirSync(home, { recursive: true });
  const ping = { version: '0.0.1', api: 1, pid: process.pid, keeper: null, started_at_ms: 0, portable: false };
  const server = createHttpServer((request, response) => {
    request.resume();
    const isPing = request.url === '/v1/ping';
    response.writeHead(isPing ? 200 : 400, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isPing ? ping : { code: 'bad_request', error: 'unknown field', hint: null }));
  }).listen(join(home, 'forkful.sock'));
  await once(server, 'listening');
  await assert.rejects(client.start(APP, { name: 'api' }), (error) => {
    assert.deepEqual([error.code, error.message], ['BAD_REQUEST', 'unknown field']);
    assert.match(error.hint, /daemon is version 0\.0\.1.*`forkful update`/);
    return true;
  }).finally(() => {
    // Before the end of the test asks a daemon to end.
    server.closeAllConnections();
    server.close();
  });
});

test('an app that does not start is a failure with its outcome', async (t) => {
  const { client, write } = clientOf(t);
  const script = write('broken.cjs', `console.error('it is broken'); process.exit(3);`);
  await assert.rejects(client.start({ script, name: 'broken', max_restarts: 1, min_uptime: 5000 }), (error) => {
    assert.equal(error.code, 'FAILED');
    assert.equal(error.outcomes[0].ok, false);
    assert.deepEqual(error.outcomes[0].stderr_tail, ['it is broken']);
    return true;
  });
  assert.notEqual((await client.list())[0].workers[0].status, 'online');
});

test('a stopped app starts again by the same call, with what is said of it now', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', env: { STEP: 1 } });
  await client.stop('api');
  await client.start({ script: APP, name: 'api', env: { STEP: 2 } });
  assert.equal((await client.environment('api')).api.STEP, '2');
  await client.reload({ script: APP, name: 'api', env: { STEP: 3 }, instances: 2 });
  assert.equal((await client.environment('api')).api.STEP, '3');
  await client.restart([{ script: APP, name: 'api', env: { STEP: 4 }, instances: 3 }, { script: APP, name: 'new' }]);
  const apps = await client.list();
  assert.deepEqual(apps.map((app) => [app.definition.name, app.workers.length]), [['api', 3], ['new', 1]]);
});

test('apply makes the apps what a configuration says, or undoes all of it', async (t) => {
  const { client, write, directory } = clientOf(t);
  // A folder beside the home, whose files change while apps start: everything in an app's directory counts as its code.
  const cwd = join(directory, 'app');
  write('app/forkful.config.json', JSON.stringify({ apps: [{ script: APP, name: 'api' }, { script: APP, name: 'old' }] }));
  const planned = ({ plan }) => plan.map(({ name, change }) => `${change} ${name}`);
  const first = await client.apply('forkful.config.json', { cwd });
  assert.deepEqual([planned(first), first.apps.map(({ name, ok }) => [name, ok])], [['start api', 'start old'], [['api', true], ['old', true]]]);
  assert.deepEqual(planned(await client.apply('forkful.config.json', { cwd })), ['keep api', 'keep old'], 'nothing has changed');

  const next = [{ script: APP, name: 'api', env: { STEP: 2 } }, { script: APP, name: 'new' }];
  const dry = await client.apply(next, { prune: true, dryRun: true });
  assert.deepEqual([planned(dry), dry.apps], [['start new', 'reload api', 'delete old'], []]);
  assert.deepEqual((await client.list()).map((app) => app.definition.name), ['api', 'old']);
  await client.apply({ apps: next }, { prune: true });
  assert.deepEqual((await client.list()).map((app) => app.definition.name), ['api', 'new']);
  assert.equal((await client.environment('api')).api.STEP, '2');

  const broken = write('broken.cjs', 'process.exit(3);');
  const faulty = [{ script: APP, name: 'more' }, { script: broken, name: 'api', max_restarts: 0 }];
  await assert.rejects(client.apply(faulty), (error) => {
    assert.equal(error.code, 'FAILED');
    assert.match(error.message, /^api: /);
    assert.deepEqual(error.outcomes.map(({ name, ok }) => [name, ok]), [['more', true], ['api', false]]);
    assert.ok(error.undone.some(({ name, ok }) => name === 'more' && ok));
    return true;
  });
  assert.deepEqual((await client.list()).map((app) => app.definition.name), ['api', 'new']);
  assert.equal((await client.environment('api')).api.STEP, '2');
  await assert.rejects(client.apply([{ script: APP, name: 'api', depends_on: ['nobody'] }]), { code: 'BAD_REQUEST', message: /depends on `nobody`/ });
});

test('a restart or reload by name changes what is said and leaves the rest', async (t) => {
  const { client, warnings } = clientOf(t);
  await client.start({ script: APP, name: 'api', env: { STEP: 1, LEFT: 'yes' }, kill_timeout: 9000 });
  await client.start({ script: APP, name: 'other' });
  await client.reload('api', { max_memory_restart: '200M', node_args: ['--no-warnings'], env: { STEP: 2 }, instances: 2 });
  const [{ definition, workers }] = await client.describe('api');
  assert.deepEqual([definition.max_memory_bytes, definition.program_args, definition.kill_timeout_ms, workers.length], [200 * 1024 ** 2, ['--no-warnings'], 9000, 2]);
  const { api } = await client.environment('api');
  assert.deepEqual([api.STEP, api.LEFT], ['2', 'yes']);
  // The second is the command's own.
  Object.assign(process.env, { OF_THE_CALLER: 'here', FORKFUL_DEPLOYMENT: 'v2' });
  t.after(() => { for (const name of ['OF_THE_CALLER', 'FORKFUL_DEPLOYMENT']) delete process.env[name]; });
  await client.restart('api', { maxRestarts: 3 });
  assert.equal((await client.environment('api')).api.OF_THE_CALLER, undefined);
  await client.restart(['api', 'other'], { updateEnv: true, log_rotate: { max_size: '5M' } });
  const both = await client.environment('all');
  assert.deepEqual([both.api, both.other].map((env) => [env.OF_THE_CALLER, env.FORKFUL_DEPLOYMENT]), [['here', undefined], ['here', undefined]]);
  const apps = await client.list();
  assert.deepEqual(apps.map((app) => [app.definition.max_restarts, app.definition.log_rotate.max_size_bytes]), [[3, 5 * 1024 ** 2], [apps[1].definition.max_restarts, 5 * 1024 ** 2]]);
  await client.restart('api', { name: 'web', port: 4000 });
  assert.equal((await client.environment('web')).web.PORT, '4000');
  assert.deepEqual(warnings, []);
  await assert.rejects(client.restart('web', { script: 'other.js' }), { code: 'BAD_REQUEST', message: /script cannot be changed/ });
  await assert.rejects(client.restart('web', { max_restarts: 'many' }), { code: 'BAD_REQUEST', message: /max_restarts.*many/ });
  await assert.rejects(client.restart('all', { name: 'one' }), { code: 'BAD_REQUEST', message: /2 apps the same name/ });
  await assert.rejects(client.restart('nobody', { time: true }), { code: 'NO_SUCH_TARGET' });
});

test('a block of the configuration is chosen by the name of the app', async (t) => {
  const { client, warnings } = clientOf(t);
  await client.start([{ script: APP, name: 'api', env: { STEP: 'usual' }, env_production: { STEP: 'production' } }, { script: APP, name: 'other', env_staging: { STEP: 'staging' } }, { script: APP, name: 'bare' }]);
  assert.equal((await client.environment('api')).api.STEP, 'usual');
  await client.reload('all', { envName: 'production' });
  assert.equal((await client.environment('api')).api.STEP, 'production');
  await client.restart('api', { envName: 'prodution' });
  assert.deepEqual(warnings, [
    'other has no `env_production` (there is env_staging): it keeps its environment',
    'bare has no `env_production`: it keeps its environment',
    'api has no `env_prodution` (there is env_production): it keeps its environment',
  ]);
});

test('jlist lists the workers of a target', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', instances: 2 });
  await client.start({ script: APP, name: 'web', namespace: 'front' });
  const ids = async (target) => (await client.jlist({ target })).map(({ pm_id: id }) => id);
  assert.deepEqual([await ids('api'), await ids(1), await ids('front'), await ids('/^(api|web)$/'), await ids(APP)], [[0, 1], [1], [2], [0, 1, 2], [0, 1, 2]]);
  await assert.rejects(ids('other'), { code: 'NO_SUCH_TARGET' });
});

test('secrets are redacted, unless they are asked for', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', args: ['--token', 'hunter2', '--level=3'], env: { DB_PASSWORD: 'hunter2', LINK: 'postgres://u:hunter2@h/d', PLAIN: 'yes', NODE_ENV: 'test' } });
  const hidden = await client.jlist();
  assert.doesNotMatch(JSON.stringify(hidden), /hunter2/);
  assert.equal(hidden[0].pm2_env.env.PLAIN, 'yes');
  assert.equal(hidden[0].pm2_env.NODE_ENV, 'test');
  assert.doesNotMatch(JSON.stringify(await client.environment('api')), /hunter2/);
  const shown = await client.jlist({ showSecrets: true });
  assert.equal(shown[0].pm2_env.env.DB_PASSWORD, 'hunter2');
  assert.deepEqual([hidden, shown].map(([{ pm2_env: { args } }]) => args), [['--token', '[redacted]', '--level=3'], ['--token', 'hunter2', '--level=3']]);
  assert.equal((await client.environment(0, { showSecrets: true })).api.LINK, 'postgres://u:hunter2@h/d');
  assert.doesNotMatch(await client.command(['jlist']), /hunter2/);
  assert.match(await client.command(['jlist', '--show-env']), /hunter2/);
  assert.match(await client.command(['prettylist']), /DB_PASSWORD: '\[redacted\]'/);
});

test('events tell the steps of a life, lines and messages, also of apps that come later', async (t) => {
  const { client } = clientOf(t);
  await client.connect();
  const stream = client.events({ targets: 'api', logs: true, messages: true });
  await stream.ready;
  await client.start({ script: APP, name: 'other' });
  await client.start({ script: APP, name: 'api', instances: 1 });
  await client.send('api', { topic: 'plain', data: 'x\ny' });
  const first = await eventsUntil(stream, (event) => event.type === 'process:msg' && event.message?.plain === 'x\ny');
  assert.ok(first.every((event) => event.app === 'api'));
  const steps = (events) => events.filter(({ type }) => type === 'process:event').map(({ event, manually }) => [event, manually]);
  assert.deepEqual(steps(first), [['online', false], ['start', true]]);
  // Lines and messages come by different ways, and on a busy machine the app listens after its start has ended.
  for (const line of ['got {', 'listening']) {
    const isLine = (event) => event.type === 'log:out' && event.line.startsWith(line);
    if (!first.some(isLine)) first.push(...await eventsUntil(stream, isLine));
  }

  await client.send('api', { topic: 'exit', data: { code: 7 } });
  const crash = await eventsUntil(stream, (event) => event.event === 'online');
  assert.deepEqual(steps(crash), [['exit', false], ['online', false]]);
  assert.equal(crash.find((event) => event.event === 'exit').process.exit_code, 7);

  await client.reload('api');
  assert.deepEqual(steps(await eventsUntil(stream, (event) => event.event === 'reload')), [['online', false], ['reload', true]]);
  await client.restart('api');
  assert.deepEqual(steps(await eventsUntil(stream, (event) => event.event === 'restart')), [['exit', true], ['online', false], ['restart', true]]);
  await client.delete('api');
  assert.deepEqual(steps(await eventsUntil(stream, (event) => event.event === 'delete')), [['exit', true], ['delete', true]]);
  await client.kill();
  await eventsUntil(stream, (event) => event.type === 'daemon:ending');
  assert.equal((await stream.next()).done, true);
});

test('events go on with the daemon that takes over after an update and after a crash; a lost daemon is an error', async (t) => {
  const { client, env, directory } = clientOf(t);
  await client.start({ script: APP, name: 'api', instances: 1 });
  const stream = client.events({ targets: 'api' });
  await stream.ready;
  /** Waits for an event of the daemon with another pid; returns that pid. */
  const followed = async (earlier) => {
    const pid = await waitUntil('the next daemon', async () => {
      const found = (await client.ping().catch(() => null))?.pid;
      return found !== earlier && found;
    });
    let isFound = false;
    const found = eventsUntil(stream, ({ event }) => event === 'reload').finally(() => { isFound = true; });
    // The stream may miss what happens before it is connected.
    const reloads = waitUntil('an event of the next daemon', async () => {
      await client.reload('api');
      return isFound;
    });
    assert.ok((await found).every(({ type }) => type === 'process:event'));
    await reloads;
    return pid;
  };
  const { pid: first } = await client.ping();
  const next = build(directory);
  execFileSync(next, ['update'], { env, stdio: 'ignore' });
  const second = await followed(first);
  process.kill(second, 'SIGKILL');
  await followed(second);

  const lost = assert.rejects(eventsUntil(stream, () => false), { name: 'ForkfulError', code: 'NO_DAEMON', message: /ended unexpectedly/ });
  await loseDaemon(env);
  await lost;
  assert.equal((await stream.next()).done, true);
});

test('a stream that has gone on with the next daemon ends when its signal aborts', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', instances: 1 });
  const controller = new AbortController();
  const stream = client.events({ targets: 'api', signal: controller.signal });
  await stream.ready;
  const { pid: first } = await client.ping();
  process.kill(first, 'SIGKILL');
  const next = eventsUntil(stream, ({ event }) => event === 'reload');
  let isFound = false;
  next.finally(() => { isFound = true; });
  await waitUntil('an event of the next daemon', async () => {
    await client.reload('api').catch(() => {});
    return isFound;
  });
  // The reload may have told more.
  const rest = assert.rejects(eventsUntil(stream, () => false), /the stream ended/);
  controller.abort();
  await rest;
  assert.equal((await stream.next()).done, true);
});

test('an app that is given up tells so', async (t) => {
  const { client, write } = clientOf(t);
  await client.connect();
  const stream = client.events();
  await stream.ready;
  const script = write('broken.cjs', 'process.exit(3);');
  await client.start({ script, name: 'broken', max_restarts: 2, min_uptime: 5000, restart_delay: 1 }).catch(() => {});
  const seen = await eventsUntil(stream, (event) => event.event === 'restart overlimit');
  assert.equal(seen.at(-1).process.status, 'errored');
});

test('a stream ends when it is closed, and when its loop is left', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api' });
  const closed = client.events();
  await closed.ready;
  const waiting = closed.next();
  closed.close();
  assert.equal((await within('the end', waiting)).done, true);
  for await (const line of client.logs({ targets: 'api', follow: true, lines: 10 })) {
    assert.equal(line.app, 'api');
    break;
  }
  const controller = new AbortController();
  const aborted = client.events({ signal: controller.signal });
  await aborted.ready;
  controller.abort();
  assert.equal((await within('the end', aborted.next())).done, true);
});

test('logs are read back and followed', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api' });
  await waitUntil('the line', async () => {
    const lines = [];
    for await (const line of client.logs({ targets: ['api'], lines: 5, stream: 'out' })) lines.push(line.line);
    return lines.includes('listening');
  });
  const stream = client.logs({ targets: 'api', lines: 0, follow: true });
  await stream.ready;
  await client.send(0, { topic: 'none', data: 1 });
  const { value } = await within('a line', stream.next());
  assert.deepEqual([value.app, value.stream, value.line], ['api', 'out', 'got {"topic":"none","data":1}']);
  stream.close();
});

test('messages go to workers that run, and to nobody else', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api', instances: 2 });
  await client.start({ script: '/bin/sleep', args: '1000', name: 'sleep', interpreter: 'none' });
  await client.stop(1);
  const replies = await client.send('all', { topic: 'none' });
  assert.deepEqual(replies.map(({ pm_id, error }) => [pm_id, error]), [[0, null], [1, 'it does not run'], [2, 'it has no channel to send messages by']]);
  await assert.rejects(client.send('api', { cmd: 'NODE_CLUSTER', act: 'disconnect' }), { code: 'BAD_REQUEST' });
  await assert.rejects(client.send('nobody', 1), { code: 'NO_SUCH_TARGET' });
  const [{ error }] = await client.send(0, { topic: 'none', data: 'x'.repeat(600 * 1024) });
  assert.match(error, /at most 512000 bytes/);
  assert.equal((await client.list())[0].workers[0].status, 'online');
});

test('a worker that does not read its messages keeps its channel', async (t) => {
  const { client, write, directory } = clientOf(t);
  // It blocks until the file exists, so that the speed of messages does not matter.
  const free = join(directory, 'free');
  const script = write('stuck.cjs', `
    const { existsSync } = require('fs');
    process.on('message', (message) => {
      if (message === 'block') { console.log('blocked'); while (!existsSync(${JSON.stringify(free)})); console.log('free'); }
      else if (message === 'last') console.log('last');
    });
    require('http').createServer((_q, r) => r.end()).listen(0);`);
  await client.start({ script, name: 'stuck', instances: 1 });
  const stream = client.logs({ lines: 0, follow: true });
  await stream.ready;
  await client.send('stuck', 'block');
  assert.equal((await stream.next()).value.line, 'blocked');
  const results = [];
  for (let count = 0; count < 40; count += 1) results.push((await client.send('stuck', 'x'.repeat(100_000)))[0].error);
  assert.equal(results[0], null);
  assert.match(results.at(-1), /does not read its messages/);
  write('free', '');
  assert.equal((await within('it turns again', stream.next())).value.line, 'free');
  await waitUntil('room', async () => (await client.send('stuck', 'last'))[0].error === null);
  assert.equal((await within('the last message', stream.next())).value.line, 'last');
  assert.equal((await client.list())[0].workers[0].restarts, 0);
});

test('metrics and actions of @pm2/io', async (t) => {
  const { client } = clientOf(t);
  const io = new URL(import.meta.resolve('@pm2/io')).pathname;
  await client.start({ script: METRICS, name: 'metrics', env: { PM2_IO: io } });
  const worker = await waitUntil('metrics', async () => {
    const [{ workers: [first] }] = await client.describe('metrics');
    return first.reports.metrics.Hits?.value === 2 && first.reports.actions.length >= 3 && first;
  });
  assert.deepEqual(worker.reports.metrics['Active users'], { value: 7, historic: true, type: 'app/users', unit: 'users' });
  assert.deepEqual(worker.reports.actions.find(({ action_name: name }) => name === 'plain'), { action_name: 'plain', action_type: 'custom', arity: 1 });
  const [{ pm2_env: env }] = await client.jlist();
  assert.equal(env.axm_monitor.Hits.value, 2);
  assert.ok(env.axm_actions.some(({ action_name: name }) => name === 'double'));

  assert.deepEqual(await client.trigger('metrics', 'plain'), [{ app: 'metrics', pm_id: 0, error: null, result: { ok: 1 } }]);
  assert.deepEqual((await client.trigger(0, 'double', 21))[0].result, { doubled: 42 });
  assert.match((await client.trigger(0, 'none'))[0].error, /it has no action `none`; it has .*double/);
  assert.match((await client.trigger(0, 'silent', null, { timeoutMs: 100 }))[0].error, /did not answer within 100 ms/);

  const pending = client.trigger(0, 'silent');
  await client.signal(0, 'SIGKILL');
  assert.match((await within('an answer', pending))[0].error, /it ended before it answered/);

  assert.equal(await waitUntil('it is back', () => client.command(['trigger', 'metrics', 'double', '4']).catch(() => null)), '[metrics:0]={"doubled":8}\n');
  await assert.rejects(client.command(['trigger', 'metrics', 'none']), { code: 'FAILED', message: /`none` was not performed by metrics \(worker 0\)/ });
  const described = await waitUntil('its metrics', async () => {
    const text = await client.command(['describe', 'metrics']);
    return text.includes('Hits') && text;
  });
  assert.match(described, /metric +Hits: 2\n/);
  assert.match(described, / {2}actions [\s\S]*\bdouble\b/);
});

test('what is no daemon is said to be none', async (t) => {
  const { home, client } = clientOf(t);
  mkdirSync(home, { mode: 0o700 });
  const server = createServer((socket) => socket.resume().end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'));
  server.listen(join(home, 'forkful.sock'));
  await once(server, 'listening');
  await assert.rejects(client.list(), { code: 'LOST', message: /makes no sense/ });
  server.close();
  await once(server, 'close');
  const cut = createServer((socket) => socket.resume().end('HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{'));
  cut.listen(join(home, 'forkful.sock'));
  await once(cut, 'listening');
  await assert.rejects(client.list(), { code: 'LOST', message: /before its reply/ });
  cut.close();
  await once(cut, 'close');
});

test('a question is asked once more when a daemon was replaced before its reply, and a command is not', async (t) => {
  const { home, client } = clientOf(t);
  mkdirSync(home, { mode: 0o700 });
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.resume();
    if (connections % 2 === 1) socket.end();
    else socket.end('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"apps":[]}');
  });
  server.listen(join(home, 'forkful.sock'));
  await once(server, 'listening');
  assert.deepEqual([await client.list(), connections], [[], 2]);
  await assert.rejects(client.stop('api'), { code: 'LOST' });
  assert.equal(connections, 3);
  server.close();
  await once(server, 'close');
});

test('a hundred questions at once are all answered', async (t) => {
  const { client } = clientOf(t);
  await client.start({ script: APP, name: 'api' });
  const answers = await Promise.all(Array.from({ length: 100 }, () => client.list()));
  assert.ok(answers.every((apps) => apps.length === 1));
});
