// Keeps K of the N workers blocked: one kept connection to each of K different workers, and on each a request
// that burns the worker's event loop, sent again `gapMs` after it was answered. The gap lets the worker's loop turn:
// without one, the next block arrives before the queue is served, Node accepts one connection per turn of its
// loop, and a peer's latencies grow with the length of the test instead of showing the block.

import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, clientAddress } from './http.mjs';

const CONNECTIONS_MAX = 200;

/** Kept connections to `count` different workers. */
async function connectionsToDistinct(port, count) {
  const byWorker = new Map();
  const spare = [];
  for (let i = 0; i < CONNECTIONS_MAX && byWorker.size < count; i += 1) {
    const connection = new Connection(port, { localAddress: clientAddress(1000 + i) });
    const { kind, body } = await connection.request('/pid');
    if (kind === 'ok' && !byWorker.has(body)) byWorker.set(body, connection);
    else spare.push(connection); // stays open, so that "fewest connections" selects another worker
  }
  for (const connection of spare) connection.close();
  if (byWorker.size < count) {
    for (const connection of byWorker.values()) connection.close();
    throw new Error(`${CONNECTIONS_MAX} connections reached ${byWorker.size} workers, not ${count}`);
  }
  return byWorker;
}

/** @returns {Promise<{workers: string[], stop: () => Promise<{blocks: number, failures: string[]}>}>} */
export async function blockWorkers(port, count, ms, gapMs) {
  const byWorker = await connectionsToDistinct(port, count);
  let stopping = false;
  let blocks = 0;
  const failures = [];
  const loops = [...byWorker.values()].map(async (connection) => {
    while (!stopping) {
      const { kind } = await connection.request(`/block?ms=${ms}`);
      if (kind !== 'ok') return void failures.push(kind);
      blocks += 1;
      if (gapMs > 0) await sleep(gapMs);
    }
    connection.close();
  });
  const stop = async () => {
    stopping = true;
    await Promise.all(loops);
    return { blocks, failures };
  };
  return { workers: [...byWorker.keys()], stop };
}
