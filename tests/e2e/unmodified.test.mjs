// Unmodified apps: each is started with `-i 2`, answers through its port from both workers, survives a
// reload, and is gone after `delete`.
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import WebSocket from 'ws';

import { accepts, freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { writeCertificate } from './lib/tls.mjs';
import { waitUntil, within } from './lib/wait.mjs';

const APPS = fileURLToPath(new URL('fixtures/unmodified/', import.meta.url));
const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));
const EXAMPLE = fileURLToPath(new URL('../../examples/fast-slow/server.js', import.meta.url));

/** Number of answers next to a blocked worker: too many for chance, few enough for a busy machine. */
const ENOUGH = 24;
/** Trials of what a busy machine may be too slow for. */
const TRIALS_MAX = 8;

const overHttp = async (port, path = '/') => (await get({ host: 'localhost', port }, path)).body;
const overHttps = async (port) => (await get({ protocol: 'https:', host: 'localhost', port })).body;

async function overWebSocket(port) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`);
  try {
    await within('the upgrade', once(socket, 'open'));
    const answer = once(socket, 'message');
    socket.send('hello');
    const [message] = await within('the echo', answer);
    const [pid, text] = String(message).split(' ');
    assert.equal(text, 'hello');
    return pid;
  } finally {
    socket.close();
  }
}

async function overUdp(port) {
  const socket = dgram.createSocket('udp4');
  try {
    const answer = once(socket, 'message');
    socket.send('hello', port, '127.0.0.1');
    const [message] = await within('the echo', answer, 500);
    return String(message).split(' ')[0];
  } finally {
    socket.close();
  }
}

/** `majors` is where the app runs; the oldest and the newest that it supports. */
const CASES = [
  { script: 'cluster-script.cjs', majors: [18, 22, NEWEST], ask: overHttp },
  { script: 'esm.mjs', majors: [18, NEWEST], ask: overHttp },
  { script: 'typed.ts', majors: [22, NEWEST], ask: overHttp },
  { script: 'express4.cjs', majors: [18, NEWEST], ask: overHttp },
  { script: 'express5.cjs', majors: [22, NEWEST], ask: overHttp },
  { script: 'fastify5.mjs', majors: [20, NEWEST], ask: overHttp },
  { script: 'https.cjs', majors: [18, NEWEST], ask: overHttps },
  { script: 'websocket.cjs', majors: [18, NEWEST], ask: overWebSocket },
  // The kernel gives datagrams to whoever reads first, so that one worker may well answer all.
  { script: 'udp.cjs', majors: [18, NEWEST], ask: overUdp, answers: 1 },
];

async function answersOf(ask, port, count) {
  const seen = new Set();
  await waitUntil(`${count} workers to answer`, async () => seen.add(await ask(port)).size >= count);
  return [...seen];
}

describe('unmodified apps', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => {
    forkful = await sandbox(null);
    writeCertificate(forkful.directory);
  });
  after(() => forkful.close());

  for (const { script, majors, ask, answers = 2 } of CASES) {
    for (const major of majors) {
      test(`${script} on Node ${major}`, async () => {
        const port = await freePort();
        const name = `${script}-${major}`;
        await forkful.ok(['start', `${APPS}${script}`, '--name', name, '-i', '2', '--interpreter', nodeBinary(major)], { env: { PORT: String(port) } });
        const before = (await forkful.jlist(name)).map(({ pid }) => String(pid));
        assert.equal(before.length, 2);
        for (const pid of await answersOf(ask, port, answers)) assert.ok(before.includes(pid), `${pid} of ${before}`);

        await forkful.ok(['reload', name]);
        const now = (await forkful.jlist(name)).map(({ pid }) => String(pid));
        assert.deepEqual(now.filter((pid) => before.includes(pid)), []);
        for (const pid of await answersOf(ask, port, answers)) assert.ok(now.includes(pid), `${pid} of ${now}`);

        await forkful.ok(['delete', name]);
        if (ask !== overUdp) assert.equal(await accepts({ host: '127.0.0.1', port }), false);
      });
    }
  }

  test('the example: a blocked worker does not hold the fast route', async () => {
    const port = await freePort();
    const node = ['--interpreter', nodeBinary(NEWEST)];
    await forkful.ok(['start', EXAMPLE, '--name', 'example', '-i', '2', ...node], { env: { PORT: String(port), NODE_PATH: MODULES } });
    const pids = (await forkful.jlist('example')).map(({ pid }) => String(pid));
    assert.deepEqual((await answersOf((p) => overHttp(p, '/fast'), port, 2)).sort(), pids.sort());
    // The first ones may be under way before the slow one is taken, and wait beside it. No time is asserted, only
    // the order: whoever gave connections to both would hold all four of these clients after a few answers.
    const trial = async () => {
      let burnt = false;
      const slow = overHttp(port, '/delay?ms=5000').then((body) => { burnt = true; return body; });
      const during = [];
      const ask = async () => {
        while (!burnt && during.length < ENOUGH) {
          const pid = await overHttp(port, '/fast');
          if (!burnt && during.length < ENOUGH) during.push(pid);
        }
      };
      await Promise.all(Array.from({ length: 4 }, ask));
      return { during, answer: await slow };
    };
    let { during, answer } = await trial();
    // On a busy machine the slow one may be over before the others have had their time.
    for (let again = 1; again < TRIALS_MAX && during.length < ENOUGH; again += 1) ({ during, answer } = await trial());
    assert.equal(during.length, ENOUGH, 'all answered while one worker burnt');
    const [, blocked] = /in (\d+)$/.exec(answer) ?? [];
    assert.ok(during.slice(-ENOUGH / 2).every((pid) => pid !== blocked));
    assert.equal((await get(port, '/delay?ms=x')).status, 400);
    await forkful.ok(['delete', 'example']);
  });

  test('the apps run in their own directory when told so', async () => {
    const port = await freePort();
    await forkful.ok(['start', 'express5.cjs', '--cwd', dirname(`${APPS}x`), '--name', 'cwd', '--interpreter', nodeBinary(NEWEST)], { env: { PORT: String(port) }, cwd: APPS });
    // One process in fork mode: it runs when the command ends, and listens when it likes.
    assert.match(await waitUntil('an answer', () => overHttp(port)), /^\d+$/);
    await forkful.ok(['delete', 'cwd']);
  });
});
