// One instance (fork mode): the daemon holds its sockets, so a reload loses no request and a crash refuses no
// connection. The app does not notice.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { MAJORS, NEWEST, nodeBinary } from './lib/nodes.mjs';
import { failedReload } from './lib/reloads.mjs';
import { FAILED, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const EXPRESS = fileURLToPath(new URL('node_modules/express', import.meta.url));
/** Reloads and crashes on the newest Node.js, and on each of the others. */
const ROUNDS = 6;
const ROUNDS_ELSEWHERE = 2;
/** At most 200 requests a second. */
const CLIENTS = { closing: 4, keeping: 4, pauseMs: 40 };
const PID = /^\d+$/;

/** Answers with its pid. */
function express({ require, report }) {
  const app = require(process.env.EXPRESS)();
  app.get('/', (_request, response) => response.send(String(process.pid)));
  const server = app.listen(Number(process.env.PORT), () => report({ address: server.address() }));
}

/** Listens in all ways, and writes the results to a file. */
function listens({ require }) {
  const [net, http, fs] = ['net', 'http', 'fs'].map(require);
  const cluster = require('cluster');
  const [port, second, third, fourth] = process.env.PORTS.split(' ').map(Number);
  const found = { primary: cluster.isPrimary, worker: cluster.isWorker, execArgv: process.execArgv };
  /** The results of listening: the immediate address, and then the address or the error. */
  const listen = (server, ...where) => new Promise((resolve) => {
    server.once('error', (error) => resolve([at, error.code, error.syscall, error.address, error.port, error.message]));
    server.listen(...where, () => resolve([at, server.listening, server.address(), server._connectionKey]));
    const at = [server.listening, server.address()];
  });
  const close = (server) => new Promise((resolve) => server.close((error) => resolve(String(error))));
  (async () => {
    const server = http.createServer();
    found.host = await listen(server, port, '127.0.0.1');
    found.again = await listen(net.createServer(), port, '127.0.0.1');
    found.closed = [await close(server), await listen(server, port, '127.0.0.1'), 'listening again'];
    found.variables = Object.keys(process.env).filter((name) => /LENDS|^NODE_(OPTIONS|CHANNEL|UNIQUE)/.test(name));
    const random = net.createServer();
    random.listen(0);
    found.random = random.address().port > 0;
    const path = net.createServer();
    found.path = [await listen(path, { path: 'a.sock', writableAll: true }), fs.statSync('a.sock').mode, await close(path)];
    const early = net.createServer().listen(second);
    found.early = [early.address(), await close(early), early.listening];
    const hasty = net.createServer().listen(second);
    hasty.close();
    hasty.listen(second).close();
    found.hasty = [await listen(hasty, second), await close(hasty)];
    const { AsyncLocalStorage } = require('async_hooks');
    const context = new AsyncLocalStorage();
    const inContext = net.createServer((socket) => socket.end(String(context.getStore())));
    await context.run('of the listen', () => listen(inContext, second));
    found.context = await new Promise((resolve) => net.connect(second, '127.0.0.1').on('data', (text) => resolve(String(text))));
    await close(inContext);
    [, ...found.taken] = await listen(net.createServer(), Number(process.env.TAKEN));
    found.nowhere = await listen(net.createServer(), second, '203.0.113.1');
    found.exclusive = await listen(net.createServer(), { port: third, exclusive: true });
    found.ipv6 = await listen(net.createServer(), { port: fourth, host: '::', ipv6Only: true });
    fs.writeFileSync('found.tmp', JSON.stringify(found));
    fs.renameSync('found.tmp', 'found.json');
    process.exit();
  })();
}

/** Starts one instance, and its load. By `npm start`, the process that listens is one that a shell of npm's has started. */
async function underLoad(t, body, { major, options = [], byNpm = false }) {
  const forkful = await sandbox(t, major);
  const port = await freePort();
  const path = forkful.script(body);
  const env = { PORT: String(port), EXPRESS, PATH: `${dirname(nodeBinary(major))}:${process.env.PATH}` };
  writeFileSync(join(forkful.directory, 'package.json'), JSON.stringify({ scripts: { start: `node ${basename(path)}` } }));
  const start = byNpm ? ['npm', '--name', 'app', ...options, '--', 'start'] : [path, '--name', 'app', '--interpreter', nodeBinary(major), ...options];
  await forkful.ok(['start', ...start], { env });
  await waitUntil('the app to serve', async () => (await get(port)).status === 200);
  const load = startLoad({ port, ...CLIENTS, expect: PID });
  t.after(() => load.stop());
  const pid = async () => (await forkful.jlist('app'))[0].pid;
  const answers = (one) => waitUntil(`an answer of ${one}`, () => load.answers.has(String(one)) || load.counts.refused > 0);
  /** Waits for the answer of a process that has not answered before. */
  const newAnswer = async () => {
    const before = load.answers.size;
    await waitUntil('an answer of a new process', () => load.answers.size > before || load.counts.refused > 0);
    return Number([...load.answers.keys()].at(-1));
  };
  return { forkful, path, port, load, pid, answers, newAnswer };
}

const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };

