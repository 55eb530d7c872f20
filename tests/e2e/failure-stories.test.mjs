// Errors that a new user meets. In each story the first line of the message has the cause, and the last line
// the next step.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { FAILED, NO_SUCH_APP, sandbox, WRONG_USE } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NODE = ['--interpreter', nodeBinary(NEWEST)];
const isRoot = userInfo().uid === 0;

/** An unused user id. */
const STRANGER = 54_321;

/**
 * Checks the first line of a command's stderr, and its next step: the last line, or the hint above the URL of its page.
 * @param {import('./lib/sandbox.mjs').Outcome} outcome
 * @param {{ code: number, cause: RegExp, step: RegExp }} expected
 */
function tells(outcome, { code, cause, step }) {
  // On a machine with one core, more instances are warned of first.
  const lines = outcome.stderr.trimEnd().split('\n').filter((line) => !line.startsWith('warning: --instances gives '));
  assert.equal(outcome.code, code, outcome.stderr);
  // In a terminal, stdout output would appear before the cause.
  if (code !== 0) assert.equal(outcome.stdout, '');
  assert.match(lines[0], cause, outcome.stderr);
  if (outcome.stderr.includes('\nhint: ')) assert.match(lines.pop() ?? '', /^see: https:\/\/\S+$/, outcome.stderr);
  assert.match(lines.at(-1) ?? '', step, outcome.stderr);
  // eslint-disable-next-line no-control-regex -- colours of runtimes would hide the message
  assert.doesNotMatch(outcome.stderr, /\u001b/);
}

