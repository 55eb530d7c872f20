'use strict';
// One user's daemon, as an object. Every method is a request to its socket; those that start apps start the daemon first
// when it does not run.
const { constants } = require('node:os');

const { runCommand } = require('./command.cjs');
const { changeOf, definitionsOf, definitionsOfFile, definitionsOfText, explained, targetOf } = require('./definitions.cjs');
const { ForkfulError } = require('./errors.cjs');
const { EventStream } = require('./event-stream.cjs');
const { homePath, socketPath } = require('./home.cjs');
const { ask, open } = require('./http.cjs');
const { fillInVersions } = require('./package-version.cjs');
const { Stream, eventsOf, jsonLinesOf } = require('./streams.cjs');

/** The version of the daemon's API that this package speaks. */
const API_VERSION = 1;

/** Options of `start`, `apply`, `restart` and `reload` that control the command and are not part of an app. */
const HOW = ['wait', 'only', 'envName', 'cwd', 'updateEnv'];

/** @param {unknown} targets */
function targetList(targets) {
  const list = [targets].flat().map(String);
  if (list.length === 0 || targets === undefined || targets === null) {
    throw new ForkfulError('BAD_REQUEST', 'no target', { hint: 'name an app, an id, or `all`' });
  }
  return list;
}

/** Targets in a query: separated by commas, with a backslash before a comma in a name. @param {unknown} targets */
function joined(targets) {
  return [targets].flat().map((target) => String(target).replace(/[\\,]/g, '\\$&')).join(',');
}

/** @param {string | number} signal */
function signalNumber(signal) {
  if (typeof signal === 'number') return signal;
  const upper = signal.toUpperCase();
  const number = constants.signals[upper.startsWith('SIG') ? upper : `SIG${upper}`];
  if (number === undefined) throw new ForkfulError('BAD_REQUEST', `\`${signal}\` is no signal`, { hint: 'write it as SIGUSR2, USR2 or 12' });
  return number;
}

/** Separates options of the command from options of an app. @param {object} options */
function part(options) {
  const entries = Object.entries(options);
  return {
    how: Object.fromEntries(entries.filter(([key]) => HOW.includes(key))),
    app: Object.fromEntries(entries.filter(([key]) => !HOW.includes(key))),
  };
}

/** The outcomes of a command; throws if it failed for an app. */
function settled(reply, verb) {
  const failed = reply.apps.filter((app) => !app.ok);
  if (failed.length === 0) return reply.apps;
  const message = failed.map((app) => `${app.name}: ${app.error ?? `did not ${verb}`}`).join('; ');
  const { apps: outcomes, undone } = reply;
  const told = failed.find((app) => app.hint);
  throw new ForkfulError('FAILED', message, { hint: told?.hint, see: told?.see, outcomes, undone });
}

/** `index.d.ts` has the types of the methods. */
class Client {
  #socket;
  #binary;
  #onWarning;

  /** @param {{ home?: string, binary?: string, onWarning?: (text: string) => void }} [options] */
  constructor({ home, binary, onWarning } = {}) {
    this.home = homePath(home);
    this.#socket = socketPath(this.home);
    this.#binary = binary;
    this.#onWarning = onWarning ?? ((text) => process.emitWarning(text, 'ForkfulWarning'));
  }

  /** The daemon, started if necessary; throws if it has another version. */
  async connect() {
    return this.#connect(null);
  }

