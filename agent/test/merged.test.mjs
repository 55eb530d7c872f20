// `metrics: "merge"`: what the agent asks and gives, on every supported Node version, against a primary that is this test.
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

/** Starts a program whose `steps` are run by their names; `run` gives what a step gives. */
async function start(t, major, text) {
  scripts += 1;
  const script = join(directory, `${scripts}.cjs`);
  writeFileSync(script, `'use strict';
    const prom = require(${JSON.stringify(PROM_CLIENT)});
    ${text}
    process.on('message', async ({ step, id }) => {
      const gives = await steps[step]();
      if (process.connected) process.send({ id, gives });
    });
    process.send('up');
  `);
  const worker = Object.assign(launch(t, major, script, [], { FORKFUL_METRICS: 'merge' }), { asked: [], last: 0 });
  const { child } = worker;
  child.on('internalMessage', (message) => { if (['merge', 'unmerged'].includes(message.act)) worker.asked.push(message); });
  await waitUntil('the app', () => worker.said.includes('up'));
  worker.run = async (step) => {
    const id = worker.last += 1;
    child.send({ step, id });
    return (await waitUntil(step, () => worker.said.find((said) => said.id === id))).gives;
  };
  worker.answer = (question, metrics) => child.send({ cmd: 'NODE_FORKFUL', act: 'merged', question, metrics });
  /** Runs a step whose question gets this answer. */
  worker.merged = async (step, metrics) => {
    const before = worker.asked.length;
    const gives = worker.run(step);
    worker.answer((await waitUntil('a question', () => worker.asked[before])).question, metrics);
    return gives;
  };
  return worker;
}

const counter = (name, value, rest = {}) => ({ name, help: 'Hits.', type: 'counter', aggregator: 'sum', values: [{ labels: {}, value }], ...rest });
const text = (name, value) => `# HELP ${name} Hits.\n# TYPE ${name} counter\n${name} ${value}\n`;

const REGISTRIES = `
  const { AggregatorRegistry, Counter, Pushgateway, Registry, register } = prom;
  const hits = new Counter({ name: 'hits', help: 'Hits.' });
  hits.inc();
  const own = new Registry();
  new Counter({ name: 'mine', help: 'Hits.', registers: [own] }).inc(2);
  const pushed = [];
  require('http').request = () => ({ on() {}, write: (body) => pushed.push(body), end() {} });
  const steps = {
    default: () => register.metrics(),
    own: () => own.metrics(),
    both: () => Registry.merge([register, own]).metrics(),
    json: () => register.getMetricsAsJSON(),
    aggregated: async () => AggregatorRegistry.aggregate([await register.getMetricsAsJSON()]).metrics(),
    pushed: async () => { new Pushgateway('http://localhost:1').pushAdd({ jobName: 'x' }); await new Promise(setImmediate); return pushed; },
    thrice: () => Promise.all([1, 2, 3].map(() => register.metrics())),
    leave: async () => { process.disconnect(); console.log(await register.metrics()); },
  };
`;

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 4 }, () => {
    test('a registry gives what the primary answers, of the registries that its metrics come from', async (t) => {
      const worker = await start(t, major, REGISTRIES);
      const all = [counter('hits', 10), counter('late', 1), counter('mine', 20, { registry: 'mine#0' }), counter('mine', 30, { registry: 'mine#1' })];
      assert.equal(await worker.merged('default', all), `${text('hits', 10)}\n${text('late', 1)}`);
      assert.equal(await worker.merged('own', all), text('mine', 20));
      assert.equal(await worker.merged('both', all), `${text('hits', 10)}\n${text('late', 1)}\n${text('mine', 20)}`);
      assert.equal(await worker.merged('default', undefined), text('hits', 1), 'what the primary cannot give');
      assert.equal(await worker.merged('default', [{ nonsense: true }, null]), text('hits', 1), 'nonsense does no harm');
      const values = [{ labels: { a: 'x"' }, value: 'NaN' }, { labels: { a: 'y' }, value: '-Inf' }];
      const gauge = { name: 'hits', help: 'Hits.', type: 'gauge', aggregator: 'average', values };
      assert.equal(await worker.merged('default', [gauge]), '# HELP hits Hits.\n# TYPE hits gauge\nhits{a="x\\""} Nan\nhits{a="y"} -Inf\n');
      assert.equal(worker.output, '');
    });

    test('JSON, what the app has merged, and what a push gateway is sent stay the worker\'s own', async (t) => {
      const worker = await start(t, major, REGISTRIES);
      assert.equal((await worker.run('json'))[0].values[0].value, 1);
      assert.equal(await worker.run('aggregated'), text('hits', 1));
      assert.deepEqual(await worker.run('pushed'), [text('hits', 1)]);
      assert.deepEqual(worker.asked, []);
    });

    test('calls that come together share the next question, not the one under way', async (t) => {
      const worker = await start(t, major, REGISTRIES);
      const gives = worker.run('thrice');
      const first = await waitUntil('a question', () => worker.asked[0]);
      worker.answer(first.question, [counter('hits', 1)]);
      const second = await waitUntil('another question', () => worker.asked.find(({ question }) => question > first.question));
      worker.answer(first.question, [counter('hits', 7)]);
      worker.answer(second.question, [counter('hits', 2)]);
      assert.deepEqual(await gives, [text('hits', 1), text('hits', 2), text('hits', 2)]);
      assert.equal(new Set(worker.asked.map(({ question }) => question)).size, 2);
    });

    test('without an answer the question comes again, then the worker gives its own values and says so once', async (t) => {
      const worker = await start(t, major, REGISTRIES);
      assert.equal(await worker.run('default'), text('hits', 1));
      assert.equal(await worker.run('default'), text('hits', 1));
      const [first] = worker.asked;
      assert.ok(worker.asked.filter(({ question }) => question === first.question).length >= 2);
      assert.equal(worker.asked.filter(({ act }) => act === 'unmerged').length, 1);
      worker.child.send({ step: 'leave', id: 0 });
      assert.deepEqual(await worker.exited, [0, null]);
      assert.equal(worker.output.trim(), text('hits', 1).trim(), 'without a channel nobody is asked');
    });
  });
}
