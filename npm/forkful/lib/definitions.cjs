'use strict';
// Converts a caller's arguments to the complete definitions of apps that the daemon expects. The native program
// reads configurations, so that scripts and the command line behave the same.
const { runCommand } = require('./command.cjs');
const { ForkfulError } = require('./errors.cjs');
const { quoted, written } = require('./json.cjs');

/** The strings of an environment, without undefined values. @param {NodeJS.ProcessEnv} env */
function plainEnvironment(env) {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]));
}

/** A configuration as JSON. Values that JSON cannot represent, such as functions, are an error that names them. */
function asConfig(what) {
  if (Array.isArray(what)) return { apps: what };
  if ('apps' in what || 'pm2' in what) return what;
  return { apps: [what] };
}

/** What `what` is to the native program: a configuration file, or a configuration. */
function sourceOf(what) {
  if (typeof what === 'string') return { file: what };
  if (what !== null && typeof what === 'object') return { config: asConfig(what) };
  throw new ForkfulError('BAD_REQUEST', `an app is a script, a configuration file or an object, not ${what}`);
}

/**
 * JSON has no regular expressions: they are written as the command reads them of a configuration in JavaScript. It has no NaN and no
 * infinite numbers either: they are written as text, which the checks of a key refuse. A variable takes any text: such a number leaves it as it
 * is, as null does.
 */
function readable(key, value) {
  if (/^env(_|$)/.test(key) && Object.prototype.toString.call(value) === '[object Object]') {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, typeof item === 'number' && !Number.isFinite(item) ? null : item]));
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (!(value instanceof RegExp)) return value;
  // The other flags have no meaning for one look at a path.
  const flags = [...value.flags].filter((flag) => 'ims'.includes(flag)).join('');
  return { $regexp: flags === '' ? value.source : `(?${flags})${value.source}` };
}

/** A request to the native program as text; an error names the app and the key. @param {object} request */
function requestText(request) {
  const { config } = request.definitions ?? request;
  const nameOf = (path) => {
    // What leads to the caller's own keys: `definitions`, then `config` or `options`.
    const own = path.slice(path.findIndex((key) => key === 'config' || key === 'options') + 1);
    if (config === undefined || own[0] !== 'apps' || own.length < 3) return quoted(own);
    const [, index, ...key] = own;
    const { name, script } = config.apps[index];
    return `${name ?? script ?? `apps[${index}]`}: ${quoted(key)}`;
  };
  return written(request, { replacer: readable, nameOf });
}

/** The request for definitions, to the native program. */
function definitionsRequest(source, { cwd = process.cwd(), env = process.env, envName, only, codeChanges = false } = {}) {
  return {
    ...source,
    cwd,
    env: plainEnvironment(env),
    env_name: envName,
    // The native program knows the names of the apps, which may contain commas and blanks.
    only: only === undefined ? [] : [only].flat().map(String),
    code_changes: codeChanges || undefined,
  };
}

/**
 * The apps, complete. With `codeChanges` also when the code of each last changed, which `apply` needs.
 * @param {string} home
 * @param {string | object | object[]} what a configuration file, an app, apps, or `{ apps }`
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, envName?: string, only?: string | string[], codeChanges?: boolean, binary?: string, onWarning?: (text: string) => void }} [context]
 * @returns {Promise<{ apps: object[], code_changed_at_ms?: Record<string, number> }>}
 */
async function definitionsOf(home, what, context) {
  return definitionsFrom(home, sourceOf(what), context);
}

/**
 * The apps of a text: a configuration file, or a script; the native program tells them apart. The keys of `app` win over those of the
 * file, or are those of the script.
 * @param {string} home
 * @param {string} text
 * @param {object} app
 * @param {Parameters<typeof definitionsOf>[2]} [context]
 * @returns {Promise<{ apps: object[] }>}
 */
async function definitionsOfText(home, text, app, context) {
  return definitionsFrom(home, { text, config: asConfig({ ...app, script: text }), options: app }, context);
}

/**
 * The same for a text that can only be a configuration file: `null` if it is none.
 * @param {string} home
 * @param {string} text
 * @param {object} app
 * @param {Parameters<typeof definitionsOf>[2]} [context]
 * @returns {Promise<{ apps: object[] } | null>}
 */
async function definitionsOfFile(home, text, app, context) {
  return definitionsFrom(home, { text, options: app }, context);
}

async function definitionsFrom(home, source, { cwd, env, envName, only, codeChanges, binary, onWarning } = {}) {
  const request = definitionsRequest(source, { cwd, env, envName, only, codeChanges });
  const { stdout, warnings } = await runCommand(home, ['api', 'definitions'], { input: requestText(request), binary });
  warnings.forEach((text) => onWarning?.(text));
  return JSON.parse(stdout);
}

/**
 * What options change of existing apps, whichever they are; the daemon applies it.
 * @param {string} home
 * @param {object} options keys of a configuration's app
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, envName?: string, updateEnv?: boolean, binary?: string, onWarning?: (text: string) => void }} [context]
 * @returns {Promise<object>}
 */
async function changeOf(home, options, { cwd = process.cwd(), env = process.env, envName, updateEnv = false, binary, onWarning } = {}) {
  const request = { options, cwd, env: plainEnvironment(env), env_name: envName, update_env: updateEnv };
  const { stdout, warnings } = await runCommand(home, ['api', 'change'], { input: requestText(request), binary });
  warnings.forEach((text) => onWarning?.(text));
  return JSON.parse(stdout);
}

/**
 * A text as a target of a start, and the warnings about its definition; `null` if the text is a configuration file. Rejects where no daemon runs, so that no app exists, and
 * nothing can be started.
 * @param {string} home
 * @param {string} text
 * @param {{ name?: string }} app keys of what the text starts, if it names no app
 * @param {{ force?: boolean, isScript?: boolean, binary?: string }} [context] without `isScript` the text is the name of an app
 * @returns {Promise<{ target: object | null, warnings: string[] }>}
 */
async function targetOf(home, text, app, { force = false, isScript = true, binary } = {}) {
  const definitions = isScript ? definitionsRequest(sourceOf({ ...app, script: text })) : undefined;
  const request = { text, new_name: app.name === undefined ? undefined : String(app.name), definitions, force };
  const { stdout, warnings } = await runCommand(home, ['api', 'target'], { input: requestText(request), binary });
  return { target: JSON.parse(stdout), warnings };
}

/**
 * A refusal of the daemon with the hint of the command, which knows what an older daemon does not.
 * @param {string} home
 * @param {ForkfulError} error
 * @param {string} [binary]
 * @returns {Promise<ForkfulError>}
 */
async function explained(home, error, binary) {
  const refusal = { code: error.code.toLowerCase(), error: error.message };
  try {
    const { stdout } = await runCommand(home, ['api', 'explain'], { input: JSON.stringify(refusal), binary });
    const { hint, see } = JSON.parse(stdout);
    return new ForkfulError(error.code, error.message, { hint, see });
  } catch {
    return error;
  }
}

module.exports = { changeOf, definitionsOf, definitionsOfFile, definitionsOfText, explained, targetOf };
