// Replacement of workers because of limits, schedules, health checks and changed files: one after the other,
// and a version that does not start leaves the old workers running.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Answers with its pid; `/grow` keeps memory, `/sick` makes `/health` fail, `/block` blocks the event loop forever. */
function server({ require, report }) {
  const kept = [];
  let sick = false;
  require('http').createServer((question, response) => {
    if (question.url === '/grow') kept.push(Buffer.alloc(200 << 20, 1));
    if (question.url === '/sick') sick = true;
    if (question.url === '/block') for (;;);
    response.statusCode = question.url === '/health' && sick ? 500 : 200;
    response.end(String(process.pid));
  }).listen(Number(process.env.PORT), '127.0.0.1', () => report('up'));
}

describe('upkeep', { concurrency: 4 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => { forkful = await sandbox(null); });
  after(() => forkful.close());

  /** Starts an app from a separate configuration file. */
  async function configured(name, attributes, body = server) {
    const directory = join(forkful.directory, name);
    mkdirSync(directory);
    const script = forkful.script(body, join(name, 'app.cjs'));
    const port = await freePort();
    const file = join(directory, 'forkful.config.json');
    const app = { name, script, instances: 2, exec_mode: 'cluster', interpreter: nodeBinary(NEWEST), env: { PORT: String(port) }, ...attributes };
    writeFileSync(file, JSON.stringify({ apps: [app] }));
    await forkful.ok(['start', file], { cwd: directory });
    const living = () => forkful.control.living(script);
    const workers = (count = app.instances) => waitUntil(`${count} workers of ${name}`, () => living().length === count && living());
    return { name, port, script, directory, living, workers };
  }

  /** Waits until one of the workers has a new process. */
  const replaced = (app, worker) => waitUntil(`worker ${worker.slot} of ${app.name} to be replaced`, () =>
    app.living().find(({ slot, pid }) => slot === worker.slot && pid !== worker.pid));

  /** Sends requests until a specific worker has answered. */
  const reach = (app, worker, path) => waitUntil(`an answer of ${worker.pid}`, async () =>
    (await get(app.port, path)).body === String(worker.pid));

  const describeJson = async (name) => JSON.parse((await forkful.ok(['describe', name, '--json'])).stdout).apps[0];
  /** Waits until an incident of an app is stored. */
  const noted = (name, kind, reason) => waitUntil(`${kind} of ${name}`, async () => {
    const { incidents } = JSON.parse((await forkful.ok(['events', name, '--json'])).stdout);
    return incidents.some((incident) => incident.kind === kind && reason.test(incident.reason));
  });

  test('a worker that has grown too large is replaced, and the other is not', async () => {
    const app = await configured('memory', { max_memory_restart: '180M' });
    const [first, second] = (await app.workers()).toSorted((a, b) => a.slot - b.slot);
    await reach(app, first, '/grow');
    await replaced(app, first);
    const told = await waitUntil('the reason', async () => (await describeJson('memory')).workers[first.slot].renewed);
    assert.match(told, /max_memory_restart/);
    const [grown] = app.living().filter(({ pid }) => pid === second.pid);
    // The rounds of `reach` may have made the second one grow as well; then it is replaced too.
    if (!grown) await replaced(app, second);
    await forkful.ok(['delete', 'memory']);
  });

  test('memory of what a worker has started counts', async () => {
    const app = await configured('tree', { max_memory_restart: '250M', instances: 1 }, ({ require }) => {
      const grows = 'const kept = Buffer.alloc(300 << 20, 1); setInterval(() => kept.length, 1000)';
      require('http').createServer((question, response) => {
        if (question.url === '/grow') require('child_process').spawn(process.execPath, ['-e', grows], { stdio: 'ignore' });
        response.end(String(process.pid));
      }).listen(Number(process.env.PORT), '127.0.0.1');
    });
    const [worker] = await app.workers();
    await get(app.port, '/grow');
    await replaced(app, worker);
    await forkful.ok(['delete', 'tree']);
  });

  test('a worker that has served enough is replaced, and no request is lost', async () => {
    const app = await configured('requests', { max_requests: 50 });
    const before = (await app.workers()).map(({ pid }) => pid);
    const answers = new Set();
    await waitUntil('other workers to answer', async () => {
      const { status, body } = await get(app.port);
      assert.equal(status, 200);
      answers.add(Number(body));
      return [...answers].filter((pid) => !before.includes(pid)).length >= 2;
    });
    await forkful.ok(['delete', 'requests']);
  });

  test('a worker that is old is replaced', async () => {
    const app = await configured('age', { max_age: '2s' });
    const [first] = await app.workers();
    await replaced(app, first);
    await forkful.ok(['delete', 'age']);
  });

  test('the clock replaces all workers, and starts a job again that has ended', async () => {
    const app = await configured('clock', { cron_restart: '*/2 * * * * *' });
    const both = await app.workers();
    for (const worker of both) await replaced(app, worker);
    const job = await configured('job', { cron_restart: '*/2 * * * * *', autorestart: false, instances: 1, exec_mode: 'fork' }, ({ require }) => {
      require('fs').appendFileSync(require('path').join(__dirname, 'runs'), 'x');
    });
    await waitUntil('a third run', () => readFileSync(join(job.directory, 'runs'), 'utf8').length >= 3);
    await forkful.ok(['stop', 'clock']);
    await waitUntil('none', () => app.living().length === 0);
    const [stopped] = await forkful.jlist('clock');
    await waitUntil('another run of the job', ((runs) => () =>
      readFileSync(join(job.directory, 'runs'), 'utf8').length > runs + 1)(readFileSync(join(job.directory, 'runs'), 'utf8').length));
    assert.equal(stopped.pm2_env.status, 'stopped');
    assert.equal(app.living().length, 0, 'what somebody has stopped stays stopped');
    await forkful.ok(['delete', 'clock', 'job']);
  });

  test('a job that does not start by itself runs at the time of its pattern', async () => {
    const append = ({ require }) => {
      require('fs').appendFileSync(require('path').join(__dirname, 'runs'), 'x');
    };
    const job = { autostart: false, autorestart: false, instances: 1, exec_mode: 'fork' };
    const soon = await configured('soon', { ...job, cron_restart: '*/2 * * * * *' }, append);
    const runs = ({ directory }) => existsSync(join(directory, 'runs')) ? readFileSync(join(directory, 'runs'), 'utf8').length : 0;
    await waitUntil('two runs', () => runs(soon) >= 2);
    const month = (new Date().getMonth() + 6) % 12 + 1;
    const later = await configured('later', { ...job, cron_restart: `0 3 1 ${month} *` }, append);
    const status = async () => (await forkful.jlist('later'))[0].pm2_env.status;
    assert.equal(await status(), 'stopped');
    const saved = () => JSON.parse(readFileSync(join(forkful.home, 'state.json'), 'utf8')).apps.find(({ definition }) => definition.name === 'later');
    assert.deepEqual(saved().waits_for_cron, [0]);
    await forkful.ok(['apply', join(later.directory, 'forkful.config.json')]);
    assert.equal(await status(), 'stopped', 'its file does not start it');
    await forkful.ok(['stop', 'later']);
    assert.equal(saved().waits_for_cron, undefined, 'what somebody has stopped waits for nothing');
    assert.equal(runs(later), 0);
    await forkful.ok(['delete', 'soon', 'later']);
  });

  test('an unhealthy worker is replaced: each is asked by a connection of its own', async () => {
    const app = await configured('health', { health: { http: '/health', interval: 200, start_period: 0, failures: 2, stuck_limit: '60s' } });
    const [first, second] = (await app.workers()).toSorted((a, b) => a.slot - b.slot);
    await reach(app, first, '/sick');
    await replaced(app, first);
    assert.match((await describeJson('health')).workers[first.slot].renewed, /2 health checks in a row failed: status 500/);
    assert.ok(app.living().some(({ pid }) => pid === second.pid) || await replaced(app, second));
    await noted('health', 'unhealthy', /^2 health checks in a row failed: status 500/);
    await forkful.ok(['delete', 'health']);
  });

  test('a health command that does not end is killed with all that it has started', async () => {
    const nap = '98765.4321';
    const command = `sh -c "sleep ${nap} & setsid sleep ${nap} & sleep ${nap}"`;
    await configured('naps', { instances: 1, health: { command, interval: 100, timeout: 300, start_period: 0, failures: 1000 } });
    await waitUntil('some checks', async () => (await describeJson('naps')).workers[0].health_fault?.includes('did not end within'));
    await forkful.ok(['delete', 'naps']);
    await waitUntil('all of them to be gone', () => forkful.processes(nap).length === 0);
  });

  test('health by a program of the user, and by a connection', async () => {
    const mark = join(forkful.directory, 'sick-mark');
    const app = await configured('program', { instances: 1, health: { command: `test ! -e ${mark}`, interval: 200, start_period: 0, failures: 2 } });
    const tcp = await configured('tcp', { health: { tcp: true, interval: 100, start_period: 0 } });
    const both = (await tcp.workers()).map(({ pid }) => pid);
    const [worker] = await app.workers();
    writeFileSync(mark, '');
    await replaced(app, worker);
    assert.deepEqual((await tcp.workers()).map(({ pid }) => pid), both, 'healthy workers stay');
    await forkful.ok(['delete', 'program', 'tcp']);
  });

  test('a worker whose loop does not turn is killed after the limit that the user set, with a report', async () => {
    const app = await configured('stuck', { health: { interval: 300, start_period: 0, stuck_limit: '1s' } });
    const [first] = await app.workers();
    // It waits, so that what it was doing does not depend on whether there was a core for it.
    first.order(() => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });
    await replaced(app, first);
    assert.match((await describeJson('stuck')).workers[first.slot].renewed, /did not turn for .*; it ran only \d+ % of the time, so it waited in the kernel/);
    const [, second] = await app.workers();
    second.order(() => { for (;;); });
    await replaced(app, second);
    assert.match((await describeJson('stuck')).workers[second.slot].renewed, /did not turn for .*; it ran (?:only )?\d+ % of the time/);
    await noted('stuck', 'stuck', /^killed by Forkful: .*did not turn for/);
    await forkful.ok(['delete', 'stuck']);
  });

  test('changed files replace the workers; a version that does not start leaves the old one up', async () => {
    const app = await configured('watched', { watch: true, watch_delay: 50 });
    const before = await app.workers();
    mkdirSync(join(app.directory, 'node_modules'));
    writeFileSync(join(app.directory, 'node_modules', 'x.js'), '');
    writeFileSync(join(app.directory, 'part.js'), 'first');
    for (const worker of before) await replaced(app, worker);
    const good = (await app.workers()).map(({ pid }) => pid).toSorted();
    const text = 'throw new Error("a broken version")';
    writeFileSync(app.script, text);
    await waitUntil('the failure', async () => (await forkful.ok(['logs', 'watched', '--nostream', '--err'])).stdout.includes('a broken version'));
    assert.deepEqual((await app.workers()).map(({ pid }) => pid).toSorted(), good);
    await forkful.ok(['delete', 'watched']);
  });
});
