// PM2 with a private home; its version check and its banner are off.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { BENCH } from '../paths.mjs';

export const PM2 = path.join(BENCH, 'node_modules/pm2/bin/pm2');
const APP_NAME = 'bench';

/** Gives the server a private PM2: `server.pm2(args)` runs a command of it. */
export function preparePm2(server) {
  const home = path.join(server.directory, 'pm2');
  mkdirSync(home);
  writeFileSync(path.join(home, 'touch'), ''); // the mark of a first run, which would look for a newer version
  Object.assign(server.extraEnv, { PM2_HOME: home, PM2_DISABLE_VERSION_CHECK: 'true', PM2_DISCRETE_MODE: 'true' });
  server.pm2 = (...args) => server.command(server.node, [PM2, ...args]);
  server.listCommand = [server.node, PM2, 'list'];
  server.shutdown = async () => void (await server.pm2('kill'));
}

/** @param {import('../server.mjs').Server} server */
export async function startPm2(server) {
  preparePm2(server);
  server.reload = () => server.pm2('reload', APP_NAME);
  const { code, stdout, stderr } = await server.pm2(
    'start', server.app, '-i', String(server.workersWanted), '--name', APP_NAME, ...server.listenTimeout,
  );
  if (code !== 0) throw new Error(`pm2 start exited with ${code}\n${stdout}${stderr}`);
  await server.ready();
}
