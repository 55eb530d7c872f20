'use strict';
// PM2's functions: their names, their callbacks, their results. Each is a promise inside; a caller that gives no
// callback gets it.
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

const { Client } = require('../client.cjs');
const { connectBus } = require('./bus.cjs');
const { part: partOptions, outcomesOf, startAny, startFile } = require('./start.cjs');
const { acted, started } = require('./shapes.cjs');

const { version } = require('../../package.json');

/** Commands that only the command line has. */
const COMMAND_LINE = {
  clearDump: 'cleardump', conf: 'conf', deploy: 'deploy', get: 'get', multiset: 'multiset', report: 'report', resurrect: 'resurrect',
  serve: 'serve', set: 'set', startup: 'startup', uninstallStartup: 'unstartup', unset: 'unset',
};

/** Functions that PM2 has for its own service or internals. */
const GONE = [
  'install', 'uninstall', 'launchModules', 'link', 'unlink', 'login', 'logout', 'register', 'monitorState', 'profile', 'openDashboard',
  'clearSetup', 'update', 'pullAndReload', 'pullAndRestart', 'pullCommitId', 'backward', 'forward', 'autoinstall', 'deepUpdate', 'inspect',
];

/** Separates a callback, if it is last, from the other arguments. @param {any[]} values */
function part(values) {
  const given = [...values];
  while (given.length > 0 && given.at(-1) === undefined) given.pop();
  const callback = typeof given.at(-1) === 'function' ? given.pop() : null;
  return { given, callback };
}

/** Runs work for a callback, or for a caller that awaits. @param {((error: any, result?: any) => void) | null} callback */
function answer(callback, work) {
  const done = work();
  if (callback === null) {
    // The caller may not wait for it, which is allowed.
    done.catch(() => {});
    return done;
  }
  // Outside of the promise, so that an exception of the callback is uncaught, as for any callback.
  done.then((result) => process.nextTick(callback, null, result), (error) => process.nextTick(callback, error));
  return undefined;
}

class Pm2 {
  #client;
  #buses = new Set();
  #startedDaemon = false;
  #endDaemon = null;

  /** @param {{ cwd?: string, pm2_home?: string, independent?: boolean, daemon_mode?: boolean }} [options] */
  constructor({ cwd, pm2_home, independent = false, daemon_mode = true } = {}) {
    if (cwd) process.chdir(cwd);
    this.cwd = process.cwd();
    this.daemon_mode = daemon_mode;
    this._temporary = independent ? mkdtempSync(join(tmpdir(), 'forkful-')) : null;
    this._home = this._temporary ?? pm2_home;
    this.#client = null;
  }

  get pm2_home() {
    return this.Client.home;
  }

  /** The client; created late, because scripts set the environment after `require`. */
  get Client() {
    const client = new Client({ home: this._home });
    if (this.#client === null || this.#client.home !== client.home) this.#client = client;
    return this.#client;
  }

  connect(...values) {
    const { given, callback } = part(values);
    const noDaemon = given[0] === true || !this.daemon_mode;
    return answer(callback, async () => {
      const isNew = (await this.Client.ping()) === null;
      await this.Client.connect();
      if (isNew && noDaemon) this.#endWithUs();
      const home = this.pm2_home;
      const socket = join(home, 'forkful.sock');
      return { new_pm2_instance: isNew, rpc_socket_file: socket, pub_socket_file: socket, pm2_home: home };
    });
  }

  /** A daemon that was started for this script stops with it. */
  #endWithUs() {
    this.#startedDaemon = true;
    const { spawnSync } = require('node:child_process');
    const { binaryPath } = require('../binary.cjs');
    const env = { ...process.env, FORKFUL_HOME: this.pm2_home };
    this.#endDaemon = () => spawnSync(binaryPath(), ['kill'], { env, stdio: 'ignore' });
    process.once('exit', this.#endDaemon);
  }

  disconnect(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      for (const socket of this.#buses) socket.close();
      this.#buses.clear();
      if (!this.#startedDaemon) return undefined;
      this.#startedDaemon = false;
      process.off('exit', this.#endDaemon);
      await this.Client.kill();
      return undefined;
    });
  }

  close(...values) {
    return this.disconnect(...values);
  }

  /** Stops an independent instance and removes its home. */
  destroy(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      await this.disconnect();
      await this.Client.kill();
      if (this._temporary) rmSync(this._temporary, { recursive: true, force: true });
      return this.pm2_home;
    });
  }

