// The harness itself: its statistics, what its client calls a failure, and that nothing outlives an arm.

import assert from 'node:assert/strict';
import net from 'node:net';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { ARMS } from '../lib/arms.mjs';
import { Connection, clientAddress, get } from '../lib/http.mjs';
import { membersOf } from '../lib/proc.mjs';
import { freePort, waitUntil } from '../lib/server.mjs';
import { latencySummary, pairedRatio, quantile, seededRandom, shuffled, spread } from '../lib/stats.mjs';
import { startTraffic } from '../lib/traffic.mjs';

test('quantiles interpolate between order statistics', () => {
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
  assert.equal(quantile([10, 9, 100], 1), 100);
  assert.ok(Number.isNaN(quantile([], 0.5)));
  assert.deepEqual(spread([1, 2, 3, 4, 5]), { n: 5, median: 3, min: 1, max: 5, iqr: 2 });
});

test('a ratio pairs the rounds that both arms have, with a Student interval on the logarithms', () => {
  const ratio = pairedRatio(new Map([[0, 2], [1, 4], [2, 8], [9, 1]]), new Map([[0, 1], [1, 1], [2, 1]]));
  assert.equal(ratio.n, 3);
  assert.ok(Math.abs(ratio.ratio - 4) < 1e-9);
  const half = (4.303 * Math.LN2) / Math.sqrt(3); // standard deviation of ln 2, ln 4, ln 8 is ln 2
  assert.ok(Math.abs(ratio.low - 4 * Math.exp(-half)) < 1e-9);
  assert.ok(Math.abs(ratio.high - 4 * Math.exp(half)) < 1e-9);
  assert.equal(pairedRatio(new Map([[0, 2]]), new Map([[0, 1]])).low, null);
  assert.equal(pairedRatio(new Map([[0, 2]]), new Map()), null);
});

test('a percentile that the sample cannot carry is not given', () => {
  const latency = latencySummary(Array.from({ length: 500 }, (_, i) => i * 100));
  assert.equal(latency.p99, null);
  assert.equal(latency.over15ms, 349);
  assert.equal(latencySummary(Array.from({ length: 1000 }, () => 2000)).p99, 2);
});

test('the order of a seed can be repeated', () => {
  const items = ['a', 'b', 'c', 'd', 'e', 'f'];
  assert.deepEqual(shuffled(items, seededRandom(7)), shuffled(items, seededRandom(7)));
  assert.deepEqual(shuffled(items, seededRandom(8)).sort(), items);
});

test('every client has a loopback address of its own', () => {
  const addresses = new Set(Array.from({ length: 10_000 }, (_, i) => clientAddress(i)));
  assert.equal(addresses.size, 10_000);
  for (const address of addresses) assert.ok(net.isIPv4(address) && address.startsWith('127.'));
});

/** A server that answers each request line with `script(socket)`. */
async function scripted(script) {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => script(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: server.address().port, close: () => new Promise((resolve) => server.close(resolve)) };
}

test('the client names a failure by what it saw', async () => {
  const cases = [
    [(socket) => socket.end(), 'closed (before response)'],
    [(socket) => socket.resetAndDestroy(), 'ECONNRESET (before response)'],
    [(socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal'), 'closed (in response)'],
    [(socket) => socket.end('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'), 'status'],
    [(socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'), 'ok'],
  ];
  for (const [script, kind] of cases) {
    const server = await scripted(script);
    assert.equal((await get(server.port, '/')).kind, kind);
    await server.close();
  }
  assert.equal((await get(await freePort(), '/')).kind, 'ECONNREFUSED (connect)');
});

test('a kept connection that ends between two requests fails as a reused one', async () => {
  let requests = 0;
  const server = await scripted((socket) => {
    requests += 1;
    if (requests === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    else socket.end();
  });
  const connection = new Connection(server.port);
  assert.equal((await connection.request('/')).kind, 'ok');
  assert.equal((await connection.request('/')).kind, 'closed (reused connection)');
  await server.close();
});

for (const name of ['plain', 'node-cluster-rr', 'node-cluster-none', 'pm2', 'watt', 'forkful-auto']) {
  test(`${name}: serves, carries traffic, and leaves nothing behind`, { skip: ARMS[name].missing() ?? false }, async () => {
    const server = await ARMS[name].start({ workers: 2 });
    try {
      const traffic = await startTraffic({ port: server.port, close: 2, kept: 2, pauseMs: 1, slowEvery: 10, slowMs: 5 });
      await waitUntil('100 requests', 20_000, async () => (await traffic.progress()).requests >= 100);
      const report = await traffic.stop();
      assert.equal(server.workerPids().length, name === 'plain' || name === 'watt' ? 1 : 2);
      // Forkful's daemon has its keeper beside it.
      const managers = { plain: 0, watt: 0, 'forkful-auto': 2 };
      assert.equal(server.managerPids().length, managers[name] ?? 1);
      assert.deepEqual(report.failures, {});
      assert.equal(report.answered, report.requests);
    } finally {
      assert.deepEqual(await server.stop(), []);
    }
    assert.deepEqual(membersOf(server.marks), []);
    assert.equal(existsSync(server.directory), false);
  });
}
