// Apps that open a separate port for each worker (`reusePort`, `exclusive`): the daemon still holds their
// sockets, so that waiting connections are served when a worker leaves, dies or blocks.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { release } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { differentAnswers, freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { MAJORS, NEWEST, nodeBinary } from './lib/nodes.mjs';
import { isLiving, sandbox } from './lib/sandbox.mjs';
import { waitUntil, within } from './lib/wait.mjs';

/** The oldest version that has `reusePort`, and the newest. */
const REUSING = [22, NEWEST];
const ROUNDS = 3;
/** At most 200 requests a second. */
const CLIENTS = { closing: 4, keeping: 4, pauseMs: 40 };
const PID = /^\d+$/;
const LISTENING = ['--listen-timeout', '100s'];
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };

/** Answers with its pid, on a port that it shares itself (`reusePort`). */
function reusing({ require }) {
  const server = require('http').createServer((_request, response) => setImmediate(() => {
    response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  }));
  server.listen({ port: Number(process.env.PORT), reusePort: true });
  // As without a primary.
  if (server.address()?.port !== Number(process.env.PORT)) throw new Error('no address');
}

/** Answers with its pid, on a separate port. */
function alone({ require }) {
  const port = Number(process.env.PORT) + Number(process.env.NODE_APP_INSTANCE);
  require('http').createServer((_request, response) => {
    response.setHeader('Content-Length', String(process.pid).length).end(String(process.pid));
  }).listen({ port, host: '127.0.0.1', exclusive: true });
}

/** Answers with its pid and blocks on request; runs on Bun and Node.js. */
const SERVER = `
const headers = (text) => ({ 'Content-Length': String(text.length) });
const spin = () => { const end = Date.now() + 700; while (Date.now() < end); };
if (globalThis.Bun) {
  Bun.serve({ port: Number(process.env.PORT), hostname: '127.0.0.1', reusePort: true, fetch(request) {
    if (request.url.endsWith('/spin')) spin();
    return new Response(String(process.pid));
  } });
} else {
  require('http').createServer((request, response) => {
    if (request.url === '/spin') spin();
    const text = String(process.pid);
    response.writeHead(200, headers(text)).end(text);
  }).listen({ port: Number(process.env.PORT), host: '127.0.0.1', reusePort: true });
}`;

/** Whether the kernel allows the daemon to choose among sockets of other processes: \`CAP_BPF\` (39), and Linux 5.14. */
function mayChoose() {
  const [, capabilities] = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  const [major, minor] = release().split('.').map(Number);
  return (BigInt(`0x${capabilities}`) >> 39n) % 2n === 1n && major * 1000 + minor >= 5014;
}

/** Where Bun is: \`BUN\`, as it is none of the test's packages. */
const BUN = process.env.BUN;

/** A request on a new connection: resolves when connected, and collects everything received until the end. */
function rawGet(port) {
  const socket = net.connect({ host: '127.0.0.1', port });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece) => { text += piece; });
  socket.on('error', (error) => { text = error.message; });
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  return { connected: once(socket, 'connect'), answer: new Promise((resolve) => { socket.on('close', () => resolve(text)); }) };
}

