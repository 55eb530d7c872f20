// The agent's part of the stall ledger on every supported Node version, against a primary that is this test: which route and which
// function an event loop stood in, and that the app never notices that somebody looks.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { MAJORS, NEWEST } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil } from '../../tests/e2e/lib/wait.mjs';
import { directory, launch, timesRun } from './lib/worker.mjs';

const APP = fileURLToPath(new URL('fixtures/ten-routes.cjs', import.meta.url));
const QUIET = fileURLToPath(new URL('fixtures/stalls-of-its-own.cjs', import.meta.url));

/** Paths to ask for, each with the route and the function that are to be named. */
const CASES = [
  ['/orders', 'GET /orders', 'parseOrders'],
  ['/page?lang=en', 'GET /page', 'renderPage'],
  ['/items/17', 'GET /items/:id', 'sortItems'],
  ['/login', 'GET /login', 'hashPassword'],
  ['/images/3f2a9c1e-aaaa-4bbb-8ccc-0123456789ab', 'GET /images/:id', 'compressImage'],
  ['/report', 'GET /report', 'build'],
  ['/search', 'GET /search', 'searchIndex'],
  ['/users/42', 'GET /users/:id', 'loadUser'],
  ['/stock', 'GET /stock', 'checkStock'],
  ['/mail', 'GET /mail', 'hold'],
];

function start(t, { major = NEWEST, script = APP, args = [], execArgv = [], env = {} }) {
  const worker = Object.assign(launch(t, major, script, args, env, execArgv), { stalls: [], acts: [] });
  worker.child.on('internalMessage', (message) => {
    worker.acts.push(message.act);
    if (message.act === 'stalls') worker.stalls.push(...message.stalls);
  });
  worker.watch = (minMs) => worker.child.send({ cmd: 'NODE_FORKFUL', act: 'stalls', min_ms: minMs });
  return worker;
}

const get = (port, path, agent) => new Promise((resolve, reject) => {
  http.get({ host: '127.0.0.1', port, path, agent }, (response) => {
    response.resume();
    response.on('end', () => resolve(response.statusCode));
  }).on('error', reject);
});

/** How many of the blocks that were injected were told rightly: a machine that is busy may add stalls of its own. */
function right(stalls, name, rounds) {
  return CASES.reduce((sum, one) => sum + Math.min(rounds, stalls.filter((stall) => name(stall, one)).length), 0);
}

for (const framework of ['express', 'fastify']) {
  test(`of 100 blocks in ten routes of ${framework}, the route and the function are named`, async (t) => {
    const ROUNDS = 10;
    const worker = start(t, { args: [framework] });
    const { port } = await waitUntil('a port', () => worker.said.find((m) => m.port));
    worker.watch(50);
    const keepAlive = new http.Agent({ keepAlive: true });
    t.after(() => keepAlive.destroy());
    const told = () => worker.stalls.map((stall) => JSON.stringify(stall)).join('\n');
    // Samples are not taken while the process has no core: then it may take another hundred blocks.
    await waitUntil('routes and functions', async () => {
      worker.stalls.length = 0;
      // Others are served beside them, and wait.
      let isOver = false;
      const beside = (async () => {
        while (!isOver) assert.equal(await get(port, '/fast', keepAlive), 200);
      })();
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const [path] of CASES) assert.equal(await get(port, path, keepAlive), 200);
      }
      isOver = true;
      await beside;
      return waitUntil('all to be told', () => {
        const routes = right(worker.stalls, (stall, [, route]) => stall.route === route, ROUNDS);
        const functions = right(worker.stalls, (stall, [, , name]) => stall.function?.match(/^[\w.]+/)?.[0].endsWith(name), ROUNDS);
        if (routes < 95 || functions < 90) throw new Error(`${routes} routes, ${functions} functions\n${told()}`);
        return true;
      }, 10_000);
    });
    assert.ok(worker.stalls.some((stall) => stall.requests > 0 && stall.waited_ms > 0), told());
    assert.ok(worker.stalls.every(({ for_ms: ms, stack = [] }) => ms >= 50 && stack.length <= 16), told());
  });
}

