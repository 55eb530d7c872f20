// Wrong use and failures: each ends with a clear message and exit code, and does not affect anything else.
// One app serves all the while; at the end it must be unaffected.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { differentAnswers, freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, FAILED, NO_SUCH_APP, sandbox, WRONG_USE } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

const NODE = ['--interpreter', nodeBinary(NEWEST)];
const MEGABYTE = 1024 * 1024;

describe('wrong use', { concurrency: 2 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  let load;
  let pids;
  before(async () => {
    forkful = await sandbox(null);
    const port = await freePort();
    const app = await forkful.start(({ require }) => {
      require('http').createServer((_q, r) => r.setHeader('Content-Length', 2).end('ok')).listen(Number(process.env.PORT), '127.0.0.1');
    }, { name: 'bystander', env: { PORT: String(port) } });
    pids = (await app.workers()).map(({ pid }) => pid);
    load = startLoad({ port, closing: 1, keeping: 1, expect: /^ok$/ });
  });
  after(async () => {
    try {
      const { success, ...failed } = await load.stop();
      assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
      assert.ok(success > 0);
      const workers = await forkful.jlist('bystander');
      assert.deepEqual(workers.map(({ pid }) => pid), pids);
      assert.deepEqual((await forkful.jlist()).map(({ name }) => name), ['bystander', 'bystander'], 'nothing else is left');
    } finally {
      await forkful.close();
    }
  });

  const write = (name, text) => {
    const path = join(forkful.directory, name);
    writeFileSync(path, text);
    return path;
  };
  const daemonSocket = () => {
    const entry = readdirSync(forkful.home, { withFileTypes: true }).find((file) => file.isSocket());
    return join(forkful.home, entry?.name ?? 'no-socket');
  };

  test('no such file', async () => {
    const { code, stderr } = await forkful.fails(['start', 'nowhere.js']);
    assert.equal(code, WRONG_USE);
    assert.match(stderr, /nowhere\.js/);
  });

  test('a directory', async () => {
    mkdirSync(join(forkful.directory, 'folder'));
    const { code, stderr } = await forkful.fails(['start', './folder']);
    assert.equal(code, WRONG_USE);
    assert.match(stderr, /folder.*directory/s);
  });

  test('a syntax error in the app', async () => {
    const path = write('broken.cjs', 'const = 1;\n');
    const { code, stdout, stderr } = await forkful.fails(['start', path, '--name', 'broken', ...NODE]);
    assert.equal(code, FAILED);
    assert.match(stdout + stderr, /SyntaxError/);
    assert.match(stdout + stderr, /broken\.cjs:1/);
    await forkful.ok(['delete', 'broken']);
  });

  test('a program that cannot be executed', async () => {
    const { code, stdout, stderr } = await forkful.fails(['start', write('plain.cjs', ''), '--name', 'norun', '--interpreter', join(forkful.directory, 'no-node')]);
    assert.ok([FAILED, WRONG_USE].includes(code), String(code));
    assert.match(stdout + stderr, /no-node/);
    if ((await forkful.jlist('norun')).length > 0) await forkful.ok(['delete', 'norun']);
  });

  for (const wish of ['0.5', 'many', '', '5000', '1e3']) {
    test(`-i ${wish || '(empty)'}`, async () => {
      const { code, stderr } = await forkful.fails(['start', write('never.cjs', ''), '-i', wish, '--name', 'never']);
      assert.equal(code, WRONG_USE);
      assert.match(stderr, /instances|workers/i);
    });
  }

  test('-i -100 means one worker', async () => {
    await forkful.ok(['start', write('one.cjs', 'setInterval(() => {}, 1000)'), '-i', '-100', '--name', 'least', '--no-wait', ...NODE]);
    assert.equal((await forkful.jlist('least')).length, 1);
    await forkful.ok(['delete', 'least']);
  });

  test('more workers than cores: a warning with the reason', async () => {
    const { stdout, stderr } = await forkful.ok(['start', write('wide.cjs', 'setInterval(() => {}, 1000)'), '-i', '64', '--name', 'wide', '--no-wait', ...NODE]);
    assert.match(stdout + stderr, /64/);
    assert.match(stderr, /core|CPU/i);
    await forkful.ok(['delete', 'wide']);
  });

  for (const verb of ['stop', 'restart', 'reload', 'delete', 'describe', 'flush']) {
    test(`${verb} of an unknown name`, async () => {
      const { code, stderr } = await forkful.fails([verb, 'unknown']);
      assert.equal(code, NO_SUCH_APP);
      assert.match(stderr, /unknown/);
    });
  }

  test('a name that is taken', async () => {
    const { code, stderr } = await forkful.fails(['start', write('other.cjs', 'setInterval(() => {}, 1000)'), '--name', 'bystander', ...NODE]);
    assert.ok(code === FAILED || code === WRONG_USE);
    assert.match(stderr, /bystander/);
  });

  for (const name of ['all', '12', '-x', '/b', '.hidden', 'new\nline', 'x'.repeat(200)]) {
    test(`the name ${JSON.stringify(name.slice(0, 12))}`, async () => {
      const { code } = await forkful.fails(['start', write('named.cjs', ''), `--name=${name}`, ...NODE]);
      assert.equal(code, WRONG_USE);
    });
  }

  test('an unknown option and an unknown command', async () => {
    assert.equal((await forkful.fails(['start', '--instnaces', '2'])).code, WRONG_USE);
    assert.equal((await forkful.fails(['strat'])).code, WRONG_USE);
  });

  const CONFIGS = {
    'broken.config.json': ['{ "apps": [ { "name": ', /broken\.config\.json/],
    'wrong.config.json': ['{ "apps": [ { "name": "w", "script": "x.js", "instances": "lots" } ] }', /instances[^]*lots/],
    'throws.config.cjs': ['throw new Error("no secrets here")', /no secrets here/],
    'typo.config.yaml': ['apps:\n  - name: t\n    script: [1, 2]\n', /script/],
    'broken.config.toml': ['[[apps]\nname = 1', /broken\.config\.toml/],
  };
  for (const [file, [text, message]] of Object.entries(CONFIGS)) {
    test(`the config ${file}`, async () => {
      const { code, stderr } = await forkful.fails(['start', write(file, text)]);
      assert.equal(code, WRONG_USE);
      assert.match(stderr, message);
    });
  }

  test('garbage on the control socket', async () => {
    const path = daemonSocket();
    for (const garbage of [Buffer.alloc(MEGABYTE, 0xff), Buffer.from('GET / HTTP/1.1\r\n\r\n'), Buffer.from('POST /v1/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{"a":')]) {
      const socket = net.connect(path);
      socket.on('error', () => {});
      const closed = new Promise((resolve) => { socket.once('close', resolve); });
      socket.resume();
      socket.end(garbage);
      await within('an end', closed);
    }
    for (const [method, url, body] of [['POST', '/v1/apps', '{"apps":[{"name":1}],"wait":true}'], ['POST', '/v1/apps', '[]'], ['GET', '/v1/nothing', ''], ['DELETE', '/v1/apps', ''], ['POST', '/v1/actions/explode', '{"targets":["all"]}']]) {
      const status = await new Promise((resolve, reject) => {
        const socket = net.connect(path, () => socket.write(`${method} ${url} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`));
        let text = '';
        socket.setEncoding('utf8').on('data', (part) => { text += part; });
        socket.on('error', reject);
        socket.on('end', () => resolve(Number(text.slice(9, 12))));
      });
      assert.ok(status >= 400 && status < 500, `${method} ${url}: ${status}`);
    }
    await forkful.ok(['ping']);
    // Connections that say nothing do not keep others out.
    const sockets = Array.from({ length: 200 }, () => net.connect(daemonSocket()));
    for (const socket of sockets) socket.on('error', () => {});
    await forkful.ok(['ping']);
    for (const socket of sockets) socket.destroy();
  });

  test('a 10 MB line on stdout arrives whole, between its neighbours', async () => {
    const script = forkful.script(({ report }) => {
      setInterval(() => {}, 1000);
      process.stdout.write(`before\n${'x'.repeat(10 * 1024 * 1024)}\nafter\n`, () => report({ written: true }));
    });
    const config = join(forkful.directory, 'long.json');
    // One file: by default the line would be set aside when the next one comes, because with it 10 MB are full.
    writeFileSync(config, JSON.stringify({ apps: [{ name: 'long', script, interpreter: nodeBinary(forkful.major), log_rotate: false }] }));
    await forkful.ok(['start', config, '--no-wait']);
    const [worker] = await waitUntil('the worker', () => { const living = forkful.control.living(script); return living.length === 1 && living; });
    await worker.reported('written');
    const [{ pm2_env: { pm_out_log_path: path } }] = await forkful.jlist('long');
    await waitUntil('the last line', () => readFileSync(path, 'latin1').endsWith('after\n'));
    const lines = readFileSync(path, 'latin1').split('\n');
    assert.deepEqual(lines.map(({ length }) => length), [6, 10 * MEGABYTE, 5, 0]);
    assert.deepEqual([lines[0], lines[2]], ['before', 'after']);
    await forkful.ok(['delete', 'long']);
  });

  test('a 64 MB message on the IPC channel is taken, and the worker goes on', async () => {
    const app = await forkful.start(({ require, report }) => {
      require('http').createServer((_q, r) => r.end('here')).listen(0, '127.0.0.1', function listening() { report({ port: this.address().port }); });
    }, { name: 'heavy', instances: 1 });
    const [worker] = await app.workers(1);
    const { port } = await worker.reported('port');
    await worker.run((bytes) => new Promise((resolve) => { process.send('x'.repeat(bytes), () => resolve(true)); }), 64 * MEGABYTE);
    assert.equal((await get(port)).body, 'here');
    assert.equal(worker.gone, false);
    await forkful.ok(['delete', 'heavy']);
  });

  test('garbage on a worker\'s IPC channel harms only that worker', async () => {
    const app = await forkful.start(({ report }) => {
      setInterval(() => {}, 1000);
      report({ ready: true });
    }, { name: 'garbled', instances: 1, options: ['--no-wait', '--no-autorestart'] });
    const [worker] = await app.workers(1);
    await worker.reported('ready');
    worker.order(() => { require('fs').writeSync(3, '{"cmd":"NODE_CLUSTER","act":\n\u0000\n[[[[\n{"cmd":"NODE_CLUSTER","act":"close"}\n{"cmd":"NODE_HANDLE_ACK"}\n{"cmd":"NODE_HANDLE"}\n{"cmd":"NODE_CLUSTER","ack":99,"accepted":true}\n'); });
    // It is that worker's own harm: its channel may be closed, and Node.js then ends it, before it answers.
    await worker.run(() => true).catch(({ message }) => assert.match(message, /has ended/));
    await forkful.ok(['ping']);
    await forkful.ok(['delete', 'garbled']);
  });

  test('a full disk for logs stops no app, and the lost lines are counted', async () => {
    const app = await forkful.start(({ report }) => {
      setInterval(() => console.log('y'.repeat(10_000)), 1);
      report({ ready: true });
    }, { name: 'full', instances: 1, options: ['--no-wait', '--output', '/dev/full'] });
    const [worker] = await app.workers(1);
    await worker.reported('ready');
    await waitUntil('a count', async () => {
      const { stdout } = await forkful.ok(['describe', 'full', '--json']);
      return JSON.parse(stdout).apps[0].workers[0].dropped_log_lines > 0;
    });
    assert.equal(await worker.run(() => process.stdout.writableLength < 1e6), true, 'the app is not held up');
    await forkful.ok(['delete', 'full']);
  });

  test('two apps at once from two commands, and one name from both', async () => {
    const script = write('pair.cjs', 'setInterval(() => {}, 1000)');
    const both = await Promise.all(['left', 'right'].map((name) => forkful.run(['start', script, '--name', name, '--no-wait', ...NODE])));
    assert.deepEqual(both.map(({ code }) => code), [0, 0]);
    const same = await Promise.all([1, 2].map(() => forkful.run(['start', script, '--name', 'same', '--no-wait', ...NODE])));
    assert.deepEqual(same.map(({ code }) => code === 0).sort(), [false, true]);
    await forkful.ok(['delete', 'left', 'right', 'same']);
  });
});

