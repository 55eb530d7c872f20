// The arms: the programs that serve the same app, side by side. Each says whether it can run here and how it
// is started; the started server knows how it is stopped.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { BENCH, BUN, REPOSITORY } from './paths.mjs';
import { baselineBinary, startForkful, forkfulBinary } from './arms/forkful.mjs';
import { startPm2, PM2 } from './arms/pm2.mjs';
import { startWatt, WATT, NODE_24 } from './arms/watt.mjs';
import { Server, freePort } from './server.mjs';

/**
 * @typedef {object} Arm
 * @property {string} about a description, for people
 * @property {() => string | null} missing why it cannot run here
 * @property {() => string} version of the program under test
 * @property {(options: {app?: string, workers: number, env?: Record<string, string>, listenTimeoutMs?: number}) => Promise<Server>} start
 */

export const APP = path.join(BENCH, 'apps/server.cjs');

const versionOf = (file, ...args) => execFileSync(file, args, { encoding: 'utf8' }).trim();
const packageVersion = (directory) => JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')).version;

/** Starts a server, and stops it again if it does not become ready. */
async function up(name, options, node, begin) {
  const server = new Server(name, { ...options, app: options.app ?? APP, node });
  server.port = await freePort();
  try {
    await begin(server);
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** A child that we own and end with SIGTERM. */
async function ownChild(server, args) {
  const child = server.spawn(server.node, args);
  server.shutdown = async () => void child.kill('SIGTERM');
  await server.ready();
}

/** @returns {Arm} */
function plain(name, about, node) {
  return {
    about,
    missing: () => (existsSync(node) ? null : 'run `npm ci` in bench/peers/watt'),
    version: () => versionOf(node, '--version'),
    start: (options) => up(name, { ...options, workers: 1 }, node, (server) => ownChild(server, [server.app])),
  };
}

/** @returns {Arm} */
function nodeCluster(name, policy, about) {
  const primary = path.join(BENCH, 'peers/node-cluster.cjs');
  return {
    about,
    missing: () => null,
    version: () => process.version,
    start: (options) =>
      up(name, options, process.execPath, (server) => ownChild(server, [primary, server.app, String(server.workersWanted), policy])),
  };
}

/** @param {string} balance @param {string} [name] @param {string[]} [more] options of `start` @returns {Arm} */
function forkful(balance, name = `forkful-${balance}`, more = []) {
  return {
    about: ['this project, --balance', balance, ...more].join(' '),
    missing: () => (existsSync(forkfulBinary()) ? null : 'run `cargo build --release`, or set FORKFUL_BIN'),
    version: () => {
      const commit = versionOf('git', '-C', REPOSITORY, 'rev-parse', '--short', 'HEAD');
      return `${versionOf(forkfulBinary(), '--version')} (${commit})`;
    },
    start: (options) => up(name, options, process.execPath, (server) => startForkful(server, balance, forkfulBinary(), more)),
  };
}

/** This project with processes of Bun, which open their ports by themselves. @returns {Arm} */
function forkfulBun() {
  const { missing, version } = forkful('auto');
  return {
    about: 'this project with processes of Bun, fork mode',
    missing: () => missing() ?? (existsSync(BUN) ? null : 'run `npm ci` in npm/test, or set BUN'),
    version: () => `${version()} with Bun ${versionOf(BUN, '--version')}`,
    start: (options) => up('forkful-bun', options, process.execPath, (server) => startForkful(server, 'auto', forkfulBinary(), ['--interpreter', BUN])),
  };
}

/** Another build of this project, to be measured side by side. @returns {Arm} */
function baseline(balance) {
  return {
    about: `another build of this project (--baseline PATH), --balance ${balance}`,
    missing: () => (baselineBinary() === null ? 'name the build: --baseline PATH' : existsSync(baselineBinary()) ? null : `${baselineBinary()} is missing`),
    version: () => `${versionOf(baselineBinary(), '--version')} (${baselineBinary()})`,
    start: (options) => up(`baseline-${balance}`, options, process.execPath, (server) => startForkful(server, balance, baselineBinary())),
  };
}

/** @type {Record<string, Arm>} */
export const ARMS = {
  plain: plain('plain', 'one plain `node app`', process.execPath),
  'plain-node24': plain('plain-node24', 'one plain process on the Node that Watt runs on', NODE_24),
  'node-cluster-rr': nodeCluster('node-cluster-rr', 'rr', 'Node cluster, round robin (its default)'),
  'node-cluster-none': nodeCluster('node-cluster-none', 'none', 'Node cluster, SCHED_NONE'),
  pm2: {
    about: 'PM2 cluster mode, pm2 start -i N',
    missing: () => (existsSync(PM2) ? null : 'run `npm ci` in bench'),
    version: () => packageVersion(path.join(BENCH, 'node_modules/pm2')),
    start: (options) => up('pm2', options, process.execPath, startPm2),
  },
  watt: {
    about: 'Platformatic Watt, worker threads, Node 24',
    missing: () => (existsSync(WATT) && existsSync(NODE_24) ? null : 'run `npm ci` in bench/peers/watt'),
    version: () => `${packageVersion(path.join(BENCH, 'peers/watt/node_modules/wattpm'))} on Node ${versionOf(NODE_24, '--version')}`,
    start: (options) => up('watt', options, NODE_24, startWatt),
  },
  'forkful-auto': forkful('auto'),
  'forkful-direct': forkful('direct'),
  'forkful-exact': forkful('exact'),
  'forkful-least': forkful('least'),
  'forkful-shared': forkful('shared'),
  'forkful-sticky': forkful('sticky'),
  'forkful-bare': forkful('auto', 'forkful-bare', ['--no-agent']),
  'forkful-bun': forkfulBun(),
  'baseline-auto': baseline('auto'),
};

/** Those of `names` that can run here, and why the others cannot. */
export function usable(names) {
  const present = [];
  const absent = {};
  for (const name of names) {
    const arm = ARMS[name];
    if (arm === undefined) throw new Error(`no arm "${name}"; there are: ${Object.keys(ARMS).join(', ')}`);
    const reason = arm.missing();
    if (reason === null) present.push(name);
    else absent[name] = reason;
  }
  return { present, absent };
}
