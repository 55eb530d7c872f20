// Metrics for OpenTelemetry, as a receiver of OTLP over HTTP gets them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

function serving({ require }) {
  require('http').createServer((_request, response) => response.end(String(process.pid))).listen(Number(process.env.PORT));
}

/** A receiver: what was posted, the newest last. `answer` may be replaced. */
async function receiver(t, port = 0) {
  const received = { posts: [], answer: (response) => response.end('{}') };
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const text of request.setEncoding('utf8')) body += text;
    received.posts.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
    received.answer(response);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  received.port = server.address().port;
  received.close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => { server.close(resolve); });
  };
  t.after(received.close);
  return received;
}

const texts = (attributes = []) => Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]));

/** What a document has: for each instance its attributes, and its points by name and attribute. */
function instances({ body }) {
  return body.resourceMetrics.map(({ resource, scopeMetrics: [{ metrics }] }) => {
    const points = {};
    for (const { name, gauge, sum, histogram } of metrics) {
      for (const point of (gauge ?? sum ?? histogram).dataPoints) points[[name, ...Object.values(texts(point.attributes))].join(' ')] = { ...point, isMonotonic: sum?.isMonotonic };
    }
    return { attributes: texts(resource.attributes), points };
  });
}

/** Values that each worker has. */
const VALUES = [
  'nodejs.eventloop.utilization', 'nodejs.eventloop.time active', 'nodejs.eventloop.time idle', 'nodejs.eventloop.delay.p99', 'v8js.memory.heap.used',
  'process.cpu.time user', 'process.cpu.time system', 'process.memory.usage',
];

const requestsOf = (post) => instances(post).reduce((sum, { points }) => sum + (points['forkful.http.requests']?.asDouble ?? 0), 0);
const logOf = (forkful) => readFileSync(join(forkful.home, 'daemon.log'), 'utf8');

test('each worker is an instance, by the semantic conventions, and counters go on over kills', async (t) => {
  const forkful = await sandbox(t);
  const [port, collector] = [await freePort(), await receiver(t)];
  const config = join(forkful.directory, 'apps.json');
  const script = forkful.script(serving);
  const otlp = { endpoint: `http://127.0.0.1:${collector.port}/otlp`, interval: '1s' };
  writeFileSync(join(forkful.directory, 'secret.env'), 'OTEL_EXPORTER_OTLP_HEADERS=api-key=very%20secret\n');
  writeFileSync(config, JSON.stringify({ apps: [{ name: 'web', namespace: 'shop', script, instances: 3, otlp, env_file: 'secret.env', env: { PORT: port } }] }));
  await forkful.ok(['start', config]);
  for (let at = 0; at < 30; at += 1) await get(port, '/');
  const post = await waitUntil('all requests', () => collector.posts.find((sent) => requestsOf(sent) === 30));
  assert.equal(post.path, '/otlp/v1/metrics');
  assert.equal(post.headers['content-type'], 'application/json');
  assert.equal(post.headers['api-key'], 'very secret');
  const found = instances(post);
  assert.deepEqual(found.map(({ attributes }) => [attributes['service.name'], attributes['service.namespace']]), Array(3).fill(['web', 'shop']));
  assert.equal(new Set(found.map(({ attributes }) => attributes['service.instance.id'])).size, 3);
  for (const { attributes, points } of found) {
    assert.match(attributes['process.runtime.version'], /^\d+\.\d+\.\d+$/);
    // An agent begins with all that it measures a while after the first request, and a worker that was busy until now may have had none.
    await waitUntil('all values', async () => {
      await get(port, '/');
      return VALUES.every((name) => collector.posts.some((sent) => instances(sent).some((one) => (
        one.attributes['service.instance.id'] === attributes['service.instance.id'] && Number.isFinite(one.points[name]?.asDouble)
      ))));
    });
    assert.equal(points['process.cpu.time user'].isMonotonic, true);
    assert.equal(points['process.memory.usage'].isMonotonic, false);
    const duration = points['http.server.request.duration'];
    if (duration) assert.equal(duration.bucketCounts.reduce((sum, count) => sum + Number(count), 0), Number(duration.count));
  }
  // Nothing shows the header.
  for (const command of [['describe', 'web', '--json'], ['describe', 'web'], ['list', '--json'], ['jlist']]) {
    const { stdout } = await forkful.ok(command);
    assert.ok(!/very.{0,3}secret/.test(stdout), command.join(' '));
  }
  assert.doesNotMatch(logOf(forkful), /very.{0,3}secret/);
  // A worker that is killed and a daemon that dies take nothing away.
  process.kill(Number((await get(port, '/')).body), 'SIGKILL');
  process.kill(await forkful.daemonPid(), 'SIGKILL');
  const from = collector.posts.length;
  await waitUntil('exports of the next daemon', () => collector.posts.length >= from + 3);
  const sums = collector.posts.map(requestsOf);
  assert.deepEqual(sums, [...sums].sort((a, b) => a - b));
});

