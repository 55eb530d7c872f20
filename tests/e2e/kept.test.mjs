// Long-lived connections at a reload: WebSockets are closed with a code, event streams end, each client
// reconnects, and all this is spread over time.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { WebSocket } from 'ws';

import { freePort } from './lib/http.mjs';
import { MAJORS, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { writeCertificate } from './lib/tls.mjs';
import { waitUntil } from './lib/wait.mjs';

const WS = fileURLToPath(new URL('node_modules/ws', import.meta.url));
const SOCKETS = 12;
const STREAMS = 4;

/** Echoing WebSockets of `ws`, and event streams. */
function talkative({ require, report }) {
  const { WebSocketServer } = require(process.env.WS);
  const answer = (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(`data: ${process.pid}\n\n`);
    // It continues to write, whatever happens to the response.
    setInterval(() => response.write('data: again\n\n'), 50);
  };
  const { readFileSync } = require('fs');
  const directory = process.env.TLS_DIRECTORY;
  const server = directory
    ? require('https').createServer({ key: readFileSync(`${directory}/key.pem`), cert: readFileSync(`${directory}/cert.pem`) }, answer)
    : require('http').createServer(answer);
  const open = () => new WebSocketServer({ server }).on('connection', (socket) => {
    socket.send(String(process.pid));
    socket.on('message', (text) => socket.send(String(text)));
  });
  // Before or after listening.
  if (!directory) open();
  server.listen(Number(process.env.PORT), '127.0.0.1', () => { if (directory) open(); });
  process.on('forkful:drain', (message) => report(message));
  process.on('uncaughtException', (error) => { report(`uncaught: ${error.stack}`); throw error; });
}

/** A WebSocket and its worker. */
async function connect(port, secure) {
  const socket = new WebSocket(`${secure ? 'wss' : 'ws'}://127.0.0.1:${port}`, { rejectUnauthorized: false });
  const closed = once(socket, 'close').then(([code, reason]) => ({ code, reason: String(reason) }));
  const [pid] = await once(socket, 'message');
  return { socket, closed, pid: String(pid) };
}

/** An event stream; `ended` tells how it ended. */
async function listen(port) {
  const request = http.get({ port, host: '127.0.0.1', agent: false });
  const [response] = await once(request, 'response');
  response.resume();
  const ended = new Promise((resolve) => {
    response.on('end', () => resolve('complete'));
    response.on('error', (error) => resolve(String(error)));
  });
  return { request, ended };
}

for (const major of MAJORS) {
  test(`Node ${major}: at a reload WebSockets are closed with 1012, event streams end, and clients find the new workers`, async (t) => {
    const forkful = await sandbox(t, major);
    const port = await freePort();
    const app = await forkful.start(talkative, { name: 'app', options: ['--drain-timeout', '8s'], env: { PORT: String(port), WS } });
    const old = await app.workers();
    const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => connect(port)));
    const streams = await Promise.all(Array.from({ length: STREAMS }, () => listen(port)));
    t.after(() => streams.forEach(({ request }) => request.destroy()));
    await forkful.ok(['reload', 'app']);
    assert.deepEqual(await Promise.all(sockets.map(({ closed }) => closed)), Array.from({ length: SOCKETS }, () => ({ code: 1012, reason: 'restart' })));
    assert.deepEqual(await Promise.all(streams.map(({ ended }) => ended)), Array.from({ length: STREAMS }, () => 'complete'));
    await waitUntil('the old workers to end', () => old.every(({ gone }) => gone));
    for (const { reports } of old) assert.deepEqual(reports, [{ within_ms: 8000 }]);
    const next = await connect(port);
    assert.ok(!old.some(({ pid }) => String(pid) === next.pid));
    next.socket.close();
    await next.closed;
  });
}

