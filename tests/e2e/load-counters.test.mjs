// The counters themselves: each kind of failure is counted correctly.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';

import { startLoad } from './lib/load.mjs';
import { waitUntil } from './lib/wait.mjs';

/** A server that calls `behave` with each connection, and a load on it until `enough`. */
async function count(t, server, enough, options = { closing: 2 }) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const load = startLoad({ port: server.address().port, ...options });
  await waitUntil('enough answers', () => enough(load.counts));
  return load.stop();
}

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

test('answers are successes, on new and on kept connections', async (t) => {
  const server = http.createServer((_request, response) => response.setHeader('Content-Length', 2).end('ok'));
  const counts = await count(t, server, ({ success }) => success > 100, { closing: 2, keeping: 2 });
  assert.deepEqual({ ...counts, success: 0 }, { success: 0, reset: 0, refused: 0, timeout: 0, unexpected: 0 });
});

test('a reset and an early end are resets', async (t) => {
  const reset = await count(t, net.createServer((socket) => socket.once('data', () => socket.resetAndDestroy())), ({ reset: n }) => n > 3);
  assert.equal(reset.success, 0);
  const early = await count(t, net.createServer((socket) => socket.end(ANSWER.slice(0, -1))), ({ reset: n }) => n > 3);
  assert.equal(early.success, 0);
});

test('an end between two requests of a kept connection is no failure, one in a request is', async (t) => {
  const server = net.createServer((socket) => {
    socket.once('data', () => { socket.write(ANSWER); socket.once('data', () => socket.destroy()); });
    socket.on('error', () => {});
  });
  const counts = await count(t, server, ({ reset }) => reset >= 9, { keeping: 1 });
  // Each connection has an answer before its reset.
  assert.ok(counts.success >= counts.reset, JSON.stringify(counts));
});

test('a closed port is refused', async () => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  const load = startLoad({ port, closing: 1 });
  await waitUntil('a refusal', () => load.counts.refused > 3);
  const counts = await load.stop();
  assert.deepEqual({ ...counts, refused: 0 }, { success: 0, reset: 0, refused: 0, timeout: 0, unexpected: 0 });
});

test('another status or body is unexpected', async (t) => {
  const server = http.createServer((_request, response) => response.writeHead(503, { 'Content-Length': 2 }).end('no'));
  const counts = await count(t, server, ({ unexpected }) => unexpected > 3);
  assert.equal(counts.success, 0);
});