for (const major of REUSING) {
  for (const mode of ['cluster', 'fork']) {
    /** The app with two processes. */
    const begin = async (t) => {
      const forkful = await sandbox(t, major);
      const port = await freePort();
      const path = forkful.script(reusing);
      const config = join(forkful.directory, 'app.config.json');
      writeFileSync(config, JSON.stringify({
        apps: [{
          name: 'app', script: path, instances: 2, exec_mode: mode, interpreter: nodeBinary(major),
          env: { PORT: String(port) }, listen_timeout: '100s', min_uptime: '1ms', restart_delay: 0,
        }],
      }));
      await forkful.ok(['start', config]);
      const workers = () => waitUntil('two workers', () => {
        const living = forkful.control.living(path);
        return living.length === 2 && living;
      });
      return { forkful, port, workers };
    };
    const title = `reusePort in ${mode} mode on Node ${major}`;

    test(`${title}: ${ROUNDS} reloads lose no request, and kills cost nobody but their own requests`, async (t) => {
      const { forkful, port, workers } = await begin(t);
      await differentAnswers(port);
      const load = startLoad({ port, ...CLIENTS, expect: PID });
      t.after(() => load.stop());
      for (let n = 0; n < ROUNDS; n += 1) {
        const { stdout, stderr } = await forkful.ok(['reload', 'app']);
        assert.doesNotMatch(stdout + stderr, /stopped, then started/);
        for (const { pid } of await workers()) await waitUntil('an answer of each', () => load.answers.has(String(pid)));
      }
      const { success: _success, ...failed } = load.counts;
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
      for (let n = 0; n < ROUNDS; n += 1) {
        const victim = (await workers())[n % 2];
        process.kill(victim.pid, 'SIGKILL');
        await waitUntil('the victim to be gone', () => victim.gone);
        for (const { pid } of await workers()) await waitUntil('an answer of each', () => load.answers.has(String(pid)));
      }
      const { reset, success: _all, ...others } = await load.stop();
      assert.deepEqual(others, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
      assert.ok(reset <= ROUNDS * (CLIENTS.closing + CLIENTS.keeping), `${reset} resets`);
    });

    test(`${title}: what waits for a process that is killed is served`, async (t) => {
      const { port, workers } = await begin(t);
      const [killed, left] = await workers();
      for (const { pid } of [killed, left]) process.kill(pid, 'SIGSTOP');
      const requests = Array.from({ length: 32 }, () => rawGet(port));
      await within('all connections to be made', Promise.all(requests.map(({ connected }) => connected)));
      process.kill(killed.pid, 'SIGKILL');
      process.kill(left.pid, 'SIGCONT');
      const answers = await within('all answers', Promise.all(requests.map(({ answer }) => answer)));
      for (const answer of answers) assert.match(answer, /^HTTP\/1.1 200 [^]*\r\n\r\n\d+$/);
    });

    test(`${title}: a blocked process holds nobody's request but its own`, async (t) => {
      const { forkful, port, workers } = await begin(t);
      const [blocked, free] = await workers();
      await differentAnswers(port);
      const load = startLoad({ port, closing: 8, expect: PID });
      t.after(() => load.stop());
      await waitUntil('both to answer', () => load.answers.size === 2);
      const gate = join(forkful.directory, 'gate');
      // It stands still until the test has seen enough, or (so that it ends when the test fails) for 100 s.
      const blocking = blocked.run((path) => {
        const end = Date.now() + 100_000;
        while (Date.now() < end && !require('fs').existsSync(path));
        return Date.now() < end;
      }, gate);
      const before = load.answers.get(String(free.pid)) ?? 0;
      await waitUntil('the other to answer', () => (load.answers.get(String(free.pid)) ?? 0) > before + 500);
      writeFileSync(gate, '');
      assert.equal(await blocking, true);
      const { success: _success, ...failed } = await load.stop();
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
    });
  }
}

for (const major of MAJORS) {
  test(`exclusive ports on Node ${major}: each is one worker's, a reload loses no request, and a crash refuses nobody`, async (t) => {
    const forkful = await sandbox(t, major);
    const port = await freePort();
    const { workers } = await forkful.start(alone, {
      name: 'app', env: { PORT: String(port) }, options: ['--restart-delay', '0', '--min-uptime', '1ms', ...LISTENING],
    });
    const pids = async () => (await forkful.jlist('app')).map((worker) => worker.pid);
    const ports = [port, port + 1];
    const answered = () => Promise.all(ports.map(async (each) => Number((await get(each)).body)));
    assert.deepEqual(await answered(), await pids());
    const loads = ports.map((each) => startLoad({ port: each, ...CLIENTS, expect: PID }));
    t.after(() => Promise.all(loads.map((load) => load.stop())));
    for (let n = 0; n < ROUNDS; n += 1) {
      const { stdout, stderr } = await forkful.ok(['reload', 'app']);
      assert.doesNotMatch(stdout + stderr, /stopped, then started/);
      assert.deepEqual(await answered(), await pids());
    }
    for (const load of loads) {
      const { success: _success, ...failed } = load.counts;
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
    }
    const [victim] = await workers();
    process.kill(victim.pid, 'SIGKILL');
    await waitUntil('another process to answer', async () => Number((await get(port)).body) !== victim.pid);
    for (const load of loads) {
      const { success: _success, reset: _reset, ...failed } = await load.stop();
      assert.deepEqual(failed, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    }
  });
}

const RUNTIMES = [
  { runtime: 'Node 24 without the agent', program: nodeBinary(24), modes: ['cluster', 'fork'] },
  ...(BUN ? [{ runtime: 'Bun', program: BUN, modes: ['fork'] }] : []),
];
for (const { runtime, program, modes } of RUNTIMES) {
  for (const mode of modes) {
    describe(`reusePort with ${runtime} in ${mode} mode`, { skip: !mayChoose() && 'CAP_BPF and Linux 5.14 are needed' }, () => {
      const begin = async (t, instances = 2) => {
        const forkful = await sandbox(t);
        const port = await freePort();
        const path = join(forkful.directory, 'server.js');
        writeFileSync(path, SERVER);
        const config = join(forkful.directory, 'app.config.json');
        writeFileSync(config, JSON.stringify({
          apps: [{
            name: 'app', script: path, instances, exec_mode: mode, interpreter: program, agent: false,
            env: { PORT: String(port) }, listen_timeout: '100s', restart_delay: 0,
          }],
        }));
        await forkful.ok(['start', config]);
        const pids = async () => (await forkful.jlist('app')).map((worker) => worker.pid);
        return { forkful, port, pids };
      };

      test('what waits for a process that is killed is served, and so it is for its successor', async (t) => {
        const { port, pids } = await begin(t);
        await differentAnswers(port);
        for (let n = 0; n < 2; n += 1) {
          const [killed, left] = await waitUntil('two processes', async () => {
            const now = await pids();
            return now.every((pid) => pid > 0 && isLiving(pid)) && (await differentAnswers(port)).join() === now.map(String).sort().join() && now;
          });
          for (const pid of [killed, left]) process.kill(pid, 'SIGSTOP');
          const requests = Array.from({ length: 32 }, () => rawGet(port));
          await within('all connections to be made', Promise.all(requests.map(({ connected }) => connected)));
          process.kill(killed, 'SIGKILL');
          process.kill(left, 'SIGCONT');
          const answers = await within('all answers', Promise.all(requests.map(({ answer }) => answer)));
          for (const answer of answers) assert.match(answer, /^HTTP\/1.1 200 [^]*\r\n\r\n\d+$/);
        }
      });

      test('what waits for the only process is served by its successor', async (t) => {
        const { port, pids } = await begin(t, 1);
        const [only] = await pids();
        await waitUntil('an answer', async () => (await get(port)).body === String(only));
        process.kill(only, 'SIGSTOP');
        const requests = Array.from({ length: 32 }, () => rawGet(port));
        await within('all connections to be made', Promise.all(requests.map(({ connected }) => connected)));
        process.kill(only, 'SIGKILL');
        for (const { answer } of requests) assert.match(await within('all answers', answer), /^HTTP\/1.1 200 [^]*\r\n\r\n\d+$/);
      });

      test('what waits for a process that stands still is served by another', async (t) => {
        const { port, pids } = await begin(t);
        await differentAnswers(port);
        const [still, other] = await pids();
        process.kill(still, 'SIGSTOP');
        const answers = await within('all answers', Promise.all(Array.from({ length: 100 }, () => rawGet(port).answer)));
        for (const answer of answers) assert.match(answer, new RegExp(`^HTTP/1.1 200 [^]*\\r\\n\\r\\n${other}$`));
        process.kill(still, 'SIGCONT');
        assert.deepEqual((await differentAnswers(port)).map(Number), [still, other].sort((a, b) => String(a).localeCompare(String(b))));
      });

      test(`${ROUNDS} reloads refuse nobody and lose no connection that waits`, async (t) => {
        const { forkful, port, pids } = await begin(t);
        await differentAnswers(port);
        const load = startLoad({ port, closing: 4, pauseMs: 40, expect: PID });
        t.after(() => load.stop());
        for (let n = 0; n < ROUNDS; n += 1) {
          await forkful.ok(['reload', 'app']);
          for (const pid of await pids()) await waitUntil('an answer of each', () => load.answers.has(String(pid)));
        }
        const { success: _success, reset, ...failed } = await load.stop();
        assert.deepEqual(failed, { refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
        // In fork mode a process is told to end at once; the request that it is answering is the app's to finish.
        assert.ok(reset <= (mode === 'cluster' ? 0 : ROUNDS * 2 * 4), load.failures.join('\n'));
      });
    });
  }
}
