// The package's `bin`: it becomes the native program, however it is run.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import { MAJORS, nodeBinary } from '../../tests/e2e/lib/nodes.mjs';
import { PACKAGE, binary, sandbox, waitUntil } from './lib/sandbox.mjs';

const { binaryPath } = createRequire(import.meta.url)('../forkful/lib/binary.cjs');

const LAUNCHER = join(PACKAGE, 'bin', 'forkful');

/** A stand-in for the native program: prints its pid, its arguments, the signals it gets, and how it ends. */
const STAND_IN = `#!/bin/sh
trap 'echo got TERM' TERM
trap 'echo got INT' INT
trap 'echo got HUP' HUP
trap 'echo got USR2' USR2
echo "pid $$ args $#: $*"
case "$1" in
  exit) exit "$2" ;;
  die) kill -"$2" $$ ;;
esac
while :; do sleep 0.02; done
`;

/** Each way in which users run it. */
const WAYS = {
  'as a program': (path) => [path],
  'by a shell': (path) => ['/bin/sh', path],
  // Since 22.15 it is replaced by the program; before that it starts the program and forwards signals.
  ...Object.fromEntries(MAJORS.map((major) => [`by Node.js ${major}`, (path) => [nodeBinary(major), path]])),
  'by a Node.js that cannot become another program': (path) => [process.execPath, '-e', 'delete process.execve; process.argv.splice(1, 0, "x"); require(process.env.LAUNCHER)', '--', path],
};

