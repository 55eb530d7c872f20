// `memory: auto`: heap limits follow the app's available memory, a leaking worker is replaced before V8 or
// the kernel kills it, and out-of-memory deaths are reported as such.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { printsLike } from './lib/elsewhere.mjs';
import { freePort, get, isListenedOn } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const MIB = 1 << 20;

/**
 * Each request to `/?BYTES` keeps 64 kB of the heap, until the process has that much private memory. So the machine's speed
 * does not matter: a worker never grows far above its plan.
 */
function leaking({ require }) {
  const { readFileSync } = require('fs');
  const kept = [];
  const own = () => {
    const [, all, ofFiles] = readFileSync('/proc/self/statm', 'latin1').split(' ').map(Number);
    return (all - ofFiles) * 4096;
  };
  require('http').createServer((question, response) => {
    if (question.url === '/fill') for (;;) kept.push(new Array(1000).fill(kept.length));
    if (question.url === '/options') return response.end(JSON.stringify(process.execArgv));
    if (own() < Number(question.url.slice(2))) kept.push(Array.from({ length: 8_000 }, (_, at) => at + Math.random()));
    response.end(String(process.pid));
  }).listen(Number(process.env.PORT), '127.0.0.1');
}

const described = async (forkful, name) => JSON.parse((await forkful.ok(['describe', name, '--json'])).stdout).apps[0];

/** Starts an app with a memory limit; reports if limits are not available. */
async function limited(t, major, attributes, body = leaking) {
  const forkful = await sandbox(t);
  const port = await freePort();
  const file = join(forkful.directory, 'forkful.config.json');
  const app = {
    name: 'api', script: forkful.script(body), exec_mode: 'cluster', interpreter: nodeBinary(major), memory: 'auto', env: { PORT: String(port) }, ...attributes,
  };
  writeFileSync(file, JSON.stringify({ apps: [app] }));
  const outcome = await forkful.run(['start', file]);
  if (outcome.code === 0) {
    await waitUntil('a listener', () => isListenedOn(port));
    return { forkful, port, told: outcome.stdout + outcome.stderr };
  }
  assert.match(outcome.stderr, /lets the daemon make no control group|cannot set its memory limit/);
  t.skip(`no memory limit can be set here: ${outcome.stderr}`);
  return null;
}

for (const major of [20, 24]) {
  test(`on Node ${major}, workers that leak are replaced in time, and no request fails`, async (t) => {
    const started = await limited(t, major, { memory_max: '512M', instances: 4 });
    if (!started) return;
    const { forkful, port, told } = started;
    assert.match(told, /memory: 512 MiB \(`memory_max`\) for 4 workers on Node\.js \d+: \d+ MiB each, \d+ MiB of it heap; a worker is replaced above \d+ MiB of its own/);
    printsLike('MEMORY.md', 'note: api: memory', told, { names: { 'cgroup /': '`memory_max`' } });
    const { memory_plan: plan } = await described(forkful, 'api');
    const options = JSON.parse((await get(port, '/options')).body);
    assert.ok(options.includes(`--max-old-space-size=${plan.heap_mib}`), options.join(' '));
    assert.ok(4 * plan.worker_bytes < 512 * MIB && plan.replaced_above_bytes < plan.worker_bytes, JSON.stringify(plan));
    const path = `/?${plan.replaced_above_bytes + 2 * MIB}`;
    const load = startLoad({ port, path, closing: 2, keeping: 2, pauseMs: 5, expect: /^\d+$/ });
    // Each of the four, and some of those that followed.
    const seen = new Set();
    await waitUntil('four replacements', async () => {
      for (const { pid } of await forkful.jlist('api')) if (pid) seen.add(pid);
      return seen.size >= 8;
    });
    const { success } = await load.stop();
    assert.deepEqual([load.failed, load.failures], [0, []]);
    assert.ok(success > 0);
    const app = await described(forkful, 'api');
    assert.equal(app.usage.out_of_memory_kills, 0);
    assert.deepEqual(app.workers.map(({ crashes }) => crashes), [0, 0, 0, 0]);
    assert.ok(app.workers.some(({ renewed }) => /more than the .* that `memory: auto` gives it/.test(renewed)), JSON.stringify(app.workers));
  });
}

test('a heap that was full is named as the reason', async (t) => {
  const started = await limited(t, NEWEST, { memory: 'off', node_args: ['--max-old-space-size=24'], instances: 1 });
  if (!started) return;
  const { forkful, port } = started;
  await assert.rejects(get(port, '/fill'));
  const next = await waitUntil('the next worker', async () => {
    const [now] = (await described(forkful, 'api')).workers;
    return now.status === 'online' && now.crashes === 1 && now;
  });
  assert.match(next.last_exit, /(SIGABRT|SIGTRAP|exit code 134): its JavaScript heap was full$/);
  assert.match((await forkful.ok(['list'])).stderr, /has crashed once, last .*\(its JavaScript heap was full\)/);
});

test('a heap limit of the user stays, and too little memory is said', async (t) => {
  const own = await limited(t, NEWEST, { memory_max: '512M', instances: 2, node_args: ['--max-old-space-size=40'] });
  if (!own) return;
  assert.match(own.told, /with the heap limit that the app has/);
  const options = JSON.parse((await get(own.port, '/options')).body);
  assert.deepEqual(options.filter((option) => option.startsWith('--max')), ['--max-old-space-size=40']);
  // Less than another worker takes: nothing is promised that cannot be kept.
  await own.forkful.ok(['scale', 'api', '16']);
  const { stdout } = await own.forkful.ok(['describe', 'api']);
  assert.match(stdout.replace(/\s+/g, ' '), /for 16 workers .*a second worker has no room beside it: \d+ MiB would do, or fewer workers/);
});