for (const major of [20, NEWEST]) {
  const rounds = major === NEWEST ? ROUNDS : ROUNDS_ELSEWHERE;

  test(`${rounds} reloads of \`npm start\` on Node ${major} lose no request, and as many crashes refuse nobody`, async (t) => {
    const { forkful, load, newAnswer } = await underLoad(t, express, {
      major,
      byNpm: true,
      options: ['--listen-timeout', '100s', '--restart-delay', '1', '--max-restarts', '1000'],
    });
    await waitUntil('an answer', () => load.answers.size > 0);
    for (let n = 0; n < rounds; n += 1) {
      const next = newAnswer();
      const { stdout, stderr } = await forkful.ok(['reload', 'app']);
      assert.doesNotMatch(stdout + stderr, /stopped, then started/);
      await next;
    }
    const { success: _success, ...failed } = load.counts;
    assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
    for (let n = 0; n < rounds; n += 1) {
      const next = newAnswer();
      process.kill(Number([...load.answers.keys()].at(-1)), 'SIGKILL');
      await next;
    }
    const { reset: _reset, refused, timeout, unexpected } = await load.stop();
    assert.deepEqual({ refused, timeout, unexpected }, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
  });
}

for (const major of MAJORS) {
  const rounds = major === NEWEST ? ROUNDS : ROUNDS_ELSEWHERE;

  test(`${rounds} reloads of one Express on Node ${major} lose no request`, async (t) => {
    const { forkful, load, pid, answers } = await underLoad(t, express, { major, options: ['--listen-timeout', '100s'] });
    const pids = [await pid()];
    for (let n = 0; n < rounds; n += 1) {
      await answers(pids.at(-1));
      const { stdout, stderr } = await forkful.ok(['reload', 'app']);
      assert.doesNotMatch(stdout + stderr, /stopped, then started/);
      pids.push(await pid());
    }
    await answers(pids.at(-1));
    const { success, ...failed } = await load.stop();
    assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
    assert.ok(success > 0);
    assert.equal(new Set(pids).size, rounds + 1);
  });

  test(`${rounds} crashes of one Express on Node ${major} refuse nobody`, async (t) => {
    const { load, pid, answers } = await underLoad(t, express, {
      major,
      options: ['--restart-delay', '1', '--max-restarts', '1000'],
    });
    let current = await pid();
    for (let n = 0; n < rounds; n += 1) {
      await answers(current);
      process.kill(current, 'SIGKILL');
      const old = current;
      current = await waitUntil('another process', async () => {
        const now = await pid();
        return now && now !== old && now;
      });
    }
    await answers(current);
    const { reset, refused, timeout, unexpected } = await load.stop();
    assert.deepEqual({ refused, timeout, unexpected }, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    // What was inside: at most what all clients have asked.
    assert.ok(reset <= rounds * (CLIENTS.closing + CLIENTS.keeping), `${reset} resets`);
  });

  test(`an app on Node ${major} notices nothing of the sockets that it is lent`, async (t) => {
    const forkful = await sandbox(t, major);
    const [taken, ...ports] = await Promise.all(Array.from({ length: 5 }, freePort));
    const holder = net.createServer().listen(taken);
    t.after(() => holder.close());
    const path = forkful.script(listens);
    const env = { TAKEN: String(taken), PORTS: ports.join(' ') };
    const run = async (start) => {
      await start();
      const isThere = () => existsSync(join(forkful.directory, 'found.json'));
      await waitUntil('what it has found', isThere);
      const found = JSON.parse(readFileSync(join(forkful.directory, 'found.json'), 'utf8'));
      rmSync(join(forkful.directory, 'found.json'));
      return found;
    };
    const alone = await run(() => promisify(execFile)(nodeBinary(major), [path], { cwd: forkful.directory, env: { ...forkful.env, ...env } }));
    const options = ['--name', 'app', '--interpreter', nodeBinary(major), '--stop-exit-codes', '0'];
    const lent = await run(() => forkful.ok(['start', path, ...options], { env }));
    assert.deepEqual(lent, alone);
    assert.equal(lent.closed.at(-1), 'listening again', 'the app has come to its end');
  });
}

test('a server that removes the file of its unix socket before it listens is reached after each restart', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const removes = ({ require }) => {
    require('fs').rmSync(process.env.SOCKET, { force: true });
    require('http').createServer((_request, response) => response.end(String(process.pid))).listen(process.env.SOCKET);
  };
  const socketPath = join(forkful.directory, 'app.sock');
  await forkful.start(removes, { name: 'app', instances: 1, options: ['-x'], env: { SOCKET: socketPath } });
  const answered = () => new Promise((resolve) => {
    http.get({ socketPath, agent: false }, async (response) => resolve(Number(await response.setEncoding('utf8').toArray().then((parts) => parts.join('')))))
      .on('error', () => resolve(undefined));
  });
  const reached = async (what) => {
    const [{ pid }] = await forkful.jlist('app');
    await waitUntil(what, async () => (await answered()) === pid);
    return pid;
  };
  await reached('the start');
  for (const command of ['restart', 'reload', 'restart']) {
    await forkful.ok([command, 'app']);
    await reached(command);
  }
  const before = await reached('the last one');
  process.kill(before, 'SIGKILL');
  const killedAt = performance.now();
  // The connection of a client that comes before the next process removes the file is closed when that process listens.
  await waitUntil('the next process', async () => ![before, undefined].includes(await answered()));
  t.diagnostic(`the next process has answered after ${Math.round(performance.now() - killedAt)} ms`);
  await reached('a crash');
  await forkful.ok(['delete', 'app']);
  assert.ok(!existsSync(socketPath));
});

test('a new version that does not listen is given up, and the one instance serves on', async (t) => {
  const { forkful, path, load, pid, answers } = await underLoad(t, express, { major: NEWEST, options: ['--listen-timeout', '2s'] });
  const old = await pid();
  await answers(old);
  forkful.script(() => setInterval(() => {}, 1000), path.split('/').at(-1));
  const { code, stdout, stderr } = await forkful.fails(['reload', 'app']);
  assert.equal(code, FAILED);
  assert.match(stdout + stderr, /the old one serves on/);
  assert.equal(await pid(), old);
  const { success: _success, ...failed } = await load.stop();
  assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
});

/** Listens, and has a child process that listens on another port, a while later. */
function listensTwice({ require, report }) {
  const [port, second] = process.env.PORTS.split(' ').map(Number);
  const isChild = process.argv[2] === 'child';
  const server = require('http').createServer((_request, response) => response.end(String(process.pid)));
  if (isChild) {
    setTimeout(() => server.listen(second), 400);
  } else {
    require('child_process').fork(__filename, ['child']);
    server.listen(port, () => report({ port }));
  }
}

test('reloads of one instance with a second process that listens lose no request of either port', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const ports = [await freePort(), await freePort()];
  const path = forkful.script(listensTwice);
  const options = ['--name', 'app', '--interpreter', nodeBinary(NEWEST), '--listen-timeout', '100s'];
  await forkful.ok(['start', path, ...options], { env: { PORTS: ports.join(' ') } });
  const loads = [];
  for (const port of ports) {
    await waitUntil('the app to serve', async () => (await get(port)).status === 200);
    const load = startLoad({ port, ...CLIENTS, expect: PID });
    t.after(() => load.stop());
    loads.push(load);
  }
  for (let n = 0; n < ROUNDS_ELSEWHERE; n += 1) {
    const before = loads.map((load) => load.answers.size);
    const { stdout, stderr } = await forkful.ok(['reload', 'app']);
    assert.doesNotMatch(stdout + stderr, /stopped, then started|closed/);
    await waitUntil('answers of both new processes', () => loads.every((load, at) => load.answers.size > before[at] || load.counts.refused > 0));
  }
  for (const load of loads) {
    const { success: _success, ...failed } = load.counts;
    assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
  }
  // A version whose second process does not listen is given up.
  forkful.script(({ require }) => {
    require('http').createServer().listen(Number(process.env.PORTS.split(' ')[0]));
    require('child_process').spawn('sleep', ['1000']);
  }, basename(path));
  const { code, stdout, stderr } = await failedReload(forkful, 'app', /listens on/);
  assert.equal(code, FAILED);
  assert.match(stdout + stderr, new RegExp(`listens on \\S+:${ports[0]}, but not on \\S+:${ports[1]}`));
  for (const load of loads) {
    const { success: _success, ...failed } = await load.stop();
    assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
  }
});

