// Drains, on every supported Node version, against a primary that is this test: a drain answers what was asked, closes what is quiet, and leaves
// what is not its own.
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import http2 from 'node:http2';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';

import { MAJORS } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil, within } from '../../tests/e2e/lib/wait.mjs';
import { client, connect, directory, launch, serve, sync } from './lib/worker.mjs';

/** A grace that no test outlives: what happens must not have waited for it. */
const LONG_MS = 600_000;
/** A grace that is over soon. */
const SHORT_MS = 150;
const HOUR_MS = 3_600_000;

test('a session of HTTP/2 is closed a moment after its client has answered GOAWAY', () => {
  const calls = [];
  const timers = [];
  const session = new EventEmitter();
  Object.setPrototypeOf(session, Object.assign(Object.create(EventEmitter.prototype), {
    goaway: (code, last) => calls.push(`goaway ${code} ${last}`),
    close: () => calls.push('close'),
  }));
  const timer = (callback, ms) => {
    timers.push({ callback, ms });
    return { unref: () => {} };
  };
  createRequire(import.meta.url)('../drain.cjs').announce(session, timer);
  assert.deepEqual(calls, [`goaway 0 ${2 ** 31 - 1}`]);
  session.close(() => calls.push('closed'));
  session.close();
  assert.deepEqual([calls.length, timers.map(({ ms }) => ms)], [1, [150]], 'streams on their way are still taken');
  timers[0].callback();
  session.emit('close');
  assert.deepEqual(calls.slice(1), ['close', 'closed']);
});

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 4 }, () => {
    for (const kind of ['http', 'https']) {
      test(`${kind}: a request under way is answered, and its connection closed`, async (t) => {
        const worker = await serve(t, major, kind);
        const { get } = client(t, kind);
        assert.equal((await get(worker.port, '/now')).connection, 'keep-alive');
        const held = get(worker.port, '/held');
        await worker.heard('the request', (m) => m.asked === '/held');
        worker.drain(LONG_MS);
        await sync(worker);
        worker.child.send('answer');
        assert.deepEqual(await within('the answer', held), { body: 'held', connection: 'close', reused: true });
        assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 0 });
      });

      test(`${kind}: a quiet connection may be used once more during the grace`, async (t) => {
        const worker = await serve(t, major, kind);
        const { get } = client(t, kind);
        await get(worker.port, '/now');
        worker.drain(LONG_MS);
        await sync(worker);
        assert.deepEqual(await get(worker.port, '/now'), { body: 'now', connection: 'close', reused: true });
        assert.equal((await worker.drained()).idle, 0);
      });

      test(`${kind}: a quiet connection is ended after the grace`, async (t) => {
        const worker = await serve(t, major, kind);
        const { get, agent } = client(t, kind);
        await get(worker.port, '/now');
        const [socket] = Object.values(agent.freeSockets)[0];
        const errors = [];
        socket.on('error', (error) => errors.push(error));
        const ended = once(socket, 'close');
        worker.drain(SHORT_MS);
        await within('the end', ended);
        assert.deepEqual(errors, []);
        assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 1, busy: 0 });
      });
    }

    test('requests that a client has pipelined are all answered', async (t) => {
      const worker = await serve(t, major, 'http');
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: HOUR_MS, quiet_ms: HOUR_MS });
      const get = (path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
      const asked = (count) => waitUntil('the requests', () => worker.said.filter((m) => m.asked).length === count);
      const [before, across, since] = await Promise.all([1, 2, 3].map(() => connect(t, worker.port)));
      before.socket.write(get('/held') + get('/held') + get('/now'));
      across.socket.write(get('/held'));
      await asked(4);
      worker.drain(LONG_MS);
      await sync(worker);
      across.socket.write(get('/held') + get('/held'));
      since.socket.write(get('/held') + get('/held'));
      await asked(8);
      worker.child.send('answer');
      for (const [seen, bodies] of [[before, ['held', 'held', 'now']], [across, ['held', 'held', 'held']], [since, ['held', 'held']]]) {
        const answers = () => seen.text.split('HTTP/1.1 ').slice(1);
        // The app had answered the last request of `before` before the drain began, so that nothing closes this connection during the grace.
        await waitUntil('the answers', () => (seen === before ? answers().length === bodies.length && seen.text.endsWith(bodies.at(-1)) : seen.ended));
        assert.equal(seen.error, null);
        assert.deepEqual(answers().map((answer) => answer.split('\r\n').at(-1)), bodies, seen.text);
        const heads = answers();
        if (seen !== before) assert.match(heads.pop(), /^connection: close/im);
        for (const head of heads) assert.doesNotMatch(head, /^connection: close/im);
      }
    });

    test('a request behind the head of the last response is not executed', async (t) => {
      const worker = await serve(t, major, 'http');
      const get = (path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
      const [seen, atOnce] = await Promise.all([1, 2].map(() => connect(t, worker.port)));
      worker.drain(LONG_MS);
      await sync(worker);
      const upgrade = 'GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n';
      atOnce.socket.write(get('/now') + get('/now') + upgrade);
      await waitUntil('the end', () => atOnce.ended);
      assert.match(atOnce.text, /^connection: close[^]*now$/im);
      assert.equal(atOnce.text.split('HTTP/1.1 ').length, 2, atOnce.text);
      seen.socket.write(get('/begun'));
      await waitUntil('the head', () => seen.text.includes('head'));
      assert.match(seen.text, /^connection: close/im);
      seen.socket.write(get('/now'));
      await sync(worker);
      worker.child.send('answer');
      await waitUntil('the end', () => seen.ended);
      assert.match(seen.text, /tail\r\n0\r\n\r\n$/);
      assert.equal(seen.error, null);
      await worker.drained();
      assert.deepEqual(worker.said.flatMap((m) => m.asked ?? []), ['/now', '/begun']);
    });

    test('a response whose app asks for a kept connection closes it all the same', async (t) => {
      const worker = await serve(t, major, 'http');
      const clients = ['/kept', '/set'].map((path) => ({ path, get: client(t, 'http').get }));
      for (const { path, get } of clients) assert.match((await get(worker.port, path)).connection, /^keep-alive$/i);
      worker.drain(LONG_MS);
      await sync(worker);
      for (const { path, get } of clients) {
        const { body, connection, reused } = await get(worker.port, path);
        assert.deepEqual([body, connection, reused], [path.slice(1), 'close', true]);
      }
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 0 });
    });

    test('a response that comes before the end of a large request is not cut off', async (t) => {
      const worker = await serve(t, major, 'http');
      const kept = await connect(t, worker.port);
      const post = 'POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n';
      worker.drain(LONG_MS);
      await sync(worker);
      kept.socket.write(post);
      await waitUntil('the answer', () => kept.text.endsWith('now'));
      for (let sent = 0; sent < 20_000_000; sent += 100_000) {
        if (!kept.socket.write('x'.repeat(100_000))) await once(kept.socket, 'drain');
      }
      assert.equal(kept.error, null);
      // The next request ends the connection.
      kept.socket.write('GET /now HTTP/1.1\r\nHost: a\r\n\r\n');
      await waitUntil('the end', () => kept.ended);
      assert.equal(kept.error, null);
      assert.deepEqual(kept.text.split('HTTP/1.1 ').slice(1).map((answer) => [answer.slice(0, 3), /^connection: close/im.test(answer)]), [['200', false], ['200', true]]);
    });

    test('a request whose head has come in part is waited for', async (t) => {
      const worker = await serve(t, major, 'http');
      const [first, later] = await Promise.all([1, 2].map(() => connect(t, worker.port)));
      later.socket.write('GET /now HTTP/1.1\r\nHost: a\r\n\r\n');
      await waitUntil('the answer', () => later.text.endsWith('now'));
      for (const { socket } of [first, later]) socket.write('GET /now HTTP/1.1\r\nHost: a\r\nCookie: a');
      // When the worker has answered a later request, it has read both incomplete heads.
      await client(t, 'http').get(worker.port, '/now');
      await sync(worker);
      worker.drain(SHORT_MS);
      await sleep(4 * SHORT_MS);
      for (const { socket } of [first, later]) socket.write('\r\n\r\n');
      for (const seen of [first, later]) {
        await waitUntil('the end', () => seen.ended);
        assert.equal(seen.error, null);
        assert.match(seen.text, /connection: close[^]*now$/i);
      }
      await worker.drained();
    });

    for (const kind of ['http', 'https']) {
      test(`${kind}: a request that crosses the end of its connection is not executed`, async (t) => {
        const worker = await serve(t, major, kind);
        const options = { host: '127.0.0.1', port: worker.port, allowHalfOpen: true, rejectUnauthorized: false };
        const fresh = kind === 'https' ? tls.connect(options) : net.connect(options);
        const used = kind === 'https' ? tls.connect(options) : net.connect(options);
        let text = '';
        const ends = [];
        for (const [name, socket] of [['fresh', fresh], ['used', used]]) {
          t.after(() => socket.destroy());
          // After its end a server may reset the connection; the request is not answered in any case.
          socket.on('error', () => {});
          socket.on('data', (more) => { if (name === 'used') text += more; });
          socket.on('end', () => socket.write(`GET /crossing-${name} HTTP/1.1\r\nHost: a\r\n\r\n`));
          ends.push(once(socket, 'end'));
        }
        used.write('GET /now HTTP/1.1\r\nHost: a\r\n\r\n');
        await waitUntil('an answer', () => text.includes('now'));
        await sync(worker);
        worker.drain(SHORT_MS);
        await within('both ends', Promise.all(ends));
        await worker.drained();
        await sync(worker);
        assert.deepEqual(worker.said.filter((m) => m.asked).map((m) => m.asked), ['/now']);
        assert.equal(worker.output, '');
      });
    }

    test('a response whose head is out is finished, and its connection ended after the grace', async (t) => {
      const worker = await serve(t, major, 'http');
      const { get } = client(t, 'http');
      const slow = get(worker.port, '/streamed');
      await worker.heard('the request', (m) => m.asked === '/streamed');
      worker.drain(SHORT_MS);
      await sync(worker);
      worker.child.send('answer');
      assert.deepEqual(await within('the answer', slow), { body: 'headtail', connection: 'keep-alive', reused: false });
      assert.equal((await worker.drained()).idle, 1);
    });

    test('a connection that was never used may send its first request during the grace', async (t) => {
      const worker = await serve(t, major, 'http');
      const young = await connect(t, worker.port);
      await sync(worker);
      worker.drain(LONG_MS);
      await sync(worker);
      young.socket.write('GET /now HTTP/1.1\r\nHost: a\r\n\r\n');
      await waitUntil('the end', () => young.ended);
      assert.match(young.text, /^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n[^]*now/);
      assert.equal((await worker.drained()).idle, 0);
    });

    test('a connection whose client does not close is closed all the same', async (t) => {
      const worker = await serve(t, major, 'http');
      const socket = net.connect({ host: '127.0.0.1', port: worker.port, allowHalfOpen: true });
      t.after(() => socket.destroy());
      socket.resume();
      await once(socket, 'connect');
      await sync(worker);
      worker.drain(SHORT_MS);
      await within('FIN', once(socket, 'end'));
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 1, busy: 0 });
    });

    test('an upgraded connection is counted and left', async (t) => {
      const worker = await serve(t, major, 'http');
      const upgraded = await connect(t, worker.port);
      upgraded.socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
      await waitUntil('the upgrade', () => upgraded.text.includes('101 Switching'));
      worker.drain(SHORT_MS);
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 1 });
      upgraded.socket.write('still here');
      await waitUntil('the echo', () => upgraded.text.endsWith('still here'));
    });

    test('an address that is given up refuses new connections; open ones are served', async (t) => {
      const worker = await serve(t, major, 'http');
      const { get } = client(t, 'http');
      await get(worker.port, '/now');
      const upgraded = await connect(t, worker.port);
      upgraded.socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
      await waitUntil('the upgrade', () => upgraded.text.includes('101 Switching'));
      worker.drain(LONG_MS);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'drain', closes: [1, null, String(worker.port)] });
      await sync(worker);
      await assert.rejects(once(net.connect({ host: '127.0.0.1', port: worker.port }), 'connect'), { code: 'ECONNREFUSED' });
      assert.deepEqual(await get(worker.port, '/now'), { body: 'now', connection: 'close', reused: true });
      upgraded.socket.write('still here');
      await waitUntil('the echo', () => upgraded.text.endsWith('still here'));
      assert.equal(worker.internal.filter((m) => m.act === 'drained').length, 0);
      upgraded.socket.end();
      assert.equal((await worker.drained()).busy, 0);
      assert.equal(worker.output, '');
    });

    test('addresses that are given up one after the other refuse connections, and the app still knows them', async (t) => {
      const script = join(directory, `given-up-${major}.cjs`);
      await writeFile(script, `
        const servers = [1, 2].map(() => require('http').createServer((_request, response) => response.end()).listen(0, '127.0.0.1'));
        const tell = () => process.send(servers.map((server) => server.address()));
        process.on('message', tell);
        servers[1].on('listening', () => setImmediate(tell));
      `);
      const worker = launch(t, major, script);
      const before = await worker.heard('the addresses', (m) => m.every(Boolean));
      // Node.js 18 does not tell of servers without connections.
      for (const { port } of before) await client(t, 'http').get(port, '/');
      for (const { port } of before) worker.child.send({ cmd: 'NODE_FORKFUL', act: 'drain', grace_ms: 10_000, closes: [String(port)] });
      worker.child.send('again');
      await waitUntil('the addresses again', () => worker.said.length === 2);
      assert.deepEqual(worker.said[1], before);
      for (const { port } of before) await assert.rejects(once(net.connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' });
    });

    test('a request on a connection that the app has given to its HTTP server is answered', async (t) => {
      const script = join(directory, `given-${major}.cjs`);
      await writeFile(script, `
        let answer;
        const server = require('http').createServer((_request, response) => {
          answer = () => response.end('done');
          process.send('asked');
        });
        process.on('message', (message, socket) => {
          if (!socket) return answer();
          server.emit('connection', socket);
          socket.resume();
        });
        process.send('up');
      `);
      const worker = launch(t, major, script);
      await worker.heard('that it runs', (m) => m === 'up');
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1000, now: true });
      const ours = net.createServer({ pauseOnConnect: true }, (socket) => worker.child.send('connection', socket)).listen(0, '127.0.0.1');
      t.after(() => ours.close());
      await once(ours, 'listening');
      const answer = client(t, 'http').get(ours.address().port, '/');
      await worker.heard('the request', (m) => m === 'asked');
      worker.drain(1);
      // The drain looks every 25 ms. By the end of this other process it would have answered, if it did not wait.
      await once(launch(t, major, '-e', ['setTimeout(() => {}, 100)']).child, 'exit');
      assert.equal(worker.internal.some((m) => m.act === 'drained'), false);
      worker.child.send('answer');
      const { body, connection } = await answer;
      assert.deepEqual([body, connection], ['done', 'close']);
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 0 });
    });

    test('a drain without connections is over at once', async (t) => {
      const worker = await serve(t, major, 'http');
      worker.drain(LONG_MS);
      worker.drain(LONG_MS);
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 0 });
      await sync(worker);
      assert.equal(worker.internal.filter((m) => m.act === 'drained').length, 1);
    });

    for (const kind of ['h2c', 'h2']) {
      test(`${kind}: streams under way are answered, the client is told to go, the session ends`, async (t) => {
        const worker = await serve(t, major, kind);
        const scheme = kind === 'h2' ? 'https' : 'http';
        const session = http2.connect(`${scheme}://127.0.0.1:${worker.port}`, { rejectUnauthorized: false });
        t.after(() => session.destroy());
        const told = once(session, 'goaway');
        const closed = once(session, 'close');
        const stream = session.request({ ':path': '/held' });
        let body = '';
        stream.on('data', (text) => { body += text; });
        const ended = once(stream, 'end');
        await worker.heard('the request', (m) => m.asked === '/held');
        worker.drain(SHORT_MS);
        const [code, lastStream] = await within('GOAWAY', told);
        assert.deepEqual([code, lastStream], [0, 2 ** 31 - 1]);
        worker.child.send('answer');
        await within('the answer', ended);
        assert.equal(body, 'held');
        await within('the end of the session', closed);
        assert.equal((await worker.drained()).busy, 0);
      });
    }

    test('a server that closes and listens again is drained, and the app is not warned of anything', async (t) => {
      const script = join(directory, `again-${major}.cjs`);
      await writeFile(script, `
        const server = require('http2').createServer((_request, response) => response.end('now'));
        const again = (round) => server.listen(0, '127.0.0.1', () => {
          if (round === 15) process.send({ port: server.address().port });
          else server.close(() => require('net').createServer().listen(0, function () { this.close(() => again(round + 1)); }));
        });
        again(0);`);
      const worker = launch(t, major, script);
      const { port } = await worker.heard('a port', (m) => m.port);
      const session = http2.connect(`http://127.0.0.1:${port}`);
      t.after(() => session.destroy());
      const told = once(session, 'goaway');
      await once(session.request({ ':path': '/' }).resume(), 'end');
      worker.drain(SHORT_MS);
      await within('GOAWAY', told);
      await worker.drained();
      assert.equal(worker.output, '');
    });

    test('on a bare disconnect, responses under way close their connection', async (t) => {
      const worker = await serve(t, major, 'http');
      const { get } = client(t, 'http');
      const held = get(worker.port, '/held');
      await worker.heard('the request', (m) => m.asked === '/held');
      worker.child.send({ cmd: 'NODE_CLUSTER', act: 'disconnect' });
      await sync(worker);
      worker.child.send('answer');
      assert.equal((await within('the answer', held)).connection, 'close');
      await sync(worker);
      assert.equal(worker.internal.filter((m) => m.act === 'drained').length, 0);
    });
  });
}
