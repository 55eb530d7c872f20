// The control socket: it serves its user and root, whatever they send and however many they are, and no other
// user.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs';
import net from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { NO_DAEMON, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const LIST = 'GET /v1/apps HTTP/1.1\r\nhost: x\r\n\r\n';
/** Maximum concurrent connections. */
const CONNECTIONS_MAX = 1024;

describe('the control socket', () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  let path = '';
  /** @type {Set<net.Socket>} */
  const open = new Set();
  before(async () => {
    forkful = await sandbox(null);
    await forkful.start(({ report }) => {
      setInterval(() => {}, 1000);
      report({ ready: true });
    }, { name: 'app', instances: 1, options: ['--no-wait'] });
    path = join(forkful.home, 'forkful.sock');
  });
  after(async () => {
    for (const socket of open) socket.destroy();
    await forkful.close();
  });

  /** A connection, and whether it has ended. */
  async function connect() {
    const socket = net.connect(path);
    const state = { socket, ended: false, text: '' };
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => { state.ended = true; open.delete(socket); });
    await once(socket, 'connect');
    return state;
  }
  const listen = (client) => {
    client.socket.setEncoding('utf8').on('data', (text) => { client.text += text; });
    return client;
  };
  // A command gives up after 10 s, in which a busy machine may not have answered all that was asked before.
  const works = () => waitUntil('commands to be served', async () => {
    const apps = JSON.parse((await forkful.ok(['list', '--json'])).stdout).apps;
    assert.deepEqual(apps.map(({ definition }) => definition.name), ['app']);
    return true;
  });
  const residentMiB = async () => Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${await forkful.daemonPid()}/status`, 'utf8'))?.[1]) / 1024;
  /** Whether the daemon is idle: in several checks none of its threads has run or waited for a core. */
  const atRest = async () => {
    const folder = `/proc/${await forkful.daemonPid()}/task`;
    for (let look = 0; look < 20; look += 1) {
      const states = readdirSync(folder).map((thread) => readFileSync(`${folder}/${thread}/stat`, 'latin1').split(') ').at(-1)[0]);
      if (states.includes('R') || states.includes('D')) return false;
      await sleep(10);
    }
    return true;
  };
  const release = async () => {
    const all = [...open];
    for (const socket of all) socket.destroy();
    await waitUntil('all connections to be closed', () => open.size === 0);
  };

  test('is its user\'s alone', async () => {
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(statSync(forkful.home).mode & 0o777, 0o700);
  });

  test('refuses other users even when the modes allow them in', { skip: userInfo().uid === 0 ? false : 'only root can be another user' }, async () => {
    const folders = [forkful.directory, forkful.home];
    for (const folder of folders) chmodSync(folder, 0o755);
    chmodSync(path, 0o666);
    // It asks for the list, and for the end of the daemon, and ends with the first answer or the connection.
    const ask = `
      const socket = require('net').connect(process.argv[1]);
      let text = '';
      socket.on('connect', () => socket.write('GET /v1/apps HTTP/1.1\\r\\nhost: x\\r\\n\\r\\nPOST /v1/kill HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 0\\r\\n\\r\\n'));
      socket.on('data', (data) => { text += data; socket.destroy(); });
      socket.on('error', (error) => { text += error.code; });
      socket.on('close', () => console.log(JSON.stringify({ uid: process.getuid(), text })));`;
    const outcome = spawnSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', '/usr/bin/env', 'node', '-e', ask, path], { encoding: 'utf8' });
    for (const folder of folders) chmodSync(folder, 0o700);
    chmodSync(path, 0o600);
    assert.equal(outcome.status, 0, outcome.stderr);
    const { uid, text } = JSON.parse(outcome.stdout);
    assert.equal(uid, 65534);
    assert.match(text, /^(EPIPE|ECONNRESET)?$/, 'it gets no answer');
    await works();
  });

  test('survives garbage and requests that never end', async () => {
    const kinds = [
      '\0\xff\xfe garbage \r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', `GET /${'x'.repeat(100_000)} HTTP/1.1\r\n\r\n`,
      'POST /v1/apps HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{"a"}', 'GET /v1/apps/%ff%00 HTTP/1.1\r\nhost: x\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      `POST /v1/apps HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n`,
    ];
    for (const kind of kinds) {
      const client = listen(await connect());
      client.socket.write(Buffer.from(kind, 'latin1'));
      // It answers with a refusal, ends the connection, or waits for the rest: all are fine, and nothing else suffers.
      client.socket.end();
      await waitUntil(`an end to ${kind.slice(0, 20)}`, () => client.ended);
      assert.doesNotMatch(client.text, /^HTTP\/1\.1 [25]/);
      await works();
    }
    const halves = await Promise.all(Array.from({ length: 200 }, async (_, number) => {
      const client = await connect();
      client.socket.write(LIST.slice(0, 1 + (number % (LIST.length - 1))));
      return client;
    }));
    await works();
    assert.ok(halves.some(({ ended }) => !ended), 'they are waited for');
    await release();
    await works();
  });

  test('serves a thousand clients at once', async () => {
    const clients = await Promise.all(Array.from({ length: 1000 }, async () => listen(await connect())));
    for (const client of clients) client.socket.write(LIST);
    await waitUntil('all answers', () => clients.every(({ text }) => text.includes('"app"')));
    assert.ok(clients.every(({ text, ended }) => text.startsWith('HTTP/1.1 200') && !ended));
    await works();
    // The same connections again.
    for (const client of clients) {
      client.text = '';
      client.socket.write(LIST);
    }
    await waitUntil('all answers', () => clients.every(({ text }) => text.includes('"app"')));
    await release();
  });

  test('makes room for a command when forgotten clients have taken all', async () => {
    const idle = [];
    for (let count = 0; count < CONNECTIONS_MAX; count += 128) {
      idle.push(...await Promise.all(Array.from({ length: 128 }, () => connect())));
    }
    await works();
    await waitUntil('one of them to be dropped', () => idle.some(({ ended }) => ended));
    assert.ok(idle.filter(({ ended }) => ended).length < 32, 'only as many as need be');
    await release();
  });

  test('drops those who do not read, and is not held up by them', async () => {
    const [worker] = forkful.control.seen;
    const before = await residentMiB();
    // They follow the log, and ask for the list as often as it takes to fill every buffer.
    const slow = await Promise.all(Array.from({ length: 300 }, async (_, number) => {
      const client = await connect();
      client.socket.pause();
      client.socket.write(number % 2 ? 'GET /v1/logs?follow=true HTTP/1.1\r\nhost: x\r\n\r\n' : LIST.repeat(200));
      return client;
    }));
    await worker.run(() => { for (let n = 0; n < 20_000; n += 1) require('fs').writeSync(1, `${'x'.repeat(999)}\n`); });
    await works();
    const grown = await residentMiB() - before;
    assert.ok(grown < 200, `${grown} MiB for 300 slow readers`);
    // Each of the slow ones has been written to until its buffer was full.
    await waitUntil('the daemon to have nothing to do', atRest);
    const others = [];
    for (let count = slow.length; count < CONNECTIONS_MAX + 100; count += 103) {
      others.push(...await Promise.all(Array.from({ length: 103 }, async () => {
        const client = listen(await connect());
        client.socket.write(LIST);
        return client;
      })));
    }
    await waitUntil('the others to be answered', () => others.every(({ text, ended }) => text.includes('"app"') || ended));
    assert.ok(others.every(({ ended }) => !ended), 'it is the slow ones that make room');
    for (const client of slow) client.socket.resume();
    await waitUntil('some of the slow ones to have been dropped', () => slow.some(({ ended }) => ended));
    await works();
    await release();
  });

  test('goes on after all that, with the same worker', async () => {
    await works();
    assert.equal(forkful.control.seen.length, 1);
    const { stdout } = await forkful.ok(['ping', '--json']);
    assert.equal(JSON.parse(stdout).pid, await forkful.daemonPid());
    assert.doesNotMatch(readFileSync(join(forkful.home, 'daemon.log'), 'utf8'), /panicked/);
    await forkful.ok(['kill']);
    assert.equal((await forkful.run(['ping'])).code, NO_DAEMON);
  });
});