for (const [way, command] of Object.entries(WAYS)) {
  test(`${way}: arguments, exit code and signals are the native program's own`, async (t) => {
    const { write, env } = sandbox(t);
    const standIn = write('stand-in', STAND_IN);
    chmodSync(standIn, 0o755);
    const settings = { ...env, FORKFUL_BIN: standIn, LAUNCHER };
    const [program, ...first] = command(LAUNCHER);
    const args = first.includes('-e') ? first.slice(0, 3) : first;

    const ended = spawnSync(program, [...args, 'exit', '23', 'two words', ''], { env: settings, encoding: 'utf8' });
    assert.equal(ended.status, 23, ended.stderr);
    assert.match(ended.stdout, /args 4: exit 23 two words \n/);
    assert.equal(ended.stderr, '');

    const died = spawnSync(program, [...args, 'die', 'KILL'], { env: settings });
    assert.equal(died.signal, 'SIGKILL');

    const child = spawn(program, [...args, 'stay'], { env: settings, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => { output += text; });
    await waitUntil('it runs', () => output.includes('args 1: stay'));
    for (const signal of ['TERM', 'INT', 'HUP', 'USR2']) {
      child.kill(`SIG${signal}`);
      await waitUntil(`SIG${signal} arrives`, () => output.includes(`got ${signal}`));
    }
    assert.equal(output.match(/got TERM/g)?.length, 1, 'a signal arrives once');
    // SIGKILL cannot be handed on: what is left of the fallback's child is ended here.
    process.kill(Number(/pid (\d+)/.exec(output)[1]), 'SIGKILL');
    await once(child, 'exit');
  });
}

test('a signal that comes while the native program is started is handed on', async (t) => {
  const { write, env } = sandbox(t);
  const standIn = write('stand-in', STAND_IN);
  chmodSync(standIn, 0o755);
  // The signal comes as early as one can: before anything else happens after the start.
  const early = `delete process.execve; process.argv.splice(1, 0, 'x'); const processes = require('node:child_process'); const { spawn } = processes;
    processes.spawn = (...given) => {
      const child = spawn(...given);
      child.kill = ((kill) => (signal) => { if (signal === 'SIGTERM') process.stdout.write('handed on\\n'); return kill.call(child, 'SIGKILL'); })(child.kill);
      process.kill(process.pid, 'SIGTERM');
      return child;
    };
    require(process.env.LAUNCHER)`;
  const ended = spawnSync(process.execPath, ['-e', early, 'stay'], { env: { ...env, FORKFUL_BIN: standIn, LAUNCHER }, encoding: 'utf8', timeout: 180_000 });
  assert.match(ended.stdout, /handed on/, ended.stderr);
});

test('a shell becomes the native program: one process, the same pid', async (t) => {
  const { write, env } = sandbox(t);
  const standIn = write('stand-in', STAND_IN);
  chmodSync(standIn, 0o755);
  const child = spawn(LAUNCHER, ['stay'], { env: { ...env, FORKFUL_BIN: standIn }, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => { output += text; });
  await waitUntil('it runs', () => output.includes('stay'));
  assert.equal(Number(/pid (\d+)/.exec(output)[1]), child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
});

test('the program is found in node_modules above, also through links', (t) => {
  const { directory, write, env } = sandbox(t);
  const platform = `linux-${process.arch}`;
  const program = write(`app/node_modules/@forkful/${platform}/bin/forkful`, '#!/bin/sh\necho "found $1"\n');
  chmodSync(program, 0o755);
  mkdirSync(join(directory, 'app/node_modules/forkful'), { recursive: true });
  execFileSync('cp', ['-r', join(PACKAGE, 'bin'), join(PACKAGE, 'lib'), join(PACKAGE, 'package.json'), join(directory, 'app/node_modules/forkful')]);
  mkdirSync(join(directory, 'app/node_modules/.bin'));
  const link = join(directory, 'app/node_modules/.bin/forkful');
  symlinkSync('../forkful/bin/forkful', link);
  symlinkSync(link, join(directory, 'far'));
  const { FORKFUL_BIN: _unset, ...settings } = env;
  for (const path of [link, join(directory, 'far'), join(directory, 'app/node_modules/forkful/bin/forkful')]) {
    assert.equal(execFileSync(path, ['it'], { env: settings, encoding: 'utf8', cwd: '/' }), 'found it\n');
  }
  assert.equal(execFileSync('./far', ['it'], { env: settings, encoding: 'utf8', cwd: directory }), 'found it\n');
  write(`app/node_modules/@forkful/${platform}/package.json`, '{}');
  const byNode = execFileSync(process.execPath, [link, 'it'], { env: settings, encoding: 'utf8' });
  assert.equal(byNode, 'found it\n');
});

test('what is missing is said, with what to do', (t) => {
  const { env, write } = sandbox(t);
  const { FORKFUL_BIN: _unset, ...settings } = env;
  const missing = spawnSync(LAUNCHER, ['list'], { env: settings, encoding: 'utf8' });
  assert.equal(missing.status, 127);
  assert.match(missing.stderr, /^error: the package @forkful\/linux-\w+, which holds the program for this machine, is not installed\n\nhint: .*--omit=optional.*npm install --include=optional --save-optional @forkful\/linux-\w+@\d.*\nsee: https:.*\/install#the-program-is-not-found\n$/);
  const noProgram = write('no-program', '');
  for (const path of ['/nowhere/forkful', noProgram]) {
    for (const command of [[LAUNCHER], [process.execPath, LAUNCHER]]) {
      const wrong = spawnSync(command[0], [...command.slice(1), 'list'], { env: { ...env, FORKFUL_BIN: path }, encoding: 'utf8' });
      assert.equal(wrong.status, 127);
      assert.equal(wrong.stderr, `error: FORKFUL_BIN is ${path}, which is not a program\n\nhint: set it to the path of the forkful binary, or unset it\nsee: https://forkful.github.io/forkful/install#the-program-is-not-found\n`);
    }
  }
});

test('a platform without a package is named', () => {
  assert.throws(() => binaryPath({ env: {}, platform: 'win32-x64' }), { code: 'NO_BINARY', message: /no forkful for win32-x64, only for linux-x64 and linux-arm64/ });
  assert.throws(() => binaryPath({ env: {}, platform: 'linux-x64', resolve: () => '/nowhere/package.json' }), { code: 'NO_BINARY', message: /\/nowhere\/bin\/forkful is missing/ });
  assert.equal(binaryPath({ env: { FORKFUL_BIN: binary() } }), binary());
});