describe('a home in a bad state', { concurrency: 2 }, () => {
  test('a stale socket and lock of a daemon that was killed are replaced', async (t) => {
    const forkful = await sandbox(t);
    const port = await freePort();
    const script = forkful.script(({ require }) => {
      require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
    });
    const start = () => forkful.ok(['start', script, '--name', 'app', '-i', '2', ...NODE], { env: { PORT: String(port) } });
    await start();
    const workers = (await forkful.jlist('app')).map(({ pid }) => pid);
    await forkful.killDaemon();
    // Its workers end with their channel, so that the port is free for the next ones.
    await waitUntil('the workers to end', () => workers.every((pid) => !existsSync(`/proc/${pid}`)));
    assert.notEqual((await forkful.run(['ping'])).code, 0);
    await start();
    assert.equal((await differentAnswers(port)).length, 2);
  });

  test("an app's unix socket of a daemon that was killed is in nobody's way, another's file is", async (t) => {
    const forkful = await sandbox(t);
    const path = join(forkful.directory, 'app.sock');
    const script = forkful.script(({ require }) => {
      require('http').createServer((_q, r) => r.end(String(process.pid))).listen(process.env.SOCKET);
    });
    const start = (name) => ['start', script, '--name', name, '-i', '2', ...NODE, '--max-restarts', '0', '--listen-timeout', '100s'];
    const env = { SOCKET: path };
    await forkful.ok(start('app'), { env });
    const workers = (await forkful.jlist('app')).map(({ pid }) => pid);
    await forkful.killDaemon();
    await waitUntil('the workers to end', () => workers.every((pid) => !existsSync(`/proc/${pid}`)));
    assert.ok(existsSync(path), 'the kernel removes no socket file');
    await forkful.ok(start('app'), { env });
    assert.equal((await differentAnswers(path)).length, 2);
    const file = join(forkful.directory, 'precious');
    writeFileSync(file, 'text');
    const { stdout, stderr } = await forkful.fails(start('other'), { env: { SOCKET: file } });
    assert.match(stdout + stderr, /EADDRINUSE/);
    assert.equal(readFileSync(file, 'utf8'), 'text');
  });

  test('a home that cannot be written', { skip: process.getuid?.() !== 0 && 'needs to become another user' }, async (t) => {
    const forkful = await sandbox(t);
    const script = forkful.script(() => {});
    const home = join(forkful.directory, 'sealed');
    mkdirSync(home, { mode: 0o500 });
    chmodSync(forkful.directory, 0o755);
    const child = spawn('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', binary(), 'start', script], { env: { ...forkful.env, FORKFUL_HOME: home }, cwd: '/' });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
    const [code] = await within('the end', once(child, 'exit'));
    assert.equal(code, WRONG_USE);
    assert.match(stderr, /sealed/);
  });
});
