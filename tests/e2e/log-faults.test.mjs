// Log files that cannot be written: the app continues, one alert reports it, and every line is either in a
// file or counted as dropped.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const LINES = 5000;
const LINE_BYTES = 400;
const isRoot = userInfo().uid === 0;

/** An app that writes lines on request, and files in a folder of the test. */
async function prepare(t, folder) {
  const forkful = await sandbox(t);
  const logs = folder(forkful);
  const script = forkful.script(() => { setInterval(() => {}, 1000); });
  const file = join(forkful.directory, 'forkful.config.json');
  const path = join(logs, 'app-out.log');
  const app = { name: 'app', script, interpreter: nodeBinary(NEWEST), exec_mode: 'fork', out_file: path, error_file: join(logs, 'app-error.log'), log_rotate: { min_free: 0 } };
  writeFileSync(file, JSON.stringify({ apps: [app] }));
  await forkful.ok(['start', file]);
  const worker = await waitUntil('the worker', () => forkful.control.living(script)[0]);
  const worker0 = async () => JSON.parse((await forkful.ok(['describe', 'app', '--json'])).stdout).apps[0].workers[0];
  return {
    forkful,
    logs,
    path,
    /** Writes lines; returns when the app's writes are done. */
    write: (text) => worker.run((word, lines, bytes) => {
      const line = `${word} `.padEnd(bytes - 1, 'x');
      for (let n = 0; n < lines; n += 1) require('fs').writeSync(1, `${line}\n`);
    }, text, LINES, LINE_BYTES),
    dropped: async () => (await worker0()).dropped_log_lines,
    lines: (word) => (existsSync(path) ? readFileSync(path, 'utf8') : '').split('\n').filter((line) => line.startsWith(`${word} `)).length,
    /** Number of times that a text is in the daemon's own log. */
    told: (pattern) => readFileSync(join(forkful.home, 'daemon.log'), 'utf8').split('\n').filter((line) => pattern.test(line)),
    unharmed: async () => {
      const now = await worker0();
      assert.deepEqual([now.status, now.pid, now.restarts], ['online', worker.pid, 0]);
    },
  };
}

const NOT_WRITTEN = /^[-0-9]+T[:.0-9]+Z error: cannot write the log file/;
const AGAIN = /is written again; \d+ lines were dropped meanwhile/;

/** Writes until lines arrive in the file again: the daemon retries from time to time. */
const arrivesAgain = (app, word) => waitUntil('lines in the file again', async () => {
  await app.write(word);
  return app.lines(word) > 0;
});

/** From here on every line with a word is in the file, or counted as dropped. */
const allAreKnown = (app, word, before, count = LINES) => waitUntil('every line to be written or counted', async () =>
  app.lines(word) + await app.dropped() - before === count);

test('a disk that is full, and then is not', async (t) => {
  let mounted = '';
  // Before the sandbox's own clean-up: hooks run in order.
  t.after(() => { if (mounted) execFileSync('umount', ['--lazy', mounted]); });
  let why = isRoot ? '' : 'only root may mount a small disk';
  const app = isRoot ? await prepare(t, (forkful) => {
    const folder = join(forkful.directory, 'disk');
    mkdirSync(folder);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { stdio: 'pipe' });
      mounted = folder;
    } catch (error) {
      why = String(error.stderr ?? error);
    }
    return folder;
  }) : null;
  if (!mounted || !app) return t.skip(why);
  await app.write('first');
  await allAreKnown(app, 'first', 0);
  const lost = await app.dropped();
  // 2 MB of lines, and room for 1.
  assert.ok(lost > 0 && lost < LINES, `${lost} lines`);
  const text = readFileSync(app.path, 'utf8');
  assert.ok(text.split('\n').every((line) => line === '' || line.length === LINE_BYTES - 1), 'only whole lines are kept');
  assert.equal(app.told(NOT_WRITTEN).length, 1);
  await app.write('second');
  await allAreKnown(app, 'second', lost);
  assert.equal(app.told(NOT_WRITTEN).length, 1, 'one alert');
  // Whoever looks is told.
  const fault = /the log file \S+app-out\.log cannot be written: No space left on device/;
  const list = await app.forkful.ok(['list']);
  assert.match(list.stderr, /lines of worker 0 of app are lost: /);
  assert.match(list.stderr.replace(/\s+/g, ' '), fault);
  assert.match((await app.forkful.ok(['describe', 'app'])).stdout, fault);
  assert.match((await app.forkful.ok(['logs', 'app', '--nostream'])).stdout, fault);
  const { incidents } = JSON.parse((await app.forkful.ok(['events', 'app', '--json'])).stdout);
  assert.deepEqual(incidents.map(({ kind }) => kind), ['disk_full']);
  assert.match(incidents[0].reason, /cannot write \S+app-out\.log: No space left on device/);
  await app.unharmed();
  await app.forkful.ok(['flush', 'app']);
  await arrivesAgain(app, 'third');
  await waitUntil('the end of the fault to be told', () => app.told(AGAIN).length > 0);
  assert.equal(app.told(AGAIN).length, 1);
  await app.unharmed();
});

