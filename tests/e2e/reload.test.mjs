// Reload under load: no request is lost, whatever the new version does. The clients count by kind and never
// retry; see lib/load.mjs.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import WebSocket from 'ws';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { nodeBinary } from './lib/nodes.mjs';
import { failedReload } from './lib/reloads.mjs';
import { FAILED, sandbox } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** Requests of a run, none of which may fail. A slow machine makes fewer within each step's time limit. */
const REQUESTS = 4_000;
const STEP_MS_MAX = 30_000;
const STEP_REQUESTS_MIN = 200;
const RELOADS = 3;
const CLIENTS = { closing: 16, keeping: 16 };
/** Clients whose answers take a while, so that some are in progress at each step of a reload. */
const SLOW_CLIENTS = { closing: 4, keeping: 4, path: '/slow' };
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };
const PID = /^\d+$/;

const EXPRESS = fileURLToPath(new URL('node_modules/express', import.meta.url));

/** Answers with its pid: at once, and after a while on /slow. */
function plain({ require }) {
  require('http').createServer((request, response) => {
    const answer = () => response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
    if (request.url === '/slow') setTimeout(answer, 300);
    else answer();
  }).listen(Number(process.env.PORT));
}

/** The same with Express. */
function express({ require }) {
  const app = require(process.env.EXPRESS)();
  app.get('/', (_request, response) => response.send(String(process.pid)));
  app.get('/slow', (_request, response) => setTimeout(() => response.send(String(process.pid)), 300));
  app.listen(Number(process.env.PORT));
}

function crashing() {
  throw new Error('the new version is broken');
}

function neverListening() {
  setInterval(() => {}, 1000);
}

/** Starts an app and its load; `settle` ends the load and checks that nothing failed. */
async function underLoad(t, body, { major, options = ['--listen-timeout', '100s'], env = {} }) {
  const forkful = await sandbox(t, major);
  const port = await freePort();
  const path = forkful.script(body);
  await forkful.ok(
    ['start', path, '--name', 'app', '-i', '2', '--interpreter', nodeBinary(major), ...options],
    { env: { PORT: String(port), EXPRESS, ...env } },
  );
  // On a busy machine a start with a short bound ends before the app listens.
  await waitUntil('the app to serve', async () => (await get(port)).status === 200);
  const loads = [startLoad({ port, ...CLIENTS, expect: PID }), startLoad({ port, ...SLOW_CLIENTS, expect: PID })];
  t.after(() => Promise.all(loads.map((load) => load.stop())));
  const settle = async () => {
    const answers = new Set();
    for (const load of loads) {
      const { success, ...failed } = await load.stop();
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
      assert.ok(success > 0);
      for (const pid of load.answers.keys()) answers.add(pid);
    }
    return answers;
  };
  /** Waits until this many requests have been answered in total, or as many as this machine can make. */
  const answered = (count) => {
    const [before, begun] = [loads[0].counts.success, performance.now()];
    return waitUntil(`${count} answers`, () => {
      const { counts: { success }, failed } = loads[0];
      const isLong = performance.now() - begun > STEP_MS_MAX && success >= before + STEP_REQUESTS_MIN;
      return success >= count || isLong || failed > 0;
    });
  };
  const pids = async () => (await forkful.jlist('app')).map(({ pid }) => String(pid));
  /** Waits until each of these has answered, unless a request has failed, which `settle` reports. */
  const allAnswer = (wanted) => waitUntil('each worker to answer', () => loads[0].failed > 0 || wanted.every((pid) => loads[0].answers.has(pid)));
  /** The living processes of a slot other than these. */
  const newIn = (slot, old) => waitUntil(`a new worker in slot ${slot}`, () => forkful.control.living(path)
    .find((worker) => worker.slot === slot && !old.includes(String(worker.pid))));
  return { forkful, path, port, loads, settle, answered, allAnswer, pids, newIn };
}