  launchBus(callback) {
    const open = async () => {
      await this.Client.connect();
      const { bus, socket } = await connectBus(this.Client);
      this.#buses.add(socket);
      socket.once('close', () => this.#buses.delete(socket));
      return { bus, socket };
    };
    if (typeof callback !== 'function') return answer(null, async () => (await open()).bus);
    open().then(({ bus, socket }) => process.nextTick(callback, null, bus, socket), (error) => process.nextTick(callback, error));
    return undefined;
  }

  disconnectBus() {
    for (const socket of this.#buses) socket.close();
  }

  /** The workers of a target; throws if there are none, like PM2. */
  async #meant(target) {
    const meant = await this.#listOf(target);
    if (meant.length === 0) throw new Error(String(target) === 'all' ? 'process name not found' : 'process or namespace not found');
    return meant;
  }

  /** PM2 returns the complete environment to its callers; Forkful does too, because they are the same user. */
  #list() {
    return this.Client.jlist({ showSecrets: true });
  }

  /** The workers of a target; an empty list if there are none. */
  #listOf(target) {
    return this.Client.jlist({ showSecrets: true, target: String(target) }).catch((error) => {
      if (error.code === 'NO_SUCH_TARGET') return [];
      throw error;
    });
  }

  /** The current state of the same workers. */
  async #again(entries) {
    const ids = new Set(entries.map((entry) => entry.pm_id));
    return (await this.#list()).filter((entry) => ids.has(entry.pm_id));
  }

  start(...values) {
    const { given, callback } = part(values);
    return answer(callback, async () => {
      const { names, ids, restarted } = await startAny(this.Client, given[0], given[1] ?? {});
      const touched = (await this.#list()).filter((entry) => names.has(entry.name) && (ids === null || ids.has(entry.pm_id)));
      return touched.map(restarted ? (entry) => acted(entry) : started);
    });
  }

  #roll(verb, values) {
    const { given: [target, given], callback } = part(values);
    // PM2 takes `null` for no options.
    const options = given ?? {};
    return answer(callback, async () => {
      const client = this.Client;
      const ofConfig = async ({ names }) => (await this.#list()).filter((entry) => names.has(entry.name)).map((entry) => acted(entry));
      if (typeof target === 'object' && target !== null) return ofConfig(await startAny(client, target, { ...options, verb }));
      const rolled = typeof target === 'string' ? await startFile(client, target, { ...options, verb }) : null;
      if (rolled !== null) return ofConfig(rolled);
      const meant = await this.#meant(target);
      const { app, how } = partOptions(options);
      await outcomesOf(verb, client[verb](meant.map((entry) => entry.pm_id), { ...app, updateEnv: how.updateEnv, envName: how.env_name }));
      return (await this.#again(meant)).map((entry) => acted(entry));
    });
  }

  restart(...values) {
    return this.#roll('restart', values);
  }

  reload(...values) {
    return this.#roll('reload', values);
  }

  gracefulReload(...values) {
    return this.reload(...values);
  }

  stop(target, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      const meant = await this.#meant(target);
      await this.Client.stop(meant.map((entry) => entry.pm_id));
      return (await this.#again(meant)).map((entry) => acted(entry));
    });
  }

  delete(target, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      const meant = await this.#meant(target);
      await this.Client.delete(meant.map((entry) => entry.pm_id));
      return meant.map((entry) => acted(entry, { status: 'stopped' }));
    });
  }

  scale(name, number, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      await this.#meant(name);
      await this.Client.scale(name, number);
      return { success: true };
    });
  }

  list(...values) {
    const { callback } = part(values);
    return answer(callback, () => this.#list());
  }

  describe(target, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => (await this.#list()).filter((entry) => entry.name === String(target) || String(entry.pm_id) === String(target)));
  }

  getPID(...values) {
    const { given: [name], callback } = part(values);
    return answer(callback, async () => (await (name === undefined ? this.#list() : this.#listOf(name))).map((entry) => entry.pid));
  }

  getProcessIdByName(name, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => (await this.#list()).filter((entry) => entry.name === String(name)).map((entry) => entry.pm_id));
  }

  env(target, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => (await this.#meant(target))[0].pm2_env.env);
  }

  reset(target, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      await this.Client.reset((await this.#meant(target)).map((entry) => entry.pm_id));
      return { success: true };
    });
  }

  flush(...values) {
    const { given: [target = 'all'], callback } = part(values);
    return answer(callback, async () => {
      const ids = (await this.#listOf(target)).map((entry) => entry.pm_id);
      if (ids.length > 0) await this.Client.flush(ids);
      return this.#list();
    });
  }

  reloadLogs(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      await this.Client.command(['reloadLogs']);
      return {};
    });
  }

  dump(...values) {
    const { given: [force], callback } = part(values);
    return answer(callback, async () => {
      if ((await this.#list()).length === 0 && !force) throw new Error('Process list empty, cannot save empty list');
      await this.Client.command(force ? ['save', '--force'] : ['save']);
      return { success: true };
    });
  }

  killDaemon(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      // As in PM2, the own buses end with the daemon.
      for (const socket of this.#buses) socket.isLast = true;
      await this.Client.kill();
      return { success: true };
    });
  }

  kill(...values) {
    return this.killDaemon(...values);
  }

  ping(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      await this.Client.connect();
      return { msg: 'pong' };
    });
  }

  getVersion(...values) {
    const { callback } = part(values);
    return answer(callback, async () => (await this.Client.ping())?.version ?? version);
  }

  /** `(id, packet)` or `({ id, topic, data, type })`. */
  sendDataToProcessId(...values) {
    const { given, callback } = part(values);
    const [id, packet] = given.length === 1 ? [given[0].id, given[0]] : given;
    return answer(callback, async () => {
      const message = { ...packet, id };
      const entry = (await this.#list()).find(({ pm_id }) => String(pm_id) === String(id));
      if (entry === undefined) throw new Error(`Process with ID <${id}> unknown.`);
      if (entry.pid === 0) throw new Error(`Process with ID <${id}> offline.`);
      const [{ error }] = await this.Client.send(id, message);
      if (error) throw new Error(`${entry.name}: ${error}`);
      return { success: true, data: message };
    });
  }

  sendSignalToProcessName(signal, name, ...values) {
    return this.#signal(signal, name, values);
  }

  sendSignalToProcessId(signal, id, ...values) {
    return this.#signal(signal, id, values);
  }

  #signal(signal, target, values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      const meant = await this.#listOf(target);
      if (meant.length === 0) throw new Error('Unknown process name');
      await this.Client.signal(meant.map((entry) => entry.pm_id), signal);
      return this.#list();
    });
  }

  trigger(target, action, ...values) {
    const { given: [params], callback } = part(values);
    return answer(callback, async () => {
      const meant = await this.#listOf(target);
      const able = meant.filter(({ pm2_env: env }) => env.axm_actions.some((known) => known.action_name === action));
      if (able.length === 0) throw new Error('Unknown process');
      const workers = await this.Client.trigger(able.map((entry) => entry.pm_id), action, params);
      const failed = workers.find((worker) => worker.error);
      if (failed) throw new Error(`${failed.app}: ${failed.error}`);
      const namespaces = new Map(able.map((entry) => [entry.pm_id, entry.pm2_env.namespace]));
      return workers.map(({ app, pm_id, result }) => ({
        process: { pm_id, name: app, rev: null, namespace: namespaces.get(pm_id) },
        return: result,
      }));
    });
  }

  /** `{ id or name, msg, opts }`: an action whose answer is not awaited. */
  msgProcess({ id, name, msg, opts }, ...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      const meant = await this.#listOf(id ?? name);
      const able = meant.filter(({ pm2_env: env }) => env.axm_actions.some((known) => known.action_name === msg));
      if (able.length > 0) await this.Client.send(able.map((entry) => entry.pm_id), opts === undefined ? msg : { msg, opts, id, name });
      return { process_count: able.length, success: true };
    });
  }

  sendLineToStdin(id, line, ...values) {
    const { callback } = part(values);
    return answer(callback, () => this.Client.command(['send', String(id), String(line)]));
  }
}

for (const [name, verb] of Object.entries(COMMAND_LINE)) {
  Pm2.prototype[name] = function run(...values) {
    const { given, callback } = part(values);
    const words = given.filter((value) => typeof value === 'string' || typeof value === 'number').map(String);
    return answer(callback, () => this.Client.command([verb, ...words]));
  };
}

for (const name of GONE) {
  Pm2.prototype[name] = function gone(...values) {
    const { callback } = part(values);
    return answer(callback, async () => {
      throw new Error(`Forkful has no ${name}: it belongs to PM2's service or modules`);
    });
  };
}

module.exports = { Pm2 };
