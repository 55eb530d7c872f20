// Scripts that were written for PM2 run with `forkful/pm2` by changing one word, and their callbacks get the same:
// each script is run with both, and what it got is compared.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { PACKAGE, binary, sandbox } from './lib/sandbox.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const APP = join(HERE, 'fixtures', 'app.js');

/** Time limit of a script, including PM2's start. */
const SCRIPT_MS_MAX = 300_000;

/**
 * Values that PM2 returns and Forkful does not, and why. Paths as `[]` for elements of lists.
 */
const LEFT_OUT = [
  // Variables that PM2's processes add to its environment.
  /\b(PM2_JSON_PROCESSING|PM2_INTERACTOR_PROCESSING|PM2_USAGE|PM2_HOME|PM2_PROGRAMMATIC|PM2_DISCRETE_MODE)$/,
  /\.env\.(unique_id|cl|fk|api|web)$/, /\.pm2_env\.(cl|fk|api|web)$/, /^process\.(cl|fk|api|web)$/,
  // Its cluster workers and child processes, of which users read `process.pid` (which we have).
  /^\[\]\.(_|state$|id$|connected|signalCode|exitCode|killed|spawn|std|channel|exitedAfterDisconnect|workerProcess)/,
  /^\[\]\.process\.(?!pid$)/,
  // The environment in PM2's events, including secrets.
  /^process\.(username|(?!NODE_APP_INSTANCE)[A-Z][A-Z0-9_]*)$/,
  // What a later `start` of the app was given, as it was written.
  /\.pm2_env\.script$/,
  // A worker added by scaling has the first worker's earlier values.
  /^\[\]\.pm2_env\.exit_code$/,
  // Its own program and version, and what it asks of pids and repositories.
  /\b(_pm2_version|node_version|prev_restart_delay|pm_pid_path|filter_env|force|started_inside|vizion_running|versioning|_tree_pids|updateEnv)$/,
  // What its own instrumentation, which it puts into every app, reports; ours is put in by the app itself.
  /\.axm_(monitor|options|actions|dynamic)(\.|\[\])/,
];

/** Values of other types: for example an id where PM2 returns a text. */
const OTHER_TYPE = [
  // After a reload PM2 lists the workers that left, as `_old_0`; we list those that serve.
  /\.pm_id$/,
];

/** The type of a value, as far as a script can depend on it. */
const typeOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

/** Paths that `theirs` has and `ours` lacks or has with another type. */
function differences(theirs, ours, path = '') {
  if (LEFT_OUT.some((pattern) => pattern.test(path))) return [];
  if (typeOf(theirs) !== typeOf(ours)) {
    return OTHER_TYPE.some((pattern) => pattern.test(path)) ? [] : [`${path || 'the result'}: ${typeOf(theirs)} there, ${typeOf(ours)} here`];
  }
  if (Array.isArray(theirs)) {
    // Its instrumentation is in every app and has actions of its own.
    const lengths = theirs.length === ours.length || path.endsWith('.axm_actions') ? [] : [`${path || 'the result'}: ${theirs.length} there, ${ours.length} here`];
    return [...lengths, ...theirs.slice(0, ours.length).flatMap((value, index) => differences(value, ours[index], `${path}[]`))];
  }
  if (typeOf(theirs) !== 'object') return [];
  return Object.entries(theirs).flatMap(([key, value]) => differences(value, ours[key], path ? `${path}.${key}` : key));
}

/** Runs a script; returns its transcript. */
function run(directory, script, env) {
  const ended = spawnSync(process.execPath, [join(directory, script)], { cwd: directory, env, encoding: 'utf8', timeout: SCRIPT_MS_MAX });
  assert.equal(ended.status, 0, `${script} in ${directory}: ${ended.signal ?? ended.status}\n${ended.stdout.slice(-2000)}${ended.stderr}`);
  return JSON.parse(ended.stdout.trimEnd().split('\n').at(-1));
}

/** Copies the scripts next to a module that they can require as `word`. */
function install(directory, word, target) {
  cpSync(join(HERE, 'scripts'), directory, { recursive: true });
  for (const name of ['lifecycle.cjs', 'bus.cjs', 'deploy.cjs']) {
    const text = readFileSync(join(directory, name), 'utf8');
    assert.match(text, /require\('pm2'\)/);
    writeFileSync(join(directory, name), text.replace("require('pm2')", `require('${word}')`));
  }
  mkdirSync(join(directory, 'node_modules'), { recursive: true });
  symlinkSync(target, join(directory, 'node_modules', word.split('/')[0]));
}