for (const [name, body, major] of [['plain http', plain, 18], ['plain http', plain, 26], ['Express 5', express, 24]]) {
  test(`${RELOADS} reloads of ${name} on Node ${major} lose no request`, async (t) => {
    const { forkful, settle, answered, allAnswer, pids } = await underLoad(t, body, { major });
    const generations = [await pids()];
    for (let n = 1; n <= RELOADS; n += 1) {
      await answered(n * REQUESTS / (RELOADS + 1));
      await allAnswer(generations.at(-1));
      await forkful.ok(['reload', 'app']);
      generations.push(await pids());
    }
    await allAnswer(generations.at(-1));
    await answered(REQUESTS);
    const all = generations.flat();
    assert.equal(new Set(all).size, 2 * (RELOADS + 1), 'each reload replaced both workers');
    assert.deepEqual([...await settle()].sort(), all.sort(), 'each worker answered, and nobody else');
  });
}

for (const [name, body, reason, options] of [
  ['that crashes at its start', crashing, /the new version is broken/, []],
  ['that never listens', neverListening, /listen|ready/, ['--listen-timeout', '2s']],
]) {
  test(`a new version ${name} is given up: the old one stays, and no request is lost`, async (t) => {
    const { forkful, path, settle, answered, pids } = await underLoad(t, plain, { major: 24 });
    const old = await pids();
    await answered(2000);
    forkful.script(body, path.split('/').at(-1));
    const { code, stdout, stderr } = await forkful.fails(['reload', 'app', ...options]);
    assert.equal(code, FAILED);
    assert.match(stdout + stderr, reason);
    assert.deepEqual(await pids(), old);
    assert.deepEqual((await forkful.jlist('app')).map((worker) => worker.pm2_env.status), ['online', 'online']);
    await answered(4000);
    // A good version can be brought out afterwards.
    forkful.script(plain, path.split('/').at(-1));
    await forkful.ok(['reload', 'app']);
    const now = await pids();
    assert.deepEqual(now.filter((pid) => old.includes(pid)), []);
    assert.deepEqual([...await settle()].filter((pid) => !old.includes(pid) && !now.includes(pid)), []);
  });
}

test("a new version that says 'ready' before it listens does not take the old one's place", async (t) => {
  const { forkful, path, settle, answered, pids } = await underLoad(t, plain, { major: 24 });
  const old = await pids();
  await answered(1000);
  forkful.script(({ require, report }) => {
    const server = require('http').createServer((_request, response) => {
      response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
    });
    globalThis.listen = () => server.listen(Number(process.env.PORT));
    setInterval(() => {}, 1000);
    process.send?.('ready');
    report({ said: 'ready' });
  }, path.split('/').at(-1));
  const reload = forkful.spawn(['reload', 'app']);
  const listening = new Set();
  for (const _slot of old) {
    const worker = await waitUntil('a new worker that does not listen yet', () => forkful.control.living(path)
      .find(({ pid, reports }) => reports.length > 0 && !old.includes(String(pid)) && !listening.has(pid)));
    listening.add(worker.pid);
    const before = await pids();
    // The old worker serves on, for longer than the second after which the word would count.
    await sleep(1500);
    await answered(listening.size * 2_000);
    assert.deepEqual(await pids(), before, 'nothing was replaced');
    await worker.run(() => { globalThis.listen(); });
  }
  const { code, stderr } = await reload.outcome;
  assert.equal(code, 0, stderr);
  assert.deepEqual((await pids()).map(Number).sort(), [...listening].sort());
  await settle();
});

/** Listens for clients, and for administrators. */
function onTwoPorts({ require }) {
  const { createServer } = require('http');
  const answer = (_request, response) => response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  createServer(answer).listen(Number(process.env.PORT));
  createServer(answer).listen(Number(process.env.ADMIN_PORT));
}

/** Listens for administrators immediately, and for clients on request. */
function lateForClients({ require, report }) {
  const { createServer } = require('http');
  const answer = (_request, response) => response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  createServer(answer).listen(Number(process.env.ADMIN_PORT), () => report({ listens: 'for administrators' }));
  globalThis.listen = () => createServer(answer).listen(Number(process.env.PORT));
}

