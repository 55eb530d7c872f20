// Distribution of connections: the spread of long-lived connections, stickiness, and the number of workers
// for `max`.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { differentAnswers, freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const CONNECTIONS = 64;
const WORKERS = 4;
/** Maximum excess of the busiest worker over the mean. */
const UNEVEN_MAX = 1.1;

/** Sends its pid on each connection, and keeps the connection open. */
function greeter({ require }) {
  require('net').createServer((socket) => {
    socket.on('error', () => {});
    socket.write(`${process.pid}\n`);
  }).listen(Number(process.env.PORT), '127.0.0.1');
}

/** Opens a connection and reads which worker has it. */
async function open(t, port, localAddress) {
  const socket = net.connect({ port, host: '127.0.0.1', localAddress });
  t.after(() => socket.destroy());
  const [pid] = await once(socket.setEncoding('utf8'), 'data');
  return { socket, pid: String(pid).trim() };
}

function counts(opened) {
  const byPid = new Map();
  for (const { pid } of opened) byPid.set(pid, (byPid.get(pid) ?? 0) + 1);
  return [...byPid.values()].sort((a, b) => b - a);
}

async function greeters(t, options = []) {
  const forkful = await sandbox(t);
  const port = await freePort();
  const app = await forkful.start(greeter, { name: 'greeter', instances: WORKERS, options, env: { PORT: String(port) } });
  return { forkful, app, port };
}

/**
 * Fails unless the busiest worker has at most `most` of the connections that `attempt` opens. Both modes give
 * connections only to workers whose event loop has just answered. A worker without a core does not answer;
 * then an even spread may take another attempt.
 */
async function evenly(attempt) {
  const spreads = [];
  await waitUntil('an even spread', async () => {
    const { opened, most } = await attempt();
    spreads.push(counts(opened).join());
    if (counts(opened)[0] <= most) return true;
    for (const { socket } of opened) socket.destroy();
    return false;
  }, 60_000).catch((error) => assert.fail(`${error.message}: ${spreads.join('; ')}`));
}

for (const balance of ['auto', 'exact']) {
  test(`balance ${balance}: ${CONNECTIONS} connections opened at once are spread evenly`, async (t) => {
    const { port } = await greeters(t, ['--balance', balance]);
    await evenly(async () => {
      const opened = await Promise.all(Array.from({ length: CONNECTIONS }, () => open(t, port)));
      return { opened, most: UNEVEN_MAX * CONNECTIONS / WORKERS };
    });
  });

  test(`balance ${balance}: ${CONNECTIONS} connections opened one by one are spread evenly`, async (t) => {
    const { port } = await greeters(t, ['--balance', balance]);
    await evenly(async () => {
      const opened = [];
      for (let n = 0; n < CONNECTIONS; n += 1) opened.push(await open(t, port));
      return { opened, most: UNEVEN_MAX * CONNECTIONS / WORKERS };
    });
  });

  test(`balance ${balance}: a worker whose connections ended gets the next ones`, async (t) => {
    const { port } = await greeters(t, ['--balance', balance]);
    await evenly(async () => {
      const opened = [];
      for (let n = 0; n < 16; n += 1) opened.push(await open(t, port));
      const emptied = opened[0].pid;
      const ended = opened.filter(({ pid }) => pid === emptied);
      for (const { socket } of ended) socket.destroy();
      const next = [];
      // When the primary learns of an exit is not tested; that it does is.
      await waitUntil('the emptied worker to be preferred', async () => {
        const one = await open(t, port);
        if (one.pid === emptied) return next.push(one);
        one.socket.destroy();
        return false;
      });
      for (let n = 0; n < ended.length - 1; n += 1) next.push(await open(t, port));
      return { opened: [...opened.filter(({ pid }) => pid !== emptied), ...next], most: 6 };
    });
  });
}

