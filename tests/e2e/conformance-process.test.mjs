// What a worker may do with its process, its channel and `cluster.worker`, on each Node version.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { differentAnswers, freePort } from './lib/http.mjs';
import { FAILED } from './lib/sandbox.mjs';
import { nodeBinary } from './lib/nodes.mjs';
import { onEachNode } from './lib/suites.mjs';
import { waitUntil } from './lib/wait.mjs';

/** An app on `PORT` that answers with its pid. */
function server({ require }) {
  require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
}

/** Ways for a worker to leave; each worker is replaced, as after any exit. */
const DEPARTURES = {
  'cluster.worker.disconnect': () => { require('cluster').worker.disconnect(); },
  'cluster.worker.kill': () => { require('cluster').worker.kill(); },
  'cluster.worker.destroy': () => { require('cluster').worker.destroy(); },
  'process.disconnect': () => { process.disconnect(); },
  'process.exit': () => { process.exit(0); },
};

onEachNode('process', (forkful, major) => {
  for (const [name, leave] of Object.entries(DEPARTURES)) {
    test(`a worker that calls ${name}() ends, and another takes its place`, async () => {
      const port = await freePort();
      const app = await forkful.start(server, { name, env: { PORT: String(port) } });
      const [first, second] = await app.workers();
      first.order(leave);
      await waitUntil('the worker to end', () => first.gone);
      const [replacement] = await app.workers();
      assert.equal(replacement.slot, first.slot);
      assert.deepEqual(await differentAnswers(port), [replacement, second].map(({ pid }) => String(pid)).sort());
      await forkful.ok(['delete', name]);
    });
  }

  test('with --wait-ready, start waits for process.send(\'ready\')', async () => {
    const port = await freePort();
    const go = join(forkful.directory, `go-${port}`);
    const script = forkful.script(({ require, report }) => {
      const fs = require('fs');
      require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1', () => {
        report({ listening: true });
        const ready = setInterval(() => {
          if (!fs.existsSync(process.env.GO)) return;
          clearInterval(ready);
          process.send('ready');
        }, 5);
      });
    });
    const starting = forkful.spawn(
      ['start', script, '--name', 'ready', '-i', '2', '--interpreter', nodeBinary(major), '--wait-ready', '--listen-timeout', '100s'],
      { env: { PORT: String(port), GO: go } },
    );
    await waitUntil('a worker to listen', () => forkful.control.living(script).some((w) => w.reports.length > 0));
    assert.equal(starting.child.exitCode, null);
    assert.deepEqual([...new Set((await forkful.jlist('ready')).map((w) => w.pm2_env.status))], ['launching']);
    writeFileSync(go, '');
    assert.equal((await starting.outcome).code, 0);
    assert.deepEqual((await forkful.jlist('ready')).map((w) => w.pm2_env.status), ['online', 'online']);
    await forkful.ok(['delete', 'ready']);
  });

  test('an app that never says ready fails its start, which says so', async () => {
    const script = forkful.script(({ require }) => {
      console.error('looking for the database');
      require('http').createServer().listen(0, '127.0.0.1');
    });
    // On a busy machine Node.js itself may need longer than the timeout: then the app has said nothing yet.
    for (let seconds = 1, said = false; !said; seconds *= 2) {
      const { code, stderr } = await forkful.fails(
        ['start', script, '--name', 'unready', '--interpreter', nodeBinary(major), '--wait-ready', '--listen-timeout', `${seconds}s`]);
      assert.equal(code, FAILED);
      assert.match(stderr, new RegExp(`was not ready within ${seconds} s`));
      said = stderr.includes('looking for the database');
      assert.ok(said || seconds < 60, stderr);
      await forkful.ok(['delete', 'unready']);
    }
  });

  test('messages and handles that a worker sends do not stall its channel', async () => {
    const port = await freePort();
    const app = await forkful.start(server, { name: 'sends', env: { PORT: String(port) } });
    const [worker] = await app.workers();
    const sent = await worker.run(async () => {
      const net = require('net');
      const { once } = require('events');
      const listener = net.createServer().listen(0, '127.0.0.1');
      await once(listener, 'listening');
      const send = (message, handle) => new Promise((resolve) => { process.send(message, handle, {}, (error) => resolve(error && error.code)); });
      const results = [await send({ type: 'process:msg', data: { a: 1 } })];
      for (let n = 0; n < 3; n += 1) {
        const accepted = once(listener, 'connection');
        const client = net.connect(listener.address().port, '127.0.0.1');
        const [socket] = await accepted;
        // One of them with a message that is longer than what a primary keeps of a line.
        results.push(await send(n === 1 ? 'x'.repeat(2 << 20) : { n }, socket));
        client.destroy();
      }
      results.push(await send('x'.repeat(200_000)), await send({ cmd: 'NODE', a: 1 }), await send(null));
      const open = await new Promise((resolve) => { listener.getConnections((error, count) => resolve(error ? error.code : count)); });
      // It waits for the connections that were sent away.
      await new Promise((resolve) => { listener.close(resolve); });
      // A listen asks the primary, behind all that was sent before.
      const late = net.createServer().listen(0, '127.0.0.1');
      await once(late, 'listening');
      return { results, open, late: late.address().port > 0 };
    });
    assert.deepEqual(sent, { results: [null, null, null, null, null, null, null], open: 0, late: true });
    await differentAnswers(port);
    await forkful.ok(['delete', 'sends']);
  });

  for (const way of ['--node-args', 'NODE_OPTIONS']) {
    test(`each worker has an inspector of its own, asked for by ${way}`, async () => {
      const inspect = `--inspect=127.0.0.1:${await freePort()}`;
      const name = `inspect${way}`;
      const app = await forkful.start(({ require, report }) => {
        require('http').createServer().listen(0, '127.0.0.1', () => report({ inspector: require('inspector').url() ?? null }));
      }, { name, ...(way === 'NODE_OPTIONS' ? { env: { NODE_OPTIONS: inspect } } : { options: [way, inspect] }) });
      const workers = await app.workers();
      const urls = await Promise.all(workers.map(async (worker) => (await worker.reported('inspector')).inspector));
      for (const url of urls) assert.match(String(url), /^ws:\/\/127\.0\.0\.1:\d+\//);
      assert.equal(new Set(urls.map((url) => new URL(url).port)).size, 2, urls.join());
      await forkful.ok(['delete', name]);
    });
  }

  test('an app may fork workers of its own, which are none of ours', async () => {
    const child = join(forkful.directory, 'child.cjs');
    writeFileSync(child, `
      const server = require('http').createServer((q, r) => r.end('child ' + process.pid));
      server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port, isWorker: require('cluster').isWorker,
        execArgv: process.execArgv, leaked: Object.keys(process.env).filter((key) => /^NODE_(CHANNEL|UNIQUE)/.test(key)) }));
      process.on('message', (m) => { if (m === 'end') process.disconnect(), server.close(); });`);
    const app = await forkful.start(({ require, report }) => {
      require('http').createServer((_q, r) => r.end(String(process.pid))).listen(0, '127.0.0.1');
      const forked = require('child_process').fork(process.env.CHILD);
      forked.on('message', (message) => {
        require('http').get({ port: message.port, host: '127.0.0.1', agent: false }, (response) => {
          response.setEncoding('utf8').on('data', (body) => {
            report({ forked: message, body: body.replace(forked.pid, 'PID') });
            forked.send('end');
          });
        });
      });
      forked.on('exit', (code) => report({ exit: code }));
    }, { name: 'forks', env: { CHILD: child } });
    for (const worker of await app.workers()) {
      const { forked, body } = await worker.reported('forked');
      assert.deepEqual({ ...forked, port: 0 }, { port: 0, isWorker: false, execArgv: [], leaked: [] });
      assert.equal(body, 'child PID');
      assert.equal((await worker.reported('exit')).exit, 0);
    }
    await forkful.ok(['delete', 'forks']);
  });

  test('a script that ends stays ended when nothing restarts it', async () => {
    const app = forkful.script(({ report }) => {
      report({ ran: true });
      // Node holds the channel of a cluster worker, so that a script which only computes would stay.
      process.channel.unref();
    });
    await forkful.run(['start', app, '--name', 'ends', '--interpreter', nodeBinary(major), '--no-autorestart']);
    const [worker] = await waitUntil('it to end', async () => {
      const workers = await forkful.jlist('ends');
      return workers[0].pm2_env.status === 'stopped' && workers;
    });
    assert.equal(worker.pid, 0);
    assert.equal(forkful.control.seen.filter(({ script }) => script === app).length, 1);
    await forkful.ok(['delete', 'ends']);
  });

  test('the environment is the caller\'s, and --env adds to it', async () => {
    const app = await forkful.start(({ require, report }) => {
      require('http').createServer().listen(0, '127.0.0.1');
      const { FROM_CALLER: caller, FROM_OPTION: option, name } = process.env;
      report({ caller, option, name: name ?? null, cwd: process.cwd(), stdin: require('fs').fstatSync(0).isCharacterDevice() });
    }, { name: 'environment', env: { FROM_CALLER: 'a b' }, options: ['--env', 'FROM_OPTION=c=d'] });
    for (const worker of await app.workers()) {
      const { caller, option, cwd } = await worker.reported('caller');
      assert.deepEqual({ caller, option, cwd }, { caller: 'a b', option: 'c=d', cwd: forkful.directory });
    }
    await forkful.ok(['delete', 'environment']);
  });

  test('no descriptor of the daemon reaches a worker, none of a worker its children', async () => {
    const app = await forkful.start(({ require, report }) => {
      const { readdirSync, readlinkSync } = require('fs');
      const of = (pid) => readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
        try { return [`${fd} ${readlinkSync(`/proc/${pid}/fd/${fd}`)}`]; } catch { return []; }
      });
      const atStart = of('self').filter((line) => line.includes('socket:')).length;
      require('http').createServer().listen(0, '127.0.0.1', () => {
        const child = require('child_process').spawn('sleep', ['60'], { stdio: 'ignore' });
        child.once('spawn', () => {
          report({ atStart, child: of(child.pid).filter((line) => /(socket|pipe|anon_inode):/.test(line)) });
          child.kill('SIGKILL');
        });
      });
    }, { name: 'descriptors' });
    for (const worker of await app.workers()) {
      const { atStart, child } = await worker.reported('child');
      assert.deepEqual(child, []);
      // Its channel, and the test's own line.
      assert.ok(atStart <= 2, `${atStart} sockets at the start`);
    }
    await forkful.ok(['delete', 'descriptors']);
  });
});