describe('on each version of Node.js', () => {
  for (const major of MAJORS) {
    test(`${major}: the route and the function are named, and 0 ends it`, async (t) => {
      const worker = start(t, { major, args: ['express'] });
      const { port } = await waitUntil('a port', () => worker.said.find((m) => m.port));
      worker.watch(50);
      // V8 may not find what it optimized before the profile began: it names the caller.
      await waitUntil('a profile', async () => {
        await get(port, '/page');
        return worker.stalls.some((stall) => stall.route === 'GET /page' && stall.function);
      });
      await waitUntil('the function', async () => {
        await get(port, '/orders');
        return worker.stalls.find((stall) => stall.route === 'GET /orders' && /^parseOrders \(.*ten-routes\.cjs:\d+\)$/.test(stall.function));
      });
      worker.watch(0);
      // The agent deals with it before it echoes.
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'echo' });
      await once(worker.child, 'internalMessage');
      assert.equal(await get(port, '/orders'), 200);
      const { length } = worker.stalls;
      await get(port, '/orders');
      assert.equal(worker.stalls.length, length);
      assert.equal(worker.output, '');
    });

    test(`${major}: an app that Node.js profiles by itself gets nothing into its stderr`, async (t) => {
      const worker = start(t, { major, script: QUIET, args: ['holds'], execArgv: ['--cpu-prof', `--cpu-prof-dir=${directory}`] });
      worker.watch(50);
      // A profile would have begun before the first message, and be read before the second.
      await waitUntil('stalls', () => worker.acts.filter((act) => act === 'stalls').length > 1);
      const closed = once(worker.child, 'close');
      worker.child.kill('SIGKILL');
      await closed;
      assert.equal(worker.output, '');
    });

    test(`${major}: an app's coverage is measured to its end`, async (t) => {
      const folder = mkdtempSync(join(directory, 'coverage-'));
      const worker = start(t, { major, script: QUIET, args: ['holds'], env: { NODE_V8_COVERAGE: folder } });
      worker.watch(50);
      await waitUntil('stalls', () => worker.acts.filter((act) => act === 'stalls').length > 1);
      worker.watch(0);
      const closed = once(worker.child, 'close');
      worker.child.send('end');
      assert.deepEqual(await closed, [0, null]);
      assert.equal(timesRun(folder, QUIET, 'last'), 1);
      assert.equal(worker.output, '');
    });
  }
});

test('stalls without a request are told too, once the loop is seen to be busy', async (t) => {
  const worker = start(t, { script: QUIET, args: ['holds'] });
  worker.watch(50);
  const stall = await waitUntil('a stall', () => worker.stalls.find((one) => one.function?.startsWith('sweepCache')));
  assert.equal(stall.route, undefined);
  assert.ok(stall.for_ms >= 50 && stall.requests === 0, JSON.stringify(stall));
});

test('what was not told yet is told when a drain begins', async (t) => {
  const worker = start(t, { args: ['express'] });
  const { port } = await waitUntil('a port', () => worker.said.find((m) => m.port));
  worker.watch(50);
  worker.child.send({ cmd: 'NODE_FORKFUL', act: 'echo' });
  await once(worker.child, 'internalMessage');
  await get(port, '/orders');
  worker.child.send({ cmd: 'NODE_FORKFUL', act: 'drain', grace_ms: 0 });
  const all = await waitUntil('the drain', () => worker.acts.includes('drained') && worker.acts);
  assert.ok(all.indexOf('stalls') >= 0 && all.indexOf('stalls') < all.indexOf('drained'), all.join());
});

