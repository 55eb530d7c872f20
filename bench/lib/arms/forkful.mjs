// This project's own binary, with a home of its own.

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { REPOSITORY } from '../paths.mjs';

const APP_NAME = 'bench';

/** The binary under test: FORKFUL_BIN, or the release build. */
export const forkfulBinary = () => path.resolve(process.env.FORKFUL_BIN ?? path.join(REPOSITORY, 'target/release/forkful'));

/** Gives the server a private daemon: `server.forkful(args)` runs a command of it. */
export function prepareForkful(server) {
  const home = path.join(server.directory, 'home');
  mkdirSync(home, { mode: 0o700 });
  Object.assign(server.extraEnv, { FORKFUL_HOME: home, NO_COLOR: '1' });
  server.marks.push(`FORKFUL_HOME=${home}`); // the daemon keeps little else of its environment
  server.forkful = (...args) => server.command(forkfulBinary(), args);
  server.listCommand = [forkfulBinary(), 'list'];
  server.shutdown = async () => {
    await server.forkful('delete', 'all');
    await server.forkful('kill');
  };
}

/** @param {import('../server.mjs').Server} server @param {string} balance */
export async function startForkful(server, balance) {
  prepareForkful(server);
  server.reload = () => server.forkful('reload', APP_NAME);
  server.forgive = () => server.forkful('reset', APP_NAME);
  const { code, stdout, stderr } = await server.forkful(
    'start', server.app, '-i', String(server.workersWanted), '--name', APP_NAME, '--balance', balance, ...server.listenTimeout,
  );
  if (code !== 0) throw new Error(`forkful start exited with ${code}\n${stdout}${stderr}`);
  await server.ready();
}
