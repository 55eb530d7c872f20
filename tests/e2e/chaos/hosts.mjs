// What runs the app in a storm: Forkful, and Node's own cluster module beside it.
import { spawn } from 'node:child_process';
import { appendFileSync, copyFileSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

import { NEWEST, nodeBinary } from '../lib/nodes.mjs';
import { binary, sandbox } from '../lib/sandbox.mjs';
import { waitUntil } from '../lib/wait.mjs';

export const APP = fileURLToPath(new URL('app.cjs', import.meta.url));
const PRIMARY = fileURLToPath(new URL('primary.cjs', import.meta.url));

/** How long a worker that leaves may finish what it has; WebSockets hold it for all of it. */
const DRAIN_TIMEOUT = '10s';

/**
 * @typedef {object} Settings
 * @property {number} port
 * @property {number} instances
 * @property {string} balance
 * @property {string} [plant]
 * @property {string} directory where the app writes down what it executes
 */

/** Forkful, with a keeper. */
export class Forkful {
  name = 'forkful';

  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
  }

  async start() {
    const { port, instances, balance, plant, directory } = this.settings;
    this.box = await sandbox(null, NEWEST);
    // The app finds its `ws` beside itself, so it is started where it is.
    await this.box.start(APP, {
      name: 'app',
      instances,
      options: ['--balance', balance, '--drain-timeout', DRAIN_TIMEOUT, '--merge-logs'],
      env: { PORT: String(port), CHAOS_DIRECTORY: directory, CHAOS_PLANT: plant },
    });
  }

  /** @returns {Promise<number[]>} the pids of the workers that are online */
  async workers() {
    return (await this.box.jlist('app')).filter(({ pm2_env }) => pm2_env.status === 'online').map(({ pid }) => pid);
  }

  daemon() {
    return this.box.daemonPid();
  }

  /** Runs a command that a fault may cut off; gives what it said if it failed. */
  async order(...args) {
    const { code, stderr } = await this.box.run(args);
    return code === 0 ? undefined : `forkful ${args.join(' ')}: ${stderr.trim()}`;
  }

  reload() {
    return this.order('reload', 'app');
  }

  scale(count) {
    return this.order('scale', 'app', String(count));
  }

  /** Puts another build in the place of daemon and keeper, in turns with the first one. Bytes behind a program make it another build. */
  update() {
    this.builds ??= [binary(), join(this.box.directory, 'another-build')].map((path, another) => {
      if (another) {
        copyFileSync(binary(), path);
        appendFileSync(path, 'another build');
      }
      return path;
    });
    this.builds.reverse();
    return this.order('update', '--to', this.builds[0]);
  }

  /** Whether everything is as it should be after the storm: so many workers online, and no process beside them. */
  async settle(count) {
    return waitUntil(`${count} workers online, and no other process of the app`, async () => {
      const online = await this.workers();
      const all = this.box.processes(this.settings.directory).filter(({ command }) => command.includes(APP));
      return online.length === count && all.length === count && online;
    });
  }

  /** Ends the app in order; gives the texts of its logs. */
  async stop() {
    await this.box.ok(['stop', 'app']);
    const folder = join(this.box.home, 'logs');
    const read = (name) => {
      const bytes = readFileSync(join(folder, name));
      return String(name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
    };
    return readdirSync(folder).filter((name) => name.includes('-out')).map(read);
  }

  close() {
    return this.box?.close();
  }
}

/** A primary of the cluster module as the documentation of Node.js has it: a worker that ends is forked again, a reload replaces them one by one. */
export class Cluster {
  name = 'cluster';

  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
    this.replies = [];
    this.pids = [];
  }

  async start() {
    const { port, instances, plant = '', directory } = this.settings;
    const env = { PATH: process.env.PATH, PORT: String(port), CHAOS_DIRECTORY: directory, CHAOS_PLANT: plant, APP, INSTANCES: String(instances) };
    this.child = spawn(nodeBinary(NEWEST), [PRIMARY], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.child.on('message', ({ workers, reply }) => {
      if (workers) this.pids = workers;
      if (reply) this.replies.shift()?.(undefined);
    });
    await this.settle(instances);
  }

  async workers() {
    return this.pids;
  }

  ask(message) {
    return new Promise((resolve) => {
      this.replies.push(resolve);
      this.child.send(message);
    });
  }

  reload() {
    return this.ask({ reload: true });
  }

  scale(count) {
    return this.ask({ scale: count });
  }

  settle(count) {
    return waitUntil(`${count} workers`, () => this.pids.length === count && this.pids);
  }

  async stop() {
    await this.ask({ scale: 0 });
    return undefined;
  }

  async close() {
    if (!this.child) return;
    this.child.kill('SIGKILL');
    await new Promise((resolve) => this.child.once('exit', resolve));
  }
}