test('a function of the agent is not named as the app\'s', () => {
  const { placeOf, samplesOf } = createRequire(import.meta.url)('../sampler.cjs');
  const agent = new URL('../stalls.cjs', import.meta.url).href;
  const app = pathToFileURL(join(process.cwd(), 'page.js')).href;
  const place = (...frames) => {
    const nodes = [['(root)', ''], ...frames].map(([functionName, url], index) => (
      { id: index + 1, callFrame: { functionName, url, lineNumber: 6 }, children: index < frames.length ? [index + 2] : [] }));
    const { name, stack, isOwn } = placeOf(samplesOf({ nodes, samples: [nodes.length], timeDeltas: [5], startTime: 0 }), 0, 10);
    return { name, stack, isOwn };
  };
  const timer = ['listOnTimeout', 'node:internal/timers'];
  const ofTimer = 'listOnTimeout (node:internal/timers:7)';
  assert.deepEqual(place(timer, ['onTick', agent], ['tellAll', agent]), { name: "Forkful's agent", stack: ["Forkful's agent", ofTimer], isOwn: false });
  // The app's listener that the agent calls, and the agent's that the app calls.
  assert.deepEqual(place(timer, ['guarded', agent], ['render', app]), { name: 'render (page.js:7)', stack: ['render (page.js:7)', "Forkful's agent", ofTimer], isOwn: true });
  assert.equal(place(['render', app], ['onStart', agent]).name, 'render (page.js:7)');
});

test('a timer that blocks is not put down to a request that only waits', () => {
  const { stalls } = ledger();
  const stall = { starter: undefined, answered: [], waiting: ['GET /waits'] };
  const place = { name: 'sweep', callers: 'sweep', isStart: false, isOwn: true };
  assert.equal(stalls.routeFor(stall, { ...place, isTimer: true }), undefined);
  assert.equal(stalls.routeFor(stall, { ...place, isTimer: false }), 'GET /waits');
  assert.equal(stalls.routeFor({ ...stall, waiting: [] }, place), undefined, 'what is only likely is not learned');
  assert.equal(stalls.routeFor({ ...stall, answered: ['GET /answered'] }, { ...place, isTimer: true }), 'GET /answered');
  const { placeOf, samplesOf } = createRequire(import.meta.url)('../sampler.cjs');
  const app = pathToFileURL(join(process.cwd(), 'page.js')).href;
  const isTimer = (...frames) => {
    const nodes = [['(root)', ''], ...frames, ['sweep', app]].map(([functionName, url], index) => (
      { id: index + 1, callFrame: { functionName, url, lineNumber: 6 }, children: index <= frames.length ? [index + 2] : [] }));
    return placeOf(samplesOf({ nodes, samples: [nodes.length], timeDeltas: [5], startTime: 0 }), 0, 10).isTimer;
  };
  const [timers, list] = [['processTimers', 'node:internal/timers'], ['listOnTimeout', 'node:internal/timers']];
  assert.equal(isTimer(timers, list), true);
  assert.equal(isTimer(timers, list, ['processTicksAndRejections', 'node:internal/process/task_queues']), false, 'after an await');
  assert.equal(isTimer(['processTicksAndRejections', 'node:internal/process/task_queues']), false);
  assert.equal(isTimer(['listOnTimeout', app]), false);
});

test('a process that has nothing to do ends', async (t) => {
  const worker = start(t, { script: QUIET, args: ['ends'] });
  worker.watch(50);
  assert.deepEqual(await worker.exited, [0, null]);
});

for (const [what, execArgv] of [
  ['with frozen intrinsics', ['--frozen-intrinsics']],
  ['with permissions', ['--permission', '--allow-fs-read=*', '--allow-net']],
]) {
  test(`an app goes on as before ${what}`, async (t) => {
    const worker = start(t, { execArgv, args: ['fastify'] });
    const port = (await waitUntil('a port', () => worker.said.find((m) => m.port))).port;
    worker.watch(50);
    for (let number = 0; number < 3; number += 1) assert.equal(await get(port, '/orders'), 200);
    await waitUntil('a stall', () => worker.stalls.some((stall) => stall.route === 'GET /orders'));
    assert.doesNotMatch(worker.output, /Error/);
  });
}

