// The install script, in each shell of this machine, from a folder and from a server.
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { PACKAGING, folder, release } from './release.mjs';

const SCRIPT = join(PACKAGING, 'install.sh');

/** The shells that are here, and how each runs a script. */
const SHELLS = [['sh'], ['dash'], ['bash', '--posix'], ['busybox', 'sh']].filter(([program]) => spawnSync(program, ['-c', 'true']).error === undefined);

const environment = { PATH: process.env.PATH, HOME: '/nowhere' };

/** @param {string[]} args */
const install = (args, { shell = ['sh'], env = environment } = {}) => spawnSync(shell[0], [...shell.slice(1), SCRIPT, ...args], { env, encoding: 'utf8' });

/** All files below a folder. @param {string} path */
const filesBelow = (path) => readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => entry.name).sort();

for (const shell of SHELLS) {
  test(`${shell.join(' ')}: installs, installs again, uninstalls`, (t) => {
    const directory = folder(t);
    const prefix = join(directory, 'a prefix');
    const from = join(directory, 'release');
    mkdirSync(from);
    release(from, '1.2.3');
    const first = install(['--from', from, '--prefix', prefix], { shell });
    assert.equal(first.status, 0, first.stderr);
    assert.match(first.stdout, /^forkful 1\.2\.3 is in .*a prefix\/bin\n/);
    assert.match(first.stdout, /is not in PATH/);
    assert.doesNotMatch(first.stdout, /forkful update/);
    assert.deepEqual(filesBelow(prefix), ['CHANGELOG.md', 'LICENSE', '_forkful', 'forkful', 'forkful', 'forkful-start.1', 'forkful.1', 'forkful.fish']);

    const again = install(['--from', from, '--prefix', prefix, '--version', 'v1.2.3'], { shell });
    assert.equal(again.status, 0, again.stderr);
    assert.match(again.stdout, /`forkful update` updates a running daemon to this version/);

    writeFileSync(join(prefix, 'share/man/man1/other.1'), '');
    const removed = install(['--uninstall', '--prefix', prefix], { shell });
    assert.equal(removed.status, 0, removed.stderr);
    assert.deepEqual(filesBelow(prefix), ['other.1'], 'files of others stay');
    assert.equal(install(['--uninstall', '--prefix', prefix], { shell }).status, 1);
  });
}

test('a tarball with another checksum is refused, and nothing is installed', (t) => {
  const directory = folder(t);
  appendFileSync(release(directory, '1.2.3'), 'x');
  const prefix = join(directory, 'prefix');
  const refused = install(['--from', directory, '--prefix', prefix]);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /^error: the SHA-256 of forkful-1\.2\.3-\S+ is not that of SHA256SUMS; nothing was installed\n$/);
  assert.ok(!existsSync(prefix));
});

test('a program that runs is replaced', async (t) => {
  const directory = folder(t);
  const prefix = join(directory, 'prefix');
  mkdirSync(join(prefix, 'bin'), { recursive: true });
  // A program whose file cannot be written to while it runs.
  const running = join(prefix, 'bin/forkful');
  spawnSync('cp', [spawnSync('sh', ['-c', 'command -v sleep'], { encoding: 'utf8' }).stdout.trim(), running]);
  const child = spawn(running, ['3600']);
  t.after(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  release(directory, '1.2.3');
  const done = install(['--from', directory, '--prefix', prefix]);
  assert.equal(done.status, 0, done.stderr);
  assert.match(readFileSync(running, 'utf8'), /1\.2\.3/);
  assert.equal(child.exitCode, null, 'it runs on');
});

/** A PATH on which only these programs are. @param {string} directory @param {string[]} programs */
function pathOf(directory, programs) {
  mkdirSync(directory);
  for (const program of programs) {
    const found = spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).stdout.trim();
    symlinkSync(found, join(directory, program));
  }
  return directory;
}

const NEEDED = ['sh', 'uname', 'id', 'mktemp', 'sed', 'head', 'grep', 'sha256sum', 'mkdir', 'gzip', 'tar', 'find', 'cp', 'chmod', 'mv', 'rm'];