describe('failure stories', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => { forkful = await sandbox(null); });
  after(() => forkful.close());

  /** Writes a file of the story. */
  const write = (name, text) => {
    const path = join(forkful.directory, name);
    writeFileSync(path, text);
    return path;
  };
  /** Starts a failing script without restarts. It counts as online only after a minute: on a slow machine it fails later. */
  const start = (name, text, options = [], env = {}) =>
    forkful.run(['start', write(`${name}.cjs`, text), '--name', name, '--no-autorestart', '--min-uptime', '60s', ...NODE, ...options], { env });

  test('a crash', async () => {
    const outcome = await start('crash', "function connect() { throw new Error('no database at db:5432'); }\nconnect();\n");
    tells(outcome, { code: FAILED, cause: /^error: crash: worker \d+ ended with exit code 1 before it was ready: Error: no database at db:5432$/, step: /^hint: `forkful logs \d+ --err` shows all of the worker's stderr$/ });
    assert.match(outcome.stderr, /last lines of stderr:\n {4}Error: no database at db:5432\n/);
    assert.match(outcome.stderr, /crash\.cjs:1/);
    assert.match(outcome.stderr, /… \d+ internal frames/);
    assert.doesNotMatch(outcome.stderr, /node:internal/);
  });

  test('a syntax error', async () => {
    const outcome = await start('syntax', 'const a = 1;\nfunction ( {\n');
    tells(outcome, { code: FAILED, cause: /^error: syntax: .*: SyntaxError: /, step: /^hint: correct the syntax error at the place shown above/ });
    assert.match(outcome.stderr, /syntax\.cjs:2/);
  });

  test('a missing module', async () => {
    tells(await start('module', "require('express-that-is-missing');\n"), {
      code: FAILED, cause: /^error: module: .*: Error: Cannot find module 'express-that-is-missing'$/, step: /^hint: run `npm install` in .* if package\.json lists `express-that-is-missing`, else `npm install express-that-is-missing`$/,
    });
  });

  test('a missing interpreter', async () => {
    const outcome = await forkful.run(['start', write('no-interpreter.cjs', ''), '--interpreter', 'no-such-node']);
    tells(outcome, { code: WRONG_USE, cause: /^error: .*no-such-node/, step: /^hint: / });
  });

  for (const mode of ['fork', 'cluster']) {
    test(`a port that is taken on another address, in ${mode} mode`, async (t) => {
      const holder = net.createServer();
      await new Promise((resolve) => { holder.listen(0, '127.0.0.1', () => resolve(undefined)); });
      t.after(() => holder.close());
      const { port } = /** @type {net.AddressInfo} */ (holder.address());
      const outcome = await start(`port-${mode}`, "require('http').createServer().listen(Number(process.env.PORT));\n", mode === 'cluster' ? ['-i', '1', '--listen-timeout', '100s'] : [], { PORT: String(port) });
      tells(outcome, { code: FAILED, cause: new RegExp(`^error: port-${mode}: cannot listen on .*${port}: it is taken by pid ${process.pid} `), step: /^hint: stop that process \(`kill \d+`\), or give the app another port/ });
      assert.match(outcome.stderr, /last lines of stderr:\n {4}Error: (listen|bind) EADDRINUSE/);
    });
  }

  test('a mistake in the config', async () => {
    write('mistake.js', '');
    const outcome = await forkful.run(['start', write('mistake.config.json', '{ "apps": [{ "script": "mistake.js", "max_restarts": "often" }] }')]);
    tells(outcome, { code: WRONG_USE, cause: /^error: .*mistake\.config\.json:1:\d+: apps\[0\]\.max_restarts is "often"/, step: /expected a whole number/ });
    const typo = await forkful.run(['validate', write('typo.config.json', '{ "apps": [{ "script": "mistake.js", "instnaces": 2 }] }')]);
    assert.match(typo.stdout + typo.stderr, /typo\.config\.json:1:\d+: .*instnaces.*did you mean `instances`/);
  });

  test('a typing error in a command', async () => {
    tells(await forkful.run(['strat', 'app.js']), { code: WRONG_USE, cause: /^error: unknown command 'strat'$/, step: /^hint: did you mean `start`\?$/ });
    tells(await forkful.run(['start', '--instnaces', '2']), { code: WRONG_USE, cause: /^error: .*--instnaces/, step: /^hint: did you mean `--instances`\?$/ });
    tells(await forkful.run(['completion', 'tcsh']), { code: WRONG_USE, cause: /^error: .*'tcsh'/, step: /^hint: / });
  });

  test('an unknown app', async () => {
    // A daemon may or may not run for the other stories: the message is the same.
    tells(await forkful.run(['reload', 'no-such-app']), { code: NO_SUCH_APP, cause: /^error: .*`no-such-app`/, step: /^hint: .*`forkful list` shows/ });
  });

  test('a home of another user', async (t) => {
    if (!isRoot) return t.skip('only root may give a directory away');
    const home = join(forkful.directory, 'foreign-home');
    mkdirSync(home, { mode: 0o700 });
    chownSync(home, STRANGER, STRANGER);
    const outcome = await forkful.run(['list'], { env: { FORKFUL_HOME: home } });
    tells(outcome, { code: WRONG_USE, cause: /^error: .*foreign-home belongs to user id 54321, not to yours/, step: /^hint: run the command as that user \(`sudo -u`\), or set FORKFUL_HOME/ });
  });

  test('an address that no machine has', async () => {
    const outcome = await start('foreign', "require('http').createServer(() => {}).listen(24004, '192.0.2.7');\n", ['-i', '2', '--listen-timeout', '100s']);
    tells(outcome, { code: FAILED, cause: /^error: foreign: cannot listen on 192\.0\.2\.7:24004: it is no address of this machine$/, step: /^hint: listen on 127\.0\.0\.1, or on 0\.0\.0\.0 for all addresses/ });
  });

  test('a start again, after the mistake was corrected', async () => {
    const path = write('corrected.cjs', 'const port = ;\n');
    const order = ['start', path, '--name', 'corrected', '--restart-delay', '10m', '--min-uptime', '60s', ...NODE];
    const broken = await forkful.run(order);
    tells(broken, { code: FAILED, cause: /^error: corrected: .*SyntaxError: /, step: /^hint: correct the syntax error at the place shown above, then start the app again$/ });
    await waitUntil('the wait', async () => (await forkful.jlist('corrected'))[0].pm2_env.status === 'waiting restart');
    write('corrected.cjs', "require('http').createServer().listen(0);\n");
    await forkful.ok(order);
    const [{ pid, pm2_env: env }] = await forkful.jlist('corrected');
    assert.ok(pid > 0);
    assert.equal(env.status, 'online');
    const other = await forkful.run(['start', write('another.cjs', ''), '--name', 'corrected', ...NODE]);
    tells(other, { code: FAILED, cause: /^error: corrected: the name belongs to another app, .*corrected\.cjs, which is running$/, step: /^hint: `--name` gives this one another name; `forkful delete corrected` removes the other one$/ });
  });

  test('syntax that Node.js cannot remove from TypeScript', async () => {
    const path = write('types.ts', 'let a: number = 1; enum X { A }\nconsole.log(a);\n');
    const outcome = await forkful.run(['start', path, '--name', 'types', '--no-autorestart', '--min-uptime', '60s', ...NODE]);
    tells(outcome, { code: FAILED, cause: /^error: types: .*: SyntaxError \[ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX\]: TypeScript enum is not supported/, step: /^hint: Node\.js removes types and does no more: compile the app to JavaScript, or run it with tsx$/ });
  });

  test('an app that is not ready in time', async () => {
    const outcome = await start('late', "setInterval(() => {}, 1000); console.error('waiting for the database');\n", ['--wait-ready', '--listen-timeout', '400']);
    tells(outcome, { code: FAILED, cause: /^error: late: worker \d+ was not ready within 0\.4 s: it has not said that it is ready by `process\.send\('ready'\)`, which `wait_ready` asks for$/, step: /^hint: give it longer with `--listen-timeout <ms>`, or see why with `forkful logs late`$/ });
  });

  test('a reload to a broken version', async () => {
    const path = write('reloaded.cjs', "require('http').createServer((q, r) => r.end('one')).listen(0);\n");
    await forkful.ok(['start', path, '--name', 'reloaded', '-i', '2', '--listen-timeout', '100s', ...NODE]);
    const before = (await forkful.jlist('reloaded')).map(({ pid }) => pid);
    write('reloaded.cjs', "throw new TypeError('broken on purpose');\n");
    const outcome = await forkful.run(['reload', 'reloaded']);
    tells(outcome, { code: FAILED, cause: /^error: reloaded: .*old .*: TypeError: broken on purpose$/, step: /^hint: / });
    assert.deepEqual((await forkful.jlist('reloaded')).map(({ pid }) => pid), before);
  });

  test('an app whose heap is full', async () => {
    const outcome = await start('heap', 'const kept = []; for (;;) kept.push(new Array(1e5).fill({}));\n', ['--node-args=--max-old-space-size=30']);
    tells(outcome, { code: FAILED, cause: /^error: heap: .*: FATAL ERROR: .*JavaScript heap out of memory$/, step: /^hint: raise the heap limit with `--node-args=--max-old-space-size=<MiB>`/ });
  });

  test('a full disk', async (t) => {
    if (!isRoot) return t.skip('only root may mount a small disk');
    const disk = join(forkful.directory, 'disk');
    mkdirSync(disk);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=700', 'tmpfs', disk], { stdio: 'pipe' });
    } catch (error) {
      return t.skip(String(error.stderr ?? error));
    }
    t.after(() => execFileSync('umount', ['--lazy', disk]));
    try {
      writeFileSync(join(disk, 'ballast'), Buffer.alloc(1 << 20));
    } catch (error) {
      assert.equal(error.code, 'ENOSPC');
    }
    const outcome = await forkful.run(['set', 'a:b', 'c'], { env: { FORKFUL_HOME: disk } });
    assert.notEqual(outcome.code, 0);
    assert.match(outcome.stderr, /No space left on device/);
    assert.match(outcome.stderr.trimEnd().split('\n').at(-2) ?? '', /^hint: free some space/);
  });

  test('a missing variable of the environment', async () => {
    tells(await start('env', "if (!process.env.ACCOUNTS_URL) throw new Error('ACCOUNTS_URL is not set');\n"), {
      code: FAILED, cause: /^error: env: .*: Error: ACCOUNTS_URL is not set$/, step: /^hint: set `ACCOUNTS_URL` in `env` or `env_file` of the config/,
    });
  });

  test('an app that ignores the stop signal', async () => {
    const path = write('stubborn.cjs', "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000);\n");
    await forkful.ok(['start', path, '--name', 'stubborn', '--kill-signal', 'SIGTERM', '--kill-timeout', '300', ...NODE]);
    const outcome = await forkful.run(['stop', 'stubborn']);
    tells(outcome, { code: 0, cause: /^note: stubborn: worker \d+ was killed: it ignored SIGTERM for 0\.3 s; handle the signal in the app, or set `kill_timeout`$/, step: /^note: stubborn/ });
  });

  test('an app whose shutdown takes longer than kill_timeout, as lightship delays it', async () => {
    const path = write('delayed.cjs', "process.on('SIGINT', () => setTimeout(() => process.exit(7), Number(process.env.SHUTDOWN_DELAY))); setInterval(() => {}, 1000);\n");
    const stop = async (name, delay, timeout) => {
      await forkful.ok(['start', path, '--name', name, '--kill-timeout', timeout, ...NODE], { env: { SHUTDOWN_DELAY: delay } });
      return forkful.run(['stop', name]);
    };
    tells(await stop('killed', '600000', '300'), { code: 0, cause: /^note: killed: worker \d+ was killed: /, step: /`kill_timeout`$/ });
    const { code, stderr } = await stop('waited-for', '600', '600s');
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });

  test('the list says why an app does not run', async () => {
    const path = write('errored.cjs', "throw new Error('no queue');\n");
    const config = write('errored.config.json', JSON.stringify({ apps: [{ name: 'errored', script: path, interpreter: nodeBinary(NEWEST), max_restarts: 2, min_uptime: '60s', restart_delay: 10 }] }));
    await forkful.fails(['start', config]);
    const { stderr } = await waitUntil('the note', async () => {
      const outcome = await forkful.ok(['list']);
      return /note: errored: worker \d+ is errored/.test(outcome.stderr) && outcome;
    });
    assert.match(stderr, /note: errored: worker \d+ is errored: Error: no queue \(2 unstable exits in 10 min; last exit code 1\); `forkful describe errored` shows more/);
  });
});
