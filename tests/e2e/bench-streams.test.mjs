// `forkful bench` with WebSockets and server-sent events, against the `ws` library and Node.js' own server in
// cluster workers: the report's counts equal the server's, and a reload is reported correctly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { freePort, get } from './lib/http.mjs';
import { NEWEST } from './lib/nodes.mjs';
import { sandbox, WRONG_USE } from './lib/sandbox.mjs';
import { writeCertificate } from './lib/tls.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Exit codes of `bench`: the results are not trustworthy, as on a busy machine, and the target cannot be reached. */
const NOT_TRUSTWORTHY = 6;
const UNREACHABLE = 7;

const WS = fileURLToPath(new URL('node_modules/ws/index.js', import.meta.url));

/** Echoes messages, sends an event every 20 ms, and reports the number of messages it has received. */
function server({ require }) {
  const { WebSocketServer } = require(process.env.WS);
  const { readFileSync } = require('fs');
  let messages = 0;
  const answer = (question, response) => {
    if (question.url !== '/events') return response.end(String(messages));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(() => response.write(`data: ${Date.now()}\n\n`), 20);
    response.on('close', () => clearInterval(timer));
  };
  const tls = process.env.TLS;
  const http = tls
    ? require('https').createServer({ key: readFileSync(`${tls}/key.pem`), cert: readFileSync(`${tls}/cert.pem`) }, answer)
    : require('http').createServer(answer);
  new WebSocketServer({ server: http, path: '/socket' }).on('connection', (socket) => socket.on('message', (message, isBinary) => {
    messages += 1;
    socket.send(message, { binary: isBinary });
  }));
  http.listen(Number(process.env.PORT), '127.0.0.1');
}

/** @param {import('node:test').TestContext} t @param {{ instances?: number, tls?: boolean, options?: string[] }} [how] */
async function started(t, { instances = 1, tls = false, options } = {}) {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  if (tls) writeCertificate(forkful.directory);
  const env = { PORT: String(port), WS, TLS: tls ? forkful.directory : '' };
  await forkful.start(server, { name: 'streams', instances, options, env });
  return { forkful, port };
}

/**
 * The output of a completed load, whether or not its results are trustworthy.
 * @param {import('./lib/sandbox.mjs').Sandbox} forkful @param {string[]} args
 */
async function bench(forkful, ...args) {
  const { code, stdout, stderr } = await forkful.run(['bench', ...args]);
  assert.ok(code === 0 || code === NOT_TRUSTWORTHY, `${code}: ${stderr}`);
  return stdout;
}

test('messages on WebSockets come back, and the server has counted the same', async (t) => {
  const { forkful, port } = await started(t);
  const url = `ws://127.0.0.1:${port}/socket`;
  const report = JSON.parse(await bench(forkful, url, '-c', '5', '-n', '400', '--message', '{"n":{id}}', '--expect-body', '{"n":', '--json'));
  assert.deepEqual([report.requests.completed, report.errors.total, report.connections.opened], [400, 0, 5]);
  assert.equal((await get(port)).body, '400');
  assert.deepEqual([report.target.protocol, report.messages.unasked, report.messages.closes], ['WebSocket', 0, {}]);
  const summary = await bench(forkful, url, '-c', '5', '-n', '400', '--verbose');
  assert.match(summary, /^WebSocket ws:\/\/127/m);
  assert.match(summary, /^Messages +[\d,.]+ messages\/s +400 answers/m);
  assert.match(summary, /^Opened +5 connections, half of them within .*; 0 reconnects$/m);
});

test('a reload closes WebSockets with code 1012, and the load connects again', async (t) => {
  const { forkful, port } = await started(t, { instances: 2, options: ['--drain-timeout', '8s'] });
  const load = forkful.spawn(['bench', `ws://127.0.0.1:${port}/socket`, '-c', '6', '-d', '1h', '--rate', '100', '--json']);
  const isLoaded = async () => Number((await get(port)).body) > 0;
  // All connections are open before the first message is sent.
  await waitUntil('messages at the first workers', isLoaded);
  await forkful.ok(['reload', 'streams']);
  await waitUntil('messages at the new workers', isLoaded);
  load.child.kill('SIGINT');
  const report = JSON.parse((await load.outcome).stdout);
  // The first worker's connections may connect again to the second one before it is replaced, too.
  const { closes: { 1012: told, ...others }, reconnects } = report.messages;
  assert.deepEqual(others, {});
  assert.ok(told >= 6 && told <= 12, JSON.stringify(report.messages));
  assert.ok(reconnects >= 1 && reconnects <= told, JSON.stringify(report.messages));
  assert.ok(report.requests.completed > 0, JSON.stringify(report.requests));
});

test('events are counted with the time between them', async (t) => {
  const { forkful, port } = await started(t);
  const url = `http://127.0.0.1:${port}/events`;
  const report = JSON.parse(await bench(forkful, '--sse', url, '-c', '5', '-n', '200', '--json'));
  assert.deepEqual([report.requests.completed, report.errors.total, report.connections.opened], [200, 0, 5]);
  assert.equal(report.messages.first_event_ms.samples, 5);
  assert.ok(report.latency_ms.max >= 10, JSON.stringify(report.latency_ms));
  assert.match(await bench(forkful, '--sse', url, '-c', '2', '-n', '50'), /^Events +[\d.]+ events\/s +50 events/m);
});

test('WebSockets and event streams are loaded over TLS', async (t) => {
  const { forkful, port } = await started(t, { tls: true });
  for (const target of [[`wss://127.0.0.1:${port}/socket`], ['--sse', `https://127.0.0.1:${port}/events`]]) {
    const load = [...target, '-c', '2', '-n', '20', '--json'];
    const report = JSON.parse(await bench(forkful, ...load, '--insecure'));
    assert.deepEqual([report.requests.completed, report.errors.total], [20, 0]);
    assert.match(report.target.tls, /^TLSv1\.3/);
    const distrusted = await forkful.fails(['bench', ...load]);
    assert.equal(distrusted.code, UNREACHABLE);
    assert.match(distrusted.stderr, /certificate/);
  }
});

test('what cannot be loaded is said, with the exit code', async (t) => {
  const { forkful, port } = await started(t);
  const [socket, events] = [`ws://127.0.0.1:${port}/socket`, `http://127.0.0.1:${port}/events`];
  for (const [code, expected, ...args] of [
    [UNREACHABLE, /the server did not accept the WebSocket \(status 400\)/, `ws://127.0.0.1:${port}/other`],
    [UNREACHABLE, /the server did not answer with an event stream \(the content type is ``\)/, '--sse', `http://127.0.0.1:${port}/`],
    [WRONG_USE, /leave out --http2 and --http10/, '--http2', socket],
    [WRONG_USE, /leave out --method/, '-m', 'PUT', socket],
    [WRONG_USE, /--sse is for http:\/\/ and https:\/\/ URLs/, '--sse', socket],
    [WRONG_USE, /messages and events have none/, '--expect-status', '200', socket],
    [WRONG_USE, /must have one URL/, socket, `${socket}/other`],
    [WRONG_USE, /--message is for ws:\/\/ and wss:\/\/ URLs/, '--message', 'x', events],
    [WRONG_USE, /cannot be used with/, '--sse', '--rate', '5', events],
    [WRONG_USE, /cannot be used with/, '--sse', '--expect-body', 'x', events],
  ]) {
    const failed = await forkful.fails(['bench', '-n', '10', '-c', '2', ...args]);
    assert.match(failed.stderr, expected);
    assert.equal(failed.code, code, failed.stderr);
  }
});