for (const program of ['curl', 'wget']) {
  test(`from a server with ${program}`, { skip: spawnSync(program, ['--version']).error ? `no ${program}` : false }, async (t) => {
    const directory = folder(t);
    release(directory, '1.2.3');
    const server = http.createServer((request, response) => {
      const path = join(directory, String(request.url).slice(1));
      if (existsSync(path)) response.end(readFileSync(path));
      else response.writeHead(404).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => { server.close(); server.closeAllConnections(); });
    const address = `http://127.0.0.1:${server.address().port}`;
    const env = { PATH: pathOf(join(directory, 'path'), [...NEEDED, program]), HOME: directory };
    const prefix = join(directory, 'prefix');
    const done = await promisify(execFile)('sh', [SCRIPT, '--from', address, '--prefix', prefix], { env });
    assert.match(done.stdout, /note: there is no node in PATH/);
    assert.ok(existsSync(join(prefix, 'bin/forkful')));
    await assert.rejects(promisify(execFile)('sh', [SCRIPT, '--from', `${address}/none`, '--prefix', prefix], { env }), /none\/SHA256SUMS cannot be fetched/);
  });
}

test('the script from a server by curl, and a tarball by hand, as docs/INSTALL.md says', async (t) => {
  const [directory, here] = [folder(t), folder(t)];
  const tarball = release(directory, '1.2.3');
  const server = http.createServer((request, response) => response.end(readFileSync(request.url === '/install.sh' ? SCRIPT : join(directory, String(request.url).slice(1))))).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  const address = `http://127.0.0.1:${server.address().port}`;
  const run = async (program, ...args) => promisify(execFile)(program, args, { cwd: here, env: environment });
  await run('curl', '--silent', '--fail', '--location', '--remote-name', `${address}/install.sh`);
  await run('sh', 'install.sh', '--from', address, '--version', '1.2.3', '--prefix', join(here, 'by-script'));
  copyFileSync(tarball, join(here, basename(tarball)));
  copyFileSync(join(directory, 'SHA256SUMS'), join(here, 'SHA256SUMS'));
  assert.equal((await run('sha256sum', '--check', '--ignore-missing', 'SHA256SUMS')).stdout, `${basename(tarball)}: OK\n`);
  mkdirSync(join(here, 'by-hand'));
  await run('tar', 'xzf', basename(tarball), '--strip-components=1', '--no-same-owner', '-C', join(here, 'by-hand'));
  assert.deepEqual(filesBelow(join(here, 'by-hand')), filesBelow(join(here, 'by-script')));
});

test('a script that is cut off does nothing', (t) => {
  const directory = folder(t);
  release(directory, '1.2.3');
  const text = readFileSync(SCRIPT, 'utf8');
  const cut = join(directory, 'cut.sh');
  const prefix = join(directory, 'prefix');
  for (const length of [0.3, 0.6, 0.9].map((part) => Math.floor(text.length * part))) {
    writeFileSync(cut, text.slice(0, length));
    spawnSync('sh', [cut, '--from', directory, '--prefix', prefix], { env: environment });
    assert.ok(!existsSync(prefix), `after ${length} characters`);
  }
});

test('wrong use and missing files are told', (t) => {
  const directory = folder(t);
  const refused = (...args) => {
    const told = install(args);
    assert.equal(told.status, 1, told.stdout);
    return told.stderr;
  };
  assert.match(refused('--prefix', 'relative'), /^error: --prefix is 'relative', which is not an absolute path\n$/);
  assert.match(refused('--version', '1/../2'), /is not a version/);
  assert.match(refused('--from'), /^error: --from needs a value/);
  assert.match(refused('--what'), /^error: there is no option --what\n\nhint: /);
  assert.match(refused('--from', directory, '--prefix', directory), /has no SHA256SUMS\n\nhint: /);
  release(directory, '1.2.3');
  assert.match(refused('--from', directory, '--prefix', directory, '--version', '9.9.9'), /has forkful-1\.2\.3-linux-\w+\.tar\.gz, not version 9\.9\.9/);
  writeFileSync(join(directory, 'SHA256SUMS'), `${'0'.repeat(64)}  other.tar.gz\n`);
  assert.match(refused('--from', directory, '--prefix', directory), /names no tarball for linux-/);
  writeFileSync(join(directory, 'file'), '');
  release(directory, '1.2.3');
  assert.match(refused('--from', directory, '--prefix', join(directory, 'file')), /cannot be created\n\nhint: name another folder with --prefix/);
});
