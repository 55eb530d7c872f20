// What is measured for reports, by itself: garbage collections, and HTTP requests.
import assert from 'node:assert/strict';
import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';

import { waitUntil } from '../../tests/e2e/lib/wait.mjs';

const require = createRequire(import.meta.url);
const { watchGarbage } = require('../reports.cjs');
const { Requests, watchRequests } = require('../requests.cjs');

const MINOR = { detail: { kind: 1 }, duration: 0.5 };
const MAJOR = { detail: { kind: 4 }, duration: 20 };

/** Periods, each with its busy time, its collections and its length; gives whether the next one is observed, and how many were counted so far. */
function periods(observesAll) {
  const loop = { busyMs: 0 };
  let entries = [];
  let isObserving = false;
  class PerformanceObserver {
    observe() { isObserving = true; }
    disconnect() { isObserving = false; }
    takeRecords() { return entries.splice(0); }
  }
  const meter = watchGarbage({ PerformanceObserver }, { guarded: (step) => step }, loop);
  meter.observesAll = observesAll;
  return (busyMs, minor, major = 0, seconds = 1) => {
    loop.busyMs = busyMs;
    if (isObserving) entries = [...Array(minor).fill(MINOR), ...Array(major).fill(MAJOR)];
    meter.read(seconds);
    const count = ({ counts }) => Math.round(counts.reduce((sum, one) => sum + one));
    return [isObserving, count(meter.kinds[0]), count(meter.kinds[1])];
  };
}

test('few collections are all observed', () => {
  const period = periods(false);
  assert.deepEqual(period(500, 20), [true, 20, 0]);
  assert.deepEqual(period(500, 3, 1), [true, 23, 1]);
  assert.deepEqual(period(10, 5, 1, 0.02), [true, 28, 2], 'a short period says nothing of the next ones');
  assert.deepEqual(period(500, 3), [true, 31, 2]);
});

test('with many collections, four of five periods are estimated in proportion to the time in which the loop was busy', () => {
  const period = periods(false);
  assert.deepEqual(period(500, 100, 1), [false, 100, 1]);
  assert.deepEqual(period(500, 70), [false, 200, 2]);
  assert.deepEqual(period(250, 70), [false, 250, 3], 'half a major collection is rounded up');
  assert.deepEqual(period(500, 70), [false, 350, 4]);
  assert.deepEqual(period(500, 70), [true, 450, 5]);
  assert.deepEqual(period(500, 10), [true, 460, 5]);
});

test('collections are observed again when there is less to do', () => {
  const period = periods(false);
  period(500, 100);
  assert.deepEqual(period(10, 70), [true, 102, 0]);
  assert.deepEqual(period(500, 5), [true, 107, 0]);
});

test('without a quiet pace, all collections are observed', () => {
  const period = periods(true);
  assert.deepEqual(period(500, 100), [true, 100, 0]);
  assert.deepEqual(period(500, 90), [true, 190, 0]);
});

/** A server in this process whose requests are counted from now on; its answers end when `release` is called. */
async function serve(t) {
  const waiting = [];
  const server = http.createServer((_request, response) => { waiting.push(response); }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  const held = (name) => diagnostics.channel(name);
  const requests = new Requests({ requestStart: held('http.server.request.start'), held });
  const agent = { guarded: (step) => step, sessions: new Set(), sessionListeners: new Set(), listenToRequests: (...all) => requests.listen(...all) };
  const count = () => {
    const meter = watchRequests(agent, { performance }, () => {});
    t.after(() => meter.end());
    return meter;
  };
  const connect = async () => {
    const socket = net.connect(server.address().port, '127.0.0.1').resume();
    await once(socket, 'connect');
    return { socket, ask: (times) => socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(times)) };
  };
  return { waiting, count, connect, release: () => { for (const response of waiting.splice(0)) response.end(); } };
}

/** The requests in progress and the aborted ones. */
const now = ({ read }) => [read().http_in_flight, read().http_aborted_total];

test('each of the requests that a client sends without waiting counts as aborted when it disconnects', async (t) => {
  const { waiting, count, connect, release } = await serve(t);
  const meter = count();
  const { socket, ask } = await connect();
  ask(3);
  await waitUntil('three requests', () => waiting.length === 3);
  assert.deepEqual(now(meter), [3, 0]);
  socket.destroy();
  await waitUntil('the end of the connection', () => now(meter)[1] === 3);
  release();
  assert.deepEqual(now(meter), [0, 3]);
  assert.equal(meter.counts.ended, 0);
});

test('requests of a connection are counted anew when counting begins again', async (t) => {
  const { waiting, count, connect, release } = await serve(t);
  const first = count();
  const { socket, ask } = await connect();
  ask(1);
  await waitUntil('a request', () => waiting.length === 1);
  first.end();
  const second = count();
  ask(1);
  release();
  await waitUntil('the second request', () => waiting.length === 1);
  assert.deepEqual([second.counts.requests, second.counts.ended], [1, 0]);
  socket.destroy();
  await waitUntil('the end of the connection', () => now(second)[1] === 1);
  assert.deepEqual(now(second), [0, 1]);
});