test('a new version replaces the old one when it listens wherever that one does, and not before', async (t) => {
  const env = { ADMIN_PORT: String(await freePort()) };
  const { forkful, path, settle, answered, pids, newIn } = await underLoad(t, onTwoPorts, { major: 24, env });
  const old = await pids();
  await answered(1000);
  forkful.script(lateForClients, path.split('/').at(-1));
  const reload = forkful.spawn(['reload', 'app']);
  for (const slot of old.keys()) {
    const worker = await newIn(slot, old);
    await worker.reported('listens');
    await answered((slot + 1) * 2000);
    assert.equal((await pids())[slot], old[slot], 'the old one serves on');
    await worker.run(() => { globalThis.listen(); });
  }
  const { code, stderr } = await reload.outcome;
  assert.equal(code, 0, stderr);
  assert.deepEqual((await pids()).filter((pid) => old.includes(pid)), []);
  await settle();
});

test('a new version that listens for administrators but never for clients is given up, and told why', async (t) => {
  const env = { ADMIN_PORT: String(await freePort()) };
  const { forkful, path, port, settle, answered, pids } = await underLoad(t, onTwoPorts, { major: 24, env });
  const old = await pids();
  await answered(1000);
  forkful.script(lateForClients, path.split('/').at(-1));
  const { code, stderr } = await failedReload(forkful, 'app', /worker 0 listens on/);
  assert.equal(code, FAILED);
  assert.match(stderr, new RegExp(`the old one serves on: worker 0 listens on tcp://\\S+:${env.ADMIN_PORT}, but not on tcp://\\S+:${port}, where the old one listens`));
  assert.match(stderr, /hint: .*forkful restart app.*wait_ready/s);
  assert.deepEqual(await pids(), old);
  await answered(3000);
  forkful.script(onTwoPorts, path.split('/').at(-1));
  await forkful.ok(['reload', 'app']);
  assert.deepEqual((await pids()).filter((pid) => old.includes(pid)), []);
  await settle();
});

test('a new version that listens for administrators serves when the old one dies meanwhile', async (t) => {
  const forkful = await sandbox(t, 24);
  const ports = { PORT: String(await freePort()), ADMIN_PORT: String(await freePort()) };
  const app = await forkful.start(onTwoPorts, { name: 'app', instances: 1, env: ports, options: ['--listen-timeout', '50s'] });
  await waitUntil('both ports', async () => (await forkful.ok(['describe', 'app'])).stdout.includes(ports.ADMIN_PORT));
  const [old] = await app.workers();
  forkful.script(lateForClients, app.path.split('/').at(-1));
  const reload = forkful.spawn(['reload', 'app']);
  const next = await waitUntil('the new worker', () => forkful.control.living(app.path).find(({ pid }) => pid !== old.pid));
  await next.reported('listens');
  assert.equal((await forkful.jlist('app'))[0].pid, old.pid);
  process.kill(old.pid, 'SIGKILL');
  const { code, stderr } = await reload.outcome;
  assert.equal(code, 0, stderr);
  assert.equal((await get(Number(ports.ADMIN_PORT))).body, String(next.pid));
});

test('a new version may listen on less when it says that it is ready, and where its own number says', async (t) => {
  const forkful = await sandbox(t, 24);
  const ports = { PORT: String(await freePort()), ADMIN_PORT: String(await freePort()) };
  const replaces = async (name) => {
    const old = (await forkful.jlist(name)).map(({ pid }) => pid);
    const { stderr } = await forkful.ok(['reload', name]);
    assert.deepEqual((await forkful.jlist(name)).filter(({ pid }) => old.includes(pid)), []);
    return stderr;
  };
  const says = await forkful.start(({ require }) => {
    const { createServer } = require('http');
    createServer().listen(Number(process.env.ADMIN_PORT), () => {
      createServer().listen(Number(process.env.PORT), () => process.send?.('ready'));
    });
  }, { name: 'says', instances: 1, env: ports, options: ['--wait-ready', '--listen-timeout', '100s'] });
  forkful.script(({ require }) => {
    require('http').createServer().listen(Number(process.env.PORT), () => process.send?.('ready'));
  }, says.path.split('/').at(-1));
  await replaces('says');
  await forkful.start(({ require }) => {
    const { createServer } = require('http');
    createServer().listen(0);
    createServer().listen(`${__dirname}/${process.pid}.sock`);
  }, { name: 'numbered' });
  await waitUntil('all addresses', async () => /\.sock/.test((await forkful.ok(['describe', 'numbered'])).stdout));
  assert.doesNotMatch(await replaces('numbered'), /is closed/);
});

