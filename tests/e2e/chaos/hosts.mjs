// What runs the app in a storm: Forkful, and Node's own cluster module beside it.
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';

import { NEWEST, nodeBinary } from '../lib/nodes.mjs';
import { binary, sandbox } from '../lib/sandbox.mjs';
import { waitUntil } from '../lib/wait.mjs';

export const APP = fileURLToPath(new URL('app.cjs', import.meta.url));
const PRIMARY = fileURLToPath(new URL('primary.cjs', import.meta.url));
const PM2 = fileURLToPath(new URL('../../../npm/test/node_modules/pm2/bin/pm2', import.meta.url));

/** The disk of a storm that fills or freezes it: the home, with logs and what is saved. */
const DISK_MIB = 96;
/** What all workers together may take in a storm that exceeds it. */
const MEMORY_MAX = '1G';

/** Whether a worker of a list is online. To signal process 0 would be to signal the storm itself. */
const isOnline = ({ pid, pm2_env }) => pm2_env.status === 'online' && pid > 0;

/**
 * @typedef {object} Settings
 * @property {number} port
 * @property {number} instances
 * @property {string} balance
 * @property {string} drainTimeout how long a worker that leaves may finish what it has; WebSockets hold it for most of it
 * @property {string} [plant]
 * @property {string} directory where the app writes down what it executes
 * @property {Set<string | undefined>} needs what faults need: a small disk for the home (root's right) that can be frozen (a loop device), a memory limit (a control group)
 */

/** Forkful, with a keeper. */
export class Forkful {
  name = 'forkful';

  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
    /** What faults need, and this host does not have (any more). @type {Set<string | undefined>} */
    this.lacks = new Set();
  }

  async start() {
    const { needs } = this.settings;
    this.box = await sandbox(null, NEWEST);
    if (needs.has('disk') || needs.has('freeze')) this.mountDisk();
    if (!needs.has('limit')) return this.startApp([]);
    return this.startApp(['--memory-max', MEMORY_MAX]).catch(async (error) => {
      if (!/cannot (be kept|set its memory limit)/.test(error.message)) throw error;
      this.lacks.add('limit');
      await this.box.run(['delete', 'app']);
      await this.startApp([]);
    });
  }

  /** Mounts a small disk as the home: one of a loop device, which can be frozen, or else one in memory. */
  mountDisk() {
    const { home, directory } = this.box;
    mkdirSync(home, { mode: 0o700 });
    const image = join(directory, 'disk');
    const done = (program, ...args) => spawnSync(program, args).status === 0;
    const canFreeze = done('truncate', '--size', `${DISK_MIB}M`, image) && done('mkfs.ext4', '-q', '-F', '-m', '0', image) && done('mount', '-o', 'loop', image, home);
    if (canFreeze) chmodSync(home, 0o700);
    else this.lacks.add('freeze');
    this.hasDisk = canFreeze || done('mount', '-t', 'tmpfs', '-o', `size=${DISK_MIB}m,mode=0700`, 'forkful-chaos', home);
    if (!this.hasDisk) this.lacks.add('disk');
  }

  /** Lets nothing be written to the disk for a while. A process of its own ends that, whatever becomes of the storm. @param {number} ms */
  async freezeDisk(ms) {
    // By a descriptor, so that the same disk is meant if the mount has gone.
    const script = 'exec 9<"$1" && fsfreeze --freeze /proc/self/fd/9 && { sleep "$2"; fsfreeze --unfreeze /proc/self/fd/9; }';
    const child = spawn('sh', ['-c', script, 'sh', this.box.home, String(ms / 1000)], { detached: true, stdio: 'ignore' });
    const code = await new Promise((resolve) => { child.once('error', () => resolve(-1)).once('exit', resolve); });
    if (code !== 0) throw new Error('the disk could not be frozen');
  }

  async startApp(limit) {
    const { port, instances, balance, drainTimeout, plant, directory } = this.settings;
    // The app finds its `ws` beside itself, so it is started where it is.
    await this.box.start(APP, {
      name: 'app',
      instances,
      // So many of its workers are killed as they start that it would be given up.
      options: ['--balance', balance, '--drain-timeout', drainTimeout, '--merge-logs', '--max-restarts', '1000', ...limit],
      env: { PORT: String(port), CHAOS_DIRECTORY: directory, CHAOS_PLANT: plant },
    });
  }

  /** @returns {Promise<number[]>} the pids of the workers that are online */
  async workers() {
    return (await this.box.jlist('app')).filter(isOnline).map(({ pid }) => pid);
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

  /** What the daemons of the storm have said, line by line. */
  said() {
    return readFileSync(join(this.box.home, 'daemon.log'), 'utf8').split('\n').filter(Boolean);
  }

  /** Fills the disk of the home for a while. */
  async fillDisk(pause) {
    const path = join(this.box.home, 'filler');
    try {
      for (let bytes = 1 << 20; bytes >= 1; bytes >>= 4) {
        try {
          // The clients are in this process: it goes on meanwhile.
          for (;;) await appendFile(path, Buffer.alloc(bytes));
        } catch (error) {
          if (error.code !== 'ENOSPC') throw error;
        }
      }
      await pause();
    } finally {
      rmSync(path, { force: true });
    }
  }

  async close() {
    if (this.hasDisk) {
      await this.box.run(['kill']);
      // A process that ends may still be in it.
      execFileSync('umount', ['--lazy', this.box.home]);
    }
    await this.box?.close();
  }
}

/** PM2 in cluster mode, with a home of its own. */
export class Pm2 {
  name = 'pm2';

  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
    this.home = mkdtempSync(join(tmpdir(), 'pm2-chaos-'));
  }

  /** Runs a command of PM2's; gives what it printed. */
  async run(...args) {
    const { port, plant = '', directory } = this.settings;
    const env = { PATH: process.env.PATH, HOME: this.home, PM2_HOME: this.home, PORT: String(port), CHAOS_DIRECTORY: directory, CHAOS_PLANT: plant };
    const { stdout } = await promisify(execFile)(nodeBinary(NEWEST), [PM2, ...args], { env, maxBuffer: 1 << 26 });
    return stdout;
  }

  async start() {
    const { instances } = this.settings;
    const config = join(this.home, 'ecosystem.config.json');
    // Long enough for every answer of the storm; the restarts are not to end.
    writeFileSync(config, JSON.stringify({ apps: [{ name: 'app', script: APP, instances, exec_mode: 'cluster', kill_timeout: 10_000, max_restarts: 1_000_000, merge_logs: true }] }));
    await this.run('start', config);
    await this.settle(instances);
  }

  async workers() {
    const text = await this.run('jlist');
    return JSON.parse(text.slice(text.indexOf('['))).filter(isOnline).map(({ pid }) => pid);
  }

  /** Runs a command; gives what it said if it failed. */
  async order(...args) {
    return this.run(...args).then(() => undefined, (error) => `pm2 ${args.join(' ')}: ${error.stdout || error.message}`);
  }

  reload() {
    return this.order('reload', 'app');
  }

  /** PM2 calls it an error when there are so many already. */
  async scale(count) {
    if ((await this.workers()).length !== count) return this.order('scale', 'app', String(count));
    return undefined;
  }

  settle(count) {
    return waitUntil(`${count} workers`, async () => (await this.workers()).length === count);
  }

  async stop() {
    await this.run('stop', 'app');
    return undefined;
  }

  async close() {
    await this.run('kill');
    rmSync(this.home, { recursive: true, force: true });
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
