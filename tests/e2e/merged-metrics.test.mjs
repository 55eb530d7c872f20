// `metrics: "merge"`: a scrape of the app's own prom-client, by its own port, gives what all workers have together, and sums that do
// not fall when workers end.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { freePort, get } from './lib/http.mjs';
import { MAJORS, NEWEST } from './lib/nodes.mjs';
import { samplesOf } from './lib/samples.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const require = createRequire(import.meta.url);
const { AggregatorRegistry } = require('prom-client');
const MODULES = fileURLToPath(new URL('./node_modules', import.meta.url));

/** Where a version of prom-client is under its own name, as in an app's folder. */
function promClient(forkful, version) {
  if (version === 15) return require.resolve('prom-client');
  const folder = join(forkful.directory, 'node_modules', 'prom-client');
  mkdirSync(dirname(folder), { recursive: true });
  cpSync(dirname(require.resolve('prom-client-14')), folder, { recursive: true });
  return join(folder, 'index.js');
}

/**
 * Serves texts on `/metrics`, `/own`, `/all` and `/aggregated`, by the framework that the environment names. Its registries have
 * metrics of every kind and with every aggregator, with other values in each worker; a file has them as JSON.
 */
function everyKind({ require }) {
  const { AggregatorRegistry, Counter, Gauge, Histogram, Registry, Summary, collectDefaultMetrics, register } = require(process.env.PROM_CLIENT);
  const instance = Number(process.env.NODE_APP_INSTANCE);
  new Counter({ name: 'shop_orders_total', help: 'Orders.', labelNames: ['kind'] }).inc({ kind: 'a "quoted"\nline \\' }, instance + 1);
  for (const aggregator of ['sum', 'first', 'min', 'max', 'average', 'omit']) {
    new Gauge({ name: `shop_${aggregator}_depth`, help: aggregator, aggregator }).set(10 * (instance + 1));
  }
  new Gauge({ name: 'shop_endless', help: 'Not finite.' }).set(Infinity);
  const took = new Histogram({ name: 'shop_took_seconds', help: 'Time.', labelNames: ['route'], buckets: [0.1, 0.5, 2] });
  for (const seconds of [0.05, 0.3, 1 + instance]) took.observe({ route: '/' }, seconds);
  const size = new Summary({ name: 'shop_size_bytes', help: 'Sizes.', percentiles: [0.5, 0.9] });
  for (const bytes of [1, 2, 3]) size.observe(bytes * (instance + 1));
  if (instance === 3) new Gauge({ name: 'shop_late', help: 'Of one worker.' }).set(3);
  collectDefaultMetrics({ prefix: 'default_', gcDurationBuckets: [1] });
  // Registries of the app's own: two of them have a metric of the same name.
  const own = new Registry();
  own.setDefaultLabels({ of: 'own' });
  new Counter({ name: 'same_total', help: 'Of one.', registers: [own] }).inc(instance + 1);
  new Counter({ name: 'own_total', help: 'Of one.', registers: [own] }).inc(100);
  const other = new Registry();
  new Counter({ name: 'same_total', help: 'Of the other.', registers: [other] }).inc(1000);
  const texts = {
    '/metrics': () => register.metrics(),
    '/own': () => own.metrics(),
    '/all': () => Registry.merge([register, other]).metrics(),
    '/aggregated': async () => AggregatorRegistry.aggregate([await other.getMetricsAsJSON()]).metrics(),
  };
  const servers = {
    http: (port) => require('http').createServer(async ({ url }, response) => response.end(await texts[url]?.())).listen(port),
    express: (port) => {
      const app = require(process.env.EXPRESS)();
      for (const [path, text] of Object.entries(texts)) app.get(path, async (_request, response) => response.type('text').send(await text()));
      app.listen(port);
    },
    fastify: (port) => {
      const app = require(process.env.FASTIFY)();
      for (const [path, text] of Object.entries(texts)) app.get(path, () => text());
      app.listen({ port });
    },
  };
  servers[process.env.FRAMEWORK](Number(process.env.PORT));
  register.getMetricsAsJSON().then((json) => require('fs').writeFileSync(`${process.env.FOLDER}/${instance}.json`, JSON.stringify(json, (_key, value) => value === Infinity ? 'Infinity' : value)));
}

