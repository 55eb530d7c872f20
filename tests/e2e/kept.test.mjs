// Connections that do not end by themselves, at a reload: WebSockets are closed with a code, event streams end, each client
// connects again, and none of that happens all at once.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
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

/** WebSockets of `ws`, which send back what they are sent, and event streams. */
function talkative({ require, report }) {
  const { WebSocketServer } = require(process.env.WS);
  const answer = (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(`data: ${process.pid}\n\n`);
    // It goes on writing, whatever becomes of the response.
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
  // Before or after it listens.
  if (!directory) open();
  server.listen(Number(process.env.PORT), '127.0.0.1', () => { if (directory) open(); });
  process.on('forkful:drain', (message) => report(message));
  process.on('uncaughtException', (error) => { report(`uncaught: ${error.stack}`); throw error; });
}

/** A WebSocket, with the worker that has it. */
async function connect(port, secure) {
  const socket = new WebSocket(`${secure ? 'wss' : 'ws'}://127.0.0.1:${port}`, { rejectUnauthorized: false });
  const closed = once(socket, 'close').then(([code, reason]) => ({ code, reason: String(reason) }));
  const [pid] = await once(socket, 'message');
  return { socket, closed, pid: String(pid) };
}

/** An event stream; `ended` is how it did. */
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
    const app = await forkful.start(talkative, { name: 'app', options: ['--drain-timeout', '4s'], env: { PORT: String(port), WS } });
    const old = await app.workers();
    const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => connect(port)));
    const streams = await Promise.all(Array.from({ length: STREAMS }, () => listen(port)));
    t.after(() => streams.forEach(({ request }) => request.destroy()));
    await forkful.ok(['reload', 'app']);
    assert.deepEqual(await Promise.all(sockets.map(({ closed }) => closed)), Array.from({ length: SOCKETS }, () => ({ code: 1012, reason: 'restart' })));
    assert.deepEqual(await Promise.all(streams.map(({ ended }) => ended)), Array.from({ length: STREAMS }, () => 'complete'));
    await waitUntil('the old workers to end', () => old.every(({ gone }) => gone));
    for (const { reports } of old) assert.deepEqual(reports, [{ within_ms: 4000 }]);
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
  await forkful.ok(['start', path, '--name', 'app', '--drain-timeout', '4s', '--interpreter', nodeBinary(NEWEST)], { env: { PORT: String(port), WS, TLS_DIRECTORY: forkful.directory } });
  const sockets = await Promise.all(Array.from({ length: 3 }, () => connect(port, true)));
  // Until it is told to leave, it is answered.
  const [{ socket }] = sockets;
  socket.send('here');
  assert.equal(String((await once(socket, 'message'))[0]), 'here');
  await forkful.ok(['reload', 'app']);
  assert.deepEqual((await Promise.all(sockets.map(({ closed }) => closed))).map(({ code }) => code), [1012, 1012, 1012]);
});
