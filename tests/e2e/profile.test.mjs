// Profiles with a real daemon: the hottest function is named and drawn, a heap snapshot is whole, files are their owner's alone, and a worker that ends,
// is silent or talks nonsense gives an error and harms nothing.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { printsLike } from './lib/elsewhere.mjs';
import { sandbox, WRONG_USE } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Burns CPU time in one function in the worker of slot 1, and has a text in its heap. */
function app({ require, report }) {
  const held = ['a text of the heap'];
  function burnHot(ms) {
    const end = performance.now() + ms;
    let sum = held.length;
    while (performance.now() < end) for (let at = 0; at < 10_000; at += 1) sum += at % 7;
    return sum;
  }
  require('http').createServer((_, response) => response.end('ok')).listen(process.env.SOCKET, () => report({ ready: true }));
  // Seldom enough for the tests beside it.
  if (process.env.NODE_APP_INSTANCE === '1') setInterval(() => burnHot(25), 100);
}

/** Writes nonsense into the stream of a profile before the agent can write. */
function liar({ require }) {
  process.prependListener('internalMessage', (message, handle) => {
    if (message?.act === 'profile') require('fs').writeSync(handle.fd, 'HTTP/1.1 200 OK');
  });
  require('http').createServer((_, response) => response.end('ok')).listen(process.env.SOCKET);
}

const modeOf = (path) => statSync(path).mode & 0o777;

test('the doctor names the hottest function of the busiest worker, and writes its profile', async (t) => {
  const forkful = await sandbox(t);
  await forkful.start(app, { name: 'api', instances: 2, env: { SOCKET: join(forkful.directory, 'app.sock') } });
  await waitUntil('it is known which worker is busy', async () => {
    const [{ workers: [, second] }] = JSON.parse((await forkful.ok(['describe', 'api', '--json'])).stdout).apps;
    return second.metrics.event_loop_utilization > 0.15;
  });
  const { stdout } = await forkful.ok(['doctor', 'api', '--profile', '--for', '10s', '--out', forkful.directory, '--json']);
  const { profile } = JSON.parse(stdout);
  assert.equal(profile.worker, 1);
  const [first] = profile.functions;
  assert.match(first.function, /^burnHot \(app-1\.cjs:\d+\)$/);
  assert.equal(first.origin, 'app');
  assert.ok(first.share > 0.5, JSON.stringify(profile.functions));
  assert.ok(profile.samples > 100, String(profile.samples));
  const { nodes } = JSON.parse(readFileSync(profile.files.profile, 'utf8'));
  assert.ok(nodes.some(({ callFrame }) => callFrame.functionName === 'burnHot'));
  assert.match(readFileSync(profile.files.page, 'utf8'), /<td>burnHot<\/td><td>app-1\.cjs:\d+<\/td><td>the app<\/td>/);
  assert.deepEqual([modeOf(profile.files.profile), modeOf(profile.files.page)], [0o600, 0o600]);
  // For people, and of a worker that is named.
  const shown = (await forkful.ok(['doctor', '1', '--profile', '--for', '10s', '--out', forkful.directory])).stdout;
  assert.match(shown, /^Hottest functions of worker 1 \(10 s profiled, \d+ % of it idle\)$/m);
  assert.match(shown, /^flame graph: .*\/api-1-\d{8}-\d{6}\.html$/m);
  const names = { 'render (views/page.js:': 'burnHot (app-1.cjs:', '/srv/api': forkful.directory };
  printsLike('PROFILES.md', 'Hottest functions', shown, { names, without: /login|library/ });
  // The verdict itself depends on the machine.
  printsLike('DOCTOR.md', 'web is limited', shown, { names: { 'Evidence (mean of': 'Evidence …' }, without: /^(web is|JavaScript uses|does as)|event loop (busy|time)|main thread|Run 4|to expect|requests per|cpu-short/ });
});

test('a heap snapshot goes into a file that takes no other one\'s place', async (t) => {
  const forkful = await sandbox(t);
  await forkful.start(app, { name: 'api', instances: 2, env: { SOCKET: join(forkful.directory, 'app.sock') } });
  const file = join(forkful.directory, 'a.heapsnapshot');
  const { stdout } = await forkful.ok(['heap', '1', '--output', file, '--json']);
  const reply = JSON.parse(stdout);
  assert.deepEqual([reply.worker, reply.file, reply.bytes], [1, file, statSync(file).size]);
  const { snapshot, nodes, strings } = JSON.parse(readFileSync(file, 'utf8'));
  assert.equal(nodes.length, snapshot.node_count * snapshot.meta.node_fields.length);
  assert.ok(strings.includes('a text of the heap'));
  assert.equal(modeOf(file), 0o600);
  const taken = await forkful.fails(['heap', 'api', '--output', file]);
  assert.equal(taken.code, WRONG_USE);
  assert.match(taken.stderr, /a\.heapsnapshot exists already/);
  assert.match((await forkful.ok(['heap', 'api', '--output', file, '--overwrite'])).stdout, /^worker \d: .* written to /);
  // No draft stays.
  assert.deepEqual(readdirSync(forkful.directory).filter((name) => name.endsWith('.heapsnapshot')), ['a.heapsnapshot']);
});

test('a worker that ends and nonsense harm nothing', async (t) => {
  const forkful = await sandbox(t);
  await forkful.start(app, { name: 'api', instances: 2, env: { SOCKET: join(forkful.directory, 'app.sock') } });
  await forkful.start(liar, { name: 'liar', instances: 1, env: { SOCKET: join(forkful.directory, 'liar.sock') } });
  const api = new Contract(join(forkful.home, 'forkful.sock'));
  const take = (target, for_ms = 1000) => api.ask('POST', '/v1/profile', { target, kind: 'cpu', for_ms });
  // A long profile that is under way: a second one is refused then. Where the second one came first, both try again.
  const begin = async (target) => {
    for (;;) {
      const answer = take(target, 60_000);
      if ((await take(target)).status === '409') return { answer };
      await answer;
    }
  };
  // The worker ends.
  const [{ pid }] = await forkful.jlist('api');
  const { answer } = await begin('0');
  process.kill(pid, 'SIGKILL');
  const { status, reply } = await answer;
  assert.equal(status, '409');
  assert.match(reply.error, /ended before its profile was complete/);
  // Nonsense.
  const lied = await take('2');
  assert.equal(lied.status, '409');
  assert.match(lied.reply.error, /something else than a profile/);
  // Several workers are no worker.
  assert.equal((await take('api')).status, '400');
  assert.equal((await take('1')).status, '200');
});
