// Does the jobs of the queue. A worker that is told to end takes no new job and finishes those that it has.
import { setTimeout as sleep } from 'node:timers/promises';

import { Worker } from 'bullmq';

import { connection, NAME } from './queue.js';

const JOB_MS = Number(process.env.JOB_MS ?? 500);

const worker = new Worker(NAME, async (job) => {
  await sleep(JOB_MS);
  console.log(`mail ${job.id} to ${job.data.to}`);
}, { connection, concurrency: 5 });

worker.on('error', (error) => console.error(error.message));
worker.on('failed', (job, error) => console.error(`mail ${job?.id}: ${error.message}`));

async function shutdown() {
  await worker.close();
  // The channel to Forkful would keep a process alive that has no server to close.
  process.exit(0);
}
process.once('SIGINT', shutdown);
process.once('SIGTERM', shutdown);

await worker.waitUntilReady();
// It listens on no port: this is how Forkful knows that it works (`wait_ready`).
process.send?.('ready');