/** A script's results with PM2 and with Forkful, in otherwise equal environments. */
function both(t, script, times = 1) {
  const box = sandbox(t);
  const plain = { PATH: process.env.PATH, HOME: box.directory, USER: 'tester', APP, PM2_DISABLE_VERSION_CHECK: 'true', PM2_DISCRETE_MODE: 'true' };
  const theirs = join(box.directory, 'theirs');
  const ours = join(box.directory, 'ours');
  const theirEnv = { ...plain, PM2_HOME: join(box.directory, 'pm2') };
  const ourEnv = { ...plain, FORKFUL_HOME: box.home, FORKFUL_BIN: binary() };
  install(theirs, 'pm2', join(HERE, 'node_modules', 'pm2'));
  install(ours, 'forkful/pm2', PACKAGE);
  box.atEnd(() => {
    if (existsSync(theirEnv.PM2_HOME)) spawnSync(process.execPath, [join(HERE, 'node_modules/pm2/bin/pm2'), 'kill'], { env: theirEnv });
  });
  const repeat = (directory, env) => Array.from({ length: times }, () => run(directory, script, env));
  return { theirs: repeat(theirs, theirEnv), ours: repeat(ours, ourEnv) };
}

/** Removes repeated calls of waiting loops, whose number has no meaning. */
function withoutRepeats(transcript) {
  return transcript.filter((entry, index) => entry.name !== transcript[index + 1]?.name || !['list', 'describe'].includes(entry.name)
    || (entry.name === 'describe' && entry.result?.length !== transcript[index + 1].result?.length));
}

/** The fields that scripts read in the descriptions of two workers. */
function looked({ transcript }) {
  const described = transcript.filter(({ name }) => name === 'describe').map(({ result }) => result).find((result) => result?.length === 2);
  return described.map(({ name, pm_id, pid, pm2_env: env, monit }) => ({
    name, pm_id, hasPid: pid > 0, memory: monit.memory > 0, namespace: env.namespace, status: env.status, mode: env.exec_mode,
    instances: env.instances, slot: env.NODE_APP_INSTANCE, path: env.pm_exec_path, interpreter: env.exec_interpreter,
    foo: [env.FOO, env.env.FOO], restarts: env.restart_time, unstable: env.unstable_restarts, autorestart: env.autorestart, version: env.version,
  }));
}

/** The differences of Forkful's answer to a call. */
function faultsOf(theirs, ours, where) {
  const faults = [];
  const differ = (what, a, b) => { if (a !== b) faults.push(`${where}: ${what} ${a} there, ${b} here`); };
  differ('fails', theirs.error !== null, ours.error !== null);
  differ('an Error', theirs.isError, ours.isError);
  // Texts that scripts are known to check.
  if (/not found$|already launched|cannot save empty|unknown\.$/.test(theirs.error ?? '')) differ('error', theirs.error, ours.error);
  if (theirs.error === null) faults.push(...differences(theirs.result, ours.result).map((text) => `${where}: ${text}`));
  return faults;
}

test('callbacks get what they get from PM2', async (t) => {
  const { theirs: [theirs], ours: [ours] } = both(t, 'lifecycle.cjs');
  const [a, b] = [withoutRepeats(theirs.transcript), withoutRepeats(ours.transcript)];
  await t.test('the same errors, results of the same shape', () => {
    assert.deepEqual(b.map(({ name }) => name), a.map(({ name }) => name));
    const faults = a.flatMap((entry, index) => faultsOf(entry, b[index], `${index}. ${entry.name}`));
    assert.deepEqual([...new Set(faults)], []);
    assert.ok(a.length > 30, `only ${a.length} calls`);
  });
  await t.test('the same values where scripts look', () => {
    assert.deepEqual(looked(ours), looked(theirs));
  });
});

test('the bus tells what PM2 tells', (t) => {
  const { theirs: [theirs], ours: [ours] } = both(t, 'bus.cjs');
  assert.deepEqual(ours.methods, theirs.methods);
  assert.equal(ours.socket, theirs.socket);
  // PM2's log of itself, and what its instrumentation says of each app, are its own.
  const names = Object.keys(theirs.firsts).filter((name) => !['log:PM2', 'application:dependencies'].includes(name)).sort();
  assert.deepEqual(Object.keys(ours.firsts).filter((name) => names.includes(name)).sort(), names);
  const faults = names.flatMap((name) => differences(theirs.firsts[name], ours.firsts[name]).map((text) => `${name}: ${text}`));
  assert.deepEqual(faults, []);
  // Later lines come as soon as the restarted app has written them, which may be after the end.
  assert.deepEqual(ours.named.out.slice(0, 4), theirs.named.out.slice(0, 4));
  assert.deepEqual(new Set(ours.named.wild.map(String)), new Set(theirs.named.wild.map(String).filter((text) => !text.startsWith('PM2'))));
  // PM2 tells an exit twice, on its way and when it is done; a deletion it does not tell at all.
  const steps = ({ named }) => named.steps.map(String).filter((text, index, all) => text !== all[index - 1] && !text.includes('delete'));
  assert.deepEqual(steps(ours), steps(theirs));
});

test('a deploy script starts at first and reloads from then on', (t) => {
  const { theirs, ours } = both(t, 'deploy.cjs', 2);
  assert.deepEqual(ours.map(({ steps }) => steps), theirs.map(({ steps }) => steps));
  assert.deepEqual(ours.map(({ steps }) => steps[0]), [['start', 2], ['reload', 2]]);
});
