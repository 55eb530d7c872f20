// Incidents with real workers: the reasons of exits, the stored details, and that these survive the daemon.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { MAJORS, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const ONCE = ['--no-autorestart', '--listen-timeout', '100s'];

/** Writes a secret and throws when it gets a signal. */
function throws({ require }) {
  require('http').createServer((_request, response) => response.end()).listen(0);
  process.on('SIGUSR2', () => {
    console.error(`the token is ${process.env.API_TOKEN}`);
    setImmediate(function failing() { throw new TypeError('no such customer'); });
  });
}

/** Fills its heap when it gets a signal. */
function fills({ require }) {
  require('http').createServer((_request, response) => response.end()).listen(0);
  process.on('SIGUSR2', () => {
    const held = [];
    for (;;) held.push(new Array(1e4).fill(Math.random()));
  });
}

/** Serves. */
function serves({ require }) {
  require('http').createServer((_request, response) => response.end()).listen(0);
}

/** The incidents of an app, when there are this many. */
async function incidents(forkful, name, count = 1) {
  return waitUntil(`${count} incidents of ${name}`, async () => {
    const { incidents: found } = JSON.parse((await forkful.ok(['events', '--json'])).stdout);
    const of = found.filter(({ app }) => app === name);
    return of.length >= count && of;
  });
}

const show = async (forkful, id) => JSON.parse((await forkful.ok(['events', '--show', String(id), '--json'])).stdout);
const pidOf = async (forkful, name) => (await forkful.jlist(name))[0].pid;

for (const major of MAJORS) {
  test(`Node ${major}: an uncaught error, a kill from outside and a full heap have their words`, async (t) => {
    const forkful = await sandbox(t, major);
    await forkful.start(throws, { name: 'throws', instances: 1, options: ONCE, env: { API_TOKEN: 'a-token-of-nobody' } });
    await forkful.start(serves, { name: 'serves', instances: 1, options: ONCE });
    await forkful.start(fills, { name: 'fills', instances: 1, options: [...ONCE, '--node-args=--max-old-space-size=40'] });
    process.kill(await pidOf(forkful, 'throws'), 'SIGUSR2');
    process.kill(await pidOf(forkful, 'serves'), 'SIGKILL');
    const filler = await pidOf(forkful, 'fills');
    process.kill(filler, 'SIGUSR2');

    const [thrown] = await incidents(forkful, 'throws');
    assert.deepEqual([thrown.kind, thrown.reason, thrown.next], ['crash', 'uncaught error (exit code 1): TypeError: no such customer', 'it is not started again']);
    const whole = await show(forkful, thrown.id);
    assert.ok(whole.stderr_tail.some((line) => /^ +at .*failing \(/.test(line)), JSON.stringify(whole.stderr_tail));
    assert.ok(whole.stderr_tail.includes('the token is [redacted]'), JSON.stringify(whole.stderr_tail));
    assert.deepEqual([whole.end.exit_code, whole.end.node_version.split('.')[0]], [1, String(major)]);

    const [killed] = await incidents(forkful, 'serves');
    assert.match(killed.reason, /^SIGKILL: another process killed it/);
    assert.equal((await show(forkful, killed.id)).end.signal, 'SIGKILL');

    const [full] = await incidents(forkful, 'fills');
    assert.match(full.reason, /^its JavaScript heap was full \(.*heap out of memory/);
    const { hint, end } = await show(forkful, full.id);
    assert.match(hint, /--max-old-space-size/);
    assert.equal(end.pid, filler);

    const text = (await forkful.ok(['events', 'serves'])).stdout;
    assert.match(text, /serves, worker 1: crash; it is not started again\n +SIGKILL: another process killed it/);
    assert.doesNotMatch(text, /TypeError/);
    const files = readdirSync(join(forkful.home, 'incidents')).map((name) => join(forkful.home, 'incidents', name));
    assert.equal(files.length, 3);
    for (const file of files) {
      assert.equal(statSync(file).mode & 0o777, 0o600);
      assert.ok(!readFileSync(file, 'utf8').includes('a-token-of-nobody'));
    }
  });
}

test('what was asked for is no incident, and a loop of crashes ends with one of its own', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  await forkful.start(serves, { name: 'calm', instances: 2 });
  for (const verb of ['reload', 'restart', 'stop', 'delete']) await forkful.ok([verb, 'calm']);
  await forkful.fails(['start', forkful.script(() => { throw new Error('never'); }), '--name', 'loop', '-i', '1', '--max-restarts', '3', '--min-uptime', '60s', '--exp-backoff-restart-delay', '10', '--listen-timeout', '100s']);
  const found = await incidents(forkful, 'loop', 3);
  assert.deepEqual(found.map(({ kind }) => kind), ['crash', 'crash', 'crash_loop']);
  assert.deepEqual([found[0].next, found[2].next], ['restart at once', 'given up: 3 unstable exits in 10 min']);
  assert.deepEqual((await Promise.all(found.map(({ id }) => show(forkful, id)))).map(({ end }) => end.restarts_in_a_row), [1, 2, 2]);
  assert.equal((await forkful.ok(['events', 'loop'])).stdout.match(/uncaught error/g)?.length, 3);
  const { incidents: all } = JSON.parse((await forkful.ok(['events', '--json'])).stdout);
  assert.deepEqual([...new Set(all.map(({ app }) => app))], ['loop']);
  assert.equal((await forkful.fails(['events', 'calm'])).code, 3);
  // Without a daemon they are read from the home, and none is started for it.
  await forkful.ok(['kill']);
  assert.deepEqual(JSON.parse((await forkful.ok(['events', '--json'])).stdout).incidents, all);
  assert.deepEqual(JSON.parse((await forkful.ok(['events', 'loop', '--json', '--since', '1h'])).stdout).incidents, found);
  assert.equal((await show(forkful, found[2].id)).end.restarts_in_a_row, 2);
  assert.match((await forkful.fails(['events', 'calm'])).stderr, /no incident of `calm` is kept/);
  assert.equal((await forkful.fails(['events', '--show', '999'])).code, 3);
  assert.equal((await forkful.fails(['events', '-f'])).code, 4);
});

test('a deployment is told with its version, and a reload that fails, also to those who watch', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const { path } = await forkful.start(serves, { name: 'app', instances: 2 });
  const api = new Contract(join(forkful.home, 'forkful.sock'));
  const { response, keys } = await api.open('GET', '/v1/events?targets=app');
  const told = (async () => {
    for await (const { name, event } of api.events(keys, response.setEncoding('utf8'))) {
      if (name === 'app:incident' && event.kind === 'failed_reload') return event;
    }
    return assert.fail('no failed reload was told');
  })();
  forkful.script(() => { throw new Error('bad version'); }, path.split('/').at(-1));
  await forkful.fails(['reload', 'app'], { env: { FORKFUL_DEPLOYMENT: '3f2a9c1 Faster search' } });
  const event = await told;
  response.destroy();
  assert.match(event.reason, /^a new worker failed: ended with exit code 1/);
  assert.equal(event.next, 'the worker before serves on');
  const [deployed] = await incidents(forkful, 'app');
  assert.deepEqual([deployed.kind, deployed.reason], ['deployed', '3f2a9c1 Faster search']);
  const { reply } = await api.ask('GET', `/v1/incidents/${event.id}`);
  assert.ok(reply.stderr_tail.includes('Error: bad version'), JSON.stringify(reply));
});