/** Counts its requests; `/metrics` is not counted. */
function counting({ require }) {
  const { Counter, register } = require(process.env.PROM_CLIENT);
  const hits = new Counter({ name: 'hits_total', help: 'Requests.' });
  require('http').createServer(async ({ url }, response) => {
    if (url === '/metrics') return response.end(await register.metrics());
    hits.inc();
    return response.end(String(process.pid));
  }).listen(Number(process.env.PORT));
}

const MERGE = ['--metrics', 'merge'];

/** For so long a worker waits for the values of the others (agent/merged.cjs). */
const DAEMON_PATIENCE_MS = 5000;
/** Checks until it holds: a worker that has no core for as long as its answer is waited for is left out, or as it was. */
const eventually = (what, check) => waitUntil(what, async () => {
  await check();
  return true;
});
/** What is the same in two looks, moments apart. */
const still = (samples, prefix) => Object.fromEntries(Object.entries(samples).filter(([series]) => series.startsWith(prefix)));

for (const [major, version, framework] of [[18, 15, 'express4'], [20, 15, 'fastify'], [22, 15, 'http'], [24, 15, 'express'], [26, 15, 'http'], [18, 14, 'http'], [NEWEST, 14, 'express']]) {
  test(`Node ${major}, prom-client ${version}, ${framework}: a scrape of the app's own port is merged as prom-client does`, async (t) => {
    assert.ok(MAJORS.includes(major));
    const forkful = await sandbox(t, major);
    const port = await freePort();
    const express = framework.startsWith('express') ? framework : 'express';
    const env = {
      PORT: String(port), FOLDER: forkful.directory, PROM_CLIENT: promClient(forkful, version), NODE_PATH: MODULES,
      FRAMEWORK: framework === 'express4' ? 'express' : framework, EXPRESS: require.resolve(express), FASTIFY: require.resolve('fastify'),
    };
    await forkful.start(everyKind, { name: 'web', instances: 4, options: MERGE, env });
    const reports = await waitUntil('the files', () => [0, 1, 2, 3].map((worker) => {
      const text = readFileSync(join(forkful.directory, `${worker}.json`), 'utf8');
      return JSON.parse(text, (_key, value) => value === 'Infinity' ? Infinity : value);
    }));
    const expected = still(samplesOf(await AggregatorRegistry.aggregate(reports).metrics()), 'shop_');
    assert.equal(expected['shop_orders_total{kind=a \\"quoted\\"\\nline \\\\}'], 10);
    const scrape = async (path) => {
      const { status, body } = await get(port, path);
      assert.equal(status, 200, body);
      return body;
    };
    // Each of them comes from any worker.
    for (let at = 0; at < 8; at += 1) {
      await eventually('the default registry of all workers', async () => {
        const text = await scrape('/metrics');
        assert.deepEqual(still(samplesOf(text), 'shop_'), expected);
        assert.match(text, /^# HELP shop_orders_total Orders\.\n# TYPE shop_orders_total counter\n/m);
        assert.ok(samplesOf(text)['default_process_resident_memory_bytes{}'] > 80e6, 'of four processes');
      });
      await eventually('a registry of the app', async () =>
        assert.deepEqual(samplesOf(await scrape('/own')), { 'same_total{of=own}': 10, 'own_total{of=own}': 400 }));
      await eventually('merged registries', async () => {
        const all = samplesOf(await scrape('/all'));
        assert.equal(all['same_total{}'], 4000);
        assert.deepEqual(still(all, 'shop_'), expected);
      });
      assert.deepEqual(samplesOf(await scrape('/aggregated')), { 'same_total{}': 1000 });
    }
    // The page of all apps has what it had.
    await eventually('the page of all apps', async () => {
      const { stdout } = await forkful.ok(['metrics', 'web']);
      assert.deepEqual(still(samplesOf(stdout), 'shop_'), expected);
      assert.doesNotMatch(stdout, /own_total/);
    });
  });
}

test('the sum never falls over twenty kills and the death of the daemon', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const env = { PORT: String(port), PROM_CLIENT: promClient(forkful, 15) };
  await forkful.start(counting, { name: 'web', instances: 4, options: [...MERGE, '--max-restarts', '1000'], env });
  const faults = [];
  let [requests, last] = [0, 0];
  const hits = async (when) => {
    const began = performance.now();
    // A scrape within a worker that is killed has no answer.
    const answer = await get(port, '/metrics').catch(() => undefined);
    // A worker that no daemon has answered gives its own values alone.
    if (!answer || performance.now() - began >= DAEMON_PATIENCE_MS) return undefined;
    const now = samplesOf(answer.body)['hits_total{}'] ?? 0;
    if (answer.status !== 200 || now < last || now > requests) faults.push(`${when}: ${answer.status}, ${last} and then ${now} of ${requests}`);
    last = now;
    return now;
  };
  const all = (when) => eventually(`all requests, ${when}`, async () => assert.equal(await hits(when), requests));
  const pids = async () => (await forkful.jlist('web')).filter(({ pm2_env }) => pm2_env.status === 'online').map(({ pid }) => pid);
  for (let round = 0; round < 20; round += 1) {
    for (let at = 0; at < 9; at += 1) {
      await get(port, '/');
      requests += 1;
    }
    const before = await waitUntil('all workers', async () => {
      const now = await pids();
      return now.length === 4 && now;
    });
    await all(`round ${round}`);
    process.kill(before[round % 4], 'SIGKILL');
    if (round === 10) process.kill(await forkful.daemonPid(), 'SIGKILL');
    await waitUntil('another worker', async () => {
      await hits(`after the kill in round ${round}`);
      const now = await pids();
      return now.length === 4 && !now.includes(before[round % 4]);
    });
  }
  await all('the end');
  await forkful.ok(['reload', 'web']);
  await all('after a reload');
  assert.deepEqual(faults, []);
});

