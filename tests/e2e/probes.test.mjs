// What `forkful run` reports to a container platform: whether it has started, is alive, is ready, and how
// long a stop takes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';

import { printsLike } from './lib/elsewhere.mjs';
import { accepts, freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** An app whose workers return their process ids, and exit on request. */
const SERVER = `
  const http = require('node:http');
  const server = http.createServer((request, response) => {
    if (request.url === '/hang') { for (;;); }
    response.end(String(process.pid));
  });
  server.listen(Number(process.env.PORT));
  process.on('SIGTERM', () => { server.close(); server.closeIdleConnections(); });
`;

/** The arguments of `forkful run` for its script. */
const SCRIPT = ['app.cjs', '--interpreter', nodeBinary(NEWEST), '--listen-timeout', '100s'];
const TWO = [...SCRIPT, '-i', '2'];

/** `forkful run` of the server with probes, when they report that it is ready. */
async function run(t, args, { shutdownDelay = '60s', target = TWO } = {}) {
  const forkful = await sandbox(t);
  const port = await freePort();
  const path = join(forkful.directory, 'probes.sock');
  writeFileSync(join(forkful.directory, 'app.cjs'), SERVER);
  writeFileSync(join(forkful.directory, 'package.json'), JSON.stringify({ scripts: { start: 'node app.cjs' } }));
  const running = forkful.spawn(
    ['run', ...target, '--probes', `unix:${path}`, '--shutdown-delay', shutdownDelay, ...args],
    { env: { PORT: String(port) } },
  );
  const probe = async (name) => {
    const { status, body } = await get(path, `/${name}`);
    return { status, body };
  };
  const statuses = async () => Promise.all(['startupz', 'livez', 'readyz'].map(async (name) => (await probe(name)).status));
  await waitUntil('the probes', () => existsSync(path));
  // All of them: one that is told to end while it begins to listen never sees its server close, and is killed.
  await waitUntil('a ready app', async () => /^app: (\d) of \1 workers can serve\n$/.test((await probe('readyz')).body));
  return { forkful, port, path, running, probe, statuses };
}

test('a run is alive while one worker can serve', async (t) => {
  const { port, running, probe, statuses } = await run(t, ['--no-autorestart']);
  // A worker that has no core for a while is blocked meanwhile.
  const all = async (expected) => waitUntil(`the answers ${expected}`, async () => String(await statuses()) === String(expected));
  await waitUntil('both to serve', async () => (await probe('readyz')).body === 'app: 2 of 2 workers can serve\n');
  await all([200, 200, 200]);
  process.kill(Number((await get(port)).body), 'SIGKILL');
  await waitUntil('the end of it', async () => (await probe('livez')).body === 'app: 1 of 2 workers can serve, 1 not running\n');
  await all([200, 200, 200]);
  process.kill(Number((await get(port)).body), 'SIGKILL');
  assert.equal((await within('the end', running.outcome)).code, 137);
});

test('blocked workers alone make a run neither alive nor ready', async (t) => {
  const { port, path, running, probe, statuses } = await run(t, [], { target: SCRIPT });
  const socket = net.connect({ host: '127.0.0.1', port });
  t.after(() => socket.destroy());
  socket.on('error', () => {});
  socket.write('GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await waitUntil('the block', async () => (await probe('livez')).status === 503);
  assert.deepEqual(await statuses(), [200, 503, 503]);
  assert.equal((await probe('livez')).body, 'app: 0 of 1 workers can serve, 1 blocked\n');
  const { error, stdout: shown } = spawnSync('curl', ['--silent', '-i', '--unix-socket', path, 'http://localhost/livez'], { encoding: 'utf8' });
  if (error) t.diagnostic('without curl, what the page shows is not compared');
  else printsLike('KUBERNETES.md', 'livez', shown, { names: { '0 of 2': '0 of 1', ', 1 waiting to be restarted': '' } });
  assert.equal((await get(path, '/metrics')).status, 404);
  for (const signal of ['SIGTERM', 'SIGINT']) running.child.kill(signal);
  assert.equal((await within('the end', running.outcome)).code, 137);
});

for (const [what, target] of [
  ['a script', TWO],
  ['npm start', ['npm start', '--name', 'app']],
]) {
  test(`a stop of ${what} under load fails no request of a client that asks whether it is ready`, async (t) => {
    const { forkful, port, running, probe, statuses } = await run(t, [], { target });
    // A wrapper counts as ready after a while, whatever becomes of what it starts.
    await waitUntil('a server', () => accepts({ host: '127.0.0.1', port }));
    const load = startLoad({ port, closing: 2, keeping: 2 });
    await waitUntil('some answers', () => load.counts.success > 50);
    running.child.kill('SIGTERM');
    await waitUntil('the end of readiness', async () => (await probe('readyz')).status === 503);
    // The apps serve on: nobody has to be as fast as the signal.
    const before = load.counts.success;
    await waitUntil('more answers', () => {
      assert.ok(load.counts.success > before + 50, JSON.stringify({ before, ...load.counts, unused: load.unused, failures: load.failures }));
      return true;
    });
    assert.deepEqual(await statuses(), [200, 200, 503]);
    const { success, ...failed } = await load.stop();
    assert.ok(success > 100);
    assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 });
    // A second SIGTERM ends the wait. Within 250 ms of the first SIGTERM it would count as the same request.
    const again = setInterval(() => running.child.kill('SIGTERM'), 300);
    t.after(() => clearInterval(again));
    const { code, stderr } = await within('the end', running.outcome);
    assert.equal(code, 137, stderr);
    assert.match(stderr, /note: a stop takes at most 65s \(1m for load balancers, then kill_timeout\)/);
    assert.equal(existsSync(join(forkful.directory, 'probes.sock')), false);
  });
}

test('after the delay the apps are stopped', async (t) => {
  const { running, statuses } = await run(t, [], { shutdownDelay: '1ms' });
  assert.deepEqual(await statuses(), [200, 200, 200]);
  running.child.kill('SIGTERM');
  assert.equal((await within('the end', running.outcome)).code, 0);
});

test('an address that is taken, or none, is refused before anything is started', async (t) => {
  const forkful = await sandbox(t);
  writeFileSync(join(forkful.directory, 'app.cjs'), 'console.log("started")');
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address();
  const taken = await forkful.fails(['run', 'app.cjs', '--probes', String(port)]);
  assert.equal(taken.stdout, '');
  assert.match(taken.stderr, new RegExp(`error: cannot answer probes at http://127\\.0\\.0\\.1:${port}: `));
  const wrong = await forkful.fails(['run', 'app.cjs', '--probes', 'here']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /expected a PORT, `:PORT`, an IP ADDRESS:PORT, or unix:FILE/);
});
