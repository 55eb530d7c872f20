// A process under the agent, whose primary is the test, and its clients.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { nodeBinary } from '../../../tests/e2e/lib/nodes.mjs';
import { writeCertificate } from '../../../tests/e2e/lib/tls.mjs';
import { waitUntil } from '../../../tests/e2e/lib/wait.mjs';

const AGENT = fileURLToPath(new URL('../../agent.cjs', import.meta.url));
/** The app of most tests. */
export const SERVER = fileURLToPath(new URL('../fixtures/server.cjs', import.meta.url));

/** A folder of this file's tests; it has a certificate. @type {string} */
export let directory;
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'forkful-agent-'));
  writeCertificate(directory);
});
after(() => rmSync(directory, { recursive: true, force: true }));

/** Starts a program under the agent, and keeps what it says. */
export function launch(t, major, script, args = [], env = {}, execArgv = []) {
  const child = fork(script, args, {
    execPath: nodeBinary(major),
    execArgv: ['--require', AGENT, ...execArgv],
    env: { ...process.env, TLS_DIRECTORY: directory, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const worker = { child, said: [], internal: [], output: '' };
  child.on('message', (message) => worker.said.push(message));
  child.on('internalMessage', (message) => worker.internal.push(message));
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => { worker.output += text; });
  worker.exited = once(child, 'exit');
  worker.heard = (what, predicate) => waitUntil(what, () => worker.said.find(predicate));
  worker.drain = (graceMs) => child.send({ cmd: 'NODE_FORKFUL', act: 'drain', grace_ms: graceMs });
  worker.drained = () => waitUntil('drained', () => worker.internal.find((m) => m.act === 'drained'));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await worker.exited;
  });
  return worker;
}

/** Starts the server of a kind. */
export async function serve(t, major, kind) {
  const worker = launch(t, major, SERVER, [kind]);
  const { port } = await worker.heard('a port', (m) => m.port);
  return { ...worker, port };
}

/** One request on a keep-alive agent of its own. */
export function client(t, kind) {
  const protocol = kind === 'https' ? https : http;
  const agent = new protocol.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  t.after(() => agent.destroy());
  const get = (port, path) => new Promise((resolve, reject) => {
    const request = protocol.get({ host: '127.0.0.1', port, path, agent }, async (response) => {
      try {
        let body = '';
        for await (const text of response) body += text;
        resolve({ body, connection: response.headers.connection, reused: request.reusedSocket });
      } catch (error) {
        reject(error);
      }
    });
    request.on('error', reject);
  });
  return { get, agent };
}

/** A plain connection that keeps what it reads and how it ended. */
export async function connect(t, port) {
  const socket = net.connect({ host: '127.0.0.1', port });
  const seen = { socket, text: '', ended: false, error: null };
  socket.on('data', (text) => { seen.text += text; });
  socket.on('end', () => { seen.ended = true; });
  socket.on('error', (error) => { seen.error = error; });
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return seen;
}

/** Waits until the worker has taken all that it was sent before this. */
export async function sync(worker) {
  const mark = `sync ${Math.random()}`;
  worker.child.send(mark);
  await worker.heard('an echo', (m) => m.got === mark);
}

/** How often a function of a script ran by the coverage that a process left in a folder. */
export function timesRun(folder, script, name) {
  const scripts = readdirSync(folder).flatMap((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')).result);
  const found = scripts.find(({ url }) => url === pathToFileURL(script).href)?.functions.find(({ functionName }) => functionName === name);
  return found?.ranges[0].count;
}
