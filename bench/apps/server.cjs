// The app under test: plain `http`, no dependency, the same file for every arm.
// It does not know which program runs it; it listens on PORT, and BENCH_LISTEN_LOG, when set,
// gets one line "<worker id> <monotonic ns>" when the listening callback fires.
'use strict';

const { createHash } = require('node:crypto');
const http = require('node:http');
const { appendFileSync } = require('node:fs');
const { threadId } = require('node:worker_threads');

/** Tells workers apart, also where they are threads of one process. */
const workerId = `${process.pid}.${threadId}`;
const HELLO = 'hello, world\n';
const BLOCK_MS_MAX = 5_000;
const SLOW_MS_MAX = 10_000;

/** @param {URLSearchParams} query @param {number} max */
function milliseconds(query, max) {
  const value = Number(query.get('ms') ?? 0);
  return Number.isFinite(value) ? Math.min(Math.max(value, 0), max) : 0;
}

/** @param {http.ServerResponse} response @param {string} body @param {number} [status] */
function reply(response, body, status = 200) {
  response.writeHead(status, { 'Content-Type': 'text/plain', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** Burns the CPU of this worker's event loop: this is the stuck worker of the benchmarks. */
function block(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const server = http.createServer((request, response) => {
  if (request.url === '/') return reply(response, HELLO);
  if (request.url === '/fast') return reply(response, `fast ${workerId}\n`);
  if (request.url === '/pid') return reply(response, workerId);
  const url = new URL(request.url, 'http://localhost');
  if (url.pathname === '/block') {
    block(milliseconds(url.searchParams, BLOCK_MS_MAX));
    return reply(response, workerId);
  }
  if (url.pathname === '/slow') {
    return void setTimeout(reply, milliseconds(url.searchParams, SLOW_MS_MAX), response, `slow ${workerId}\n`);
  }
  return reply(response, 'not found\n', 404);
});

/** A WebSocket whose short messages (RFC 6455, section 5.2) are answered by this worker's id; nothing else of the protocol is needed here. */
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  let received = Buffer.alloc(0);
  const answer = Buffer.concat([Buffer.of(0x81, workerId.length), Buffer.from(workerId)]);
  socket.on('error', () => socket.destroy()).on('data', (data) => {
    received = Buffer.concat([received, data]);
    for (let length; received.length >= 2 && received.length >= (length = 6 + (received[1] & 0x7f)); received = received.subarray(length)) socket.write(answer);
  });
});

server.listen(Number(process.env.PORT ?? 3000), () => {
  const log = process.env.BENCH_LISTEN_LOG;
  if (log) appendFileSync(log, `${workerId} ${process.hrtime.bigint()}\n`);
});
