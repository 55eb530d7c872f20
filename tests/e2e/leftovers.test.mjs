// A stop leaves no process and no port, whatever an app does. Each app here starts a server in a way that
// process managers are known to lose, and the test checks the processes and the port, not only the messages.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { accepts, freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NODE = nodeBinary(NEWEST);

/** A server that ignores every signal that can be ignored. */
const SERVER = `
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) process.on(signal, () => {});
require('http').createServer((_question, response) => response.end(String(process.pid))).listen(Number(process.argv[2]), '127.0.0.1');
`;

/** Shell texts: how the app starts the server, which is \`$NODE $SERVER $PORT\`. */
const WAYS = {
  'the app itself ignores every signal': 'exec "$NODE" "$SERVER" "$PORT"',
  'a shell that waits for it': '"$NODE" "$SERVER" "$PORT"; exit 0',
  'a pipeline of a shell': '"$NODE" "$SERVER" "$PORT" | cat; exit 0',
  'a shell in a shell, in the background': 'sh -c \'"$NODE" "$SERVER" "$PORT" & wait\' & wait',
  'a grandchild with a session of its own': 'sh -c \'setsid "$NODE" "$SERVER" "$PORT" & wait\'; wait',
  'a double fork, and the app stays': '(setsid "$NODE" "$SERVER" "$PORT" >/dev/null 2>&1 &); exec sleep 1000',
  'a double fork that keeps the app\'s output open': '(setsid "$NODE" "$SERVER" "$PORT" &); exec sleep 1000',
  'nohup in the background': 'nohup "$NODE" "$SERVER" "$PORT" >/dev/null 2>&1 & exec sleep 1000',
  'a double fork without the environment': '(env -i setsid "$NODE" "$SERVER" "$PORT" >/dev/null 2>&1 &); exec sleep 1000',
};

describe('a stop leaves nothing', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  let serverPath = '';
  before(async () => {
    forkful = await sandbox(null);
    serverPath = join(forkful.directory, 'server.cjs');
    writeFileSync(serverPath, SERVER);
  });
  after(() => forkful.close());

  /** The processes that serve on the test's port, by their command line. */
  const serving = (port) => forkful.processes(`${serverPath} ${port}`);

  const nothingIsLeft = async (port, what) => {
    assert.deepEqual(serving(port), [], what);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false, what);
    // Not only does nothing answer: the port can be bound.
    const server = net.createServer().listen(port, '127.0.0.1');
    await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));
    await new Promise((resolve) => server.close(resolve));
  };

  const answers = (port, other) => waitUntil(`an answer on ${port}`, async () => {
    const { body } = await get(port);
    return body !== other && body;
  });

  /** Starts an app that starts a server on the port, and returns when it answers. */
  async function started(name, attributes) {
    const port = await freePort();
    const file = join(forkful.directory, `${name}.config.json`);
    const env = { PORT: String(port), NODE, SERVER: serverPath };
    writeFileSync(file, JSON.stringify({ apps: [{ name, exec_mode: 'fork', kill_timeout: 300, env, ...attributes }] }));
    await forkful.ok(['start', file, '--no-wait']);
    const pid = await answers(port);
    return { name, port, pid };
  }

  for (const [number, [what, text]] of Object.entries(WAYS).entries()) {
    test(what, async () => {
      const script = join(forkful.directory, `way-${number}.sh`);
      writeFileSync(script, `${text}\n`);
      const { name, port, pid } = await started(`way-${number}`, { script, interpreter: 'sh' });
      await forkful.ok(['stop', name]);
      await nothingIsLeft(port, 'after stop');
      await forkful.ok(['start', name, '--no-wait']);
      const second = await answers(port, pid);
      await forkful.ok(['restart', name, '--no-wait']);
      await answers(port, second);
      await forkful.ok(['delete', name]);
      await nothingIsLeft(port, 'after delete');
    });
  }

  test('npm start, whose script is a shell with a server in it', async () => {
    const directory = join(forkful.directory, 'package');
    mkdirSync(directory);
    const scripts = { start: 'echo starting && "$NODE" "$SERVER" "$PORT"' };
    writeFileSync(join(directory, 'package.json'), JSON.stringify({ name: 'package', scripts }));
    const { name, port } = await started('npm', { script: 'npm start', cwd: directory });
    assert.ok(forkful.processes(`${serverPath} ${port}`).length > 0);
    await forkful.ok(['stop', name]);
    await nothingIsLeft(port, 'after stop');
    const { stdout } = await forkful.ok(['logs', name, '--nostream', '--raw', '--out']);
    assert.match(stdout, /starting/);
    await forkful.ok(['delete', name]);
  });

  test('a command line that holds several commands', async () => {
    const { name, port } = await started('line', { script: 'cd / && "$NODE" "$SERVER" "$PORT"; sleep 1000' });
    await forkful.ok(['stop', name]);
    await nothingIsLeft(port, 'after stop');
    await forkful.ok(['delete', name]);
  });

  test('an app that forks faster than one can look', async () => {
    const script = join(forkful.directory, 'forks.sh');
    writeFileSync(script, '"$NODE" "$SERVER" "$PORT" &\ntrap "" INT TERM\nwhile :; do (sleep 0.05 & sleep 0.05 &) ; sleep 0.01; done\n');
    const { name, port } = await started('forks', { script, interpreter: 'sh', env_mark: {} });
    await forkful.ok(['stop', name]);
    await nothingIsLeft(port, 'after stop');
    await waitUntil('its short-lived children to be gone', () => forkful.processes(script).length === 0);
    await forkful.ok(['delete', name]);
  });

  test('an app that ends by itself takes what it started with it', async () => {
    const script = join(forkful.directory, 'ends.sh');
    writeFileSync(script, '(setsid "$NODE" "$SERVER" "$PORT" >/dev/null 2>&1 &)\nwhile [ ! -e "$END" ]; do sleep 0.05; done\n');
    const end = join(forkful.directory, 'end');
    const port = await freePort();
    const env = { PORT: String(port), NODE, SERVER: serverPath, END: end };
    const file = join(forkful.directory, 'ends.config.json');
    writeFileSync(file, JSON.stringify({ apps: [{ name: 'ends', script, interpreter: 'sh', autorestart: false, env }] }));
    await forkful.ok(['start', file, '--no-wait']);
    await answers(port);
    writeFileSync(end, '');
    await waitUntil('the app to be stopped', async () => (await forkful.jlist('ends'))[0].pm2_env.status === 'stopped');
    await nothingIsLeft(port, 'after its end');
    await forkful.ok(['delete', 'ends']);
  });
});

