// Node's cluster semantics beyond TCP: unix sockets, UDP, TLS with its session tickets, on each Node version.
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import tls from 'node:tls';

import { differentAnswers, get } from './lib/http.mjs';
import { onEachNode } from './lib/suites.mjs';
import { writeCertificate } from './lib/tls.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** Sends one request to a UDP echo; a datagram may be lost while a worker starts, so callers repeat it. */
async function echo(type, port, host) {
  const socket = dgram.createSocket(type);
  try {
    const answer = once(socket, 'message');
    socket.send('hello', port, host);
    const [message] = await within('an echo', answer, 1000);
    return String(message);
  } finally {
    socket.close();
  }
}

/** One TLS connection: returns the answering worker, whether the session was resumed, and the session for the next connection. */
async function handshake(port, session) {
  // TLS 1.2 gives its ticket within the handshake, so that it is there when the answer is.
  const socket = tls.connect({ host: '127.0.0.1', port, session, rejectUnauthorized: false, maxVersion: 'TLSv1.2' });
  await within('the handshake', once(socket, 'secureConnect'));
  const [pid] = await within('the answer', once(socket.setEncoding('utf8'), 'data'));
  const result = { pid, reused: socket.isSessionReused(), session: socket.getSession() };
  socket.destroy();
  return result;
}

/** Resumes a session until another worker has accepted it. */
async function resumeElsewhere(port, { pid, session }) {
  return waitUntil('another worker to take the session', async () => {
    const next = await handshake(port, session);
    return next.pid !== pid && next;
  });
}

onEachNode('sockets', (forkful) => {
  test('a unix socket is shared, and gone after delete', async () => {
    const path = join(forkful.directory, 'plain.sock');
    const app = await forkful.start(({ require, report }) => {
      const server = require('http').createServer((_q, r) => r.end(String(process.pid)));
      server.listen(process.env.SOCKET, () => report({ address: server.address() }));
    }, { name: 'unix', env: { SOCKET: path } });
    for (const worker of await app.workers()) assert.equal((await worker.reported('address')).address, path);
    await differentAnswers(path);
    await forkful.ok(['delete', 'unix']);
    assert.equal(existsSync(path), false);
  });

  test('a unix socket with a relative path, readable and writable by all', async () => {
    await forkful.start(({ require }) => {
      require('http').createServer((_q, r) => r.end(String(process.pid)))
        .listen({ path: 'open.sock', readableAll: true, writableAll: true });
    }, { name: 'open' });
    const path = join(forkful.directory, 'open.sock');
    await differentAnswers(path);
    assert.equal((statSync(path).mode & 0o666).toString(8), '666');
    await forkful.ok(['delete', 'open']);
  });

  for (const [type, host, any] of [['udp4', '127.0.0.1', '0.0.0.0'], ['udp6', '::1', '::']]) {
    test(`${type} is shared`, async () => {
      const app = await forkful.start(({ require, report }) => {
        const socket = require('dgram').createSocket(process.env.TYPE);
        socket.on('message', (message, from) => socket.send(`${message} ${process.pid}`, from.port, from.address));
        socket.bind(0, () => report({ address: socket.address() }));
      }, { name: type, env: { TYPE: String(type) } });
      const workers = await app.workers();
      const [first, second] = await Promise.all(workers.map(async (worker) => (await worker.reported('address')).address));
      assert.deepEqual(first, second);
      assert.equal(first.address, any);
      const pids = workers.map(({ pid }) => `hello ${pid}`);
      const answer = await waitUntil('an echo', () => echo(type, first.port, host));
      assert.ok(pids.includes(answer), answer);
      await forkful.ok(['delete', String(type)]);
    });
  }

  test('udp with an exclusive bind is the worker\'s own', async () => {
    const app = await forkful.start(({ require, report }) => {
      const socket = require('dgram').createSocket('udp4');
      socket.on('message', (_message, from) => socket.send(String(process.pid), from.port, from.address));
      socket.bind({ port: 0, address: '127.0.0.1', exclusive: true }, () => report({ address: socket.address() }));
    }, { name: 'udpown' });
    for (const worker of await app.workers()) {
      const { address } = await worker.reported('address');
      assert.equal(await waitUntil('an echo', () => echo('udp4', address.port, '127.0.0.1')), String(worker.pid));
    }
    await forkful.ok(['delete', 'udpown']);
  });

  test('a TLS session is resumed by another worker, and after a reload', async () => {
    writeCertificate(forkful.directory);
    const app = await forkful.start(({ require, report }) => {
      const read = (name) => require('fs').readFileSync(name);
      const server = require('tls').createServer({ key: read('key.pem'), cert: read('cert.pem') }, (socket) => {
        socket.on('error', () => {});
        socket.write(String(process.pid));
      });
      server.listen(0, '127.0.0.1', () => report({ port: server.address().port }));
    }, { name: 'tls' });
    const workers = await app.workers();
    const { port } = await workers[0].reported('port');
    const first = await handshake(port, undefined);
    assert.equal(first.reused, false);
    const elsewhere = await resumeElsewhere(port, first);
    assert.equal(elsewhere.reused, true);
    await forkful.ok(['reload', 'tls']);
    const old = workers.map(({ pid }) => String(pid));
    const after = await waitUntil('a new worker to answer', async () => {
      const next = await handshake(port, first.session);
      return !old.includes(next.pid) && next;
    });
    assert.equal(after.reused, true);
    await forkful.ok(['delete', 'tls']);
  });

  test('an HTTPS server is shared', async () => {
    writeCertificate(forkful.directory);
    const app = await forkful.start(({ require, report }) => {
      const read = (name) => require('fs').readFileSync(name);
      const server = require('https').createServer({ key: read('key.pem'), cert: read('cert.pem') }, (_q, r) => r.end(String(process.pid)));
      server.listen(0, () => report({ port: server.address().port }));
    }, { name: 'https' });
    const workers = await app.workers();
    const { port } = await workers[0].reported('port');
    const where = { protocol: 'https:', host: 'localhost', port };
    assert.deepEqual(await differentAnswers(where), workers.map(({ pid }) => String(pid)).sort());
    assert.equal((await get(where)).headers.connection, 'close');
    await forkful.ok(['delete', 'https']);
  });
});
