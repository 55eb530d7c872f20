// How apps end, and the resulting state, counters and message. Nothing is restarted forever without a delay.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { FAILED, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

describe('endings', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => { forkful = await sandbox(null); });
  after(() => forkful.close());

  /** Starts an app that records the time of each start, and returns the result of \`start\`. */
  async function begin(name, body, attributes = {}) {
    const lives = join(forkful.directory, `${name}.lives`);
    const script = forkful.script(body, `${name}.cjs`);
    const noted = `require('fs').appendFileSync(${JSON.stringify(lives)}, Date.now() + '\\n');\n`;
    writeFileSync(script, noted + readFileSync(script, 'utf8'));
    const file = join(forkful.directory, `${name}.config.json`);
    const app = { name, script, interpreter: nodeBinary(NEWEST), exec_mode: 'fork', ...attributes };
    writeFileSync(file, JSON.stringify({ apps: [app] }));
    const outcome = await forkful.run(['start', file]);
    return { ...outcome, lives: () => readFileSync(lives, 'utf8').trim().split('\n').map(Number) };
  }

  const worker = async (name) => JSON.parse((await forkful.ok(['describe', name, '--json'])).stdout).apps[0].workers[0];
  const until = (name, what, holds) => waitUntil(what, async () => {
    const now = await worker(name);
    return holds(now) && now;
  });
  const remove = (name) => forkful.ok(['delete', name]);

  test('a crash at start: the command says so at once, with the last words, and then it is given up', async () => {
    const { code, stderr, lives } = await begin('at-start', () => { throw new Error('no such database'); }, { max_restarts: 3, min_uptime: '60s', restart_delay: 10 });
    assert.equal(code, FAILED);
    assert.match(stderr, /no such database/);
    const end = await until('at-start', 'it to be given up', ({ status }) => status === 'errored');
    assert.equal(end.exit_code, 1);
    assert.match(end.reason, /3 unstable exits in 10 min; last exit code 1/);
    assert.equal(end.restarts, 2);
    assert.equal(lives().length, 3);
    assert.equal(end.pid, null);
    await remove('at-start');
  });

  for (const mode of ['fork', 'cluster']) {
    test(`a unix socket of the process's own does not hide a crash at start (${mode} mode)`, async () => {
      // Like an interpreter that opens a socket before it runs the app.
      const name = `tool-${mode}`;
      const { code, stderr } = await begin(name, ({ require, module }) => {
        const path = `${module.filename}.${process.pid}.sock`;
        require('net').createServer().listen({ path, exclusive: true }, () => {
          setTimeout(() => { console.error('the port is taken'); process.exit(1); }, 600);
        });
      }, { exec_mode: mode, listen_timeout: '100s', max_restarts: 1, min_uptime: '60s' });
      assert.equal(code, FAILED);
      assert.match(stderr, /the port is taken/);
      await remove(name);
    });
  }

  test('a program that serves on a unix socket of its own is started', async () => {
    const { code } = await begin('unix', ({ require, module }) => {
      require('net').createServer().listen({ path: `${module.filename}.sock`, exclusive: true });
    }, { exec_mode: 'cluster' });
    assert.equal(code, 0);
    assert.equal((await worker('unix')).status, 'online');
    await remove('unix');
  });

  test('a crash loop slows down by itself, and ends', async () => {
    const { lives } = await begin('loop', () => { setTimeout(() => process.exit(2), 20); }, { max_restarts: 5, min_uptime: '10s', exp_backoff_restart_delay: 100 });
    const end = await until('loop', 'it to be given up', ({ status }) => status === 'errored');
    assert.equal(end.exit_code, 2);
    assert.equal(end.restarts, 4);
    const at = lives();
    assert.equal(at.length, 5);
    // Immediately, then after 100 ms, then half as much again each time, with at most a fifth less.
    const pauses = at.slice(1).map((time, index) => time - at[index]);
    for (const [index, least] of [80, 120, 180].entries()) assert.ok(pauses[index + 1] >= least, `pauses ${pauses}`);
    await remove('loop');
  });

  test('a slow crash loop is no crash loop by min_uptime, and is slowed down all the same', async () => {
    const { lives } = await begin('slow', () => { setTimeout(() => { console.error('gone again'); process.exit(1); }, 120); }, { min_uptime: '100ms', max_restarts: 2 });
    const waiting = await until('slow', 'a fifth restart that waits', (now) => now.status === 'waiting restart' && now.restarts >= 4);
    assert.match(waiting.reason, /\d+(st|nd|rd|th) consecutive restart; last exit code 1/);
    const { stdout } = await forkful.ok(['list']);
    assert.match(stdout, /slow/);
    const at = lives();
    const pauses = at.slice(1).map((time, index) => time - at[index]);
    assert.ok(pauses[3] >= 120 + 180 - 1, `it does not slow down: ${pauses}`);
    await forkful.ok(['stop', 'slow']);
    assert.equal((await worker('slow')).status, 'stopped');
    const count = lives().length;
    await forkful.ok(['start', 'slow', '--no-wait']);
    await waitUntil('another life', () => lives().length > count);
    await remove('slow');
  });

  test('an app that ends with 0 right after its start is finished', async () => {
    const { code, stdout, lives } = await begin('once', () => { setTimeout(() => process.exit(0), 20); }, { min_uptime: '60s' });
    assert.equal(code, 0);
    assert.match(stdout, /once finished/);
    const end = await until('once', 'its end', ({ status }) => status === 'finished');
    assert.deepEqual([end.exit_code, end.restarts, lives().length], [0, 0, 1]);
    assert.equal((await forkful.jlist('once'))[0].pm2_env.status, 'stopped');
    await remove('once');
  });

  test('an app that ends with 0 and is to be restarted is started again, and slowed down too', async () => {
    const { lives } = await begin('zero', () => { setTimeout(() => process.exit(0), 20); }, { autorestart: true, max_restarts: 4, min_uptime: '5s', restart_delay: 10 });
    const end = await until('zero', 'it to be given up', ({ status }) => status === 'errored');
    assert.equal(end.exit_code, 0);
    assert.match(end.reason, /4 unstable exits .*; last exit code 0/);
    assert.equal(lives().length, 4);
    await remove('zero');
  });

  test('an app that has nothing to do, and is meant to be a job, is done', async () => {
    const { code } = await begin('job', () => { console.log('done'); }, { stop_exit_codes: [0] });
    assert.equal(code, 0);
    const end = await until('job', 'its end', ({ status }) => status === 'finished');
    assert.deepEqual([end.exit_code, end.restarts], [0, 0]);
    await remove('job');
  });

  for (const [signal, number] of [['SIGKILL', 9], ['SIGSEGV', 11], ['SIGTERM', 15]]) {
    test(`a worker killed by ${signal} is started again, and it is said by what it ended`, async () => {
      await begin(signal, () => { setInterval(() => {}, 1000); });
      const { pid } = await until(signal, 'a worker', (now) => now.status === 'online' && now.pid);
      process.kill(pid, signal);
      const next = await until(signal, 'its next life', (now) => now.status === 'online' && now.pid && now.pid !== pid);
      assert.deepEqual([next.restarts, next.exit_code], [1, 128 + number]);
      assert.match(next.last_exit, new RegExp(signal));
      assert.match((await forkful.ok(['describe', signal])).stdout, new RegExp(`last exit.*${signal}`));
      await remove(signal);
    });
  }

  test('an unhandled rejection ends a worker, and its text is the message', async () => {
    const { code, stderr } = await begin('rejection', () => { Promise.reject(new Error('nobody has caught this')); }, { max_restarts: 2, min_uptime: '60s', restart_delay: 10 });
    assert.equal(code, FAILED);
    assert.match(stderr, /nobody has caught this/);
    await until('rejection', 'it to be given up', ({ status }) => status === 'errored');
    const { stdout } = await forkful.ok(['describe', 'rejection']);
    assert.match(stdout, /nobody has caught this/);
    await remove('rejection');
  });

  test('a memory leak ends in Node\'s own abort: counted, said, and started again', async () => {
    await begin('leak', ({ require }) => {
      if (require('fs').existsSync(`${__filename}.once`)) return void setInterval(() => {}, 1000);
      require('fs').writeFileSync(`${__filename}.once`, '');
      setTimeout(() => { for (const kept = []; ;) kept.push(new Array(1000).fill(kept.length)); }, 100);
    }, { node_args: ['--max-old-space-size=24'] });
    const next = await until('leak', 'its next life', (now) => now.status === 'online' && now.restarts === 1);
    assert.match(next.last_exit, /SIGABRT|SIGTRAP|exit code 134/);
    const { stdout } = await forkful.ok(['logs', 'leak', '--nostream', '--err', '--lines', '200']);
    assert.match(stdout, /heap out of memory/);
    await remove('leak');
  });

  test('a leak is replaced before that, when max_memory_restart is set: as often as it leaks, each time with the reason', async () => {
    const { lives } = await begin('limited', () => {
      const kept = [];
      setInterval(() => kept.push(Buffer.alloc(20 << 20, 1)), 20);
    }, { max_memory_restart: '150M' });
    const told = await until('limited', 'a second replacement', () => lives().length >= 3);
    assert.match(told.renewed, /max_memory_restart/);
    assert.notEqual(told.status, 'errored');
    await remove('limited');
  });

  test('what cannot be started at all is given up, and the reason names the program', async () => {
    const file = join(forkful.directory, 'absent.config.json');
    const script = join(forkful.directory, 'absent.sh');
    // Its interpreter does not exist, which only the kernel detects.
    writeFileSync(script, '#!/no/such/interpreter\n', { mode: 0o755 });
    writeFileSync(file, JSON.stringify({ apps: [{ name: 'absent', script, interpreter: 'none', max_restarts: 2, restart_delay: 10 }] }));
    const { code, stderr } = await forkful.fails(['start', file]);
    assert.equal(code, FAILED, stderr);
    assert.match(stderr, /absent\.sh/);
    const end = await until('absent', 'it to be given up', ({ status }) => status === 'errored');
    assert.match(end.reason, /last start failed: cannot execute .*absent\.sh: No such file/);
    await remove('absent');
  });
});