test('a receiver that is not there, refuses or never answers does no harm, and is told of once', async (t) => {
  const forkful = await sandbox(t);
  const [port, gone] = [await freePort(), await freePort()];
  const config = join(forkful.directory, 'apps.json');
  const app = { name: 'web', script: forkful.script(serving), instances: 1, otlp: { endpoint: `http://127.0.0.1:${gone}`, interval: '1s' }, env: { PORT: port } };
  writeFileSync(config, JSON.stringify({ apps: [app] }));
  await forkful.ok(['start', config]);
  await waitUntil('a failure in the log', () => logOf(forkful).includes(`metrics do not reach http://127.0.0.1:${gone}/v1/metrics`));
  const collector = await receiver(t, gone);
  await waitUntil('the log', () => logOf(forkful).includes('again'));
  collector.answer = (response) => response.writeHead(503).end();
  await waitUntil('another failure', () => logOf(forkful).includes('503'));
  await waitUntil('a note', async () => /web: metrics do not reach http:.*: 503 Service Unavailable/.test((await forkful.ok(['list'])).stdout + (await forkful.ok(['list'])).stderr));
  const refused = collector.posts.length;
  await waitUntil('further exports', () => collector.posts.length >= refused + 2);
  // One that never answers: a single request is under way.
  collector.answer = () => {};
  const before = collector.posts.length;
  await waitUntil('a request without an answer', () => collector.posts.length > before);
  const started = Date.now();
  assert.equal((await get(port, '/')).status, 200);
  await forkful.ok(['list']);
  t.diagnostic(`a request and a list took ${Date.now() - started} ms`);
  await collector.close();
  const told = logOf(forkful).split('metrics do not reach').length - 1;
  assert.equal(told, 2, logOf(forkful));
});

/** Sends requests, and waits until the daemon knows of them all. */
async function request(port, count, known) {
  await waitUntil('the app listens', async () => (await get(port, '/').catch(() => undefined))?.status === 200);
  for (let at = 1; at < count; at += 1) await get(port, '/');
  await waitUntil('all are counted', known);
}

test('an app that is deleted sends its last sums, long before its interval is over', async (t) => {
  const forkful = await sandbox(t);
  const [port, collector] = [await freePort(), await receiver(t)];
  const config = join(forkful.directory, 'apps.json');
  const otlp = { endpoint: `http://127.0.0.1:${collector.port}`, interval: '1h' };
  writeFileSync(config, JSON.stringify({ apps: [{ name: 'web', script: forkful.script(serving), instances: 2, otlp, env: { PORT: port } }] }));
  await forkful.ok(['start', config]);
  const known = async () => {
    const { apps: [{ workers }] } = JSON.parse((await forkful.ok(['list', '--json'])).stdout);
    return workers.reduce((sum, { metrics }) => sum + (metrics?.http_requests_total ?? 0), 0) >= 12;
  };
  await request(port, 12, known);
  assert.equal(collector.posts.length, 0);
  await forkful.ok(['delete', 'web']);
  const post = await waitUntil('the last sums', () => collector.posts[0]);
  assert.ok(requestsOf(post) >= 12, JSON.stringify(post));
  assert.equal(instances(post).length, 2);
  // A daemon that ends sends what it has before it is gone.
  await forkful.ok(['start', config]);
  await forkful.ok(['kill']);
  assert.equal(collector.posts.length, 2);
});

test('the end of forkful run sends the last sums, and does not wait long for a receiver that never answers', async (t) => {
  const forkful = await sandbox(t);
  const script = forkful.script(serving);
  for (const answers of [true, false]) {
    const [port, collector] = [await freePort(), await receiver(t)];
    if (!answers) collector.answer = () => {};
    const child = spawn(binary(), ['run', script, '-i', '2', '--interpreter', nodeBinary(NEWEST), '--otlp', `http://127.0.0.1:${collector.port}`], {
      cwd: forkful.directory, env: { ...forkful.env, PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
    await waitUntil('the app listens', async () => (await get(port, '/').catch(() => undefined))?.status === 200);
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    await ended;
    assert.equal(collector.posts.length, 1, 'it was sent before the end');
    assert.equal(instances(collector.posts[0]).length, 2);
    assert.equal(stderr.includes('the last metrics did not all arrive within 2 s'), !answers, stderr);
  }
});

test('an endpoint that may show a secret is refused', async (t) => {
  const forkful = await sandbox(t);
  for (const url of ['http://me:secret@localhost', 'https://localhost/?key=secret', 'localhost:4318']) {
    const { stderr } = await forkful.fails(['start', forkful.script(serving), '--otlp', url]);
    assert.match(stderr, /without a password and a query/);
  }
});