test('a changed file whose version does not start is a failed reload, as by a command', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const { path } = await forkful.start(serves, { name: 'app', instances: 1, options: ['--watch', '--watch-delay', '20ms'] });
  const pid = await pidOf(forkful, 'app');
  const found = await waitUntil('the failed reload', async () => {
    // The watch begins in the background: a change may come before it.
    forkful.script(() => { throw new Error('bad version'); }, path.split('/').at(-1));
    const all = await incidents(forkful, 'app', 0);
    return all.find(({ kind }) => kind === 'failed_reload');
  });
  assert.match(found.reason, /^a new worker failed: ended with exit code 1/);
  assert.equal(await pidOf(forkful, 'app'), pid);
});

test('incidents outlive a daemon that is killed, and those of a worker that ended meanwhile are told', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  await forkful.start(throws, { name: 'app', instances: 1, options: ['--exp-backoff-restart-delay', '10'] });
  process.kill(await pidOf(forkful, 'app'), 'SIGUSR2');
  const before = await incidents(forkful, 'app');
  const next = await waitUntil('the worker again', async () => {
    const [{ pid, pm2_env: { status } }] = await forkful.jlist('app');
    return status === 'online' && pid;
  });
  const daemon = await forkful.daemonPid();
  process.kill(daemon, 'SIGKILL');
  process.kill(next, 'SIGKILL');
  const after = await incidents(forkful, 'app', 2);
  assert.notEqual(await forkful.daemonPid(), daemon);
  assert.deepEqual(after[0], before[0]);
  assert.match(after[1].reason, /^SIGKILL/);
  await forkful.ok(['delete', 'app']);
  await forkful.ok(['kill']);
  await forkful.start(serves, { name: 'other', instances: 1 });
  assert.deepEqual(await incidents(forkful, 'app', 2), after, 'the app is gone, and so is the daemon');
});

test('events are followed', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  await forkful.start(serves, { name: 'app', instances: 1, options: ONCE });
  const following = forkful.spawn(['events', '-f', '--json']);
  process.kill(await pidOf(forkful, 'app'), 'SIGKILL');
  await waitUntil('the crash', () => following.stdout.includes('\n'));
  assert.equal(JSON.parse(following.stdout.split('\n')[0]).app, 'app');
  following.child.kill('SIGKILL');
});
