// Each experiment runs once with a tiny load: it completes, its output has the required parts, and nothing is
// left behind. Measured values are not checked here, except those that do not depend on a clock.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { checkOutput } from './lib/outputs.mjs';
import { binary, INTERRUPTED, WRONG_USE } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const ALL = ['slow-fast', 'thread-pool', 'busy-loop', 'heavy', 'fibonacci', 'sum', 'two-tabs'];

/** The apps compute less: their results are not checked here. */
const SMALL = { LAST: '1000000', ROUNDS: '100000' };

/** A run in a separate temporary directory, so that leftovers are found. */
function run(temporary, ...args) {
  const env = { ...process.env, TMPDIR: temporary, HOME: temporary, NO_COLOR: '1', ...SMALL };
  delete env.FORKFUL_HOME;
  return new Promise((resolve) => {
    execFile(binary(), ['experiment', ...args], { cwd: temporary, env, timeout: 300_000, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, stderr });
    });
  });
}

/** Processes that have the directory in their environment or command line. */
function processesOf(directory) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
    try {
      const text = readFileSync(`/proc/${name}/environ`, 'latin1') + readFileSync(`/proc/${name}/cmdline`, 'latin1');
      const state = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1)?.[0];
      return text.includes(directory) && state !== 'Z';
    } catch {
      return false;
    }
  });
}

/** Requirements of each experiment on any machine. */
const holds = {
  'slow-fast'(document) {
    const { found } = document;
    assert.equal(found.failed, 0);
    assert.ok(found.single_beside_max_ms > 0 && found.cluster_beside_max_ms > 0);
    assert.match(document.claims.find((claim) => claim.what === 'failed requests').why, /length differs/);
  },
  'thread-pool'(document) {
    assert.ok(document.found.pool_cpu > 0 && document.found.main_cpu > 0);
    assert.deepEqual(document.found.keys_ms.map((keys) => keys.length), [2, 2, 6, 6, 2]);
    assert.match(document.headline, /pool thread uses \d+ % of a core/);
  },
  'busy-loop'(document) {
    assert.deepEqual(document.arms.map((arm) => arm.name), ['single', 'cluster', 'crowd']);
    assert.ok(document.arms[2].workers > document.arms[1].workers);
  },
  heavy(document) {
    assert.deepEqual(document.arms.map((arm) => arm.name), ['single', 'cluster', 'node-cluster']);
    assert.equal(typeof document.found.tail_not_worse, 'boolean');
  },
  fibonacci() {},
  sum(document) {
    assert.ok(document.claims.some((claim) => /1,000 there/.test(claim.what)));
  },
  'two-tabs'(document) {
    assert.equal(document.found.single_ms.length, 2);
    const check = document.trust.checks.find((one) => one.name === 'A real browser');
    assert.match(check.value, /\/|none is installed/, 'it says whether a browser was used');
  },
};

describe('experiments', { concurrency: false }, () => {
  let temporary;
  before(() => { temporary = mkdtempSync(join(tmpdir(), 'forkful-experiments-')); });
  after(() => rmSync(temporary, { recursive: true, force: true }));

  for (const name of ALL) {
    test(`${name} runs to its end, tells, draws, and leaves nothing`, async () => {
      const page = join(temporary, `${name}.html`);
      const { code, stdout, stderr } = await run(temporary, name, '--scale', '0.04', '--json', '--html', page);
      assert.equal(code, 0, stderr);
      const document = JSON.parse(stdout);
      assert.deepEqual([document.kind, document.name], ['experiment', name]);
      checkOutput('experiment', document);
      assert.ok(document.headline.length > 20 && document.claims.length >= 1 && document.plots.length >= 1);
      for (const claim of document.claims) assert.ok(claim.reported && claim.found && claim.why, JSON.stringify(claim));
      const failed = document.trust.checks.find((check) => check.name === 'Requests that failed');
      if (failed) assert.equal(failed.ok, true, failed.meaning);
      holds[name](document);
      assert.match(readFileSync(page, 'utf8'), /id="report-data">\{"kind":"experiment"/);
      assert.deepEqual(processesOf(temporary), [], 'no process is left');
      assert.deepEqual(readdirSync(temporary).filter((entry) => entry.startsWith('forkful-')), [], 'no temporary directory is left');
    });
  }

  test('the list names all of them, in words and as JSON', async () => {
    const { stdout } = await run(temporary, 'list');
    for (const name of ALL) assert.ok(stdout.includes(name));
    assert.deepEqual(JSON.parse((await run(temporary, 'list', '--json')).stdout).map((one) => one.name), ALL);
  });

  test('wrong use is told, and nothing is run', async () => {
    for (const [args, words] of [
      [['haevy'], /no experiment is called `haevy`; did you mean `heavy`\?/],
      [['heavy', '--scale', '0'], /expected a number above 0, up to 1/],
      [['heavy', '--scale', '0.1', '--full'], /cannot be used with/],
      [['heavy', '--examples', '/nowhere'], /\/nowhere holds no heavy\/server\.js/],
      [['all', '--html', 'one.html'], /--html names one page/],
    ]) {
      const { code, stderr } = await run(temporary, ...args);
      assert.equal(code, WRONG_USE, stderr);
      assert.match(stderr, words);
    }
    assert.equal(existsSync(join(temporary, 'one.html')), false);
  });

  test('an interruption ends everything that was started', async () => {
    const env = { ...process.env, TMPDIR: temporary, HOME: temporary };
    const child = spawn(binary(), ['experiment', 'sum', '--no-html'], { cwd: temporary, env, stdio: 'ignore' });
    const ended = new Promise((resolve) => { child.on('exit', (code, signal) => resolve(code ?? signal)); });
    await waitUntil('a server is started', () => processesOf(temporary).length > 1);
    child.kill('SIGINT');
    assert.equal(await ended, INTERRUPTED);
    await waitUntil('all processes have ended', () => processesOf(temporary).length === 0);
  });
});
