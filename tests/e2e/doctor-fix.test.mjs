// `forkful doctor --fix` with apps under constant load: it names the cause, makes one change, measures again, and keeps or takes back
// the change. Whether a change helps depends on the machine: these tests assert that the report, the exit code, the state of
// the app, its incidents and its history agree.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { Contract } from './lib/contract.mjs';
import { freePort } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { FAILED, INTERRUPTED, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const example = (name) => fileURLToPath(new URL(`../../examples/doctor/${name}.js`, import.meta.url));

/**
 * Reads from a disk on which each read takes 200 ms of a thread of the pool: more threads read more. The disk is a FIFO that gets bytes at this
 * rate: so seldom that the app is not limited by a busy machine. It does not listen while there is a file `hold`.
 */
function disk({ require }) {
  const fs = require('fs');
  const path = `${process.env.FOLDER}/disk-${process.pid}`;
  require('child_process').execFileSync('mkfifo', [path]);
  const file = fs.openSync(path, 'r+');
  fs.unlinkSync(path);
  let waiting = 0;
  setInterval(() => {
    const done = Math.min(waiting, Number(process.env.UV_THREADPOOL_SIZE));
    if (done > 0) fs.writeSync(file, 'x'.repeat(done));
  }, 200);
  const server = require('http').createServer((_request, response) => {
    waiting += 1;
    fs.read(file, Buffer.alloc(1), 0, 1, null, () => {
      waiting -= 1;
      response.end('done');
    });
  });
  const listen = () => {
    if (fs.existsSync(`${process.env.FOLDER}/hold`)) setTimeout(listen, 20);
    else server.listen(process.env.PORT);
  };
  listen();
}

/** An app under a load that goes on until the test ends. */
async function underLoad(t, { name, script = example(name), threads, keeping }) {
  const forkful = await sandbox(t);
  const port = await freePort();
  await forkful.start(script, { name, instances: 1, env: { FOLDER: forkful.directory, PORT: String(port), UV_THREADPOOL_SIZE: String(threads) } });
  const load = startLoad({ port, keeping });
  const { close } = forkful;
  forkful.close = async () => {
    await load.stop();
    await close.call(forkful);
  };
  const api = new Contract(join(forkful.home, 'forkful.sock'));
  const requests = async (from = 0) => {
    const { reply: { from_ms: first, step_ms: step, workers } } = await api.ask('GET', `/v1/history?app=${name}&step=1`);
    const all = workers.flatMap(({ series }) => (series.http_requests_per_s ?? []).map((rate, index) => ({ at_ms: first + index * step, rate })));
    return all.filter(({ at_ms: at, rate }) => at >= from && rate > 0);
  };
  await waitUntil('measured requests', async () => (await requests()).length > 0);
  return { forkful, load, api, requests };
}

const threadsOf = async (forkful, name) => Number(JSON.parse((await forkful.ok(['env', name, '--json'])).stdout).apps[name].UV_THREADPOOL_SIZE);

/** Runs `doctor --fix`, and holds its report against everything else that is known of the app. */
async function fix({ forkful, load, requests }, name, threads) {
  const [before] = await forkful.jlist(name);
  const { code, stdout } = await forkful.run(['doctor', name, '--fix', '--for', '10s', '--json']);
  const { apps: [report], fix: fixed } = JSON.parse(stdout);
  assert.equal(code, fixed.kept ? 0 : FAILED, stdout);
  assert.equal(fixed.change, report.command, stdout);
  const { incidents } = JSON.parse((await forkful.ok(['events', name, '--json'])).stdout);
  const [after] = await forkful.jlist(name);
  const steps = incidents.filter(({ kind }) => kind.startsWith('fix_'));
  if (fixed.change === undefined) {
    assert.deepEqual([fixed.kept, after.pid, steps], [false, before.pid, []], stdout);
    return { report, fixed };
  }
  // The change or its taking back has replaced the worker.
  assert.notEqual(after.pid, before.pid);
  const [tried, reverted] = steps;
  assert.deepEqual(steps.map(({ kind }) => kind), fixed.kept ? ['fix_tried'] : ['fix_tried', 'fix_reverted'], JSON.stringify(incidents));
  assert.equal(tried.reason, `${fixed.change}: ${report.headline}`);
  if (!fixed.kept) assert.equal(reverted.reason, fixed.outcome);
  const wanted = Number(/UV_THREADPOOL_SIZE=(\d+)$/.exec(fixed.change)?.[1]);
  assert.ok(wanted > threads, fixed.change);
  assert.equal(await threadsOf(forkful, name), fixed.kept ? wanted : threads);
  // One history has the requests before and after the change.
  const seconds = await waitUntil('requests after the change', async () => {
    const found = await requests();
    return found.some(({ at_ms: at }) => at > tried.at_ms + 1000) && found;
  });
  assert.ok(seconds.some(({ at_ms: at }) => at < tried.at_ms), JSON.stringify(seconds));
  const counts = await load.stop();
  assert.equal(load.failed, 0, JSON.stringify([counts, load.failures]));
  return { report, fixed };
}

describe('doctor --fix', { concurrency: 3 }, () => {
  test('an app whose thread pool waits gets more threads, and keeps them only if that helps', async (t) => {
    const app = await underLoad(t, { name: 'pool-waiting', threads: 4, keeping: 16 });
    const { report, fixed } = await fix(app, 'pool-waiting', 4);
    // On a busy machine it waits for a CPU, and nothing is changed.
    if (report.verdict === 'pool-waiting') assert.equal(fixed.change, 'forkful reload pool-waiting --env UV_THREADPOOL_SIZE=16');
  });

  test('an app whose reads wait for a slow disk gets more threads, and they help', async (t) => {
    const app = await underLoad(t, { name: 'disk', script: disk, threads: 4, keeping: 16 });
    const { report, fixed } = await fix(app, 'disk', 4);
    // On a busy machine it may wait for a CPU. Then nothing is changed, and the core's tests alone hold the rule.
    if (report.verdict !== 'pool-waiting') return;
    assert.equal(fixed.change, 'forkful reload disk --env UV_THREADPOOL_SIZE=16');
    assert.match(fixed.outcome, fixed.kept ? /^it helped: / : /^it did not help: |^there were too few requests/);
  });

  test('an app whose thread pool computes on one thread gets a thread for each core, if there are more', async (t) => {
    const app = await underLoad(t, { name: 'pool-cpu', threads: 1, keeping: 8 });
    const { report, fixed } = await fix(app, 'pool-cpu', 1);
    // On a machine whose cores are all in use, the doctor says so and changes nothing, or something else is the limit.
    if (report.verdict === 'pool-cpu') assert.match(fixed.change ?? 'none', /^(none|forkful reload pool-cpu --env UV_THREADPOOL_SIZE=\d+)$/);
  });
});

/** What is known of a change that nobody has decided about. */
const trialOf = async (api, name) => (await api.ask('GET', `/v1/apps/${name}`)).reply.apps[0].trial;

/** The size of the pool, without a command. */
const poolOf = async (api, name) => Number((await api.ask('GET', `/v1/environment/${name}`)).reply.apps[name].UV_THREADPOOL_SIZE);

/**
 * Begins `doctor --fix`; nothing, and the test is skipped, if its verdict is one for which it changes nothing. It first watches for 10 s, so it
 * is seldom asked whether it has begun.
 */
async function beginFix(t, { forkful, api }, name) {
  const { child, outcome } = forkful.spawn(['doctor', name, '--fix', '--for', '10s', '--json']);
  const found = await waitUntil('the change', async () => {
    await sleep(250);
    return (await trialOf(api, name)) ?? (child.exitCode !== null && 'none');
  });
  if (found !== 'none') return { child, outcome, trial: found };
  const { stdout } = await outcome;
  const { apps: [report], fix: fixed } = JSON.parse(stdout);
  assert.ok(report.verdict !== 'pool-waiting' && fixed.change === undefined, stdout);
  t.skip(`the machine is busy: ${report.headline}`);
  return undefined;
}

describe('doctor --fix that does not come to its end', { concurrency: 2 }, () => {
  // On a busy machine the app may wait for a CPU. Then nothing is changed.
  test('interrupted, it undoes its change', async (t) => {
    const app = await underLoad(t, { name: 'disk', script: disk, threads: 4, keeping: 16 });
    const { forkful, load, api } = app;
    const interrupted = await beginFix(t, app, 'disk');
    if (!interrupted) return;
    assert.equal(interrupted.trial.undo, 'forkful reload disk --env UV_THREADPOOL_SIZE=4');
    interrupted.child.kill('SIGINT');
    const { code, stdout } = await interrupted.outcome;
    assert.equal(code, INTERRUPTED, stdout);
    const { fix: fixed } = JSON.parse(stdout);
    assert.deepEqual([fixed.kept, fixed.interrupted], [false, true]);
    assert.equal(await poolOf(api, 'disk'), 4);
    assert.equal(await trialOf(api, 'disk'), undefined);
    const { incidents } = JSON.parse((await forkful.ok(['events', 'disk', '--json'])).stdout);
    const reverted = incidents.at(-1);
    assert.deepEqual([reverted.kind, reverted.reason], ['fix_reverted', fixed.outcome]);
    assert.match(fixed.outcome, /^interrupted /);
    await load.stop();
    assert.equal(load.failed, 0, JSON.stringify(load.failures));
  });

  test('interrupted twice, it ends at once and tells how to undo its change', async (t) => {
    const app = await underLoad(t, { name: 'disk', script: disk, threads: 4, keeping: 16 });
    const { forkful, load, api } = app;
    const interrupted = await beginFix(t, app, 'disk');
    if (!interrupted) return;
    const { child, outcome } = interrupted;
    await waitUntil('the change', async () => (await trialOf(api, 'disk'))?.state === 'changed');
    // The worker with the earlier setting does not get ready, so the change is not undone for now.
    const hold = join(forkful.directory, 'hold');
    writeFileSync(hold, '');
    child.kill('SIGINT');
    await waitUntil('the change is being taken back', async () => (await trialOf(api, 'disk'))?.state === 'reverting');
    // A signal that comes too soon after the first is taken for the same key press.
    await waitUntil('the end', async () => {
      child.kill('SIGINT');
      await sleep(50);
      return child.exitCode !== null;
    });
    const { code, stderr } = await outcome;
    assert.equal(code, INTERRUPTED, stderr);
    assert.match(stderr, /interrupted before the change was undone/);
    assert.match(stderr, /the change may still be in place: `forkful reload disk --env UV_THREADPOOL_SIZE=4` undoes it/);
    // The daemon has the order and carries it out.
    rmSync(hold);
    await waitUntil('the change was undone', async () => (await trialOf(api, 'disk')) === undefined);
    assert.equal(await poolOf(api, 'disk'), 4);
    await load.stop();
    assert.equal(load.failed, 0, JSON.stringify(load.failures));
  });

  test('killed, it leaves a note', async (t) => {
    const app = await underLoad(t, { name: 'disk', script: disk, threads: 4, keeping: 16 });
    const { forkful, load, api } = app;
    const killed = await beginFix(t, app, 'disk');
    if (!killed) return;
    killed.child.kill('SIGKILL');
    await killed.outcome;
    await waitUntil('the change', async () => (await poolOf(api, 'disk')) === 16);
    const later = await forkful.ok(['doctor', 'disk', '--ago', '0s', '--json']);
    assert.match(JSON.parse(later.stdout).apps[0].notes[0], /was killed.*undo the change with `forkful reload disk --env UV_THREADPOOL_SIZE=4`/);
    await forkful.ok(killed.trial.undo.split(' ').slice(1));
    assert.deepEqual([await trialOf(api, 'disk'), await poolOf(api, 'disk')], [undefined, 4]);
    await load.stop();
    assert.equal(load.failed, 0, JSON.stringify(load.failures));
  });
});

/** Tells which reports the daemon asks of its agent. */
function idle({ require, report }) {
  process.on('internalMessage', (message) => {
    if (message?.act === 'report') report({ everyMs: message.every_ms, quietMs: message.quiet_ms ?? 0 });
  });
  require('http').createServer((_request, response) => response.end()).listen(0);
}

test('the doctor makes workers measure often, also those without work', async (t) => {
  const forkful = await sandbox(t);
  const app = await forkful.start(idle, { name: 'idle', instances: 1 });
  const [worker] = await app.workers();
  const orders = () => worker.reports;
  const usual = await waitUntil('the usual pace', () => orders().at(-1)?.quietMs > 0 && orders().length);
  const { apps: [report] } = JSON.parse((await forkful.ok(['doctor', 'idle', '--for', '10s', '--json'])).stdout);
  assert.equal(report.app, 'idle');
  assert.equal(orders()[usual]?.quietMs, 0, JSON.stringify(orders()));
  // Once nobody asks any more, it is as before.
  await waitUntil('the usual pace again', () => orders().at(-1).quietMs > 0);
});