/** A ledger by itself, with what it told. */
function ledger() {
  const { Stalls } = createRequire(import.meta.url)('../stalls.cjs');
  const told = [];
  const timer = { _idleStart: 0, unref: () => timer };
  const stalls = new Stalls({
    guarded: (run) => run, immediate: () => {}, timer: () => timer, ticks: () => timer, clearTicks: () => {},
    listenToRequests: () => {}, sampling: { open: 0, end() {} }, memory: () => ({ heapUsed: 0 }), hidden: () => undefined, tell: (message) => told.push(message),
  });
  stalls.readWait = () => stalls.waited;
  return { stalls, told };
}

test('a loop that only had no core is not profiled and not watched more closely', () => {
  /** What becomes of a stall of a second without CPU time, of which the main thread waited so long for a core. */
  const after = (waitedMs) => {
    const { stalls } = ledger();
    let profiles = 0;
    stalls.from(50);
    stalls.sampler = { start() { profiles += 1; } };
    const at = performance.now();
    stalls.lastTick = at - 1000 - stalls.everyMs;
    stalls.cpuAtTick = Infinity;
    stalls.readWait = () => {
      stalls.waited += waitedMs;
      return stalls.waited;
    };
    stalls.look(at);
    return { told: stalls.pending.length, profiles, isWatched: stalls.awakeUntil > at };
  };
  assert.deepEqual(after(0), { told: 1, profiles: 1, isWatched: true });
  assert.deepEqual(after(900), { told: 1, profiles: 0, isWatched: true }, 'the rest is too short for a profile');
  assert.deepEqual(after(980), { told: 1, profiles: 0, isWatched: false });
});

test('the request that started last is the one that runs, whichever response its connection has', () => {
  const at = performance.now();
  /** What is said of a stall after these requests of one connection, which has the response to one of them. */
  const after = (urls, answering) => {
    const { stalls } = ledger();
    stalls.from(50);
    stalls.wake();
    const socket = { _httpMessage: answering === undefined ? null : { req: { method: 'GET', url: answering } } };
    for (const url of urls) stalls.onStart({ request: { method: 'GET', url }, socket }, at);
    stalls.look(at + 100);
    const { starter, waiting } = stalls.pending[0];
    return { starter, waiting };
  };
  assert.deepEqual(after(['/blocks'], '/blocks'), { starter: 'GET /blocks', waiting: [] });
  assert.deepEqual(after(['/slow', '/blocks'], '/slow'), { starter: 'GET /blocks', waiting: ['GET /slow'] }, 'sent without waiting');
  assert.deepEqual(after(['/answered'], undefined), { starter: 'GET /answered', waiting: [] }, 'answered before it blocks');
});

test('the end of the last response ends a stall, and names the route by its pattern', () => {
  const { stalls } = ledger();
  stalls.from(50);
  stalls.wake();
  const at = performance.now();
  const socket = { _httpMessage: null };
  const request = { method: 'GET', url: '/users/anna' };
  stalls.onStart({ request, socket }, at);
  const response = { req: { ...request, route: { path: '/users/:name' } }, writableEnded: true };
  stalls.onFinish({ response, socket: {} }, at + 100);
  assert.equal(stalls.pending.length, 0, 'the response of another connection');
  stalls.onFinish({ response, socket }, at + 100);
  assert.equal(stalls.pending[0].starter, 'GET /users/:name');
});

test('nothing is told after the recording has ended', () => {
  const { stalls, told } = ledger();
  stalls.from(50);
  stalls.wake();
  stalls.look(performance.now() + 1000);
  stalls.from(0);
  stalls.finish();
  assert.deepEqual([told, stalls.willTell], [[], false]);
});