test('the same over TLS, in one instance, and with a server that gets its WebSockets when it listens', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  writeCertificate(forkful.directory);
  const path = forkful.script(talkative);
  const { nodeBinary } = await import('./lib/nodes.mjs');
  await forkful.ok(['start', path, '--name', 'app', '--drain-timeout', '8s', '--interpreter', nodeBinary(NEWEST)], { env: { PORT: String(port), WS, TLS_DIRECTORY: forkful.directory } });
  const sockets = await Promise.all(Array.from({ length: 3 }, () => connect(port, true)));
  // It is answered until it is told to leave.
  const [{ socket }] = sockets;
  socket.send('here');
  assert.equal(String((await once(socket, 'message'))[0]), 'here');
  await forkful.ok(['reload', 'app']);
  assert.deepEqual((await Promise.all(sockets.map(({ closed }) => closed))).map(({ code }) => code), [1012, 1012, 1012]);
});

/** Number of WebSockets at a reload, over two workers, and the time limit for closing them. */
const CROWD = 1000;
const CROWD_DRAIN_MS = 8000;
/** The agent notifies them within nine tenths of that time (long.cjs). */
const CROWD_WINDOW_MS = CROWD_DRAIN_MS * 0.9;
/** Tolerance between the agent's first reading of the clock and the app's. */
const CLOCK_MS_MAX = 500;

/** Reports for each of its WebSockets when it was asked to close, in ms since the drain began. */
function crowded({ require, report }) {
  const { WebSocketServer } = require(process.env.WS);
  const server = require('http').createServer();
  let began = 0;
  process.on('forkful:drain', () => { began = performance.now(); });
  new WebSocketServer({ server }).on('connection', (socket) => {
    // Once: the library calls it again for the client's answer.
    socket.close = (...values) => {
      delete socket.close;
      report(performance.now() - began);
      socket.close(...values);
    };
  });
  server.listen(Number(process.env.PORT), '127.0.0.1');
}

const UPGRADE = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
/** The first byte of a whole close frame (RFC 6455, section 5.2). */
const CLOSE = 0x88;

/** A WebSocket without a library: opens it, then returns how it ended, with the code of the close frame. */
function crowdMember(port) {
  const socket = net.connect({ port, host: '127.0.0.1' });
  socket.write(UPGRADE);
  const ended = new Promise((resolve) => {
    let code = 'no close frame';
    socket.on('data', (bytes) => {
      if (bytes[0] !== CLOSE) return;
      code = bytes.readUInt16BE(2);
      // The same code, masked with zeros: the handshake of a close.
      socket.write(Buffer.from([CLOSE, 0x82, 0, 0, 0, 0, bytes[2], bytes[3]]));
    });
    socket.on('error', (error) => resolve(error.message));
    socket.on('close', () => resolve(code));
  });
  return { opened: once(socket, 'data').then(([bytes]) => assert.match(String(bytes), /^HTTP\/1.1 101 /)), ended };
}

test(`${CROWD} WebSockets at a reload all get a close frame, and none before its turn`, async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  const app = await forkful.start(crowded, { name: 'app', options: ['--drain-timeout', `${CROWD_DRAIN_MS}ms`], env: { PORT: String(port), WS } });
  const old = await app.workers();
  const crowd = Array.from({ length: CROWD }, () => crowdMember(port));
  await Promise.all(crowd.map(({ opened }) => opened));
  await forkful.ok(['reload', 'app']);
  const ends = await Promise.all(crowd.map(({ ended }) => ended));
  assert.deepEqual(ends.filter((end) => end !== 1012), []);
  await waitUntil('the old workers to end', () => old.every(({ gone }) => gone));
  assert.equal(old.reduce((sum, { reports }) => sum + reports.length, 0), CROWD);
  for (const { reports } of old) {
    // A late check may report several at once; none is reported before its share of the time is over, so on a
    // machine that keeps up no second has more than its share.
    for (const [n, at] of reports.entries()) {
      const turn = (n / reports.length) * CROWD_WINDOW_MS;
      assert.ok(at >= turn - CLOCK_MS_MAX, `WebSocket ${n} of ${reports.length} was told after ${at} ms, before ${turn}`);
    }
  }
});
