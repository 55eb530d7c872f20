// Node's cluster semantics for TCP listens, unmodified apps, on each Node version: what an app may rely on
// under node:cluster holds here too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';

import { accepts, differentAnswers, freePort, get } from './lib/http.mjs';
import { nodeBinary } from './lib/nodes.mjs';
import { FAILED } from './lib/sandbox.mjs';
import { onEachNode } from './lib/suites.mjs';
import { waitUntil } from './lib/wait.mjs';

/** An app that listens on `LISTEN`, answers with its pid, and reports its address. */
function pidServer({ require, report }) {
  const server = require('http').createServer((_request, response) => response.end(String(process.pid)));
  server.listen(JSON.parse(process.env.LISTEN), () => report({ address: server.address() }));
}

/** The address that each worker reports. */
async function addresses(app) {
  const workers = await app.workers();
  return Promise.all(workers.map(async (worker) => (await worker.reported('address')).address));
}

async function startListening(forkful, name, listen, options = {}) {
  const app = await forkful.start(pidServer, { name, env: { LISTEN: JSON.stringify(listen) }, ...options });
  return { ...app, addresses: await addresses(app) };
}

/** Asserts that each worker is online because it listens, and not because a timeout passed. */
async function isKnownToListen(forkful, name) {
  // On a busy machine it listens after the time that a start waits, and answers late.
  await waitUntil(`${name} to be known to listen`, async () => {
    const { stdout } = await forkful.ok(['describe', name]);
    assert.match(stdout, /online|blocked/);
    assert.doesNotMatch(stdout, /has not said that it is ready/);
    return true;
  });
}