test('a new version may move to another port, which is served as soon as it listens there', async (t) => {
  const forkful = await sandbox(t, 24);
  const ports = { PORT: String(await freePort()), OTHER_PORT: String(await freePort()) };
  const app = await forkful.start(({ require }) => {
    require('http').createServer((_request, response) => response.end('here')).listen(Number(process.env.PORT));
  }, { name: 'moves', env: ports });
  const old = (await forkful.jlist('moves')).map(({ pid }) => pid);
  forkful.script(({ require }) => {
    require('http').createServer((_request, response) => response.end('there')).listen(Number(process.env.OTHER_PORT));
  }, app.path.split('/').at(-1));
  const { stderr } = await forkful.ok(['reload', 'moves']);
  assert.match(stderr, new RegExp(`:${ports.PORT} is closed: the new version does not listen there`));
  assert.deepEqual((await forkful.jlist('moves')).filter(({ pid }) => old.includes(pid)), []);
  assert.equal((await get(Number(ports.OTHER_PORT))).body, 'there');
  await assert.rejects(get(Number(ports.PORT)), { code: 'ECONNREFUSED' });
});

/** Answers on /held on request, and listens immediately or on request. */
function holding({ require, report }) {
  const late = false;
  let isReleased = false;
  const held = [];
  const server = require('http').createServer((request, response) => {
    const answer = () => response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
    if (request.url === '/held' && !isReleased) {
      held.push(answer);
      report({ holds: held.length });
    } else if (request.url === '/slow') setTimeout(answer, 300);
    else answer();
  });
  globalThis.release = () => {
    isReleased = true;
    for (const answer of held) answer();
  };
  const alive = setInterval(() => {}, 1000);
  globalThis.listen = () => {
    clearInterval(alive);
    server.listen(Number(process.env.PORT));
  };
  if (!late) globalThis.listen();
}

/** A request is held until the reload and the scale-down are under way. */
const HELD_MS_MAX = 240_000;

for (const when of ['before', 'after']) {
  test(`a scale-down ${when} the new worker of its slot is ready takes both away gently`, async (t) => {
    const { forkful, path, port, loads, settle, answered, pids, newIn } = await underLoad(t, holding, { major: 24, options: ['--listen-timeout', '100s', '--drain-timeout', '200s'] });
    const first = await waitUntil('both workers', () => {
      const living = forkful.control.living(path);
      return living.length === 2 && living;
    });
    const old = await pids();
    await answered(1000);
    const asked = [];
    await waitUntil('a request that keeps the second worker from leaving', () => {
      asked.push(get({ host: '127.0.0.1', port, timeout: HELD_MS_MAX }, '/held'));
      return first[1].reports.length > 0;
    });
    writeFileSync(path, readFileSync(path, 'utf8').replace('const late = false;', 'const late = true;'));
    const reload = forkful.spawn(['reload', 'app']);
    await (await newIn(0, old)).run(() => { globalThis.listen(); });
    const second = await newIn(1, old);
    const isReplaced = async () => (await pids())[1] === String(second.pid);
    const scaleDown = async () => {
      const scale = forkful.spawn(['scale', 'app', '1']);
      await waitUntil('the scale-down', async () => (await forkful.jlist('app'))[0].pm2_env.instances === 1);
      return scale;
    };
    let scale;
    if (when === 'before') {
      scale = await scaleDown();
      // It has got nothing to do and never will: it goes at once, while the old one still has a request.
      await waitUntil('the new one to end', () => second.gone);
    } else {
      await second.run(() => { globalThis.listen(); });
      await waitUntil('the second worker to be replaced', isReplaced);
      await waitUntil('the new one to answer', () => loads[1].answers.has(String(second.pid)));
      // On a busy machine a request may have waited so long that it is the new worker's.
      second.order(() => { globalThis.release(); });
      scale = await scaleDown();
      await waitUntil('the new one to leave', () => second.gone);
      await pids();
    }
    for (const worker of new Set([...first, ...forkful.control.living(path)])) worker.order(() => { globalThis.release(); });
    for (const running of [reload, scale]) {
      const { code, stderr } = await running.outcome;
      assert.equal(code, 0, stderr);
    }
    assert.deepEqual((await Promise.all(asked)).map(({ status }) => status), asked.map(() => 200));
    assert.equal((await pids()).length, 1);
    assert.equal((await settle()).has(String(second.pid)), when === 'after');
  });
}

