// An update in place: another build of Forkful replaces the daemon, then the keeper, and neither clients nor
// workers notice. A build that cannot take over is replaced by the previous build. Requests are counted by
// kind; the clients never retry (lib/load.mjs).
//
// The other build is a copy of the binary with a few bytes appended, which no loader reads: another file with
// different content, which `update` compares, and the same code.
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { NEWEST } from './lib/nodes.mjs';
import { FAILED, binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };
const PID = /^\d+$/;

/** Where the other builds are. */
let folder = '';
/** Another build. */
let next = '';

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'forkful-builds-'));
  next = build('next');
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Makes a build of the same code. @param {string} name */
function build(name) {
  const path = join(folder, name);
  copyFileSync(binary(), path);
  appendFileSync(path, name);
  return path;
}

/** Makes a program of a text. @param {string} name @param {string} text */
function program(name, text) {
  const path = join(folder, name);
  writeFileSync(path, text, { mode: 0o755 });
  return path;
}

/** Answers with its pid. */
function plain({ require }) {
  require('http').createServer((_request, response) => {
    const text = String(process.pid);
    response.setHeader('Content-Length', text.length).end(text);
  }).listen(Number(process.env.PORT));
}

/** Waits for the daemon that is tried out, and returns its pid. It asks the socket: on a busy machine a command takes much of the 5 s of the trial. */
function onTrial(forkful, old) {
  return waitUntil('the new daemon', async () => {
    const { pid } = JSON.parse((await get(join(forkful.home, 'forkful.sock'), '/v1/ping')).body);
    return pid !== old && pid;
  });
}

const runs = (pid) => readlinkSync(`/proc/${pid}/exe`).replace(' (deleted)', '');

/** Starts an app with a keeper; returns helpers for the tests. */
async function kept(t, balance = 'direct') {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  const env = { PORT: String(port) };
  await forkful.start(plain, { name: 'app', instances: 2, options: ['--balance', balance], env });
  const workers = async () => (await forkful.jlist('app')).map(({ pid, pm2_env: { status, restart_time } }) => `${pid} ${status} ${restart_time}`);
  const ping = async () => JSON.parse((await forkful.ok(['ping', '--json'])).stdout);
  return { forkful, port, workers, ping };
}

/** Runs a function while clients of both kinds send requests; fails if a request fails. */
async function underLoad(t, port, act) {
  const load = startLoad({ port, closing: 8, keeping: 8, expect: PID });
  t.after(() => load.stop());
  const busy = async () => {
    const reached = load.counts.success + 1000;
    await waitUntil('a busy app', () => load.counts.success >= reached || load.failed > 0);
  };
  await busy();
  await act();
  await busy();
  const { success, ...failed } = await load.stop();
  assert.ok(success > 0);
  assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
}

test('an update and the way back under load: no request fails, and workers and keeper keep their pids', async (t) => {
  const { forkful, port, workers, ping } = await kept(t);
  const [before, { keeper, pid: first }] = [await workers(), await ping()];
  await underLoad(t, port, async () => {
    let daemon = first;
    for (const to of [next, binary()]) {
      const { stdout } = await forkful.ok(['update'], { program: to });
      assert.match(stdout, /its apps kept running/);
      const now = await ping();
      assert.notEqual(now.pid, daemon);
      assert.equal(now.keeper, keeper);
      assert.deepEqual([runs(now.pid), runs(keeper)], [to, to]);
      assert.deepEqual(await workers(), before);
      daemon = now.pid;
    }
  });
  const { stdout } = await forkful.ok(['update']);
  assert.match(stdout, /is this version already/);
  // New workers may open as many files as those before.
  const limits = (worker) => /Max open files.*/.exec(readFileSync(`/proc/${worker.split(' ')[0]}/limits`, 'utf8'))[0];
  const limited = limits(before[0]);
  await forkful.ok(['reload', 'app']);
  const after = await workers();
  for (const worker of after) assert.equal(limits(worker), limited);
  assert.ok(after.length === 2 && after.every((worker) => !before.includes(worker)));
});

