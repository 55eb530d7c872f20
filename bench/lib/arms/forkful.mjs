// This project's binary, with a private home.

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { REPOSITORY } from '../paths.mjs';

const APP_NAME = 'bench';

/** The binary under test: FORKFUL_BIN, or the release build. */
export const forkfulBinary = () => path.resolve(process.env.FORKFUL_BIN ?? path.join(REPOSITORY, 'target/release/forkful'));

/** An older build beside it (`--baseline PATH`); `null` where none was named. */
export const baselineBinary = () => (process.env.FORKFUL_BASELINE ? path.resolve(process.env.FORKFUL_BASELINE) : null);

/** Whether a process is a daemon of this binary: the kernel names it after the file, in 15 characters. */
export const isDaemonOf = (binary) => ({ comm }) => comm === path.basename(binary).slice(0, 15);

/** Gives the server a private daemon: `server.forkful(args)` runs a command of it. */
export function prepareForkful(server, binary = forkfulBinary()) {
  const home = path.join(server.directory, 'home');
  mkdirSync(home, { mode: 0o700 });
  Object.assign(server.extraEnv, { FORKFUL_HOME: home, NO_COLOR: '1' });
  server.marks.push(`FORKFUL_HOME=${home}`); // the daemon keeps little else of its environment
  server.forkful = (...args) => server.command(binary, args);
  server.listCommand = [binary, 'list'];
  server.shutdown = async () => {
    await server.forkful('delete', 'all');
    await server.forkful('kill');
  };
}

/** @param {import('../server.mjs').Server} server @param {string} balance @param {string} binary @param {string[]} more options of `start` */
export async function startForkful(server, balance, binary = forkfulBinary(), more = []) {
  prepareForkful(server, binary);
  server.reload = () => server.forkful('reload', APP_NAME);
  server.forgive = () => server.forkful('reset', APP_NAME);
  const { code, stdout, stderr } = await server.forkful(
    'start', server.app, '-i', String(server.workersWanted), '--name', APP_NAME, '--balance', balance, ...more, ...server.listenTimeout,
  );
  if (code !== 0) throw new Error(`forkful start exited with ${code}\n${stdout}${stderr}`);
  await server.ready();
}