test("a worker that says 'ready' and listens on nothing is ready", async (t) => {
  const forkful = await sandbox(t, 24);
  const path = forkful.script(() => { process.send?.('ready'); setInterval(() => {}, 1000); });
  await forkful.ok(['start', path, '--name', 'queue', '-i', '2', '--listen-timeout', '50s']);
  assert.deepEqual((await forkful.jlist('queue')).map((worker) => worker.pm2_env.status), ['online', 'online']);
  await forkful.ok(['reload', 'queue']);
});

test('a reload of an app that never ran does not say that an old version serves', async (t) => {
  const forkful = await sandbox(t, 24);
  const path = forkful.script(crashing);
  const options = ['--name', 'broken', '-i', '2', '--max-restarts', '0', '--listen-timeout', '100s'];
  assert.equal((await forkful.fails(['start', path, ...options])).code, FAILED);
  const { code, stderr } = await forkful.fails(['reload', 'broken']);
  assert.equal(code, FAILED);
  assert.match(stderr, /did not start, and no old one was there to serve on/);
  assert.doesNotMatch(stderr, /serves on/);
});

test('two reloads of one app at once: each ends, and no request is lost', async (t) => {
  const { forkful, settle, answered } = await underLoad(t, plain, { major: 24 });
  await answered(1000);
  const outcomes = await Promise.all([forkful.run(['reload', 'app']), forkful.run(['reload', 'app'])]);
  const refused = outcomes.filter(({ code }) => code !== 0);
  // The second one waits, or is refused and says so.
  assert.ok(refused.length <= 1);
  for (const { stderr } of refused) assert.match(stderr, /reload/);
  await settle();
});

test('a reload that waits for one app does not hold up that of another', async (t) => {
  const forkful = await sandbox(t, 24);
  const start = (name, body) => forkful.start(body, { name, instances: 1, env: { PORT: '0' } });
  const stuck = await start('stuck', plain);
  await start('quick', plain);
  const [old] = await forkful.jlist('quick');
  forkful.script(neverListening, stuck.path.split('/').at(-1));
  const waiting = forkful.spawn(['reload', 'stuck']);
  await waitUntil('the new version', () => forkful.control.living(stuck.path).length === 2);
  await forkful.ok(['reload', 'quick']);
  assert.notEqual((await forkful.jlist('quick'))[0].pid, old.pid);
  assert.equal(waiting.child.exitCode, null, 'it still waits');
  await forkful.ok(['delete', 'stuck']);
  assert.equal((await waiting.outcome).code, FAILED);
});

test('a reload without the agent loses no request of clients that connect anew', async (t) => {
  const forkful = await sandbox(t, 24);
  const port = await freePort();
  await forkful.start(plain, { name: 'bare', env: { PORT: String(port) }, options: ['--no-agent'] });
  const load = startLoad({ port, closing: 20, expect: PID });
  await waitUntil('answers', () => load.counts.success > 500);
  await forkful.ok(['reload', 'bare']);
  const { success: _success, ...failed } = await load.stop();
  assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
});