describe('the end of the daemon', () => {
  const SCRIPT = '(setsid "$NODE" "$SERVER" "$PORT" >/dev/null 2>&1 &)\nexec sleep 1000\n';

  const prepared = async (t, text = SCRIPT) => {
    const forkful = await sandbox(t);
    const serverPath = join(forkful.directory, 'server.cjs');
    const script = join(forkful.directory, 'app.sh');
    writeFileSync(serverPath, SERVER);
    writeFileSync(script, text);
    const port = await freePort();
    const env = { PORT: String(port), NODE, SERVER: serverPath };
    const file = join(forkful.directory, 'forkful.config.json');
    writeFileSync(file, JSON.stringify({ apps: [{ name: 'app', script, interpreter: 'sh', kill_timeout: 300, env }] }));
    await forkful.ok(['start', file, '--no-wait']);
    const first = await waitUntil('an answer', async () => (await get(port)).body);
    return { forkful, port, first, serving: () => forkful.processes(`${serverPath} ${port}`) };
  };

  test('kill leaves nothing', async (t) => {
    const { forkful, port, serving } = await prepared(t);
    await forkful.ok(['kill']);
    assert.deepEqual(serving(), []);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  });

  test('SIGTERM leaves nothing', async (t) => {
    const { forkful, port, serving } = await prepared(t);
    const pid = await forkful.daemonPid();
    process.kill(pid, 'SIGTERM');
    await waitUntil('the daemon to end', () => forkful.processes('daemon').every((one) => one.pid !== pid));
    assert.deepEqual(serving(), []);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  });

  test('what a killed daemon leaves behind is gone before its apps come back', async (t) => {
    const { forkful, port, first, serving } = await prepared(t);
    await forkful.killDaemon();
    await forkful.ok(['resurrect']);
    const second = await waitUntil('another answer', async () => { const { body } = await get(port); return body !== first && body; });
    assert.deepEqual(serving().map(({ pid }) => String(pid)), [second]);
    assert.equal(readFileSync(`/proc/${second}/cmdline`, 'latin1').includes(String(port)), true);
  });

  for (const how of ['', 'env -i ']) {
    test(`kill after a killed daemon ends what that has left behind${how && ', without an environment, too'}`, async (t) => {
      const { forkful, port, serving } = await prepared(t, SCRIPT.replace('(setsid', `(${how}setsid`));
      await forkful.killDaemon();
      const { stdout, stderr } = await forkful.ok(['kill']);
      assert.match(stdout + stderr, /no daemon is running; the last one did not shut down properly, and \d+ process(es)? of its apps (was|were) ended/);
      assert.deepEqual(serving(), []);
      assert.equal(await accepts({ host: '127.0.0.1', port }), false);
      assert.match((await forkful.ok(['kill'])).stdout, /^no daemon is running$/m);
    });
  }

  test('a daemon that a worker has started is none of its processes', async (t) => {
    // Before the sandbox's own cleanup: hooks run in order.
    let endOther = async () => {};
    t.after(() => endOther());
    const forkful = await sandbox(t);
    const other = join(forkful.directory, 'other');
    endOther = () => forkful.run(['kill'], { env: { FORKFUL_HOME: other } });
    const script = join(forkful.directory, 'starts.sh');
    const begun = join(forkful.directory, 'begun');
    writeFileSync(script, `FORKFUL_HOME=${other} ${binary()} start "sleep 1000" --name inner && touch ${begun}\nexec sleep 1000\n`);
    const file = join(forkful.directory, 'forkful.config.json');
    writeFileSync(file, JSON.stringify({ apps: [{ name: 'outer', script, interpreter: 'sh' }] }));
    await forkful.ok(['start', file, '--no-wait']);
    const inner = async () => JSON.parse((await forkful.run(['jlist'], { env: { FORKFUL_HOME: other } })).stdout)[0];
    const { pid } = await waitUntil('the inner app', async () => { const app = await inner(); return app?.pid > 0 && app; });
    await waitUntil('the command that started it to be over', () => existsSync(begun));
    await forkful.ok(['stop', 'outer']);
    assert.equal((await inner()).pid, pid);
  });
});
