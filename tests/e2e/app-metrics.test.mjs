// Metrics of apps with prom-client: one page for all workers, equal to prom-client's own merge, with sums
// that do not fall when workers exit.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { freePort, get } from './lib/http.mjs';
import { MAJORS } from './lib/nodes.mjs';
import { samplesOf } from './lib/samples.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { scrape, withoutOddNames } from './lib/scrape.mjs';
import { waitUntil } from './lib/wait.mjs';

const { resolve } = createRequire(import.meta.url);
const PROM_CLIENT = resolve('prom-client');
const { AggregatorRegistry } = createRequire(import.meta.url)('prom-client');

/** Metrics of every kind and with every aggregator, with different values in each worker; also written to a file as JSON. */
function everyKind({ require }) {
  const { Counter, Gauge, Histogram, Summary, register } = require(process.env.PROM_CLIENT);
  const instance = Number(process.env.NODE_APP_INSTANCE);
  const hits = new Counter({ name: 'shop_orders_total', help: 'Orders.', labelNames: ['kind', 'shop'] });
  hits.inc({ kind: 'a "quoted"\nline \\', shop: '1' }, instance + 1);
  hits.inc({ kind: `only of ${instance}`, shop: '2' }, 0.25);
  for (const aggregator of ['sum', 'first', 'min', 'max', 'average', 'omit']) {
    new Gauge({ name: `shop_${aggregator}_depth`, help: aggregator, aggregator }).set(10 * (instance + 1));
  }
  new Gauge({ name: 'shop_endless', help: 'Not finite.' }).set(Infinity);
  const took = new Histogram({ name: 'shop_took_seconds', help: 'Time.', labelNames: ['route'], buckets: [0.1, 0.5, 2] });
  for (const seconds of [0.05, 0.3, 1 + instance]) took.observe({ route: '/' }, seconds);
  if (instance === 3) took.observe({ route: '/late' }, 0.2);
  const size = new Summary({ name: 'shop_size_bytes', help: 'Sizes.', percentiles: [0.5, 0.9] });
  for (const bytes of [1, 2, 3]) size.observe(bytes * (instance + 1));
  require('http').createServer((_request, response) => response.end()).listen(Number(process.env.PORT));
  register.getMetricsAsJSON().then((json) => require('fs').writeFileSync(`${process.env.FOLDER}/${instance}.json`, JSON.stringify(json, (_key, value) => value === Infinity ? 'Infinity' : value)));
}

/** Counts its requests; `/block` blocks the event loop. */
function counting({ require }) {
  const { Counter } = require(process.env.PROM_CLIENT);
  const hits = new Counter({ name: 'hits_total', help: 'Requests.' });
  require('http').createServer((request, response) => {
    if (request.url === '/block') for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    hits.inc();
    response.end(String(process.pid));
  }).listen(Number(process.env.PORT));
}

const promtool = spawnSync('promtool', ['--version']).status === 0;

for (const major of MAJORS) {
  test(`Node ${major}: the metrics of four workers are merged as prom-client does`, async (t) => {
    const forkful = await sandbox(t, major);
    const env = { PORT: String(await freePort()), FOLDER: forkful.directory, PROM_CLIENT };
    await forkful.start(everyKind, { name: 'web', instances: 4, env });
    const reports = await waitUntil('the files', () => {
      try {
        return [0, 1, 2, 3].map((worker) => JSON.parse(readFileSync(join(forkful.directory, `${worker}.json`), 'utf8'), (_key, value) => value === 'Infinity' ? Infinity : value));
      } catch {
        return undefined;
      }
    });
    const expected = samplesOf(await AggregatorRegistry.aggregate(reports).metrics());
    assert.equal(expected['shop_orders_total{kind=a \\"quoted\\"\\nline \\\\,shop=1}'], 10);
    assert.equal(expected['shop_took_seconds_count{route=/}'], 12);
    const text = await waitUntil('the values of all four', async () => {
      const page = await scrape(forkful);
      const own = Object.fromEntries(Object.entries(samplesOf(page.text)).filter(([series]) => series.startsWith('shop_')));
      // For the aggregator `first`, the page takes the worker that was started first, and prom-client the first of the reports.
      assert.deepEqual(own, expected);
      return page.text;
    });
    assert.match(text, /^shop_average_depth\{app="web"\} 25\.0$/m);
    assert.match(text, /^forkful_app_metrics_left_out\{app="web"\} 0\.0$/m);
    const open = await scrape(forkful, '/v1/metrics', 'application/openmetrics-text; version=1.0.0');
    assert.match(open.text, /^# TYPE shop_orders counter\nshop_orders_total\{app="web"/m);
    assert.ok(open.text.endsWith('# EOF\n'));
    if (!promtool) return t.diagnostic('promtool is not installed (Debian package prometheus): the page is not checked with it');
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: withoutOddNames((await forkful.ok(['metrics', 'web'])).stdout), encoding: 'utf8' });
    assert.equal(checked.status, 0, checked.stdout + checked.stderr);
    return undefined;
  });
}

