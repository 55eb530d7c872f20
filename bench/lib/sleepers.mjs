// Many idle workers that are not Node.js (`sleep`), to measure only the manager.

import { baselineBinary, forkfulBinary, prepareForkful } from './arms/forkful.mjs';
import { PM2, preparePm2 } from './arms/pm2.mjs';
import { Server, waitUntil } from './server.mjs';
import { existsSync } from 'node:fs';

const SLEEP = '/bin/sleep';
const SECONDS = '3600';
const START_MS_MAX = 120_000;

/** A build of this project. @param {() => string | null} binary */
const forkful = (binary) => ({
  present: () => binary() !== null && existsSync(binary()),
  prepare: (server) => prepareForkful(server, binary()),
  run: (server) => server.forkful,
  start: (server, count) => server.forkful('start', SLEEP, '-i', String(count), '--name', 'idle', '--', SECONDS),
});

/** Managers that can run `sleep` many times over. */
export const MANAGERS = {
  forkful: forkful(forkfulBinary),
  baseline: forkful(baselineBinary),
  pm2: {
    present: () => existsSync(PM2),
    prepare: preparePm2,
    run: (server) => server.pm2,
    start: (server, count) => server.pm2('start', SLEEP, '-x', '--interpreter', 'none', '-i', String(count), '--name', 'idle', '--', SECONDS),
  },
};

const isSleeper = ({ comm }) => comm === 'sleep';

/** Starts `count` sleepers under the manager, gives the server to `use`, stops all. */
export async function withSleepers(name, count, use) {
  const server = new Server(name, { app: SLEEP, workers: count, node: process.execPath });
  try {
    MANAGERS[name].prepare(server);
    const { code, stdout, stderr } = await MANAGERS[name].start(server, count);
    if (code !== 0) throw new Error(`${name} start exited with ${code}\n${stdout}${stderr}`.slice(0, 2000));
    await waitUntil(`${count} sleepers`, START_MS_MAX, () => server.members().filter(isSleeper).length >= count, 100);
    return await use(server, server.members().filter((member) => !isSleeper(member)).map(({ pid }) => pid));
  } finally {
    await server.stop();
  }
}
