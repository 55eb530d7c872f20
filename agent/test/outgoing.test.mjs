// Connections that an app opens, on every supported Node version: names of hosts and refused connections of real `pg` and
// `mysql2`, and what waits for a connection. The app never notices.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { MAJORS, nodeBinary } from '../../tests/e2e/lib/nodes.mjs';
import { postgres } from '../../tests/e2e/lib/postgres.mjs';
import { writeCertificate } from '../../tests/e2e/lib/tls.mjs';
import { waitUntil } from '../../tests/e2e/lib/wait.mjs';

const AGENT = fileURLToPath(new URL('../agent.cjs', import.meta.url));
const MODULES = fileURLToPath(new URL('../../tests/e2e/node_modules', import.meta.url));

/** MySQL's answer to one connection too many, in place of its greeting. */
const MYSQL_FULL = (() => {
  const content = Buffer.concat([Buffer.from([0xff, 0x10, 0x04]), Buffer.from('#08004Too many connections')]);
  return Buffer.concat([Buffer.from([content.length, 0, 0, 0]), content]);
})();

let directory;
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'forkful-outgoing-'));
  writeCertificate(directory);
});
after(() => rmSync(directory, { recursive: true, force: true }));

let scripts = 0;

/**
 * Starts a program under the agent; the function is called with each message of the test, and its result is sent.
 * @param {import('node:test').TestContext} t
 */
async function launch(t, major, onMessage, options = []) {
  scripts += 1;
  const script = join(directory, `app-${scripts}.cjs`);
  writeFileSync(script, `'use strict';
    const act = (${onMessage})({ require, modules: ${JSON.stringify(MODULES)} });
    process.on('message', async (message) => process.send({ answer: await act(message) }));
    process.send({ answer: 'ready' });`);
  const child = fork(script, { execPath: nodeBinary(major), execArgv: ['--require', AGENT, ...options], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const worker = { child, output: '', internal: [] };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { worker.output += text; });
  child.on('internalMessage', (message) => worker.internal.push(message));
  const exited = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
    assert.equal(worker.output, '');
  });
  await once(child, 'message');
  worker.ask = async (message) => {
    const answer = once(child, 'message');
    child.send(message);
    return (await answer)[0].answer;
  };
  worker.report = (every) => child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: every });
  worker.value = (name) => worker.internal.findLast((message) => message.act === 'report')?.values[name];
  worker.peers = () => worker.internal.findLast((message) => message.act === 'peers')?.peers;
  worker.report(1);
  await waitUntil('the first report', () => worker.value('outgoing_refused_total') === 0);
  return worker;
}

