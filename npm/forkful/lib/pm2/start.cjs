'use strict';
// The many forms of PM2's `start`: a script, a configuration file, an object, or an existing app.
const { extname } = require('node:path');

const { isConfig } = require('../definitions.cjs');
const { meaning } = require('./shapes.cjs');

/** PM2's options that control the command, not the app. */
const HOW = ['updateEnv', 'force', 'parallel', 'only', 'verb', 'env_name', 'silent', 'attach', 'watch_only'];

const isOnline = (entry) => entry.pm2_env.status !== 'stopped' && entry.pm2_env.status !== 'errored';

/** Separates PM2's options of an app from those of the command. */
function part(options) {
  const app = {};
  const how = {};
  for (const [key, value] of Object.entries(options)) (HOW.includes(key) ? how : app)[key] = value;
  return { app, how };
}

/** An unused name, such as `api-2`. */
function freeName(name, taken) {
  for (let number = 2; ; number += 1) if (!taken.has(`${name}-${number}`)) return `${name}-${number}`;
}

/** Whether a text names existing apps: a text with a slash or an extension is a script, and another name means another app. */
function namesExisting(text, options, list) {
  if (text === 'all') return true;
  if (text.includes('/') || extname(text) !== '' || (options.name !== undefined && options.name !== text)) return false;
  return list.some(meaning(text));
}

/** Starts existing apps, and restarts those that run. */
async function startExisting(client, target, options, list) {
  const meant = list.filter(meaning(target));
  if (meant.length === 0) throw new Error('process name not found');
  await client.connect();
  const { app, how } = part(options);
  await client.restart(meant.map((entry) => entry.pm_id), { ...app, updateEnv: how.updateEnv, envName: how.env_name });
  return { names: new Set(meant.map((entry) => entry.name)), ids: new Set(meant.map((entry) => entry.pm_id)), restarted: true };
}

/** A script with options: a running app with that name is an error, unless `force` is set. */
async function startScript(client, script, options, list) {
  const { app, how } = part(options);
  let definitions = await client.definitions({ ...app, script });
  const taken = new Map(list.map((entry) => [entry.name, entry]));
  for (const { name } of definitions) {
    const running = list.some((entry) => entry.name === name && isOnline(entry));
    if (running && !how.force) throw new Error('Script already launched');
    if (running) definitions = definitions.map((definition) => ({ ...definition, name: freeName(name, taken) }));
  }
  await client.rollTo('restart', definitions);
  return { names: new Set(definitions.map(({ name }) => name)), ids: null, restarted: false };
}

/** Whether an object names an existing app and contains only changes of it. */
function changesExisting(what, list) {
  const saysWhat = ['script', 'exec', 'cmd', 'command', 'apps', 'pm2', 'static'].some((key) => key in what);
  return !Array.isArray(what) && !saysWhat && list.some((entry) => entry.name === what.name);
}

/** A configuration: its new apps are started, existing apps are changed. */
async function startConfig(client, what, options, list) {
  const { how } = part(options);
  const definitions = await client.definitions(what, { only: how.only, envName: how.env_name ?? (typeof options.env === 'string' ? options.env : undefined) });
  const known = new Set(list.map((entry) => entry.name));
  await client.rollTo(how.verb ?? 'restart', definitions);
  const names = new Set(definitions.map(({ name }) => name));
  return { names, ids: null, restarted: definitions.every(({ name }) => known.has(name)) };
}

/**
 * Starts any of these forms.
 * @param {import('../client.cjs').Client} client
 * @returns {Promise<{ names: Set<string>, ids: Set<number> | null, restarted: boolean }>}
 */
async function startAny(client, what, options = {}) {
  const list = await client.jlist();
  if (typeof what === 'object' && what !== null && changesExisting(what, list)) {
    const { name, ...changes } = what;
    return startExisting(client, name, { ...options, ...changes }, list);
  }
  if (typeof what === 'object' && what !== null) return startConfig(client, what, options, list);
  const text = String(what);
  if (isConfig(text)) return startConfig(client, text, options, list);
  if (namesExisting(text, options, list)) return startExisting(client, text, options, list);
  return startScript(client, text, options, list);
}

module.exports = { part, startAny };
