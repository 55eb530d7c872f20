// `forkful run` as in a container: PID 1 of a process namespace, a user without a name or capabilities, a
// read-only root file system, and one tmpfs for temporary files.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { printsLike } from './lib/elsewhere.mjs';
import { freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** A user id that exists on no system. */
const USER = 54_321;

/** Its workers report their ids and whether they can write, and leave an ended process behind (`/orphan`). */
const SERVER = `
  const { spawn } = require('node:child_process');
  const { writeFileSync } = require('node:fs');
  const server = require('node:http').createServer((request, response) => {
    if (request.url === '/orphan') spawn('sh', ['-c', 'sleep 0.01 & exec true'], { detached: true, stdio: 'ignore' }).unref();
    let writes = true;
    try { writeFileSync(__dirname + '/written', ''); } catch { writes = false; }
    response.end(JSON.stringify({ pid: process.pid, uid: process.getuid(), parent: process.ppid, writes }));
  }).listen(Number(process.env.PORT));
  process.on('SIGTERM', () => { server.close(); server.closeIdleConnections(); });
`;

/** Makes the root file system read-only in a new mount namespace, and executes the program as PID 1 of a new process namespace. */
const INSIDE = `
  set -e
  mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
  mount -o remount,bind,ro /
  shift
  exec setpriv --reuid ${USER} --regid ${USER} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
`;
/** With `unshare` everything inside ends, also after a failure. */
const NAMESPACES = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];

const may = process.getuid?.() === 0 && spawnSync('unshare', [...NAMESPACES, 'sh', '-c', 'mount -o remount,bind,ro / && setpriv --version']).status === 0;

/** The only child of a process. */
const childOf = (pid) => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());

/** Zombies among the processes of a namespace whose PID 1 is this one. */
function zombies(pid) {
  const own = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return own.filter((child) => / Z /.test(readFileSync(`/proc/${child}/stat`, 'utf8')));
}

test('as PID 1, any user, without capabilities, in a read-only root', { skip: may ? false : 'WARNING: needs root and namespaces' }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'forkful-container-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  chmodSync(directory, 0o755);
  mkdirSync(join(directory, 'tmp'));
  // The user may not be able to access their locations.
  const [forkful, node, app] = ['forkful', 'node', 'app.cjs'].map((name) => join(directory, name));
  copyFileSync(binary(), forkful);
  copyFileSync(nodeBinary(NEWEST), node);
  writeFileSync(app, SERVER);
  const port = await freePort();
  const env = { PATH: `${directory}:${process.env.PATH}`, TMPDIR: join(directory, 'tmp'), HOME: '/nonexistent', PORT: String(port) };
  const command = [forkful, 'run', app, '-i', '2', '--interpreter', node];
  const child = spawn('unshare', [...NAMESPACES, 'sh', '-c', INSIDE, 'sh', directory, ...command], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { said += data; });
  const end = new Promise((resolve) => { child.once('exit', (code, signal) => resolve({ code, signal })); });
  t.after(async () => {
    child.kill('SIGKILL');
    await end;
  });
  const ask = async (path = '/') => JSON.parse((await get(port, path)).body);
  const first = await waitUntil('an answer', () => ask()).catch((error) => assert.fail(`${error.message}\n${said}`));
  assert.deepEqual({ uid: first.uid, writes: first.writes }, { uid: USER, writes: false });
  const seen = new Set();
  await waitUntil('both workers', async () => seen.add((await ask()).pid).size === 2);
  const init = childOf(child.pid);
  assert.match(readFileSync(`/proc/${init}/status`, 'utf8'), /^CapEff:\t0+$/m);
  assert.match(readFileSync(`/proc/${init}/status`, 'utf8'), /^NSpid:\t\d+\t1$/m);
  for (let count = 0; count < 5; count += 1) await ask('/orphan');
  await waitUntil('no zombie', () => zombies(init).length === 0);
  printsLike('DOCKER.md', 'note: 2 workers', said, { names: { '2 cores (CPU quota 2 of cgroup /, memory limit 512 MiB of cgroup /)': '…' } });
  process.kill(init, 'SIGTERM');
  assert.deepEqual(await within('the end', end), { code: 0, signal: null }, said);
});
