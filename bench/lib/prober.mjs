// The open-loop prober, a separate process: sends requests at a fixed rate, each on a new connection, whether
// or not earlier answers have arrived, and measures from the moment when the request was *due*. No sample
// is invented or left out; every latency is kept. How late the prober itself was ("slip") is reported too.
// Started by fork() with one message {port, path, rate, seconds}; answers with one message and exits.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { clientAddress, get } from './http.mjs';

const SELF = fileURLToPath(import.meta.url);
/** Clients' addresses in turn, so that balancing by address distributes the probes. */
const ADDRESSES = 250;
const REST_MS_MAX = 20_000;

/**
 * Runs a prober in its own process.
 * @param {{port: number, path: string, rate: number, seconds: number}} plan
 * @returns {Promise<{latenciesUs: number[], slipsUs: number[], failures: Record<string, number>, workers: Record<string, number>}>}
 */
export function probe(plan) {
  return new Promise((resolve, reject) => {
    const child = fork(SELF, ['prober'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    let report = null;
    child.on('message', (message) => { report = message; });
    child.on('error', reject);
    child.on('exit', (code) => (report === null ? reject(new Error(`the prober exited with ${code}`)) : resolve(report)));
    child.send(plan);
    setTimeout(() => child.kill('SIGKILL'), plan.seconds * 1000 + 2 * REST_MS_MAX).unref();
  });
}

async function sendAll({ port, path, rate, seconds }) {
  const count = Math.round(rate * seconds);
  const latenciesUs = new Float64Array(count);
  const slipsUs = new Float64Array(count);
  const failures = {};
  const workers = {};
  let outstanding = 0;
  let idle = null;
  const send = async (i, intended) => {
    outstanding += 1;
    slipsUs[i] = (performance.now() - intended) * 1000;
    const { kind, body } = await get(port, path, { localAddress: clientAddress(i % ADDRESSES) });
    latenciesUs[i] = (performance.now() - intended) * 1000;
    if (kind === 'ok') workers[body.trim()] = (workers[body.trim()] ?? 0) + 1;
    else failures[kind] = (failures[kind] ?? 0) + 1;
    outstanding -= 1;
    if (outstanding === 0) idle?.();
  };
  const start = performance.now() + 20;
  const intendedAt = (i) => start + (i * 1000) / rate;
  await new Promise((resolve) => {
    let next = 0;
    const turn = () => {
      while (next < count && intendedAt(next) <= performance.now()) {
        send(next, intendedAt(next));
        next += 1;
      }
      if (next === count) resolve();
      else setTimeout(turn, Math.max(0, intendedAt(next) - performance.now()));
    };
    turn();
  });
  if (outstanding > 0) await Promise.race([new Promise((resolve) => { idle = resolve; }), new Promise((resolve) => setTimeout(resolve, REST_MS_MAX))]);
  const whole = (values) => Array.from(values, Math.round);
  return { latenciesUs: whole(latenciesUs), slipsUs: whole(slipsUs), failures, workers, unanswered: outstanding };
}

if (process.argv[2] === 'prober') {
  process.on('disconnect', () => process.exit(1));
  process.once('message', async (plan) => {
    const report = await sendAll(plan);
    process.send(report, () => process.exit(0));
  });
}
