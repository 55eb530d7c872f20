// A process that has nothing to do with the server and burns a CPU for the given milliseconds, then ends.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SELF = fileURLToPath(import.meta.url);
const BURN_MS_MAX = 120_000;
/** How often a burner checks whether it was orphaned. */
const ORPHAN_CHECK_MS = 100;

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
  const parent = process.ppid;
  const end = performance.now() + Math.min(Number(process.argv[3]), BURN_MS_MAX);
  for (let until = 0; until < end && process.ppid === parent; ) {
    until = performance.now() + ORPHAN_CHECK_MS;
    while (performance.now() < until);
  }
}
