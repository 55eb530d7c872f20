// Waits for a state instead of sleeping.
import { setTimeout as sleep } from 'node:timers/promises';

/** The polling interval; short compared to every time limit of tests. */
const STEP_MS = 10;

/** The pause after an attempt, relative to the time that the attempt took. */
const PAUSE_PER_ATTEMPT = 2;

/** The time limit of waits. It is long enough for the slowest and busiest machine, and costs nothing if the state is reached. */
const BOUND_MS = 180_000;

/**
 * Waits until `predicate` returns a truthy value, and returns it. Its exceptions count as "not yet"; the
 * last one is in the error.
 * @template T
 * @param {string} what what is waited for, in words
 * @param {() => T | Promise<T>} predicate
 * @param {number} boundMs
 * @returns {Promise<T>}
 */
export async function waitUntil(what, predicate, boundMs = BOUND_MS) {
  const end = Date.now() + boundMs;
  for (;;) {
    let cause;
    const began = performance.now();
    try {
      const value = await predicate();
      if (value) return value;
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= end) throw new Error(`not within ${boundMs} ms: ${what}${cause ? `; the last attempt: ${cause.message}` : ''}`, { cause });
    // An attempt may start programs: those that only wait leave the cores to what they wait for.
    await sleep(Math.max(STEP_MS, PAUSE_PER_ATTEMPT * (performance.now() - began)));
  }
}

/**
 * The promise's value, or an error if it takes too long.
 * @template T
 * @param {string} what
 * @param {Promise<T>} promise
 * @param {number} boundMs
 * @returns {Promise<T>}
 */
export async function within(what, promise, boundMs = BOUND_MS) {
  let timer;
  const bound = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${boundMs} ms: ${what}`)), boundMs);
  });
  try {
    return await Promise.race([promise, bound]);
  } finally {
    clearTimeout(timer);
  }
}