for (const balance of ['exact', 'auto']) {
  test(`${balance}: no request fails in an update`, async (t) => {
    const { forkful, port, workers } = await kept(t, balance);
    const before = await workers();
    await underLoad(t, port, () => forkful.ok(['update'], { program: next }));
    assert.deepEqual(await workers(), before);
  });
}

const BROKEN = {
  'is not a program': ['\x7fELF and nothing more', /cannot take the daemon's place: \S*\/broken is no program for this machine/],
  'is empty': ['', /cannot be executed: it is no program/],
  'is no Forkful': ['#!/bin/sh\nexit 0\n', /it is not Forkful/],
  'ends at once': ['#!/bin/sh\nexit 3\n', /its check ended with code 3/],
  'refuses the state': ['#!/bin/sh\necho "error: it has version 9 of the format" >&2\nexit 1\n', /it has version 9 of the format/],
  'agrees and ends at once': ['#!/bin/sh\ncase "$*" in *--check-state*) exit 0;; --version) echo forkful 9.9.9; exit 0;; esac\nexit 7\n', /did not last[^]*code 7/],
};

test('a line that is written during an update loses nothing of its beginning', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const log = join(forkful.directory, 'out.log');
  const script = forkful.script(({ require }) => {
    process.stdout.write('whole\nbeginning-');
    process.on('SIGUSR2', () => process.stdout.write('end\n'));
    require('http').createServer((_q, r) => r.end()).listen(0, '127.0.0.1');
  }, 'app.cjs');
  await forkful.ok(['start', script, '--name', 'app', '--output', log, '--merge-logs']);
  const text = () => readFileSync(log, 'utf8');
  await waitUntil('the first line', () => text().includes('whole\n'));
  await forkful.ok(['update'], { program: next });
  process.kill((await forkful.jlist('app'))[0].pid, 'SIGUSR2');
  await waitUntil('the end of the line', () => text().includes('end\n'));
  assert.equal(text().replaceAll('\n', ''), 'wholebeginning-end');
});

test('a program that cannot go on leaves everything as it was', async (t) => {
  const { forkful, port, workers, ping } = await kept(t);
  const [before, { keeper }] = [await workers(), await ping()];
  await underLoad(t, port, async () => {
    for (const [what, [text, reason]] of Object.entries(BROKEN)) {
      const { code, stderr } = await forkful.fails(['update', '--to', program('broken', text)]);
      assert.equal(code, FAILED, what);
      assert.match(stderr, reason, what);
      const now = await ping();
      assert.equal(now.keeper, keeper, what);
      assert.deepEqual([runs(now.pid), runs(keeper)], [binary(), binary()], what);
      assert.deepEqual(await workers(), before, what);
    }
  });
});

test('a new daemon that dies after it has taken over gives way to the one before, whatever has happened to its file', async (t) => {
  const { forkful, port, workers, ping } = await kept(t);
  // The keeper runs a build whose file is gone.
  const gone = build('gone');
  await forkful.ok(['update'], { program: gone });
  rmSync(gone);
  const [before, { keeper, pid: old }] = [await workers(), await ping()];
  await underLoad(t, port, async () => {
    const update = forkful.spawn(['update'], { program: next });
    const trial = await onTrial(forkful, old);
    assert.equal(runs(trial), next);
    process.kill(trial, 'SIGKILL');
    const { code, stderr } = await update.outcome;
    assert.equal(code, FAILED);
    assert.match(stderr, /did not last/);
    // The command may have read the log before its last line came.
    await waitUntil('the log to say why', () => /the update is undone.*SIGKILL/.test(readFileSync(join(forkful.home, 'daemon.log'), 'utf8')));
    const now = await ping();
    assert.deepEqual([runs(now.pid), runs(keeper), now.keeper], [gone, gone, keeper]);
    assert.deepEqual(await workers(), before);
  });
  // A daemon that is killed later is followed by one of the same build.
  process.kill((await ping()).pid, 'SIGKILL');
  await waitUntil('another daemon', async () => runs((await ping()).pid) === gone);
  assert.deepEqual(await workers(), before);
});

