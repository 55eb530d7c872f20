// A watch of twenty thousand files: every relevant change is seen, wherever it is, and ignored files are not.
// bench/benches/watch.mjs measures delay and cost.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const FOLDERS = 200;
const FILES = 100;

test(`a tree of ${FOLDERS * FILES} files`, async (t) => {
  const forkful = await sandbox(t);
  const root = join(forkful.directory, 'app');
  const folder = (number) => join(root, 'src', `part-${Math.floor(number / 20)}`, `folder-${number}`);
  for (let number = 0; number < FOLDERS; number += 1) {
    mkdirSync(folder(number), { recursive: true });
    for (let file = 0; file < FILES; file += 1) writeFileSync(join(folder(number), `file-${file}.js`), '');
  }
  for (const name of ['node_modules/m', '.git', 'build', 'logs']) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, '.gitignore'), 'build\n');
  const script = forkful.script(({ require }) => {
    // It writes its own log into the watched tree all the time.
    setInterval(() => console.log('still here'), 20);
    require('http').createServer((_q, r) => r.end()).listen(0, '127.0.0.1');
  }, 'app/app.cjs');
  const file = join(root, 'forkful.config.json');
  const app = { name: 'app', script, cwd: root, interpreter: nodeBinary(NEWEST), exec_mode: 'cluster', instances: 1, watch: true, ignore_watch: ['*.tmp'], watch_delay: 20, out_file: 'logs/out.log', error_file: 'logs/err.log' };
  writeFileSync(file, JSON.stringify({ apps: [app] }));
  await forkful.ok(['start', file]);
  const worker = async () => (await forkful.jlist('app'))[0];
  const restarts = async () => (await worker()).pm2_env.restart_time;
  /** Repeats a change until it was seen: the watch begins in the background. */
  const seen = async (what, change) => {
    const { pid } = await waitUntil('a settled worker', async () => { const now = await worker(); return now.pm2_env.status === 'online' && now; });
    await waitUntil(`${what} to be seen`, async () => {
      change();
      return (await worker()).pid !== pid;
    });
    await waitUntil('the reload to be over', async () => (await worker()).pm2_env.status === 'online');
  };
  await seen('the first change', () => appendFileSync(join(folder(0), 'file-0.js'), '// more\n'));
  await seen('a change in the last folder', () => appendFileSync(join(folder(FOLDERS - 1), `file-${FILES - 1}.js`), '// more\n'));
  await seen('a new folder with a new file', () => {
    mkdirSync(join(root, 'src/new/deep'), { recursive: true });
    writeFileSync(join(root, 'src/new/deep/file.js'), String(Math.random()));
  });
  await seen('a change in what was new', () => appendFileSync(join(root, 'src/new/deep/file.js'), '// more\n'));
  await seen('a file that an editor replaces', () => {
    writeFileSync(join(root, '.swap'), String(Math.random()));
    renameSync(join(root, '.swap'), join(folder(7), 'file-7.js'));
  });
  await seen('a file that is removed', () => {
    writeFileSync(join(folder(9), 'file-9.js'), '');
    rmSync(join(folder(9), 'file-9.js'));
  });

  // The last reload may still have been one of several for a change that was made more than once.
  let quiet = await restarts();
  await waitUntil('rest', async () => {
    const before = quiet;
    await new Promise((resolve) => setTimeout(resolve, 300));
    quiet = await restarts();
    return quiet === before;
  });
  for (const name of ['node_modules/m/index.js', '.git/HEAD', 'build/out.js', 'src/part-0/folder-1/x.tmp', '.env']) writeFileSync(join(root, name), 'x');
  // A later change that counts is one reload, and the only one: what came before it was not.
  await seen('one that counts', () => appendFileSync(join(folder(50), 'file-50.js'), '// more\n'));
  assert.ok(await restarts() > quiet);
  // A late reload may have taken the change along and be named after another file; the next one is not.
  await waitUntil('the file to be told', async () => {
    const { stdout } = await forkful.ok(['describe', 'app', '--json']);
    if (/folder-50/.test(JSON.parse(stdout).apps[0].workers[0].renewed)) return true;
    appendFileSync(join(folder(50), 'file-50.js'), '// more\n');
    return false;
  });
});

test('log files in the watched folder reload nothing: of workers that were added, of another definition, and rotated', async (t) => {
  const forkful = await sandbox(t);
  const root = join(forkful.directory, 'app');
  mkdirSync(root, { recursive: true });
  const script = forkful.script(({ require }) => {
    setInterval(() => console.log('x'.repeat(100)), 20);
    require('http').createServer((_q, r) => r.end()).listen(0, '127.0.0.1');
  }, 'app/app.cjs');
  const file = join(forkful.directory, 'forkful.config.json');
  const app = { name: 'app', script, cwd: root, interpreter: nodeBinary(NEWEST), exec_mode: 'cluster', instances: 1, watch: true, watch_delay: 20, out_file: 'out.log', log_rotate: { max_size: '4K', keep: 100, min_free: 0 } };
  const define = (more) => writeFileSync(file, JSON.stringify({ apps: [{ ...app, ...more }] }));
  define({});
  await forkful.ok(['start', file]);
  const workers = () => forkful.jlist('app');
  const restarts = async () => (await workers()).map(({ pm2_env }) => pm2_env.restart_time);
  /** Nothing is reloaded while a log is written and rotated. */
  const quiet = async (log) => {
    await waitUntil('all workers to be online', async () => (await workers()).every(({ pm2_env }) => pm2_env.status === 'online'));
    const before = await restarts();
    const archives = () => readdirSync(root).filter((name) => name.startsWith(`${log}.2`)).length;
    const had = archives();
    await waitUntil(`${log} to be rotated`, () => archives() >= had + 2);
    assert.deepEqual(await restarts(), before);
  };
  const [{ pid }] = await workers();
  await waitUntil('the watch to have begun', async () => {
    appendFileSync(script, '// more\n');
    return (await workers())[0].pid !== pid;
  });
  // The last reload may still have been one of several for a change that was made more than once.
  let last;
  await waitUntil('rest', async () => {
    const before = last;
    await new Promise((resolve) => setTimeout(resolve, 500));
    last = String(await restarts());
    return last === before;
  });
  await quiet('out-0.log');
  await forkful.ok(['scale', 'app', '2']);
  await quiet('out-1.log');
  define({ instances: 2, out_file: 'other.log' });
  await forkful.ok(['apply', file]);
  await quiet('other-1.log');
});
