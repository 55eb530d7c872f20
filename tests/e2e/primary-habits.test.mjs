// Packages and apps that expect a primary written in JavaScript: log4js, prom-client, custom cluster code.
// Forkful relays what it can, and reports the rest to the user.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const { resolve } = createRequire(import.meta.url);

describe('without a primary in JavaScript', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => { forkful = await sandbox(null); });
  after(() => forkful.close());

  /** Writes a script and starts workers of it. */
  async function start(name, text, { instances = 2, options = [] } = {}) {
    const path = join(forkful.directory, `${name}.cjs`);
    writeFileSync(path, text);
    return forkful.ok(['start', path, '--name', name, '-i', String(instances), '--interpreter', nodeBinary(NEWEST), ...options]);
  }
  const describeApp = async (name) => JSON.parse((await forkful.ok(['describe', name, '--json'])).stdout).apps[0];
  const notesOf = async (name) => (await describeApp(name)).notes ?? [];
  /** The text is in the notes of an app, in the list, and once in the daemon's log. */
  async function isTold(name, text) {
    await waitUntil(`the note of ${name}`, async () => (await notesOf(name)).some((note) => text.test(note)));
    const list = await forkful.ok(['list']);
    assert.match(`${list.stdout}${list.stderr}`, text);
    const log = () => readFileSync(join(forkful.home, 'daemon.log'), 'utf8').split('\n').filter((line) => line.includes(`forkful: ${name}: `) && text.test(line));
    assert.equal((await waitUntil('the log', () => log().length && log())).length, 1);
  }
  /** What the workers of an app have written, by worker. */
  const written = async (name) => (await describeApp(name)).workers.map((worker) => readFileSync(worker.out_log_path, 'utf8'));

  /** An app that repeatedly logs a line per worker, and nothing else. */
  const logging = (configuration) => `
    const log4js = require(${JSON.stringify(resolve('log4js'))});
    log4js.configure({ appenders: { out: { type: 'stdout', layout: { type: 'messagePassThrough' } } },
      categories: { default: { appenders: ['out'], level: 'info' } }, ...${JSON.stringify(configuration)} });
    const log = log4js.getLogger();
    require('net').createServer().listen(0);
    setInterval(() => log.info('from %s: %s', process.env.NODE_APP_INSTANCE, '\\ud83d half a character and "quotes"'), 50);
  `;

  test('log4js with `pm2: true`: the first worker writes the lines of all', async () => {
    await start('pm2-logger', logging({ pm2: true }), { instances: 3 });
    await waitUntil('lines of all workers', async () => {
      const [first] = await written('pm2-logger');
      return ['0', '1', '2'].every((slot) => first.includes(`from ${slot}: `));
    });
    assert.deepEqual((await written('pm2-logger')).slice(1), ['', '']);
    assert.deepEqual(await notesOf('pm2-logger'), []);

    // Without the worker that writes there is nobody to send to.
    const [first] = (await describeApp('pm2-logger')).workers;
    await forkful.ok(['stop', String(first.pm_id)]);
    await isTold('pm2-logger', /log lines were lost: log4js .* `disableClustering: true`/);
    await forkful.ok(['delete', 'pm2-logger']);
  });

  test('log4js with another instance variable is told of', async () => {
    await start('odd-logger', logging({ pm2: true, pm2InstanceVar: 'NOBODY_SETS_THIS' }));
    await isTold('odd-logger', /set `pm2InstanceVar`/);
    await forkful.ok(['delete', 'odd-logger']);
  });

  test('log4js as it is by default is told of, and a restart with a better configuration takes the note away', async () => {
    await start('logger', logging({}));
    await isTold('logger', /log lines are lost: log4js .* `disableClustering: true`/);
    writeFileSync(join(forkful.directory, 'logger.cjs'), logging({ disableClustering: true }));
    await forkful.ok(['restart', 'logger']);
    await waitUntil('lines of each worker', async () => {
      const [zero, one] = await written('logger');
      return zero.includes('from 0: ') && one.includes('from 1: ');
    });
    assert.deepEqual(await notesOf('logger'), []);
    await forkful.ok(['delete', 'logger']);
  });

  test('prom-client: `clusterMetrics()` in a worker is told of', async () => {
    await start('metrics', `
      const { AggregatorRegistry, register, Counter } = require(${JSON.stringify(resolve('prom-client'))});
      new Counter({ name: 'hits', help: 'hits' }).inc();
      const registry = new AggregatorRegistry();
      require('net').createServer().listen(0);
      registry.clusterMetrics().then((text) => console.log(JSON.stringify({ text })));
    `);
    await isTold('metrics', /`clusterMetrics\(\)` gives an empty text.*`register\.metrics\(\)`/);
    await waitUntil('the empty text', async () => (await written('metrics')).every((text) => text === '{"text":""}\n'));
    await forkful.ok(['delete', 'metrics']);
  });

  test('own cluster code is told of at the start in cluster mode, and nowhere else', async () => {
    const script = `
      const cluster = require('cluster');
      if (cluster.isPrimary) cluster.fork();
      else require('net').createServer().listen(0);
    `;
    const text = /own-cluster: the script calls `cluster\.fork`.*start the app without `-i`/;
    assert.match((await start('own-cluster', script)).stderr, text);
    const { stdout } = await forkful.ok(['describe', 'own-cluster']);
    assert.match(stdout, /note +the script calls `cluster\.fork`/);
    assert.ok(stdout.split('\n').filter((line) => /note|exec_mode/.test(line)).every((line) => line.length <= 80), stdout);
    await forkful.ok(['delete', 'own-cluster']);

    const own = await start('own-cluster', script, { instances: 1, options: ['--execute-command'] });
    assert.doesNotMatch(own.stderr, /cluster\.fork/);
    await forkful.ok(['delete', 'own-cluster']);
    const none = await start('no-cluster', `require('child_process').fork;\n// cluster.fork()\nrequire('net').createServer().listen(0);`);
    assert.doesNotMatch(none.stderr, /cluster\.fork/);
    await forkful.ok(['delete', 'no-cluster']);
  });
});