  /**
   * The same before these apps are started: a warning names the other apps of the last daemon. Without apps, the caller says later what it starts.
   * @param {{ name: string }[] | null} apps
   */
  async #connect(apps) {
    let ping = await this.ping();
    if (ping === null) {
      const { warnings } = await runCommand(this.home, ['api', 'connect', '--', ...(apps ?? []).map(({ name }) => name)], { binary: this.#binary });
      const isMeant = (text) => apps !== null || !text.startsWith('apps of the last daemon');
      warnings.filter(isMeant).forEach((text) => this.#onWarning(text));
      ping = await this.#get('/v1/ping');
    }
    if (ping.api !== API_VERSION) {
      throw new ForkfulError('OTHER_VERSION', `the daemon (pid ${ping.pid}) is version ${ping.version} (API ${ping.api}), but this package speaks API ${API_VERSION}`, {
        hint: '`forkful kill` ends it and its apps; then start them with this version',
      });
    }
    return ping;
  }

  #get(path) {
    return ask(this.#socket, { method: 'GET', path });
  }

  async #post(path, body, bodyName) {
    try {
      return await ask(this.#socket, { method: 'POST', path, body, bodyName });
    } catch (error) {
      const isUnclear = error.code === 'BAD_REQUEST' && error.hint === undefined;
      throw isUnclear ? await explained(this.home, error, this.#binary) : error;
    }
  }

  /** A request whose answer is known if no daemon runs. */
  async #orWithout(question, answer) {
    try {
      return await question();
    } catch (error) {
      if (error.code === 'NO_DAEMON') return answer;
      throw error;
    }
  }

  ping() {
    return this.#orWithout(() => this.#get('/v1/ping'), null);
  }

  async list() {
    return (await this.#orWithout(() => this.#get('/v1/apps'), { apps: [] })).apps;
  }

  async describe(target) {
    return (await this.#asked(target, () => this.#get(`/v1/apps/${encodeURIComponent(String(target))}`))).apps;
  }

  async jlist({ showSecrets = false, target } = {}) {
    const query = new URLSearchParams({ show_secrets: String(showSecrets), ...(target !== undefined && { target: String(target) }) });
    return fillInVersions(await this.#orWithout(() => this.#get(`/v1/jlist?${query}`), []));
  }

  async environment(target, { showSecrets = false } = {}) {
    const path = `/v1/environment/${encodeURIComponent(String(target))}?show_secrets=${showSecrets}`;
    return (await this.#asked(target, () => this.#get(path))).apps;
  }

  /** Without a daemon no app exists. */
  async #asked(targets, question) {
    const reply = await this.#orWithout(question, null);
    if (reply !== null) return reply;
    throw new ForkfulError('NO_SUCH_TARGET', `no app or worker \`${[targets].flat().join(', ')}\``, { hint: 'no daemon is running' });
  }

  async #act(verb, targets, { wait = true, ...more } = {}) {
    const list = targetList(targets);
    const reply = await this.#asked(list, () => this.#post(`/v1/actions/${verb}`, { targets: list, wait, ...more }));
    reply.warnings?.forEach((text) => this.#onWarning(text));
    return settled(reply, verb);
  }

  /** The app definitions for a call of `start`, `restart` or `reload`. */
  async definitions(what, options = {}) {
    const { how, app } = part(options);
    const context = { ...how, binary: this.#binary, onWarning: this.#onWarning };
    const given = typeof what === 'string' ? definitionsOfText(this.home, what, app, context) : definitionsOf(this.home, what, context);
    return (await given).apps;
  }

  /** The app definitions of a configuration file, with the keys of an app among the options; `null` for a text that is none. */
  async definitionsOfFile(text, options = {}) {
    const { how, app } = part(options);
    const found = await definitionsOfFile(this.home, text, app, { ...how, binary: this.#binary, onWarning: this.#onWarning });
    return found && found.apps;
  }

  async apply(what, { prune = false, dryRun = false, updateEnv = false, cwd, envName, only } = {}) {
    const context = { cwd, envName, only, codeChanges: true, binary: this.#binary, onWarning: this.#onWarning };
    const request = { ...await definitionsOf(this.home, what, context), prune, dry_run: dryRun, update_env: updateEnv };
    if (dryRun && (await this.ping()) === null) {
      return JSON.parse(await this.command(['api', 'plan'], { input: JSON.stringify(request) }));
    }
    await this.#connect(request.apps);
    const reply = await this.#post('/v1/apply', request);
    settled(reply, 'become what the configuration says');
    return reply;
  }

  async start(what, options = {}) {
    const apps = await this.definitions(what, options);
    await this.#connect(apps);
    return (await this.#start({ targets: [{ apps }], wait: options.wait ?? true, update_env: options.updateEnv ?? false })).outcomes;
  }

  /**
   * What was started, and how the daemon read the targets; throws if it left a running app alone. `settle` may accept outcomes with a
   * failure, which are an error by default.
   */
  async #start(request, settle = (outcomes) => outcomes) {
    const reply = await this.#post('/v1/apps', request);
    if (reply.targets.some(({ apps }) => apps.some(({ step }) => step === 'refused'))) {
      const { name, error, hint, see } = reply.apps.find(({ ok }) => !ok);
      throw new ForkfulError('CONFLICT', `${name}: ${error}`, { hint, see, outcomes: reply.apps });
    }
    const outcomes = async () => settled(reply, 'start');
    return { ...reply, outcomes: await settle(outcomes()) };
  }

  /**
   * Starts what a text names, as the command does: existing apps, which the keys of `app` change, or a script with these keys. The
   * daemon decides. Without `isScript` the text can only be the name of an existing app. Resolves to `null` for a configuration file.
   */
  async startText(text, app, { updateEnv, envName, force = false, isScript = true, settle } = {}) {
    const context = { force, isScript, binary: this.#binary };
    const { target, warnings } = await targetOf(this.home, text, app, context);
    if (target === null) return null;
    const doubts = [];
    const change = await this.#changeOf({ updateEnv, envName, onWarning: (told) => doubts.push(told) }, app);
    await this.#connect(target.apps);
    const reply = await this.#start({ targets: [target], change, update_env: updateEnv ?? false, wait: true }, settle);
    const [{ reading }] = reply.targets;
    [...(reading === 'definition' ? warnings : doubts), ...(reply.warnings ?? [])].forEach((told) => this.#onWarning(told));
    return { reading, outcomes: reply.outcomes };
  }

  /**
   * Shared by `restart` and `reload`: existing targets, or configurations, whose new apps are started. As for the command, the name of a
   * configuration file means that file, also where an app has this name.
   */
  async #roll(verb, what, options) {
    const isNothing = what === undefined || what === null;
    const areTargets = isNothing || typeof what === 'number' || (Array.isArray(what) && what.every((target) => typeof target !== 'object'));
    if (areTargets) return this.#change(verb, what, options);
    const definitions = await (typeof what === 'string' ? this.definitionsOfFile(what, options) : this.definitions(what, options));
    return definitions === null ? this.#change(verb, what, options) : this.rollTo(verb, definitions, options);
  }

  /** Restarts or reloads the targets; options change their apps, even if a target is a single worker. */
  async #change(verb, what, options) {
    const targets = targetList(what);
    const { how, app } = part(options);
    const { wait = true, updateEnv = false, envName } = how;
    if (Object.keys(app).length === 0 && !updateEnv && envName === undefined) return this.#act(verb, targets, { wait });
    return this.#act(verb, targets, { wait, changes: [await this.#changeOf(how, app)] });
  }

  #changeOf(how, app) {
    return changeOf(this.home, app, { onWarning: this.#onWarning, ...how, binary: this.#binary });
  }

  /** Changes the definitions of apps; apps that do not exist are started. */
  async rollTo(verb, definitions, { wait = true, updateEnv = false } = {}) {
    await this.#connect(definitions);
    return settled(await this.#post(`/v1/actions/${verb}`, { wait, definitions, update_env: updateEnv }), verb);
  }

  restart(what, options = {}) {
    return this.#roll('restart', what, options);
  }

  reload(what, options = {}) {
    return this.#roll('reload', what, options);
  }

  stop(targets, options) {
    return this.#act('stop', targets, options);
  }

  delete(targets, options) {
    return this.#act('delete', targets, options);
  }

  /** The daemon resolves `'+2'`, `'-1'` and `'max'`, so that changes at the same time all count. */
  async scale(target, instances, options) {
    const text = String(instances);
    if (!/^([+-]?\d+|max)$/.test(text)) {
      throw new ForkfulError('BAD_REQUEST', `invalid worker count ${text}`, { hint: 'write 4, "max", "+2" or "-1"' });
    }
    return this.#act('scale', target, { ...options, instances: /^\d/.test(text) ? Number(text) : text });
  }

  flush(targets = 'all') {
    return this.#act('flush', targets);
  }

  reset(targets = 'all') {
    return this.#act('reset', targets);
  }

  async signal(targets, signal) {
    return this.#act('signal', targets, { signal: signalNumber(signal) });
  }

  async send(targets, message) {
    const list = targetList(targets);
    if (['undefined', 'function', 'symbol'].includes(typeof message)) {
      throw new ForkfulError('BAD_REQUEST', `a message is a value that JSON has, not ${typeof message}`, { hint: 'send an object, a text, a number, a boolean or null' });
    }
    return (await this.#asked(list, () => this.#post('/v1/messages', { targets: list, message }, 'the message'))).workers;
  }

  async trigger(targets, action, params, { timeoutMs = 30_000 } = {}) {
    const list = targetList(targets);
    const body = { targets: list, action, params: params ?? null, timeout_ms: timeoutMs };
    return (await this.#asked(list, () => this.#post('/v1/trigger', body, 'what the action is given'))).workers;
  }

  /** Incidents are in files, which the command reads if no daemon runs. */
  async incidents({ targets = [], sinceMs = 0, after = 0 } = {}) {
    const query = new URLSearchParams({ targets: joined(targets), since_ms: String(sinceMs), after: String(after) });
    const reply = await this.#orWithout(() => this.#get(`/v1/incidents?${query}`), null);
    if (reply !== null) return reply.incidents;
    const kept = JSON.parse(await this.command(['events', '--json', '--', ...[targets].flat().map(String)]));
    return kept.incidents.filter(({ id, at_ms: at }) => id > after && at >= sinceMs);
  }

  async incident(id) {
    const reply = await this.#orWithout(() => this.#get(`/v1/incidents/${encodeURIComponent(String(id))}`), null);
    return reply ?? JSON.parse(await this.command(['events', '--json', '--show', String(id)]));
  }

  logs({ targets = [], lines = 15, follow = false, stream, signal } = {}) {
    const query = new URLSearchParams({ targets: joined(targets), lines: String(lines), follow: String(follow) });
    if (stream) query.set('stream', stream);
    return new Stream(open(this.#socket, { method: 'GET', path: `/v1/logs?${query}`, signal }), jsonLinesOf);
  }

  events({ targets = [], logs = false, messages = false, signal } = {}) {
    const query = new URLSearchParams({ targets: joined(targets), logs: String(logs), messages: String(messages) });
    const request = { method: 'GET', path: `/v1/events?${query}` };
    const openStream = (aborts) => new Stream(open(this.#socket, { ...request, signal: aborts }), eventsOf);
    return new EventStream(openStream, { home: this.home, signal });
  }

  /** Runs a command of the command line. */
  async command(args, options) {
    return (await runCommand(this.home, args, { binary: this.#binary, ...options })).stdout;
  }

  /** Stops all apps and the daemon, like the command, and waits until the process has ended. */
  async kill() {
    if ((await this.ping()) === null) return [];
    return JSON.parse(await this.command(['kill', '--json'])).apps;
  }
}

module.exports = { Client };
