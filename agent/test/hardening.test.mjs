// The agent in apps that treat their runtime roughly: it still answers, never throws into the app, says nothing on the app's streams, and
// keeps no process alive. Each app runs twice, with the agent and without: what it prints and how it ends must be the same.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { MAJORS, nodeBinary } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil } from '../../tests/e2e/lib/wait.mjs';

const AGENT = fileURLToPath(new URL('../agent.cjs', import.meta.url));
const AGENT_FOLDER = fileURLToPath(new URL('..', import.meta.url));

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'forkful-agent-hard-')));
after(() => rmSync(directory, { recursive: true, force: true }));
let scripts = 0;

/** Writes a program; gives its path. */
function program(text, ending = 'cjs') {
  scripts += 1;
  const path = join(directory, `${scripts}.${ending}`);
  writeFileSync(path, text);
  return path;
}

/** What differs from run to run: process ids in warnings. */
const plain = (text) => text.replace(/\(node:\d+\)/g, '(node)').replaceAll(/\b\d+\.\d+\.\d+\b/g, '');

/** Starts a program as the child of a primary that is this test. */
function launch(t, major, script, { execArgv = [], isBare = false } = {}) {
  const child = fork(script, [], {
    execPath: nodeBinary(major), execArgv: [...execArgv, ...(isBare ? [] : ['--require', AGENT])], stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const worker = { child, said: [], internal: [], stdout: '', stderr: '', code: undefined, signal: undefined };
  child.on('message', (message) => worker.said.push(message));
  child.on('internalMessage', (message) => worker.internal.push(message));
  child.stdout.on('data', (text) => { worker.stdout += text; });
  child.stderr.on('data', (text) => { worker.stderr += text; });
  worker.exited = new Promise((resolve) => {
    // Its streams have ended, too.
    child.on('close', (code, signal) => {
      Object.assign(worker, { code, signal });
      resolve();
    });
  });
  worker.heard = (act) => waitUntil(act, () => {
    if (worker.code !== undefined) assert.fail(`it has ended with ${worker.code ?? worker.signal} and said no ${act}: ${worker.stderr}`);
    return worker.internal.find((message) => message.act === act);
  });
  worker.tell = (act, more) => { if (child.connected) child.send({ cmd: 'NODE_FORKFUL', act, ...more }, () => {}); };
  t.after(async () => {
    if (worker.code === undefined && child.exitCode === null) child.kill('SIGKILL');
    await worker.exited;
  });
  return worker;
}

/** Everything that a primary asks of an agent. */
function askAll(worker) {
  worker.tell('report', { every_ms: 100, quiet_ms: 0 });
  worker.tell('stalls', { min_ms: 20 });
  for (const act of ['pool', 'metrics', 'count', 'echo']) worker.tell(act);
  worker.tell('move', { connections: 1 });
}

/** What an agent answers. */
const ANSWERS = ['report', 'metrics', 'count', 'echo'];

/** An app that serves a request of its own, so that there is something to measure, and stops when it is told to. */
const SERVES = `
  const http = require('http');
  const agent = new http.Agent({ keepAlive: true });
  const server = http.createServer((_request, response) => {
    for (const until = Date.now() + 30; Date.now() < until;);
    response.end('fine');
  });
  server.listen(0, '127.0.0.1', () => http.get({ port: server.address().port, host: '127.0.0.1', agent }, (response) => {
    response.on('data', (text) => console.log(String(text))).on('end', () => say('served'));
  }));
  const end = () => {
    agent.destroy();
    server.close();
    process.disconnect();
  };
  process.on('message', (message) => { if (message === 'end') end(); });
`;
const SAY = 'const say = process.send.bind(process);\n';

/** Runs an app with everything asked, then has it end; it must answer, and end as it does without the agent. */
async function serves(t, major, script, options = {}, answers = ANSWERS) {
  const run = async (isBare) => {
    const worker = launch(t, major, script, { ...options, isBare });
    if (!isBare) {
      await worker.heard('hello');
      askAll(worker);
    }
    await waitUntil('a request', () => {
      if (worker.code !== undefined) assert.fail(`it has ended: ${worker.stderr}`);
      return worker.said.includes('served');
    });
    if (!isBare) {
      for (const act of answers) await worker.heard(act);
      worker.tell('drain', { grace_ms: 50 });
      await worker.heard('drained');
    }
    worker.child.send('end');
    await worker.exited;
    return worker;
  };
  const [bare, held] = await Promise.all([run(true), run(false)]);
  sameEnd(held, bare);
  return held;
}

function sameEnd(held, bare) {
  const end = ({ code, signal, stdout, stderr, said }) => ({ code, signal, stdout, stderr: plain(stderr), said });
  assert.deepEqual(end(held), end(bare));
}

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 2 }, () => {
    test('an app replaces what the agent needs', async (t) => {
      await serves(t, major, program(`${SAY}
        const no = () => { throw new Error('not the app\\'s'); };
        process.send = no;
        globalThis.setTimeout = globalThis.setImmediate = globalThis.setInterval = globalThis.clearInterval = no;
        process.memoryUsage = no;
        ${SERVES}`));
      await serves(t, major, program(`${SAY}
        delete process.send;
        Error.prepareStackTrace = () => { throw new Error('no stack'); };
        Object.defineProperty(globalThis, 'performance', { configurable: true, get() { throw new Error('no performance'); } });
        ${SERVES}`));
    });

    test('frozen intrinsics', async (t) => {
      await serves(t, major, program(`${SAY}${SERVES}`), { execArgv: ['--frozen-intrinsics'] });
    });

    test('without permission for anything', { skip: major < 20 && 'it has no permissions' }, async (t) => {
      const flag = major < 24 ? '--experimental-permission' : '--permission';
      const allowed = [`--allow-fs-read=${directory}/*`, `--allow-fs-read=${AGENT_FOLDER}*`];
      // Later versions have a permission of its own for the network.
      const network = process.allowedNodeEnvironmentFlags.has('--allow-net') || major > 24 ? ['--allow-net'] : [];
      await serves(t, major, program(`${SAY}${SERVES}`), { execArgv: [flag, ...allowed, ...network] });
    });

    test('loaders of ES modules', async (t) => {
      const hooks = program('export async function resolve(name, context, next) { return next(name === "app:say" ? "node:process" : name, context); }', 'mjs');
      const register = program(`import { register } from 'node:module'; register(${JSON.stringify(`file://${hooks}`)});`, 'mjs');
      const script = program(`import process from 'app:say'; import { createRequire } from 'node:module';
        const require = createRequire(import.meta.url); ${SAY}${SERVES}`, 'mjs');
      const held = await serves(t, major, script, { execArgv: ['--import', `file://${register}`] });
      assert.equal(held.internal.filter(({ act }) => act === 'hello').length, 1, 'threads of loaders say nothing');
    });

    test('worker threads', async (t) => {
      const script = program(`${SAY}
        const { Worker, isMainThread, parentPort } = require('worker_threads');
        if (!isMainThread) {
          parentPort.postMessage([typeof process.send, process.execArgv.length, process.listenerCount('internalMessage')]);
          if (require('worker_threads').workerData === 'exits') process.exit(3);
        } else {
          // One after the other, so that what is printed has an order.
          const run = (workerData) => new Promise((resolve) => {
            const worker = new Worker(__filename, { workerData });
            worker.on('message', (message) => console.log(JSON.stringify([workerData, message])));
            worker.on('exit', resolve);
          });
          run(undefined).then(async (code) => { console.log(JSON.stringify([code, await run('exits')])); ${SERVES} });
        }`.replace(SAY, `const say = process.send?.bind(process);\n`));
      const held = await serves(t, major, script);
      assert.equal(held.internal.filter(({ act }) => act === 'hello').length, 1, 'threads say nothing');
    });

    test('a process that ends in odd places ends as it wants to', async (t) => {
      const scripts = {
        'at once': 'process.exit(7);',
        'in an exit listener': "process.on('exit', () => process.exit(7)); setTimeout(() => {}, 100);",
        'before it exits': "process.on('beforeExit', () => process.exit(7)); process.channel.unref();",
        'after an error': "process.on('uncaughtException', () => process.exit(7)); setTimeout(() => { throw new Error('mine'); }, 50);",
        'of an error': "setTimeout(() => { throw new Error('mine'); }, 50);",
        'in a promise': "setTimeout(() => Promise.reject(new Error('mine')), 50);",
        'when the channel closes': "process.on('disconnect', () => process.exit(7)); setTimeout(() => process.disconnect(), 50); setInterval(() => {}, 1000);",
        'in a metric': `
          const fake = { register: { getMetricsAsJSON() { process.exit(7); } } };
          require.cache['/app/node_modules/prom-client/index.js'] = { exports: fake };
          setTimeout(() => process.exit(7), 1000);`,
        'in a diagnostics channel': `
          const http = require('http');
          require('diagnostics_channel').channel('http.server.response.finish').subscribe(() => process.exit(7));
          const server = http.createServer((_request, response) => response.end()).listen(0, '127.0.0.1', () => http.get({ port: server.address().port, host: '127.0.0.1' }));`,
        'when there is nothing to do': "process.channel.unref(); setTimeout(() => console.log('done'), 300);",
        'with a listener for messages that is gone': "const ignore = () => {}; process.on('message', ignore); setTimeout(() => process.removeListener('message', ignore), 300);",
        'by abort of a timer': "const timer = setTimeout(() => process.exit(1), 600_000); timer.unref(); process.channel.unref();",
        'as it drains': "require('http').createServer().listen(0).on('close', () => process.exit(7)); setTimeout(() => process.exit(7), 400);",
      };
      await Promise.all(Object.entries(scripts).map(async ([when, text]) => {
        const script = program(text);
        const [bare, held] = [true, false].map((isBare) => launch(t, major, script, { isBare }));
        const asked = (async () => {
          await waitUntil('hello', () => held.code !== undefined || held.internal.some(({ act }) => act === 'hello'));
          askAll(held);
          if (when === 'as it drains') held.tell('drain', { grace_ms: 10_000, closes: null });
        })();
        await Promise.all([asked, bare.exited, held.exited]);
        try {
          sameEnd(held, bare);
        } catch (error) {
          error.message = `${when}: ${error.message}`;
          throw error;
        }
      }));
    });
  });
}
