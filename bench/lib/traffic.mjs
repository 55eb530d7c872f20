// Steady traffic from a separate process: `close` connections (one request each), `kept` ones and WebSockets, closed loop with a
// pause, some requests slow so that answers are in flight at any time. Every failure is counted by what the client saw;
// nothing is retried. It also records when each worker answered first, on the clock that all processes share.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, clientAddress } from './http.mjs';
import { Socket } from './websocket.mjs';

const SELF = fileURLToPath(import.meta.url);
const FAILURES_KEPT_MAX = 200;

/**
 * Starts traffic; `stop` ends it and gives the report.
 * @param {{port: number, close: number, kept: number, sockets?: number, pauseMs: number, slowEvery?: number, slowMs?: number, path?: string}} plan `path` is asked for alone
 */
export async function startTraffic(plan) {
  const child = fork(SELF, ['traffic'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const asked = new Map();
  child.on('message', ({ about, ...rest }) => {
    asked.get(about)?.(rest);
    asked.delete(about);
  });
  const ask = (about, extra = {}) => new Promise((resolve, reject) => {
    asked.set(about, resolve);
    child.once('exit', () => reject(new Error(`the traffic process ended before "${about}"`)));
    child.send({ about, ...extra });
  });
  child.setMaxListeners(0);
  await ask('start', { plan });
  return {
    /** Requests so far, and when each worker answered first (monotonic ns as text). */
    progress: () => ask('progress'),
    stop: async () => {
      const report = await ask('stop');
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended; // reaped, so that its CPU counts as the harness's
      return report;
    },
    abandon: () => child.kill('SIGKILL'),
  };
}

function makeTraffic({ port, close, kept, sockets = 0, pauseMs, slowEvery, slowMs, path }) {
  const state = { requests: 0, answered: 0, failures: {}, idleClosed: 0, firstFailures: [], firstSeen: {}, slowest: 0, stopping: false };
  const workerOf = (body) => /"pid":(\d+)/.exec(body)?.[1] ?? body.trim().split(' ').at(-1);
  /** `worker` is the one that a kept connection was with, as far as it is known. */
  const note = (answer, kind, startedAt, worker = null) => {
    state.requests += 1;
    state.slowest = Math.max(state.slowest, performance.now() - startedAt);
    if (answer.kind === 'ok') {
      state.answered += 1;
      state.firstSeen[workerOf(answer.body)] ??= String(process.hrtime.bigint());
      return;
    }
    const name = `${kind}: ${answer.kind === 'status' ? `status ${answer.status}` : answer.kind}`;
    state.failures[name] = (state.failures[name] ?? 0) + 1;
    if (state.firstFailures.length < FAILURES_KEPT_MAX) state.firstFailures.push({ name, worker, atNs: String(process.hrtime.bigint()) });
  };
  const pathOf = (i) => path ?? (i % slowEvery === 0 ? `/slow?ms=${slowMs}` : '/fast');

  async function closing(index) {
    for (let i = index; !state.stopping; i += 1) {
      const startedAt = performance.now();
      const connection = new Connection(port, { localAddress: clientAddress(index) });
      note(await connection.request(pathOf(i), { close: true }), 'close', startedAt);
      connection.close();
      await sleep(pauseMs);
    }
  }
  async function keeping(index) {
    let connection = null;
    let worker = null;
    for (let i = index; !state.stopping; i += 1) {
      if (connection?.open === false) { // it ended while idle, which is known before the request: any client would open another one
        state.idleClosed += 1;
        connection = null;
      }
      const startedAt = performance.now();
      if (connection === null) {
        connection = new Connection(port, { localAddress: clientAddress(index) });
        worker = null;
      }
      const answer = await connection.request(pathOf(i));
      note(answer, 'kept', startedAt, worker);
      if (answer.kind === 'ok') worker = workerOf(answer.body);
      if (answer.closing || !connection.open) {
        connection.close();
        connection = null;
      }
      await sleep(pauseMs);
    }
    connection?.close();
  }
  async function talking(index) {
    let socket = null;
    while (!state.stopping) {
      const startedAt = performance.now();
      // Nobody but the client closes it, so that an end between two messages is a loss, too.
      if (socket?.open === false) note({ kind: 'closed (between messages)' }, 'WebSocket', startedAt);
      let answer;
      if (socket?.open === true) answer = await socket.send('which worker?');
      else answer = await (socket = new Socket(port, { localAddress: clientAddress(index) })).upgrade();
      if (socket.upgraded && answer.body !== '' || answer.kind !== 'ok') note(answer, 'WebSocket', startedAt);
      if (answer.kind !== 'ok') socket = null;
      await sleep(pauseMs);
    }
    socket?.close();
  }
  const loops = [
    ...Array.from({ length: close }, (_, i) => closing(i)),
    ...Array.from({ length: kept }, (_, i) => keeping(close + i)),
    ...Array.from({ length: sockets }, (_, i) => talking(close + kept + i)),
  ];
  return { state, finish: () => { state.stopping = true; return Promise.all(loops); } };
}

if (process.argv[2] === 'traffic') {
  let traffic = null;
  process.on('disconnect', () => process.exit(1));
  process.on('message', async ({ about, plan }) => {
    if (about === 'start') traffic = makeTraffic(plan);
    if (about === 'stop') await traffic.finish();
    process.send({ about, ...traffic.state });
  });
}
