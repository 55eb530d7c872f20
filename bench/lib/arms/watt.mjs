// Platformatic Watt: the app's file, unchanged, as the entry point of a runtime with N worker threads.

import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { BENCH } from '../paths.mjs';

const PEER = path.join(BENCH, 'peers/watt');
export const WATT = path.join(PEER, 'node_modules/wattpm/bin/cli.js');
export const NODE_24 = path.join(PEER, 'node_modules/node/bin/node');

/** @param {import('../server.mjs').Server} server */
export async function startWatt(server) {
  const application = path.join(server.directory, 'app');
  mkdirSync(application);
  symlinkSync(path.join(PEER, 'node_modules'), path.join(server.directory, 'node_modules'));
  copyFileSync(server.app, path.join(application, 'server.cjs'));
  const json = (file, value) => writeFileSync(file, JSON.stringify(value, null, 2));
  json(path.join(application, 'package.json'), { name: 'app', private: true, main: 'server.cjs' });
  json(path.join(application, 'watt.json'), {
    module: '@platformatic/node',
    node: { main: 'server.cjs' },
    runtime: { workers: server.workersWanted, server: { hostname: '::', port: server.port }, logger: { level: 'error' }, watch: false },
  });
  const child = server.spawn(server.node, [WATT, 'start'], { cwd: application });
  server.shutdown = async () => void child.kill('SIGTERM');
  await server.ready();
}
