'use strict';
// The many forms of PM2's `start`: a script, a configuration file, an object, or an existing app.
/** PM2's options that control the command, not the app. */
const HOW = ['updateEnv', 'force', 'parallel', 'only', 'verb', 'env_name', 'silent', 'attach', 'watch_only'];

/** Separates PM2's options of an app from those of the command. */
function part(options) {
  const app = {};
  const how = {};
  for (const [key, value] of Object.entries(options)) (HOW.includes(key) ? how : app)[key] = value;
  return { app, how };
}

/** Whether an object only names an app, and says nothing of what to start. */
function changesExisting(what) {
  const saysWhat = ['script', 'exec', 'cmd', 'command', 'apps', 'pm2', 'static'].some((key) => key in what);
  return !Array.isArray(what) && !saysWhat && what.name !== undefined;
}

/**
 * The outcomes of a start or a restart. PM2 calls back without an error before it knows whether the apps run. Where the command failed for an
 * app, for whatever reason, the caller therefore gets the list, and a warning says why.
 * @param {Promise<object[]>} outcomes
 */
function warned(outcomes) {
  return outcomes.catch((error) => {
    if (error.code !== 'FAILED' || !error.outcomes) throw error;
    process.emitWarning(error.message, { type: 'ForkfulWarning', detail: error.hint });
    return error.outcomes;
  });
}

/** The outcomes of `verb`. A failed reload is an error: the app may serve on in its old version, which the list does not show. */
function outcomesOf(verb, outcomes) {
  return verb === 'reload' ? outcomes : warned(outcomes);
}

/** A script with options, or existing apps that options change: the daemon decides. The errors are PM2's. `null` for a configuration file. */
async function startText(client, text, options, isScript = true) {
  const { app, how } = part(options);
  const { updateEnv, env_name: envName, force } = how;
  const outcome = await client.startText(text, app, { updateEnv, envName, force, isScript, settle: warned }).catch((error) => {
    if (error.code === 'NO_SUCH_TARGET') throw new Error('process name not found', { cause: error });
    if (error.code === 'CONFLICT' && error.outcomes) throw new Error('Script already launched', { cause: error });
    throw error;
  });
  if (outcome === null) return null;
  const { reading, outcomes } = outcome;
  const restarted = reading === 'existing';
  const ids = restarted ? new Set(outcomes.flatMap(({ pm_ids: some }) => some)) : null;
  return { names: new Set(outcomes.map(({ name }) => name)), ids, restarted };
}

/** A configuration: its new apps are started, existing apps are changed. */
async function startConfig(client, what, options) {
  return roll(client, await client.definitions(what, contextOf(options)), options);
}

/** The same for a text; `null` if it is no configuration file. */
async function startFile(client, text, options) {
  const definitions = await client.definitionsOfFile(text, contextOf(options));
  return definitions && roll(client, definitions, options);
}

function contextOf(options) {
  const { how } = part(options);
  return { only: how.only, envName: how.env_name ?? (typeof options.env === 'string' ? options.env : undefined) };
}

async function roll(client, definitions, options) {
  const { how } = part(options);
  const verb = how.verb ?? 'restart';
  const outcomes = await outcomesOf(verb, client.rollTo(verb, definitions, { updateEnv: how.updateEnv }));
  return { names: new Set(outcomes.map(({ name }) => name)), ids: null, restarted: outcomes.every(({ started }) => !started) };
}

/**
 * Starts any of these forms.
 * @param {import('../client.cjs').Client} client
 * @returns {Promise<{ names: Set<string>, ids: Set<number> | null, restarted: boolean }>}
 */
async function startAny(client, what, options = {}) {
  if (typeof what === 'object' && what !== null && changesExisting(what)) {
    const { name, ...changes } = what;
    return startText(client, String(name), { ...options, ...changes }, false);
  }
  if (typeof what === 'object' && what !== null) return startConfig(client, what, options);
  const text = String(what);
  return await startText(client, text, options) ?? startConfig(client, text, options);
}

module.exports = { part, outcomesOf, startAny, startFile };