test('a size limit of the daemon\'s own', async (t) => {
  const app = await prepare(t, (forkful) => join(forkful.directory, 'limited'));
  const pid = await app.forkful.daemonPid();
  execFileSync('prlimit', ['--pid', String(pid), '--fsize=500000:unlimited']);
  await app.write('first');
  await allAreKnown(app, 'first', 0);
  assert.equal(app.lines('first'), Math.floor(500_000 / LINE_BYTES));
  assert.equal(app.told(NOT_WRITTEN).length, 1);
  await app.unharmed();
  assert.equal(await app.forkful.daemonPid(), pid, 'the daemon goes on');
  execFileSync('prlimit', ['--pid', String(pid), '--fsize=unlimited:unlimited']);
  await arrivesAgain(app, 'second');
  await app.unharmed();
});

test('a log folder that is deleted is made again, and no line is lost', async (t) => {
  const app = await prepare(t, (forkful) => join(forkful.directory, 'deleted'));
  await app.write('first');
  await allAreKnown(app, 'first', 0);
  rmSync(app.logs, { recursive: true });
  await app.write('second');
  await waitUntil('every line in the new file', () => app.lines('second') === LINES);
  assert.equal(await app.dropped(), 0);
  assert.equal(app.told(/ warning: the log file .* was removed/).length, 1);
  await app.unharmed();
});

test('a file in place of the log folder: lines are counted until it is gone', async (t) => {
  const app = await prepare(t, (forkful) => join(forkful.directory, 'replaced'));
  await app.write('first');
  await allAreKnown(app, 'first', 0);
  rmSync(app.logs, { recursive: true });
  writeFileSync(app.logs, '');
  await app.write('second');
  await waitUntil('every line to be counted', async () => await app.dropped() === LINES);
  assert.equal(app.told(NOT_WRITTEN).length, 1);
  rmSync(app.logs);
  await arrivesAgain(app, 'third');
  await waitUntil('the end of the fault to be told', () => app.told(AGAIN).length > 0);
  assert.equal(app.told(AGAIN).length, 1);
  await app.unharmed();
});

test('a folder that is read-only from the beginning', async (t) => {
  // Root writes wherever it wants, except where nobody can: an attribute of the kernel's own files.
  const app = await prepare(t, (forkful) => {
    if (isRoot) return '/proc/self/no-such-folder';
    const folder = join(forkful.directory, 'read-only');
    mkdirSync(folder);
    chmodSync(folder, 0o500);
    t.after(() => chmodSync(folder, 0o700));
    return folder;
  });
  await app.write('first');
  await waitUntil('every line to be counted', async () => await app.dropped() === LINES);
  assert.equal(app.told(NOT_WRITTEN).length, 1, 'one alert for both of its files');
  await app.unharmed();
  const { stdout } = await app.forkful.ok(['describe', 'app']);
  assert.match(stdout, new RegExp(`${LINES} .*lines|lines.*${LINES}`), 'the user is told how many');
});

test('the log folder in the home is deleted', async (t) => {
  const app = await prepare(t, (forkful) => join(forkful.home, 'logs'));
  await app.write('first');
  await allAreKnown(app, 'first', 0);
  rmSync(app.logs, { recursive: true });
  await app.write('second');
  await waitUntil('every line in the new file', () => app.lines('second') === LINES);
  await app.unharmed();
  assert.ok(readdirSync(app.logs).includes('app-out.log'));
});

/** Anonymous memory of a process, in bytes. @param {number} pid */
const anonymous = (pid) => Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;

test('50 workers that print without a newline take less than 64 MB of the daemon', async (t) => {
  const [WORKERS, BYTES] = [50, 4 << 20];
  const forkful = await sandbox(t);
  const script = join(forkful.directory, 'print');
  // In all 200 MiB, of which a daemon that kept each line would hold every byte.
  writeFileSync(script, `#!/bin/sh\nhead -c ${BYTES} /dev/zero | tr '\\0' x\nexec sleep 1000\n`);
  chmodSync(script, 0o755);
  const log = join(forkful.directory, 'all.log');
  const app = { name: 'app', script, interpreter: 'none', exec_mode: 'fork', instances: WORKERS, merge_logs: true, out_file: log, error_file: '/dev/null', log_rotate: false };
  const file = join(forkful.directory, 'forkful.config.json');
  writeFileSync(file, JSON.stringify({ apps: [app] }));
  await forkful.ok(['start', file]);
  const daemon = await forkful.daemonPid();
  const workers = (await forkful.jlist('app')).map(({ pid }) => pid);
  assert.equal(workers.length, WORKERS);
  const isThrough = (pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('sleep');
  let most = 0;
  await waitUntil('every byte to be printed', () => {
    most = Math.max(most, anonymous(daemon));
    return workers.every(isThrough);
  });
  most = Math.max(most, anonymous(daemon));
  t.diagnostic(`at most ${most} bytes`);
  assert.ok(most < 64_000_000, `the daemon took ${most} bytes`);
});
