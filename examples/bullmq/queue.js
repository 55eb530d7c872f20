// What both apps know of the queue and of Redis.
import { Queue } from 'bullmq';

export const NAME = process.env.QUEUE ?? 'mail';
export const connection = { url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' };

/** A queue to add jobs to; a job that fails is tried again. */
export function openQueue() {
  return new Queue(NAME, {
    // An app that answers requests says soon that Redis is away, instead of waiting for it.
    connection: { ...connection, enableOfflineQueue: false },
    defaultJobOptions: { attempts: 3, backoff: { type: 'exponential', delay: 1000 }, removeOnComplete: 10_000, removeOnFail: 10_000 },
  });
}
