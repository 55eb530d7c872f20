// The examples that need a Redis: socket.io on several workers, and a queue with BullMQ. Each is started, loaded, reloaded under
// load and stopped, as its README says.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import http from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

import { packageOf, startExample } from './lib/examples.mjs';
import { accepts } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { withRedis } from './lib/redis.mjs';
import { waitUntil } from './lib/wait.mjs';

const WORKERS = 2;
const skip = spawnSync('redis-server', ['--version']).error ? 'there is no redis-server: apt-get install redis-server' : false;

/** One chat client with a separate address, because the kernel chooses the worker by the address. */
class Chatter {
  constructor(io, port, index) {
    this.index = index;
    this.acknowledged = 0;
    this.sent = 0;
    this.heard = new Set();
    this.reconnects = 0;
    this.worker = 0;
    this.agent = new http.Agent({ keepAlive: true, localAddress: `127.0.1.${index + 1}` });
    this.socket = io(`http://127.0.0.1:${port}`, {
      agent: this.agent, forceNew: true, ackTimeout: 60_000, retries: 100, reconnectionDelay: 20, reconnectionDelayMax: 200,
    });
    this.socket.on('welcome', ({ worker }) => { this.worker = worker; });
    this.socket.on('message', ({ text }) => this.heard.add(text));
    this.socket.io.on('reconnect', () => { this.reconnects += 1; });
  }

  /** Sends a message; resolves when a worker has acknowledged it. */
  async say(text) {
    this.sent += 1;
    await new Promise((resolve, reject) => { this.socket.emit('message', text, (error) => (error ? reject(error) : resolve())); });
    this.acknowledged += 1;
  }

  /** Sends messages one after the other until it is stopped. */
  async talk() {
    while (!this.silent) await this.say(`${this.index}-${this.sent}`);
  }

  close() {
    this.socket.disconnect();
    this.agent.destroy();
  }
}

test('socket.io: all clients hear each other before and after a reload, and no message is lost', { skip }, async (t) => {
  const { forkful, env } = await withRedis(t);
  const { io } = await import(pathToFileURL(packageOf('socket.io-client/build/esm-debug/index.js')).href);
  const example = await startExample(t, 'socket-io', { forkful, env: { ...env, DRAIN_TIMEOUT: '4s' } });
  if ((await example.pids()).length !== WORKERS) await example.ok('scale', 'socket-io', String(WORKERS));
  const load = startLoad({ port: example.port, path: '/healthz', closing: 4, keeping: 4, pauseMs: 20, expect: /"status":"ok"/ });
  const chatters = Array.from({ length: 16 }, (_, index) => new Chatter(io, example.port, index));
  t.after(() => Promise.all([load.stop(), ...chatters.map((chatter) => chatter.close())]));
  const allHear = async (text) => {
    await chatters[0].say(text);
    await waitUntil(`everybody to hear ${text}`, () => chatters.every(({ heard }) => heard.has(text)));
  };
  const servedBy = (pids) => waitUntil('all to be connected to these workers', () =>
    chatters.every(({ socket, worker }) => socket.connected && pids.includes(worker)) && new Set(chatters.map(({ worker }) => worker)).size === WORKERS);

  const first = await example.pids();
  await servedBy(first);
  await allHear('hello');
  const talks = chatters.map((chatter) => chatter.talk());
  await waitUntil('talk', () => chatters.every(({ acknowledged }) => acknowledged >= 10));
  await example.ok('reload', 'socket-io');
  const second = await example.pids();
  assert.deepEqual(second.filter((pid) => first.includes(pid)), []);
  await servedBy(second);
  const told = chatters.map(({ acknowledged }) => acknowledged);
  await waitUntil('talk', () => chatters.every(({ acknowledged }, n) => acknowledged >= told[n] + 10));
  for (const chatter of chatters) chatter.silent = true;
  await Promise.all(talks);
  await allHear('hello again');
  for (const { sent, acknowledged, reconnects } of chatters) {
    assert.equal(acknowledged, sent);
    assert.ok(reconnects >= 1);
  }
  const { success, ...failed } = await load.stop();
  assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
  assert.ok(success > 0);
  for (const chatter of chatters) chatter.close();
  await example.stop();
  assert.equal(await accepts({ host: '127.0.0.1', port: example.port }), false);
});

/** A request to the API of the queue. */
function ask(port, method) {
  return new Promise((resolve, reject) => {
    const body = method === 'POST' ? JSON.stringify({ to: 'ada@example.org' }) : '';
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const request = http.request({ host: '127.0.0.1', port, path: '/mails', method, headers, agent: false }, async (response) => {
      let text = '';
      for await (const part of response.setEncoding('utf8')) text += part;
      resolve({ status: response.statusCode, answer: JSON.parse(text) });
    });
    request.on('error', reject);
    request.end(body);
  });
}

test('BullMQ: orders are taken and done once each while both apps are reloaded, and a stop finishes the jobs under way', { skip }, async (t) => {
  const { forkful, env } = await withRedis(t);
  const example = await startExample(t, 'bullmq', { forkful, env: { ...env, JOB_MS: '100' } });
  const ids = [];
  const order = async () => {
    const { status, answer } = await ask(example.port, 'POST');
    assert.equal(status, 202);
    ids.push(answer.id);
  };
  const counts = async () => (await ask(example.port, 'GET')).answer;
  let isReloaded = false;
  const clients = Array.from({ length: 4 }, async () => {
    while (!isReloaded) {
      await order();
      await sleep(30);
    }
    await order();
  });
  await waitUntil('jobs to be done', async () => (await counts()).completed >= 20);
  const first = await example.pids();
  await example.ok('reload', 'all');
  isReloaded = true;
  await Promise.all(clients);
  const second = await example.pids();
  assert.deepEqual(second.filter((pid) => first.includes(pid)), []);
  const { failed } = await waitUntil('all jobs to be done', async () => {
    const now = await counts();
    return now.completed === ids.length && now;
  });
  assert.equal(failed, 0);
  const { stdout } = await example.ok('logs', 'mail-worker', '--nostream', '--raw', '--lines', '100000');
  const done = [...stdout.matchAll(/mail (\S+) to ada@example\.org/g)].map(([, id]) => id);
  assert.deepEqual(done.sort(), ids.sort(), 'each job was done once');

  await Promise.all(Array.from({ length: 40 }, order));
  await waitUntil('jobs to be under way', async () => {
    const { active, completed } = await counts();
    return active > 0 || completed === ids.length;
  });
  await example.stop('mail-worker');
  const { active, waiting, completed } = await counts();
  assert.equal(active, 0);
  assert.equal(waiting + completed, ids.length);
  await example.stop();
  assert.equal(await accepts({ host: '127.0.0.1', port: example.port }), false);
});