/** A cluster of the app's own; each request takes a while, and a worker that has died is replaced, which the first requests after it ask for. */
function ownCluster({ require }) {
  const cluster = require('cluster');
  if (cluster.isPrimary) {
    cluster.schedulingPolicy = cluster[process.env.POLICY];
    for (let n = 0; n < 2; n += 1) cluster.fork();
    cluster.on('exit', () => cluster.fork());
  } else {
    require('http').createServer(({ url }, response) => {
      if (url === '/end') process.exit();
      setTimeout(() => response.end(String(process.pid)), 200);
    }).listen(Number(process.env.PORT));
  }
}

for (const [major, POLICY] of [[MAJORS[0], 'SCHED_RR'], [MAJORS[0], 'SCHED_NONE'], [NEWEST, 'SCHED_RR'], [NEWEST, 'SCHED_NONE']]) {
  test(`reloads of an app with its own cluster (${POLICY}) lose no request of its workers, on Node ${major}`, async (t) => {
    const forkful = await sandbox(t, major);
    const port = await freePort();
    await forkful.ok(['start', forkful.script(ownCluster), '--name', 'app', '--interpreter', nodeBinary(major)], { env: { PORT: String(port), POLICY } });
    await waitUntil('the app to serve', async () => (await get(port)).status === 200);
    // A worker that is forked later drains as well. Node.js may lose a connection that it gives to a worker that ends.
    await get(port, '/end').catch(() => {});
    const again = () => get(port).then(({ status }) => status === 200, () => false);
    await waitUntil('the app to serve again', () => Promise.race([again(), sleep(2000, false)]));
    const load = startLoad({ port, ...CLIENTS, expect: PID });
    t.after(() => load.stop());
    for (let n = 0; n < ROUNDS_ELSEWHERE; n += 1) {
      const before = load.answers.size;
      await waitUntil('requests of all clients', () => load.counts.success > 20 * (n + 1));
      const { stdout, stderr } = await forkful.ok(['reload', 'app']);
      assert.doesNotMatch(stdout + stderr, /stopped, then started|closed/);
      await waitUntil('answers of the new processes', () => load.answers.size > before || load.counts.refused > 0);
    }
    const { success: _success, ...failed } = await load.stop();
    assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
  });
}

