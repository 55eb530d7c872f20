// A process that has nothing to do with the server and burns a CPU for the given milliseconds, then ends.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SELF = fileURLToPath(import.meta.url);
const BURN_MS_MAX = 120_000;

/** Starts `count` burners; the result stops them. */
export function startBurners(count, ms) {
  const children = Array.from({ length: count }, () => spawn(process.execPath, [SELF, 'burn', String(ms)], { stdio: 'ignore' }));
  return async () => {
    await Promise.all(children.map((child) => new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.once('exit', resolve);
      child.kill('SIGKILL');
    })));
  };
}

if (process.argv[2] === 'burn') {
  const end = performance.now() + Math.min(Number(process.argv[3]), BURN_MS_MAX);
  while (performance.now() < end);
}
