// A real Prometheus server scrapes what Forkful serves, and the app's own route, and is asked what it knows.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const PROM_CLIENT = createRequire(import.meta.url).resolve('prom-client');

const isThere = spawnSync('prometheus', ['--version']).status === 0;
if (!isThere) console.error('SKIPPED: no Prometheus server (Debian package prometheus); dev/check e2e fetches one');

const ALERTS = readFileSync(new URL('../../docs/grafana/alerts.yml', import.meta.url), 'utf8');
/** The expression of the alert for workers that are down. */
const DOWN = /alert: ForkfulWorkerDown\n +expr: (.+)\n/.exec(ALERTS)[1];

/** Counts its requests but for scrapes. */
function counting({ require }) {
  const { Counter, register } = require(process.env.PROM_CLIENT);
  const hits = new Counter({ name: 'hits_total', help: 'Requests.' });
  require('http').createServer(async ({ url }, response) => {
    if (url === '/metrics') return response.setHeader('content-type', register.contentType).end(await register.metrics());
    hits.inc();
    return response.end();
  }).listen(Number(process.env.PORT));
}

/** A scrape of each address a second. */
function configuration(jobs) {
  const scrapes = Object.entries(jobs).map(([name, port]) => ({ job_name: name, static_configs: [{ targets: [`127.0.0.1:${port}`] }] }));
  // JSON is YAML.
  return JSON.stringify({ global: { scrape_interval: '1s', scrape_timeout: '1s' }, scrape_configs: scrapes });
}

test('a Prometheus server takes both pages, and a query gives the right numbers', { skip: !isThere && 'no Prometheus server' }, async (t) => {
  const forkful = await sandbox(t);
  const [app, page, own] = [await freePort(), await freePort(), await freePort()];
  await forkful.start(counting, { name: 'web', instances: 3, options: ['--metrics', 'merge'], env: { PORT: String(app), PROM_CLIENT } });
  await forkful.ok(['start', forkful.script(() => {}), '--name', 'done']);
  await forkful.fails(['start', forkful.script(() => { throw new Error('broken'); }), '--name', 'broken', '--max-restarts', '1', '--min-uptime', '60s']);
  const served = forkful.spawn(['metrics', '--listen', `127.0.0.1:${page}`]);
  await waitUntil('the page', async () => (await get(page, '/metrics')).status === 200);
  for (let at = 0; at < 30; at += 1) await get(app, '/');

  const config = join(forkful.directory, 'prometheus.json');
  writeFileSync(config, configuration({ forkful: page, app }));
  const prometheus = forkful.spawn([
    `--config.file=${config}`, `--storage.tsdb.path=${join(forkful.directory, 'data')}`, `--web.listen-address=127.0.0.1:${own}`, '--log.level=warn',
  ], { program: 'prometheus' });
  const ask = async (path) => {
    const { status, body } = await get(own, `/api/v1/${path}`);
    return status === 200 ? JSON.parse(body).data : undefined;
  };
  const query = async (text) => (await ask(`query?query=${encodeURIComponent(text)}`))?.result.map(({ value }) => Number(value[1]));
  const targets = await waitUntil('both targets', async () => {
    const { activeTargets } = await ask('targets') ?? {};
    const faults = activeTargets?.map(({ lastError }) => lastError).filter((fault) => fault && !fault.includes('deadline exceeded'));
    if (faults?.length) return { faults };
    return activeTargets?.length === 2 && activeTargets.every(({ health }) => health === 'up') && { faults: [] };
  });
  assert.deepEqual(targets.faults, []);
  const expected = {
    'sum(forkful_worker_up{app="web"})': [3],
    'hits_total{job="forkful",app="web"}': [30],
    'hits_total{job="app"}': [30],
    'count(nodejs_heap_size_used_bytes{app="web"})': [3],
    'count(forkful_build_info)': [1],
    // What is to run and does not is told; a program that has finished is not.
    'count by (app) (forkful_worker_up == 0)': [1, 1],
    [`count by (app) (${DOWN})`]: [1],
    [`count((${DOWN}) and on (app) forkful_worker_state{app="broken",state="errored"})`]: [1],
  };
  for (const [text, values] of Object.entries(expected)) {
    // A scrape that came before the workers had said all of it is followed by another one.
    let found;
    await waitUntil(text, async () => {
      found = await query(text);
      return String(found) === String(values);
    }).catch(() => {});
    assert.deepEqual(found, values, text);
  }
  for (const { child, outcome } of [prometheus, served]) {
    child.kill('SIGTERM');
    await outcome;
  }
});