/** A TCP server that does something with each connection. */
async function serve(t, onConnection) {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    onConnection(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: server.address().port, sockets };
}

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 4 }, () => {
    test('upgrades, tunnels and early answers of other servers are no errors, and over when they are', async (t) => {
      const worker = await launch(t, major, ({ require }) => {
        const http = require('http');
        const { once } = require('events');
        const server = http.createServer((_request, response) => response.end('early')).listen(0, '127.0.0.1');
        server.on('upgrade', (_request, socket) => socket.on('error', () => {}).write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n'));
        server.on('connect', (_request, socket) => socket.on('error', () => {}).write('HTTP/1.1 200 OK\r\n\r\n'));
        const ask = (options) => http.request({ host: '127.0.0.1', port: server.address().port, agent: false, ...options });
        return async (what) => {
          if (what === 'upgrade' || what === 'connect') {
            const request = what === 'connect' ? ask({ method: 'CONNECT', path: 'a:1' }) : ask({ headers: { connection: 'Upgrade', upgrade: 'echo' } });
            request.end();
            const [, socket] = await once(request, what);
            socket.destroy();
          } else {
            const request = ask({ method: 'POST', headers: { 'content-length': 10 } });
            request.on('error', () => {}).write('hello');
            const closed = once(request, 'close');
            const [response] = await once(request, 'response');
            await once(response.resume(), 'end');
            request.end('world');
            await closed;
          }
          return true;
        };
      });
      for (const what of ['upgrade', 'connect', 'early']) await worker.ask(what);
      const values = () => ['requests_total', 'errors_total', 'in_flight'].map((name) => worker.value(`outgoing_${name}`));
      const reports = worker.internal.length;
      await waitUntil('a report that began after all of them', () => worker.internal.length > reports + 1);
      await waitUntil('their end', () => values()[2] === 0);
      // A request that is destroyed before its end is not told by Node.js 18.
      assert.match(values().join(), /^[23],0,0$/);
    });

    for (const secure of [false, true]) {
      test(`connections that PostgreSQL refuses are counted${secure ? ', also through TLS' : ''}`, async (t) => {
        const pem = (name) => readFileSync(join(directory, name));
        const database = await postgres(t, { places: 2, ...(secure && { secure: { key: pem('key.pem'), cert: pem('cert.pem') } }) });
        const worker = await launch(t, major, ({ require, modules }) => {
          const { Client } = require(`${modules}/pg`);
          const connect = async ({ port, ssl }) => {
            const client = new Client({ host: '127.0.0.1', port, user: 'app', ssl: ssl && { rejectUnauthorized: false } });
            client.on('error', () => {});
            try {
              await client.connect();
              return (await client.query('SELECT 42')).rows[0].answer;
            } catch (error) {
              return error.code;
            }
          };
          return async (message) => {
            const all = [];
            for (let number = 0; number < 4; number += 1) all.push(await connect(message));
            return all;
          };
        });
        assert.deepEqual(await worker.ask({ port: database.port, ssl: secure }), ['42', '42', '53300', '53300']);
        await waitUntil('both', () => worker.value('outgoing_refused_total') === 2);
        assert.deepEqual(worker.peers(), [['', '127.0.0.1', database.port, 2]]);
        worker.report(0);
        assert.equal(await worker.ask({ port: database.port, ssl: secure }).then((all) => all.length), 4);
        // A new daemon asks again, and hears all.
        worker.internal.length = 0;
        worker.report(1);
        await waitUntil('the same again', () => worker.peers()?.[0][3] === 2);
      });
    }

    test('connections that MySQL refuses are counted', async (t) => {
      const { port } = await serve(t, (socket) => socket.end(MYSQL_FULL));
      const worker = await launch(t, major, ({ require, modules }) => ({ port: to }) => new Promise((resolve) => {
        const connection = require(`${modules}/mysql2`).createConnection({ host: '127.0.0.1', port: to });
        connection.on('error', (error) => resolve(error.errno));
      }));
      assert.equal(await worker.ask({ port }), 1040);
      await waitUntil('it', () => worker.value('outgoing_refused_total') === 1);
      assert.deepEqual(worker.peers(), [['', '127.0.0.1', port, 1]]);
    });

    test('those who wait for a connection of mysql2 are counted until they have one or fail', async (t) => {
      const silent = await serve(t, (socket) => { if (silent.isFull) socket.end(MYSQL_FULL); });
      const worker = await launch(t, major, ({ require, modules }) => {
        let pool;
        return ({ port }) => {
          pool = require(`${modules}/mysql2`).createPool({ host: '127.0.0.1', port, connectionLimit: 1 });
          for (let number = 0; number < 3; number += 1) pool.getConnection(() => {});
          return 'asked';
        };
      });
      await worker.ask({ port: silent.port });
      await waitUntil('three wait', () => worker.value('outgoing_waiting') === 3);
      await waitUntil('a connection', () => silent.sockets.size > 0);
      // Each of the others asks for another connection when one has failed.
      silent.isFull = true;
      for (const socket of silent.sockets) socket.end(MYSQL_FULL);
      await waitUntil('all have failed', () => worker.value('outgoing_refused_total') === 3 && worker.value('outgoing_waiting') === 0);
    });

    test('hosts have their names, what comes is the app\'s, and without reports nothing is left', async (t) => {
      const { port } = await serve(t, (socket) => socket.end('E: hello'));
      const worker = await launch(t, major, ({ require }) => {
        const { Socket, connect } = require('net');
        const first = Socket.prototype.connect;
        const shape = (of) => JSON.stringify([of.name, of.length, Object.getOwnPropertyDescriptor(Socket.prototype, 'connect')]);
        const before = shape(first);
        return (message) => new Promise((resolve) => {
          if (message === 'is it the same?') return resolve(first === Socket.prototype.connect);
          if (message === 'does it look the same?') return resolve(before === shape(Socket.prototype.connect));
          const socket = connect({ host: 'localhost', family: 4, port: message.port });
          const heard = [socket.listenerCount('data')];
          let text = '';
          socket.on('connect', () => heard.push(socket.listenerCount('data')));
          socket.setEncoding('utf8').on('data', (part) => { text += part; });
          return socket.on('close', () => resolve([text, ...heard, socket.listenerCount('data')]));
        });
      });
      assert.deepEqual(await worker.ask({ port }), ['E: hello', 0, 1, 1]);
      await waitUntil('the name', () => worker.peers()?.[0][0] === 'localhost');
      assert.deepEqual(worker.peers(), [['localhost', '127.0.0.1', port, 0]]);
      // Where Node.js publishes each socket that connects, nothing is replaced.
      assert.equal(await worker.ask('is it the same?'), major >= 22);
      assert.equal(await worker.ask('does it look the same?'), true);
      worker.report(0);
      assert.equal(await worker.ask('is it the same?'), true);
    });

    for (const option of ['none', '--frozen-intrinsics']) {
      test(`an app that has its own way to connect and to read loses nothing (${option})`, async (t) => {
        const database = await postgres(t, { places: 0 });
        const { port } = await serve(t, (socket) => {
          socket.write('one');
          socket.once('data', () => socket.end('two'));
        });
        const worker = await launch(t, major, ({ require }) => async (message) => {
          const { Socket } = message.isModule ? await import('node:net') : require('net');
          const { prototype } = Socket;
          if (message.does === 'wrap') {
            // As tools do that watch apps: theirs stays around ours.
            const { connect } = prototype;
            prototype.connect = function (...args) { return Reflect.apply(connect, this, args); };
          } else if (message.does === 'freeze') {
            Object.freeze(prototype);
          } else if (message.does === 'read') {
            // Waits for something to read once, and reads later.
            const socket = new Socket();
            socket.connect({ host: '127.0.0.1', port: message.port });
            let text = '';
            await new Promise((resolve) => { socket.once('readable', resolve); });
            await new Promise(setImmediate);
            for (let part = socket.read(); part !== null; part = socket.read()) text += part;
            socket.write('go on');
            for await (const part of socket) text += part;
            return text;
          } else if (message.does === 'retry') {
            // One socket that connects again and again; nobody listens.
            const socket = new Socket().on('error', () => {});
            for (let time = 0; time < 15; time += 1) {
              socket.connect({ host: '127.0.0.1', port: message.port });
              await new Promise((resolve) => { socket.once('close', resolve); });
            }
            return socket.listenerCount('connect') <= 1;
          } else if (message.does === 'ask') {
            // What PostgreSQL's clients send first.
            const socket = new Socket().connect(message.port, '127.0.0.1');
            socket.write(Buffer.from([0, 0, 0, 8, 0, 3, 0, 0]));
            socket.resume();
            await new Promise((resolve) => { socket.once('close', resolve); });
          } else if (message.does === 'wrong') {
            try {
              new Socket().connect({});
            } catch (error) {
              return error.code;
            }
          }
          return message.does;
        }, option === 'none' ? [] : [option, '--no-warnings']);
        const closed = net.createServer().listen(0, '127.0.0.1');
        await once(closed, 'listening');
        const nobody = closed.address().port;
        closed.close();
        await once(closed, 'close');
        let refused = 0;
        const look = async (isModule) => {
          assert.equal(await worker.ask({ does: 'read', isModule, port }), 'onetwo');
          assert.equal(await worker.ask({ does: 'retry', isModule, port: nobody }), true);
          assert.equal(await worker.ask({ does: 'wrong', isModule }), 'ERR_MISSING_ARGS');
          await worker.ask({ does: 'ask', isModule, port: database.port });
          refused += 1;
          await waitUntil('the refusal', () => worker.value('outgoing_refused_total') === refused);
        };
        await look(false);
        await look(true);
        await worker.ask({ does: 'wrap' });
        await look(false);
        // Reports end and begin again below the app's function.
        worker.report(0);
        await worker.ask({ does: 'ask', port: database.port });
        worker.report(1);
        await look(true);
        await worker.ask({ does: 'freeze' });
        await look(false);
        worker.report(0);
        assert.equal(await worker.ask({ does: 'read', port }), 'onetwo');
        assert.equal(database.refused, refused + 1);
      });
    }

    test('a prototype that is frozen before reports are asked for, and a thread that connects', async (t) => {
      const { port } = await serve(t, (socket) => socket.end('hello'));
      const worker = await launch(t, major, ({ require }) => {
        const { Worker } = require('worker_threads');
        const { prototype } = require('net').Socket;
        return async (message) => {
          if (message === 'freeze') {
            Object.freeze(prototype);
            return message;
          }
          const text = `const { workerData, parentPort } = require('worker_threads');
            const { Socket } = require('net');
            let text = '';
            new Socket().connect(workerData, '127.0.0.1').on('data', (part) => { text += part; }).on('close', () => parentPort.postMessage(text));`;
          const read = (thread) => new Promise((resolve, reject) => { thread.once('message', resolve).once('error', reject); });
          return read(new Worker(text, { eval: true, workerData: message.port }));
        };
      });
      assert.equal(await worker.ask({ port }), 'hello');
      worker.report(0);
      await worker.ask('freeze');
      worker.report(1);
      worker.internal.length = 0;
      await waitUntil('reports go on', () => worker.value('outgoing_refused_total') === 0);
      assert.equal(await worker.ask({ port }), 'hello');
    });
  });
}
