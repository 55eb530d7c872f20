// What the agent says of the app's prom-client, on every supported Node version, against a primary that is this test.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { MAJORS } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil } from '../../tests/e2e/lib/wait.mjs';
import { directory, launch } from './lib/worker.mjs';

const PROM_CLIENT = createRequire(new URL('../../tests/e2e/package.json', import.meta.url)).resolve('prom-client');
let scripts = 0;

/** Starts a program under the agent; `ask` gives the answer to the question for its metrics. */
async function start(t, major, text) {
  scripts += 1;
  const script = join(directory, `${scripts}.cjs`);
  writeFileSync(script, `'use strict';\nconst prom = () => require(${JSON.stringify(PROM_CLIENT)});\n${text}\nprocess.send('up');\n`);
  const worker = Object.assign(launch(t, major, script), { acts: [], answers: [], inventory: undefined });
  const { child } = worker;
  child.on('internalMessage', (message) => {
    worker.acts.push(message.act);
    if (message.act === 'metrics') worker.answers.push(message);
  });
  await waitUntil('the app', () => worker.said.includes('up'));
  worker.ask = async () => {
    const before = worker.answers.length;
    child.send({ cmd: 'NODE_FORKFUL', act: 'metrics' });
    const { cmd, act, inventory, ...answer } = await waitUntil('an answer', () => worker.answers[before]);
    assert.deepEqual([cmd, act], ['NODE_FORKFUL', 'metrics']);
    worker.inventory = inventory;
    return answer;
  };
  return worker;
}

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 4 }, () => {
    test('what the process holds is counted as prom-client counts it', async (t) => {
      const worker = await start(t, major, `
        prom().collectDefaultMetrics();
        const server = require('http').createServer();
        server.listen(0, '127.0.0.1');
        setInterval(() => {}, 60_000);
        process.on('message', () => {
          process._getActiveHandles = () => Array.from({ length: 100 }, (_, at) => new ({ ['Type' + at]: class {} }['Type' + at])());
          process.send('many');
        });
      `);
      const { metrics } = await worker.ask();
      const { inventory } = worker;
      const theirs = (name, label) => Object.fromEntries(metrics.find((family) => family.name === name).values.map(({ labels, value }) => [labels[label], value]));
      assert.ok(inventory.handles.Server >= 1, JSON.stringify(inventory));
      assert.deepEqual(inventory.handles, theirs('nodejs_active_handles', 'type'));
      assert.deepEqual(inventory.requests, theirs('nodejs_active_requests', 'type'));
      assert.deepEqual(Object.keys(inventory.resources).sort(), Object.keys(theirs('nodejs_active_resources', 'type')).sort());
      const spaces = Object.keys(inventory.spaces);
      assert.ok(spaces.includes('new') && spaces.includes('large_object'), spaces.join());
      assert.deepEqual(spaces.sort(), Object.keys(theirs('nodejs_heap_space_size_used_bytes', 'space')).sort());
      for (const [total, used, available] of Object.values(inventory.spaces)) assert.ok([total, used, available].every((bytes) => bytes >= 0));
      worker.child.send('many');
      await waitUntil('the many', () => worker.said.includes('many'));
      await worker.ask();
      assert.deepEqual([Object.keys(worker.inventory.handles).length, worker.inventory.handles.other], [61, 40]);
      assert.equal(worker.output, '');
    });

    test('without a prom-client it says so, and with one that is loaded later it says what it has', async (t) => {
      const worker = await start(t, major, `
        process.on('message', () => {
          const { Gauge, Histogram } = prom();
          const gauge = new Gauge({ name: 'depth', help: 'Depth.', labelNames: ['of', 'n'], aggregator: 'max' });
          gauge.set({ of: 'a', n: 1 }, 2.5);
          gauge.set({ of: 'b', n: true }, NaN);
          gauge.set({ of: 'c' }, -Infinity);
          new Histogram({ name: 'took', help: 'Time.', buckets: [1] }).observe(0.5);
          process.send('loaded');
        });
      `);
      assert.deepEqual(await worker.ask(), { none: true });
      worker.child.send('load');
      await waitUntil('prom-client', () => worker.said.includes('loaded'));
      const { metrics } = await worker.ask();
      assert.deepEqual(metrics, [
        {
          name: 'depth', help: 'Depth.', type: 'gauge', aggregator: 'max', values: [
            { labels: { of: 'a', n: '1' }, value: 2.5 }, { labels: { of: 'b', n: 'true' }, value: 'NaN' }, { labels: { of: 'c' }, value: '-Inf' },
          ],
        },
        {
          name: 'took', help: 'Time.', type: 'histogram', aggregator: 'sum', values: [
            { metricName: 'took_bucket', labels: { le: '1' }, value: 1 }, { metricName: 'took_bucket', labels: { le: '+Inf' }, value: 1 },
            { metricName: 'took_sum', labels: {}, value: 0.5 }, { metricName: 'took_count', labels: {}, value: 1 },
          ],
        },
      ]);
    });

    test('a metric that throws, strange ones, and one that is never there do no harm to the app', async (t) => {
      const worker = await start(t, major, `
        const { Gauge, register } = prom();
        const steps = {
          throws: () => new Gauge({ name: 'throws', help: 'Throws.', collect() { throw new Error('no'); } }),
          rejects: () => new Gauge({ name: 'rejects', help: 'Rejects.', async collect() { throw new Error('no'); } }),
          proxied: () => { Object.defineProperty(require.cache, '/proxied/prom-client/index.js', { configurable: true, enumerable: true, get() { throw new Error('no'); } }); },
          strange: () => { delete require.cache['/proxied/prom-client/index.js']; register.getMetricsAsJSON = () => [null]; },
          never: () => { register.getMetricsAsJSON = () => new Promise(() => {}); },
        };
        process.on('message', (step) => { register.clear(); steps[step](); process.send(step); });
        for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, (error) => process.send({ [event]: String(error) }));
      `);
      for (const step of ['throws', 'rejects', 'proxied', 'strange', 'never']) {
        worker.child.send(step);
        await waitUntil(step, () => worker.said.includes(step));
        assert.deepEqual(await worker.ask(), {}, step);
      }
      assert.deepEqual(worker.said.filter((said) => typeof said === 'object'), []);
      assert.equal(worker.output, '');
    });

    test('of too many metrics the largest ones are left out, and counted', async (t) => {
      const worker = await start(t, major, `
        process.on('message', () => {});
        const { Gauge } = prom();
        const many = (name, count, text) => {
          const gauge = new Gauge({ name, help: 'Many.', labelNames: ['n'] });
          for (let n = 0; n < count; n += 1) gauge.set({ n: text + n }, n);
        };
        many('few', 3, '');
        many('far_too_many', 20000, 'label');
        // Neither is too long by the number of its letters; in JSON each letter has six bytes.
        many('controls', 350, '\\0'.repeat(200));
        many('fewer_controls', 100, '\\0'.repeat(200));
        new Gauge({ name: 'last', help: 'Last.' }).set(1);
      `);
      const { metrics, leftOut } = await worker.ask();
      assert.deepEqual(metrics.map(({ name }) => name), ['few', 'fewer_controls', 'last']);
      assert.equal(leftOut, 20350);
    });

    test('a worker that was asked says what it has counted once more before it has drained, and ends when it wants to', async (t) => {
      const worker = await start(t, major, `
        const { Counter } = prom();
        const counter = new Counter({ name: 'hits', help: 'Hits.' });
        process.on('message', (message) => { if (message === 'end') process.disconnect(); else { counter.inc(); process.send('counted'); } });
      `);
      const hits = ({ metrics: [{ values: [{ value }] }] }) => value;
      assert.equal(hits(await worker.ask()), 0);
      worker.child.send('count');
      await waitUntil('a count', () => worker.said.includes('counted'));
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'drain' });
      assert.equal(hits(await waitUntil('the last word', () => worker.answers[1])), 1);
      await waitUntil('the end of the drain', () => worker.acts.includes('drained'));
      assert.ok(worker.acts.lastIndexOf('metrics') < worker.acts.indexOf('drained'), worker.acts.join());
      worker.child.send('end');
      assert.deepEqual(await worker.exited, [0, null]);
      assert.equal(worker.output, '');
    });
  });
}