test('balance least: open connections stay within one of each other, at once and one by one', async (t) => {
  const { port } = await greeters(t, ['--balance', 'least']);
  const spreads = [];
  // A worker that gets no core for milliseconds is passed over: then an even spread may take another attempt.
  const isEven = (opened) => {
    spreads.push(counts(opened).join());
    const all = counts(opened);
    if (all.length === WORKERS && all[0] - all.at(-1) <= 1) return true;
    for (const { socket } of opened) socket.destroy();
    return false;
  };
  await waitUntil('an even spread of connections at once', async () => isEven(
    await Promise.all(Array.from({ length: CONNECTIONS + 2 }, () => open(t, port))),
  )).catch((error) => assert.fail(`${error.message}: ${spreads.join('; ')}`));
  await waitUntil('an even spread of connections one by one', async () => {
    const opened = [];
    for (let n = 0; n < CONNECTIONS + 2; n += 1) opened.push(await open(t, port));
    return isEven(opened);
  }).catch((error) => assert.fail(`${error.message}: ${spreads.join('; ')}`));
});

test('balance least: a worker that holds long connections gets fewer new ones', async (t) => {
  const { port } = await greeters(t, ['--balance', 'least']);
  const opened = [];
  for (let n = 0; n < WORKERS * 8; n += 1) opened.push(await open(t, port));
  const [{ pid: busy }] = opened;
  for (const { socket } of opened.filter(({ pid }) => pid !== busy)) socket.destroy();
  const held = opened.filter(({ pid }) => pid === busy).length;
  assert.ok(held > 4, `${held} connections are held`);
  // When the primary learns of the exits is not tested; that the worker gets no connections after that is.
  await waitUntil('the others to be preferred', async () => {
    const next = [];
    for (let n = 0; n < (WORKERS - 1) * (held - 2); n += 1) next.push(await open(t, port));
    if (next.every(({ pid }) => pid !== busy)) return true;
    for (const { socket } of next) socket.destroy();
    return false;
  });
});

const EXPRESS = fileURLToPath(new URL('node_modules/express', import.meta.url));
const KEPT = 12;
/** Two workers may share twelve kept connections 8 to 4. */
const KEPT_MAX = 8;
/** By mode. */
const RELOADS = { auto: 6, exact: 3, direct: 3 };

/** Express; the first request of a process blocks its event loop, as cold code does, until all others have connected elsewhere. */
function slowAtFirst({ require }) {
  const app = require(process.env.EXPRESS)();
  let first = true;
  app.get('/', (_request, response) => {
    for (const end = Date.now() + 300; first && Date.now() < end;);
    first = false;
    response.send(String(process.pid));
  });
  app.listen(Number(process.env.PORT));
}

for (const [balance, reloads] of Object.entries(RELOADS)) {
  test(`balance ${balance}: ${KEPT} kept connections are spread after each reload, ${reloads} times, and no request fails`, async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    await forkful.start(slowAtFirst, { name: 'app', options: ['--balance', balance, '--listen-timeout', '100s'], env: { PORT: String(port), EXPRESS } });
    // On a busy machine a start may return before the app listens.
    await waitUntil('the app to serve', async () => (await get(port)).status === 200);
    const loads = [startLoad({ port, keeping: KEPT, expect: /^\d+$/ }), startLoad({ port, closing: 6, expect: /^\d+$/ })];
    t.after(() => Promise.all(loads.map((load) => load.stop())));
    let spread = '';
    for (let n = 0; n <= reloads; n += 1) {
      if (n > 0) await forkful.ok(['reload', 'app']);
      const pids = (await forkful.jlist('app')).map(({ pid }) => String(pid));
      await waitUntil('the kept connections to be spread', () => {
        const on = pids.map((pid) => loads[0].clients.filter(({ answer }) => answer === pid).length);
        spread = on.join(':');
        return on[0] + on[1] === KEPT && Math.max(...on) <= KEPT_MAX;
      }).catch((error) => assert.fail(`${error.message}, after ${n} reloads: ${spread}`));
    }
    for (const load of loads) {
      const { success, ...failed } = await load.stop();
      assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
      assert.ok(success > 0);
    }
  });
}

test('balance direct: each worker gets some', async (t) => {
  const { port } = await greeters(t, ['--balance', 'direct']);
  const opened = await Promise.all(Array.from({ length: CONNECTIONS }, () => open(t, port)));
  assert.equal(counts(opened).length, WORKERS);
});