test('no request is lost from the sum over kills, a reload, a daemon that dies and a worker that is stuck', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  await forkful.start(counting, { name: 'web', instances: 4, options: ['--max-restarts', '1000'], env: { PORT: String(port), PROM_CLIENT } });
  let requests = 0;
  const ask = async (count) => {
    for (let at = 0; at < count; at += 1) {
      await get(port, '/');
      requests += 1;
    }
  };
  const hits = async () => samplesOf((await waitUntil('a page', () => scrape(forkful))).text)['hits_total{}'];
  // A worker that has no core for as long as its answer is waited for counts as it was.
  const all = async (when) => {
    const counted = await waitUntil(`all requests, ${when}`, async () => {
      const now = await hits();
      return now >= requests && now;
    });
    assert.equal(counted, requests, when);
  };
  const pids = async () => (await forkful.jlist('web')).filter(({ pm2_env }) => pm2_env.status === 'online').map(({ pid }) => pid);
  for (let round = 0; round < 6; round += 1) {
    await ask(9);
    await all(`round ${round}`);
    const before = await pids();
    process.kill(before[round % 4], 'SIGKILL');
    await waitUntil('another worker', async () => {
      assert.equal(await hits(), requests, `after the kill in round ${round}`);
      const now = await pids();
      return now.length === 4 && !now.includes(before[round % 4]);
    });
  }
  // A worker that is asked to leave says what it has counted since the last question, or without one.
  await forkful.ok(['scale', 'web', '5']);
  await ask(15);
  await forkful.ok(['reload', 'web']);
  await all('after a reload');
  // Another daemon goes on with what ended workers had counted, and with what a worker had that ends meanwhile.
  await ask(10);
  await all('before the death of the daemon');
  process.kill(await forkful.daemonPid(), 'SIGKILL');
  assert.equal(await hits(), requests, 'after the death of the daemon');
  // What a stuck worker said last counts.
  get(port, '/block').catch(() => {});
  const stuck = await waitUntil('a stuck worker', async () => (await forkful.jlist('web')).find(({ monit }) => monit.blocked_ms > 0)?.pid);
  assert.equal(await hits(), requests, 'with a stuck worker');
  process.kill(stuck, 'SIGKILL');
});

test('names of Forkful\'s own metrics are left out, nonsense does no harm, and an ES module is measured, too', async (t) => {
  const forkful = await sandbox(t);
  const path = join(forkful.directory, 'app.mjs');
  writeFileSync(path, `
    import { collectDefaultMetrics, Gauge } from ${JSON.stringify(pathToFileURL(PROM_CLIENT).href)};
    import { createServer } from 'node:http';
    collectDefaultMetrics();
    new Gauge({ name: 'forkful_worker_up', help: 'A lie.' }).set(7);
    new Gauge({ name: 'app_version', help: 'Named app.', labelNames: ['app'] }).set({ app: 'mine' }, 3);
    new Gauge({ name: 'fails', help: 'A metric that cannot be collected is never there.', collect() { if (globalThis.fails) throw new Error('no'); } });
    const say = (message) => process.send({ cmd: 'NODE_FORKFUL', act: 'metrics', ...message });
    createServer((request, response) => {
      if (request.url === '/fail') globalThis.fails = true;
      for (const metrics of [7, {}, [null], [[1]], [{ name: 'x', type: 'gauge', values: [{ value: {} }] }], [{ name: 'lie', type: 'gauge', values: [{ value: 1 }] }]]) say({ metrics });
      say({ none: 'x' });
      response.end();
    }).listen(Number(process.env.PORT));
  `);
  const port = await freePort();
  await forkful.start(path, { name: 'web', instances: 2, env: { PORT: String(port) } });
  // A worker that answers late for the first time is left out.
  const samples = await waitUntil('the values of both workers', async () => {
    const found = samplesOf((await scrape(forkful)).text);
    return found['app_version{exported_app=mine}'] === 6 && found;
  });
  assert.equal(samples['forkful_worker_up{worker=0}'], 1);
  const own = Object.keys(samples).filter((series) => /^nodejs_(active|heap_space)_/.test(series));
  assert.ok(own.length > 20 && own.every((series) => series.includes('worker=')), own.join());
  assert.ok(samples['forkful_app_metrics_left_out{}'] >= 5, 'process_cpu_seconds_total and others');
  assert.ok(Object.keys(samples).filter((series) => series.startsWith('process_resident_memory_bytes')).every((series) => series.includes('worker=')));
  for (let at = 0; at < 20; at += 1) assert.equal((await get(port, at < 10 ? '/' : '/fail')).status, 200);
  const after = samplesOf((await scrape(forkful)).text);
  assert.equal(after['app_version{exported_app=mine}'], 6, 'the last known values');
  assert.deepEqual((await forkful.jlist('web')).map(({ pm2_env }) => [pm2_env.status, pm2_env.restart_time]), [['online', 0], ['online', 0]]);
});
