// The packages as users install them: packed, installed into an empty prefix, run from there.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { ROOT, binary, sandbox, waitUntil, within } from './lib/sandbox.mjs';

const APP = new URL('./fixtures/app.js', import.meta.url).pathname;

let directory = '';
/** @type {string[]} The tarballs of the program and of the package. */
let tarballs = [];

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'forkful-pack-test-'));
  const packed = execFileSync(process.execPath, [join(ROOT, 'npm/pack.mjs'), '--binary', binary(), '--out', directory, '--dynamic'], { encoding: 'utf8' });
  tarballs = packed.trim().split('\n');
});

after(() => rmSync(directory, { recursive: true, force: true }));

/** Installs into an empty prefix; gives it, and an environment in which nothing else would be found. */
function installed(box, { flags = [], packages = tarballs } = {}) {
  const prefix = join(box.directory, 'prefix');
  mkdirSync(prefix);
  const { FORKFUL_BIN: _unset, ...env } = box.env;
  const npm = spawnSync('npm', ['install', '--offline', '--no-audit', '--no-fund', '--prefix', prefix, ...flags, ...packages], {
    cwd: prefix, env: { ...env, npm_config_cache: join(box.directory, 'cache') }, encoding: 'utf8',
  });
  assert.equal(npm.status, 0, npm.stderr);
  return { prefix, env };
}

/** Asks a server on a port for its answer. */
const ask = (port) => new Promise((resolve, reject) => {
  http.get({ host: '127.0.0.1', port, agent: false }, (response) => response.setEncoding('utf8').on('data', resolve)).on('error', reject);
});

/** A port that is free now. */
async function freePort() {
  const server = http.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

test('package managers do not install the program where it cannot run', () => {
  for (const arch of ['x64', 'arm64']) {
    const { os, cpu, libc } = JSON.parse(readFileSync(join(ROOT, `npm/linux-${arch}/package.json`), 'utf8'));
    // One program for every C library.
    assert.deepEqual({ os, cpu, libc }, { os: ['linux'], cpu: [arch], libc: undefined });
  }
});

test('a program that needs the loader of its system is refused', (t) => {
  const box = sandbox(t);
  const packed = spawnSync(process.execPath, [join(ROOT, 'npm/pack.mjs'), '--binary', binary(), '--out', join(box.directory, 'out')], { encoding: 'utf8' });
  assert.equal(packed.status, 1);
  assert.match(packed.stderr, /^error: \S+ needs the loader of the system that it was built on: build it with `dev\/release --dry-run`/);
});

test('a project: its bin, `import`, `require` and `forkful/pm2`', async (t) => {
  const box = sandbox(t);
  const { prefix, env } = installed(box);
  const listed = execFileSync('tar', ['tzf', tarballs[1]], { encoding: 'utf8' }).split('\n');
  for (const file of ['README.md', 'LICENSE', 'index.d.ts', 'index.d.mts', 'index.views.d.ts', 'pm2.d.ts', 'bin/forkful']) assert.ok(listed.includes(`package/${file}`), `${file} is not packed`);
  assert.ok(!listed.some((file) => /test|node_modules/.test(file)), listed.join(' '));

  const bin = join(prefix, 'node_modules/.bin/forkful');
  const version = JSON.parse(readFileSync(join(prefix, 'node_modules/forkful/package.json'), 'utf8')).version;
  assert.equal(execFileSync(bin, ['--version'], { env, encoding: 'utf8' }), `forkful ${version}\n`);
  assert.equal(spawnSync(bin, ['stop', 'nobody'], { env }).status, 3);
  const run = (file, text) => {
    const path = box.write(join('prefix', file), text);
    return execFileSync(process.execPath, [path], { env, encoding: 'utf8', cwd: prefix });
  };
  const app = JSON.stringify(APP);
  assert.equal(run('start.mjs', `
    import forkful, { start, list, delete as remove, connect } from 'forkful';
    await start({ script: ${app}, name: 'esm', instances: 2 });
    const client = await connect();
    console.log((await list())[0].workers.length, remove === forkful.remove, client.home === process.env.FORKFUL_HOME);
  `), '2 true true\n');
  assert.equal(run('list.cjs', `
    const { list, kill } = require('forkful');
    list().then((apps) => console.log(apps[0].definition.name));
  `), 'esm\n');
  assert.equal(run('pm2.cjs', `
    const pm2 = require('forkful/pm2');
    pm2.connect(() => pm2.list((error, list) => { console.log(list.map((worker) => worker.pm2_env.status).join()); pm2.disconnect(); }));
  `), 'online,online\n');
  assert.equal(run('pm2.mjs', `
    import pm2 from 'forkful/pm2';
    console.log((await pm2.list())[0].pm2_env.version);
  `), '1.2.3\n');
});

test('`run` in the foreground: signals reach the app, its exit code comes back', async (t) => {
  const box = sandbox(t);
  const { prefix, env } = installed(box);
  const script = box.write('graceful.js', `
    const server = require('http').createServer((_request, response) => response.end('here'));
    server.listen(process.env.PORT);
    process.on('SIGTERM', () => { console.log('leaving'); process.exit(17); });
    process.on('SIGUSR2', () => console.log('told'));
  `);
  for (const start of [[join(prefix, 'node_modules/.bin/forkful')], [process.execPath, join(prefix, 'node_modules/.bin/forkful')]]) {
    const port = await freePort();
    const child = spawn(start[0], [...start.slice(1), 'run', script], { env: { ...env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = once(child, 'exit');
    let output = '';
    for (const pipe of [child.stdout, child.stderr]) pipe.setEncoding('utf8').on('data', (text) => { output += text; });
    await waitUntil('it serves', async () => (await ask(port)) === 'here');
    child.kill('SIGUSR2');
    await waitUntil('the signal arrives', () => output.includes('told'));
    child.kill('SIGTERM');
    const [code, signal] = await within('its end', ended);
    assert.deepEqual([code, signal], [17, null], output);
    assert.match(output, /leaving/);
  }
});

test('a global install', (t) => {
  const box = sandbox(t);
  const { prefix, env } = installed(box, { flags: ['--global'] });
  const text = execFileSync(join(prefix, 'bin/forkful'), ['--help'], { env, encoding: 'utf8', cwd: '/' });
  assert.match(text, /^Runs Node\.js apps on every core/);
});

test('an install without optional packages says what is missing', (t) => {
  const box = sandbox(t);
  const { prefix, env } = installed(box, { flags: ['--omit=optional'], packages: [tarballs[1]] });
  const missing = spawnSync(join(prefix, 'node_modules/.bin/forkful'), ['list'], { env, encoding: 'utf8' });
  assert.equal(missing.status, 127);
  assert.match(missing.stderr, /^error: the package @forkful\/linux-/);
});

test('a binary of another machine is not packed', (t) => {
  const box = sandbox(t);
  const pack = (...args) => spawnSync(process.execPath, [join(ROOT, 'npm/pack.mjs'), '--out', box.directory, ...args], { encoding: 'utf8' });
  const other = process.arch === 'x64' ? 'linux-arm64' : 'linux-x64';
  assert.match(pack('--binary', binary(), '--platform', other).stderr, new RegExp(`^error: .* is not a program for ${other}\n$`));
  assert.match(pack('--binary', APP).stderr, /is not a Linux program/);
  assert.match(pack('--binary', binary(), '--platform', 'plan9-mips').stderr, /there is no package for plan9-mips/);
  assert.match(pack().stderr, /say --binary/);
});