test('balance sticky: a client address stays with its worker, over a reload and a crash of another', async (t) => {
  const { forkful, app, port } = await greeters(t, ['--balance', 'sticky']);
  const clients = Array.from({ length: 24 }, (_, n) => `127.0.1.${n + 1}`);
  const slots = async () => {
    const byPid = new Map((await forkful.jlist('greeter')).map((worker) => [String(worker.pid), worker.pm2_env.NODE_APP_INSTANCE]));
    return Promise.all(clients.map(async (address) => {
      const { socket, pid } = await open(t, port, address);
      // An open connection would keep its worker until the drain timeout.
      socket.destroy();
      return byPid.get(pid);
    }));
  };
  const first = await slots();
  assert.ok(new Set(first).size > 1, 'more than one worker is used');
  assert.deepEqual(await slots(), first);
  await forkful.ok(['reload', 'greeter']);
  assert.deepEqual(await slots(), first);
  const victim = (await app.workers())[first[0]];
  process.kill(victim.pid, 'SIGKILL');
  await waitUntil('the victim to be gone', () => victim.gone);
  await app.workers();
  await waitUntil('the slots to be as before', async () => JSON.stringify(await slots()) === JSON.stringify(first));
});

/** The greeter; a worker that receives `block` spins until the file `released` exists. */
function blockable({ require }) {
  const { existsSync, writeFileSync } = require('fs');
  require('net').createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => {
      writeFileSync(process.env.BLOCKED, '');
      while (!existsSync(process.env.RELEASED));
    });
    socket.write(`${process.pid}\n`);
  }).listen(Number(process.env.PORT), '127.0.0.1');
}

test('balance sticky: while its worker is blocked, a client address waits for it', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const [blocked, released] = ['blocked', 'released'].map((name) => join(forkful.directory, name));
  await forkful.start(blockable, { name: 'sticky', instances: 2, options: ['--balance', 'sticky', '--listen-timeout', '50s'], env: { PORT: String(port), BLOCKED: blocked, RELEASED: released } });
  const first = await open(t, port);
  first.socket.write('block');
  await waitUntil('the worker to be blocked', () => existsSync(blocked));
  const waiting = Array.from({ length: 50 }, () => open(t, port));
  // Many connections from other addresses are served meanwhile, which is enough time to rescue a queue.
  const others = Array.from({ length: 40 }, (_, n) => `127.0.2.${n + 1}`);
  let served = 0;
  for (const address of others) {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress: address });
    t.after(() => socket.destroy());
    socket.on('data', () => { served += 1; });
  }
  await waitUntil('other addresses to be served', () => served > 5);
  const settled = await Promise.race([Promise.any(waiting), forkful.jlist('sticky').then(() => null)]);
  assert.equal(settled, null, 'a connection of a blocked worker was served by another');
  writeFileSync(released, '');
  assert.deepEqual(counts(await Promise.all([first, ...waiting])), [51], 'all connections of one address are with one worker');
});

test('-i max is the number of processors that this process may use', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const script = forkful.script(({ require }) => {
    require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
  });
  const start = (name, wish) => ['start', script, '--name', name, '-i', wish, '--interpreter', nodeBinary(NEWEST)];
  // One processor, whichever the tests may use.
  const { stdout: allowed } = await forkful.spawn(['-pc', String(process.pid)], { program: 'taskset' }).outcome;
  const [, processor] = /(\d+)\D*$/.exec(allowed) ?? [];
  const pinned = forkful.spawn(['-c', processor, binary(), ...start('pinned', 'max')], { program: 'taskset', env: { PORT: String(port) } });
  assert.equal((await pinned.outcome).code, 0);
  assert.equal((await forkful.jlist('pinned')).length, 1);
  assert.match((await waitUntil('the app to serve', () => get(port))).body, /^\d+$/);
  await forkful.ok(['delete', 'pinned']);

  await forkful.ok(start('wide', 'max'), { env: { PORT: String(port) } });
  const wide = (await forkful.jlist('wide')).length;
  assert.ok(wide >= 1 && wide <= cpus().length, String(wide));
  assert.equal((await differentAnswers(port, wide)).length, wide);
});