onEachNode('TCP', (forkful, major) => {
  test('a fixed port is shared, and the workers are cluster workers', async () => {
    const port = await freePort();
    const app = await forkful.start(({ require, report, module }) => {
      const cluster = require('cluster');
      const server = require('http').createServer((_request, response) => response.end(String(process.pid)));
      server.listen(Number(process.env.PORT), () => report({
        address: server.address(), isWorker: cluster.isWorker, isPrimary: cluster.isPrimary, id: cluster.worker.id,
        argv: process.argv.slice(1), execPath: process.execPath, main: require.main === module,
        execArgv: process.execArgv, instance: process.env.NODE_APP_INSTANCE,
        leaked: Object.keys(process.env).filter((key) => /^NODE_(CHANNEL|UNIQUE)/.test(key)),
      }));
    }, { name: 'fixed', env: { PORT: String(port) }, args: ['one', '--two'] });
    const workers = await app.workers();
    const reports = await Promise.all(workers.map((worker) => worker.reported('address')));
    for (const [slot, report] of reports.entries()) {
      const { id, ...rest } = report;
      assert.ok(Number.isInteger(id) && id > 0);
      assert.deepEqual(rest, {
        address: { address: '::', family: 'IPv6', port }, isWorker: true, isPrimary: false,
        argv: [app.path, 'one', '--two'], execPath: nodeBinary(major), main: true, execArgv: [],
        instance: String(slot), leaked: [],
      });
    }
    assert.notEqual(reports[0].id, reports[1].id);
    assert.deepEqual(await differentAnswers(port), workers.map((worker) => String(worker.pid)).sort());
    assert.equal((await get({ host: '::1', port })).status, 200);
    await forkful.ok(['delete', 'fixed']);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  });

  const HOSTS = [
    { host: '127.0.0.1', address: '127.0.0.1', family: 'IPv4', takes: ['127.0.0.1'], refuses: ['::1'] },
    { host: '0.0.0.0', address: '0.0.0.0', family: 'IPv4', takes: ['127.0.0.1'], refuses: ['::1'] },
    { host: '::1', address: '::1', family: 'IPv6', takes: ['::1'], refuses: ['127.0.0.1'] },
    { host: '::', address: '::', family: 'IPv6', takes: ['::1', '127.0.0.1'], refuses: [] },
    { host: '::', ipv6Only: true, address: '::', family: 'IPv6', takes: ['::1'], refuses: ['127.0.0.1'] },
  ];
  for (const { host, ipv6Only, address, family, takes, refuses } of HOSTS) {
    const what = `${host}${ipv6Only ? ' ipv6Only' : ''}`;
    test(`host ${what}`, async () => {
      const name = `host ${what}`.replaceAll(/[ .:]+/g, '-');
      const app = await startListening(forkful, name, { port: 0, host, ipv6Only });
      const { port } = app.addresses[0];
      assert.deepEqual(app.addresses, Array(2).fill({ address, family, port }));
      for (const from of takes) await differentAnswers({ host: from, port });
      for (const from of refuses) assert.equal(await accepts({ host: from, port }), false, from);
      await forkful.ok(['delete', name]);
    });
  }

  test('host localhost is resolved as Node resolves it', async () => {
    const app = await startListening(forkful, 'localhost', { port: 0, host: 'localhost' });
    const { address, port } = app.addresses[0];
    assert.ok(['127.0.0.1', '::1'].includes(address), address);
    await differentAnswers({ host: address, port });
    await forkful.ok(['delete', 'localhost']);
  });

  test('the nth listen on port 0 shares the nth port', async () => {
    const app = await forkful.start(({ require, report }) => {
      const http = require('http');
      const servers = ['a', 'b', 'c'].map((name) => http.createServer((_q, r) => r.end(`${name} ${process.pid}`)));
      const listen = (at) => {
        if (at === servers.length) report({ ports: servers.map((server) => server.address().port) });
        else servers[at].listen(0, '127.0.0.1', () => listen(at + 1));
      };
      listen(0);
    }, { name: 'zero' });
    const workers = await app.workers();
    const [first, second] = await Promise.all(workers.map(async (worker) => (await worker.reported('ports')).ports));
    assert.deepEqual(first, second);
    assert.equal(new Set(first).size, 3);
    for (const [at, name] of ['a', 'b', 'c'].entries()) {
      assert.deepEqual(await differentAnswers(first[at]), workers.map(({ pid }) => `${name} ${pid}`).sort());
    }
    await forkful.ok(['delete', 'zero']);
  });

  test('the backlog is the app\'s', async () => {
    const app = await startListening(forkful, 'backlog', { port: 0, host: '127.0.0.1', backlog: 7 });
    const { port } = app.addresses[0];
    const lines = execFileSync('ss', ['-Hltn', `sport = :${port}`], { encoding: 'utf8' }).trim().split('\n');
    assert.deepEqual([...new Set(lines.map((line) => line.trim().split(/\s+/)[2]))], ['7'], lines.join('\n'));
    await differentAnswers(port);
    await forkful.ok(['delete', 'backlog']);
  });

  test('an exclusive listen is the worker\'s own', async () => {
    const app = await startListening(forkful, 'exclusive', { port: 0, host: '127.0.0.1', exclusive: true });
    const workers = await app.workers();
    const ports = app.addresses.map(({ port }) => port);
    assert.notEqual(ports[0], ports[1]);
    for (const [at, port] of ports.entries()) assert.equal((await get(port)).body, String(workers[at].pid));
    await isKnownToListen(forkful, 'exclusive');
    await forkful.ok(['delete', 'exclusive']);
  });

  test('a reusePort listen is served by all workers', async () => {
    const port = await freePort();
    await startListening(forkful, 'reuseport', { port, host: '127.0.0.1', reusePort: true });
    await differentAnswers(port);
    await isKnownToListen(forkful, 'reuseport');
    await forkful.ok(['reload', 'reuseport']);
    await differentAnswers(port);
    await isKnownToListen(forkful, 'reuseport');
    await forkful.ok(['delete', 'reuseport']);
  });

  test('the same port twice in one worker is EADDRINUSE', async () => {
    const port = await freePort();
    const app = await forkful.start(({ require, report }) => {
      const net = require('net');
      const port = Number(process.env.PORT);
      const first = net.createServer((socket) => socket.end(String(process.pid)));
      const second = net.createServer();
      second.on('error', ({ code, syscall, errno, port: of }) => report({ error: { code, syscall, errno, port: of } }));
      first.listen(port, '127.0.0.1', () => second.listen(port, '127.0.0.1', () => report({ error: null })));
    }, { name: 'twice', env: { PORT: String(port) } });
    for (const worker of await app.workers()) {
      const { error } = await worker.reported('error');
      assert.deepEqual(error, { code: 'EADDRINUSE', syscall: 'bind', errno: -98, port });
    }
    await forkful.ok(['delete', 'twice']);
  });

  test('a port that someone else has is EADDRINUSE, and start says whose it is', async (t) => {
    const owner = net.createServer().listen(0, '127.0.0.1');
    t.after(() => owner.close());
    await once(owner, 'listening');
    const { port } = /** @type {net.AddressInfo} */ (owner.address());
    const script = forkful.script(pidServer);
    const { code, stdout, stderr } = await forkful.fails(
      ['start', script, '--name', 'taken', '-i', '2', '--listen-timeout', '50s', '--interpreter', nodeBinary(major)],
      { env: { LISTEN: JSON.stringify({ port, host: '127.0.0.1' }) } },
    );
    assert.equal(code, FAILED);
    assert.match(stdout + stderr, /EADDRINUSE/);
    assert.match(stdout + stderr, new RegExp(`\\b${process.pid}\\b`), 'names the owner\'s pid');
    await forkful.ok(['delete', 'taken']);
  });

  test('a server can be closed and listen again', async () => {
    const port = await freePort();
    const app = await forkful.start(({ require, report }) => {
      const server = require('http').createServer((_q, r) => r.end(`${process.pid}`));
      const again = (round) => {
        server.listen(Number(process.env.PORT), '127.0.0.1', () => {
          if (round === 3) report({ rounds: round });
          else server.close(() => again(round + 1));
        });
      };
      again(0);
    }, { name: 'again', env: { PORT: String(port) } });
    for (const worker of await app.workers()) await worker.reported('rounds');
    await differentAnswers(port);
    await forkful.ok(['delete', 'again']);
  });

  test('one worker that closes leaves the port to the other', async () => {
    const port = await freePort();
    const app = await forkful.start(({ require }) => {
      const server = require('http').createServer((_q, r) => r.end(`${process.pid}`));
      server.listen(Number(process.env.PORT), '127.0.0.1');
      global.server = server;
    }, { name: 'half', env: { PORT: String(port) } });
    const [first, second] = await app.workers();
    await differentAnswers(port);
    await first.run(() => new Promise((resolve) => { global.server.close(resolve); global.server.closeAllConnections(); }));
    for (let n = 0; n < 20; n += 1) assert.equal((await get(port)).body, String(second.pid));
    await forkful.ok(['delete', 'half']);
  });

  test('a server that is full (maxConnections) refuses, and the connection waits for room', async (t) => {
    const port = await freePort();
    await forkful.start(({ require }) => {
      const server = require('net').createServer((socket) => { socket.on('error', () => {}); socket.write(`${process.pid}\n`); });
      server.maxConnections = 3;
      server.listen(Number(process.env.PORT), '127.0.0.1');
    }, { name: 'full', env: { PORT: String(port) }, options: ['--balance', 'exact', '--drain-timeout', '100ms'] });
    const sockets = [];
    t.after(() => { for (const { socket } of sockets) socket.destroy(); });
    const open = async () => {
      const socket = net.connect(port, '127.0.0.1');
      const greeted = { socket, text: '' };
      socket.setEncoding('utf8').on('data', (text) => { greeted.text += text; }).on('error', (error) => { greeted.text = error.message; });
      sockets.push(greeted);
      await once(socket, 'connect');
    };
    for (let n = 0; n < 8; n += 1) await open();
    const greetings = () => sockets.filter(({ text }) => /^\d+\n$/.test(text)).length;
    await waitUntil('both workers to be full', () => greetings() === 6);
    for (const { socket } of sockets.filter(({ text }) => text !== '').slice(0, 2)) socket.destroy();
    await waitUntil('those that waited to be served', () => greetings() === 8);
    assert.deepEqual(sockets.filter(({ text }) => !/^\d+\n$/.test(text)), []);
    await forkful.ok(['delete', 'full']);
  });

  test('two apps on one port: the second is refused, the first goes on', async () => {
    const port = await freePort();
    const listen = { LISTEN: JSON.stringify({ port, host: '127.0.0.1' }) };
    const app = await startListening(forkful, 'first', { port, host: '127.0.0.1' });
    const refused = await forkful.fails(
      ['start', forkful.script(pidServer), '--name', 'second', '--min-uptime', '50s', '--interpreter', nodeBinary(major)], { env: listen });
    assert.match(refused.stdout + refused.stderr, /EADDRINUSE/);
    // Whichever process has the port for us: ending it is no advice to give.
    for (const mode of [['--min-uptime', '50s'], ['-i', '2', '--listen-timeout', '50s']]) {
      const { stdout, stderr } = await forkful.fails(
        ['start', forkful.script(pidServer), '--name', `third${mode.length}`, '--max-restarts', '0', '--interpreter', nodeBinary(major), ...mode], { env: listen });
      assert.match(stdout + stderr, /it is taken by the app `first`/);
      assert.doesNotMatch(stdout + stderr, /`kill /);
    }
    const pids = (await app.workers()).map(({ pid }) => String(pid)).sort();
    assert.deepEqual(await differentAnswers(port), pids);
    await forkful.ok(['delete', 'first', 'second', 'third2', 'third4']);
  });
});