test('a stranger gets nothing by the socket where processes of apps ask', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const path = forkful.script(express);
  await forkful.ok(['start', path, '--name', 'app', '--interpreter', nodeBinary(NEWEST), '--min-uptime', '60s'], { env: { PORT: String(port), EXPRESS } });
  for (const text of ['', 'x'.repeat(100_000), `{"cmd":"NODE_CLUSTER","act":"queryServer","seq":1,"address":null,"port":${port},"addressType":4}\n`]) {
    const socket = net.connect(join(forkful.home, 'lends.sock')).on('error', () => {});
    let said = '';
    socket.on('data', (bytes) => { said += bytes; });
    socket.write(text);
    await new Promise((resolve) => { socket.on('close', resolve); });
    assert.equal(said, '');
  }
  assert.equal((await get(port)).status, 200);
});

test('two processes of one instance do not share a port', async (t) => {
  const forkful = await sandbox(t);
  const server = forkful.script(({ require }) => {
    const tell = (became) => require('fs').appendFileSync('became', `${became}\n`);
    const one = require('http').createServer().on('error', (error) => tell(error.code));
    one.listen(Number(process.env.PORT), () => tell('listening'));
  });
  const wrapper = forkful.script(({ require }) => {
    for (let n = 0; n < 2; n += 1) require('child_process').spawn(process.execPath, [process.env.SERVER], { stdio: 'inherit' });
  });
  const env = { PORT: String(await freePort()), SERVER: server };
  await forkful.ok(['start', wrapper, '--name', 'app', '--interpreter', nodeBinary(NEWEST)], { env });
  const file = join(forkful.directory, 'became');
  const both = await waitUntil('both', () => existsSync(file) && readFileSync(file, 'utf8').split('\n').length === 3 && readFileSync(file, 'utf8'));
  assert.deepEqual(both.trim().split('\n').sort(), ['EADDRINUSE', 'listening']);
});

