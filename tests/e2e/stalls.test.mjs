// The stall ledger with a real daemon: where event loops were blocked, in `stalls`, `describe`, the API and
// the events.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { get } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Blocks the event loop for a while at `/report/…`, forever at `/spin`, and in the kernel at `/wait`. */
function app({ require, report }) {
  // By the CPU time: on a busy machine, what only waits for a core is no stall of the app's own.
  const holdFor = (ms) => {
    const begun = process.cpuUsage();
    while (process.cpuUsage(begun).user < ms * 1000) for (let turn = 0; turn < 1e5; turn += 1);
  };
  function renderReport() { holdFor(120); }
  require('http').createServer((request, response) => {
    if (request.url.startsWith('/report')) renderReport();
    // The report leaves with the next turns of the loop.
    if (request.url === '/spin') { report({ spins: true }); setTimeout(holdFor, 100, 600_000); }
    if (request.url === '/wait') { report({ waits: true }); setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600_000), 100); }
    response.end('done');
  }).listen(process.env.SOCKET);
}

test('a stall is told with its route and its function, in commands, the API and events', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'app.sock');
  await forkful.start(app, { name: 'api', instances: 1, env: { SOCKET: socket } });
  const api = new Contract(join(forkful.home, 'forkful.sock'));
  assert.match((await forkful.ok(['stalls'])).stdout, /^api: no event loop was blocked for 50ms or more since the app was added$/m);
  const { response, keys } = await api.open('GET', '/v1/events?targets=api');
  const told = (async () => {
    for await (const { name, event } of api.events(keys, response.setEncoding('utf8'))) {
      if (name === 'process:stall' && event.route === 'GET /report/:id') return event;
    }
    return assert.fail('no stall was told');
  })();
  const isReport = ({ route, function: name }) => route === 'GET /report/:id' && /^(renderReport|holdFor) \(app-1\.cjs:\d+\)$/.test(name);
  const { reply } = await waitUntil('the stall', async () => {
    await get(socket, `/report/${Math.floor(Math.random() * 1e6)}`);
    const found = await api.ask('GET', '/v1/stalls/api');
    assert.ok(found.reply.apps[0].groups.some(isReport), JSON.stringify(found.reply));
    return found;
  });
  const event = await told;
  response.destroy();
  assert.deepEqual([event.app, event.pm_id], ['api', 0]);
  assert.ok(event.for_ms >= 50, JSON.stringify(event));
  const [{ groups, total, recent }] = reply.apps;
  assert.ok(groups.find(isReport).stack.some((frame) => frame.startsWith('renderReport (')), JSON.stringify(groups));
  assert.ok(total.stalls >= 1 && recent.length >= 1, JSON.stringify(reply));
  const shown = (await forkful.ok(['stalls', 'api'])).stdout;
  assert.match(shown, /GET \/report\/:id\n +(renderReport|holdFor) \(app-1\.cjs:\d+\)/);
  assert.deepEqual(JSON.parse((await forkful.ok(['stalls', 'api', '--json'])).stdout).apps.map(({ app: name }) => name), ['api']);
  assert.match((await forkful.ok(['describe', 'api'])).stdout, /stalls +\d+ stalls?, .* \(`forkful stalls api`\)/);
});

test('a daemon that goes on after another one was killed knows the stalls of before', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'app.sock');
  await forkful.start(app, { name: 'api', instances: 1, env: { SOCKET: socket } });
  const read = async () => JSON.parse((await forkful.ok(['stalls', 'api', '--json'])).stdout).apps[0];
  await waitUntil('a stall', async () => {
    await get(socket, '/report/1');
    return (await read()).groups.some(({ route }) => route === 'GET /report/:id');
  });
  const before = await read();
  const killed = await forkful.daemonPid();
  process.kill(killed, 'SIGKILL');
  await waitUntil('another daemon', async () => (await forkful.daemonPid()) !== killed);
  const after = await read();
  assert.ok(after.total.stalls >= before.total.stalls, JSON.stringify(after));
  assert.ok(after.recent.some(({ at_ms: at }) => at === before.recent[0].at_ms), JSON.stringify(after));
  assert.match((await forkful.ok(['stalls', 'api'])).stdout, /GET \/report\/:id\n/);
  await get(socket, '/report/2');
  await waitUntil('it counts on', async () => (await read()).total.stalls > before.total.stalls);
});

test('with a threshold of 0 nothing is noted', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'app.sock');
  await forkful.start(app, { name: 'api', instances: 1, env: { SOCKET: socket }, options: ['--stall-threshold', '0', '--listen-timeout', '100s'] });
  for (let number = 0; number < 3; number += 1) await get(socket, '/report/1');
  assert.match((await forkful.ok(['stalls'])).stdout, /^api: stalls are not recorded, because `stall_threshold` is 0$/m);
});

for (const [path, what, doing] of [
  ['/spin', 'spins', /busy in JavaScript or native code/],
  ['/wait', 'waits', /waiting in the kernel/],
]) {
  test(`a loop that stands now is shown with what the kernel knows: ${what}`, async (t) => {
    const forkful = await sandbox(t);
    const socket = join(forkful.directory, 'app.sock');
    await forkful.start(app, { name: 'api', instances: 1, env: { SOCKET: socket }, options: ['--listen-timeout', '100s'] });
    const gone = get(socket, path).catch(() => {});
    await forkful.control.seen.at(-1).reported(what);
    const shown = await waitUntil('the loop to be known to stand', async () => {
      const { stdout } = await forkful.ok(['stalls', 'api']);
      return doing.test(stdout) && stdout;
    });
    assert.match(shown, /^worker 0 is blocked now, for [\d.]+ (ms|s|min): /m);
    assert.doesNotMatch(shown, /no event loop was blocked/);
    await forkful.ok(['restart', 'api']);
    await gone;
    const { recent } = JSON.parse((await forkful.ok(['stalls', 'api', '--json'])).stdout).apps[0];
    const killed = recent.filter((stall) => stall.function === '(blocked until the worker was killed)');
    assert.equal(killed.length, 1, JSON.stringify(recent));
    assert.ok(killed[0].for_ms >= 200 && killed[0].route === '(unknown)', JSON.stringify(killed));
  });
}