test('a scrape that the daemon does not answer gives the worker\'s own values, and the log says so once', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  const env = { PORT: String(port), PROM_CLIENT: promClient(forkful, 15) };
  await forkful.start(counting, { name: 'web', instances: 1, options: [...MERGE, '--balance', 'direct'], env });
  await get(port, '/');
  const { pid, keeper } = JSON.parse((await forkful.ok(['ping', '--json'])).stdout);
  for (const one of [keeper, pid]) process.kill(one, 'SIGSTOP');
  const texts = [];
  try {
    for (let at = 0; at < 2; at += 1) texts.push((await get(port, '/metrics')).body);
  } finally {
    for (const one of [pid, keeper]) process.kill(one, 'SIGCONT');
  }
  assert.deepEqual(texts.map((text) => samplesOf(text)['hits_total{}']), [1, 1]);
  const told = () => readFileSync(join(forkful.home, 'daemon.log'), 'utf8').split('those of one worker alone').length - 1;
  await waitUntil('the log', () => told() > 0);
  await get(port, '/');
  assert.equal(samplesOf((await get(port, '/metrics')).body)['hits_total{}'], 2);
  assert.equal(told(), 1);
});

test('an ES module, OpenMetrics and one process (fork mode) are merged, too', async (t) => {
  const forkful = await sandbox(t);
  const path = join(forkful.directory, 'app.mjs');
  writeFileSync(path, `
    import prom from ${JSON.stringify(pathToFileURL(promClient(forkful, 15)).href)};
    import { createServer } from 'node:http';
    prom.register.setContentType(prom.Registry.OPENMETRICS_CONTENT_TYPE);
    const hits = new prom.Counter({ name: 'hits_total', help: 'Requests.' });
    createServer(async (request, response) => {
      if (request.url === '/metrics') return response.end(await prom.register.metrics());
      if (request.url === '/exit') setImmediate(() => process.exit(1));
      else hits.inc();
      return response.end();
    }).listen(Number(process.env.PORT));
  `);
  for (const [name, ...options] of [['cluster', '-i', '3'], ['fork', '-x']]) {
    const port = await freePort();
    await forkful.ok(['start', path, '--name', name, ...MERGE, ...options], { env: { PORT: String(port) } });
    for (let at = 0; at < 10; at += 1) await get(port, '/');
    const text = async () => (await waitUntil('an answer', () => get(port, '/metrics').catch(() => undefined))).body;
    const expected = '# HELP hits Requests.\n# TYPE hits counter\nhits_total 10\n# EOF\n';
    const all = (when) => eventually(`all requests, ${when}`, async () => assert.equal(await text(), expected));
    await all('before an exit');
    await get(port, '/exit').catch(() => {});
    await all('after it');
  }
});