test('a new daemon that hangs after it has served gives way to the one before', async (t) => {
  const { forkful, workers, ping } = await kept(t);
  const [before, { keeper, pid: old }] = [await workers(), await ping()];
  const update = forkful.spawn(['update'], { program: next });
  const trial = await onTrial(forkful, old);
  process.kill(trial, 'SIGSTOP');
  const { code, stderr } = await update.outcome;
  assert.equal(code, FAILED);
  assert.match(stderr, /did not last|the previous one continues/);
  const now = await ping();
  assert.deepEqual([runs(now.pid), runs(keeper), now.keeper], [binary(), binary(), keeper]);
  assert.deepEqual(await workers(), before);
});

test('without a keeper an update says that the apps stop, and starts them again', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  await forkful.start(plain, { name: 'app', instances: 2, env: { PORT: String(port), FORKFUL_KEEPER: '0' } });
  const before = (await forkful.jlist('app')).map(({ pid }) => pid);
  const { code, stderr: refused } = await forkful.fails(['update', '--to', next]);
  assert.equal(code, FAILED);
  assert.match(refused, /no keeper/);
  const { stderr } = await forkful.ok(['update'], { program: next });
  assert.match(stderr, /no keeper.*stopped and started again/);
  const now = (await forkful.jlist('app')).map(({ pid }) => pid);
  assert.ok(now.length === 2 && now.every((pid) => !before.includes(pid)));
  assert.match((await get(port)).body, PID);
});

/** Counts the requests of a load test, and reports the count of its worker to other requests. */
function counting({ require }) {
  let served = 0;
  require('http').createServer((request, response) => {
    if (request.url === '/load') served += 1;
    response.end(JSON.stringify({ pid: process.pid, served }));
  }).listen(Number(process.env.PORT));
}

test('kill -9 of the daemon, an update and a reload, one after the other: the load tests report no error', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  await forkful.start(counting, { name: 'app', instances: 2, options: ['--balance', 'direct'], env: { PORT: String(port) } });
  const bench = (...options) => forkful.spawn(['bench', '--rate', '100', '-d', '10m', '--json', ...options, `http://127.0.0.1:${port}/load`]);
  const benches = [bench(), bench('--no-keepalive')];
  const seen = new Map();
  const served = async () => {
    const { pid, served: now } = JSON.parse((await get(port)).body);
    seen.set(pid, now);
    return [...seen.values()].reduce((sum, count) => sum + count, 0);
  };
  const busy = async () => {
    const begun = await served();
    await waitUntil('requests of the load tests', async () => await served() > begun + 20);
  };
  await busy();
  const { pid, keeper } = JSON.parse((await forkful.ok(['ping', '--json'])).stdout);
  process.kill(pid, 'SIGKILL');
  await waitUntil('the next daemon', async () => await forkful.daemonPid() !== pid);
  await busy();
  await forkful.ok(['update'], { program: next });
  assert.equal(runs(keeper), next);
  await busy();
  await forkful.ok(['reload', 'app'], { program: next });
  await busy();
  for (const running of benches) {
    running.child.kill('SIGINT');
    const { stdout, stderr } = await running.outcome;
    const report = JSON.parse(stdout);
    assert.ok(report.requests.completed > 40, stderr);
    assert.deepEqual([report.errors.total, report.requests.failed], [0, 0], stdout);
  }
});

test('a second update waits for the trial of the first, and an update whose daemon is killed says so', async (t) => {
  const { forkful, ping } = await kept(t);
  const { pid: old } = await ping();
  const third = build('third');
  const first = forkful.run(['update', '--to', next]);
  await onTrial(forkful, old);
  const second = await forkful.fails(['update', '--to', third]);
  assert.equal(second.code, FAILED);
  assert.match(second.stderr, /an update is being tried out: try again in [1-7] s/);
  await forkful.ok(['kill']);
  const { code, stderr } = await first;
  assert.equal(code, FAILED);
  assert.match(stderr, /^error: the daemon was stopped during the update$/m);
});

test('an update to a file that is not there names it', async (t) => {
  const { forkful } = await kept(t);
  const { code, stderr } = await forkful.fails(['update', '--to', '/nowhere/forkful']);
  assert.equal(code, FAILED);
  assert.match(stderr, /^error: there is no program \/nowhere\/forkful$/m);
});