test('a reload waits for an agent for tracing that new workers load first, and no request waits', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'forkful-tracer-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [tracer, loads, loaded] = ['tracer.cjs', 'loads', 'loaded'].map((name) => join(folder, name));
  // As an agent that takes long to load: it blocks the start of its process.
  writeFileSync(tracer, `const { appendFileSync, existsSync } = require('node:fs');
    appendFileSync(process.env.LOADS, process.pid + '\\n');
    while (!existsSync(process.env.LOADED)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);`);
  writeFileSync(loaded, '');
  const { forkful, settle, answered, pids } = await underLoad(t, plain, {
    major: 24,
    options: ['--listen-timeout', '300s', '--node-args', `--require ${tracer}`],
    env: { LOADS: loads, LOADED: loaded },
  });
  const old = await pids();
  const starts = () => readFileSync(loads, 'utf8').trim().split('\n').filter((pid) => !old.includes(pid)).length;
  rmSync(loaded);
  const reloading = forkful.spawn(['reload', 'app']);
  await waitUntil('a new worker to load the agent', () => starts() > 0);
  await answered(2000);
  assert.deepEqual(await pids(), old, 'the old workers serve');
  assert.equal(reloading.child.exitCode, null, 'the reload waits');
  writeFileSync(loaded, '');
  assert.equal((await reloading.outcome).code, 0, reloading.stderr);
  assert.deepEqual((await pids()).filter((pid) => old.includes(pid)), []);
  await settle();
});

test('scaling down and up, and a restart of one of two apps, lose no request of the others', async (t) => {
  const { forkful, settle, answered, pids } = await underLoad(t, plain, { major: 24 });
  const other = await forkful.start(neverListening, { name: 'other', instances: 1, options: ['--no-wait'] });
  await answered(500);
  await forkful.ok(['scale', 'app', '4']);
  assert.equal((await pids()).length, 4);
  await answered(1500);
  await forkful.ok(['scale', 'app', '2']);
  assert.equal((await pids()).length, 2);
  await forkful.ok(['restart', other.name]);
  await answered(2500);
  await settle();
});

test('connections that are not HTTP/1: sessions and upgrades leave an old worker in their own way', async (t) => {
  const forkful = await sandbox(t, 24);
  const [h2, ws] = [await freePort(), await freePort()];
  const app = await forkful.start(({ require }) => {
    const server = require('http2').createServer((request, response) => {
      if (request.url === '/held') setTimeout(() => response.end(String(process.pid)), 300);
      else response.end(String(process.pid));
    });
    server.listen(Number(process.env.H2), '127.0.0.1');
    const { WebSocketServer } = require(process.env.WS_MODULE);
    new WebSocketServer({ port: Number(process.env.WS), host: '127.0.0.1' }).on('connection', (socket) => {
      socket.on('message', () => socket.send(String(process.pid)));
    });
  }, {
    name: 'protocols',
    instances: 1,
    env: { H2: String(h2), WS: String(ws), WS_MODULE: fileURLToPath(new URL('node_modules/ws', import.meta.url)) },
    options: ['--drain-timeout', '10s'],
  });
  const [old] = await app.workers();
  const session = http2.connect(`http://127.0.0.1:${h2}`);
  t.after(() => session.destroy());
  const read = async (stream) => { let text = ''; for await (const part of stream.setEncoding('utf8')) text += part; return text; };
  assert.equal(await read(session.request({ ':path': '/' })), String(old.pid));
  const upgraded = new WebSocket(`ws://127.0.0.1:${ws}`);
  await once(upgraded, 'open');
  const say = async () => { const answer = once(upgraded, 'message'); upgraded.send('who'); return String((await within('an answer', answer))[0]); };
  assert.equal(await say(), String(old.pid));

  const [told, ended, upgradeEnded] = [once(session, 'goaway'), once(session, 'close'), once(upgraded, 'close')];
  const held = read(session.request({ ':path': '/held' }));
  await once(session.request({ ':path': '/' }).resume(), 'end');
  const reloading = forkful.ok(['reload', 'protocols']);
  assert.equal(await held, String(old.pid));
  await within('GOAWAY', told);
  await within('the end of the session', ended);
  assert.equal(await say(), String(old.pid), 'an upgraded connection is still served');
  await reloading;
  // It stays until the drain timeout, and ends with its worker.
  await within('the end of the upgraded connection', upgradeEnded);
  await waitUntil('the old worker to be gone', () => old.gone);
  const next = http2.connect(`http://127.0.0.1:${h2}`);
  t.after(() => next.destroy());
  const [now] = await app.workers();
  assert.equal(await read(next.request({ ':path': '/' })), String(now.pid));
  next.close();
});