test('two instances in fork mode do not share a port', async (t) => {
  const forkful = await sandbox(t);
  const env = { PORT: String(await freePort()) };
  const path = forkful.script(({ require }) => require('http').createServer().listen(Number(process.env.PORT)));
  const options = ['--name', 'app', '-i', '2', '-x', '--interpreter', nodeBinary(NEWEST), '--min-uptime', '60s'];
  const { stdout, stderr } = await forkful.fails(['start', path, ...options], { env });
  assert.match(stdout + stderr, /EADDRINUSE/);
});

test('an app that disconnects from its parent once it listens serves on, also after a reload, a crash of the daemon and its own', async (t) => {
  const forkful = await sandbox(t);
  const env = { PORT: String(await freePort()) };
  const path = forkful.script(({ require }) => {
    require('http').createServer((_request, response) => response.end(`${process.pid} ${process.connected}`)).listen(Number(process.env.PORT), () => {
      process.send('ready');
      process.disconnect();
    });
  });
  await forkful.ok(['start', path, '--name', 'app', '--wait-ready', '--listen-timeout', '100s', '--interpreter', nodeBinary(NEWEST)], { env });
  const pid = async () => (await forkful.jlist())[0]?.pid;
  const serves = async () => assert.equal((await get(Number(env.PORT))).body, `${await pid()} false`);
  await serves();
  await forkful.ok(['reload', 'app']);
  await serves();
  const before = await pid();
  const daemon = await forkful.daemonPid();
  process.kill(daemon, 'SIGKILL');
  await waitUntil('another daemon', async () => (await forkful.daemonPid()) !== daemon);
  assert.equal(await pid(), before);
  await serves();
  process.kill(before, 'SIGKILL');
  await waitUntil('another worker', async () => ![before, 0, undefined].includes(await pid()));
  await waitUntil('it serves', () => get(Number(env.PORT)).then(() => true, () => false));
  await serves();
});

test('a server that the app sends to its child processes is served by them, also when the app closes its own', async (t) => {
  for (const CLOSE of ['', '1']) {
    const forkful = await sandbox(t);
    const env = { PORT: String(await freePort()), CLOSE };
    const path = forkful.script(({ require }) => {
      const { fork } = require('child_process');
      if (process.argv[2] === 'child') {
        process.on('message', (_message, server) => {
          server.on('connection', (socket) => socket.end('child'));
          process.send('has it');
        });
        return;
      }
      const children = [1, 2].map(() => fork(process.argv[1], ['child']));
      const server = require('net').createServer((socket) => socket.end('parent')).listen(Number(process.env.PORT), () => {
        let waiting = children.length;
        for (const child of children) {
          child.on('message', () => {
            waiting -= 1;
            if (waiting > 0) return;
            if (process.env.CLOSE) server.close();
            process.send('ready');
          });
          child.send('server', server);
        }
      });
    });
    await forkful.ok(['start', path, '--name', 'app', '--wait-ready', '--listen-timeout', '100s', '--interpreter', nodeBinary(NEWEST)], { env });
    const answer = () => new Promise((resolve, reject) => {
      net.connect(Number(env.PORT), '127.0.0.1').on('data', (text) => resolve(String(text))).on('error', reject);
    });
    const answers = new Set();
    // Which process takes a connection is up to the kernel.
    await waitUntil('an answer of a child', async () => answers.add(await answer()).has('child'));
    assert.equal(CLOSE === '1' && answers.has('parent'), false, [...answers].join());
  }
});
