// The folder outside the home in which root's daemons store the agent for workers of other users. All daemons
// of the machine share it, so tests that remove it run one at a time.
import { existsSync, rmSync } from 'node:fs';
import net from 'node:net';

import { waitUntil } from './wait.mjs';

const FOLDER = '/run/forkful';

/** An abstract socket name (unix(7)): one process at a time can listen on it, and it is free when that process has ended. */
const LOCK = '\0forkful-e2e-agents';

const LOCK_MS_MAX = 300_000;

/**
 * Makes the rest of a test the only user of the folder, and removes what the test has left in it.
 * Call its result when the sandbox exists: steps after a test run in the order in which they were added,
 * and the sandbox's daemon must end first.
 * @param {{ after: (step: () => unknown) => void }} t
 */
export async function aloneWithAgents(t) {
  const lock = await waitUntil('the lock of the folder of agents', () => new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject).listen(LOCK, () => resolve(server));
  }), LOCK_MS_MAX);
  const isThere = existsSync(FOLDER);
  return () => t.after(async () => {
    if (!isThere) rmSync(FOLDER, { recursive: true, force: true });
    await new Promise((resolve) => lock.close(resolve));
  });
}
