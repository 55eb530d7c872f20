// The apps of `examples/` as a reader runs them: in their folders, with their configurations, on Node.js 24.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { accepts, freePort, get } from './http.mjs';
import { startLoad } from './load.mjs';
import { nodeBinary } from './nodes.mjs';
import { isLiving, sandbox } from './sandbox.mjs';
import { waitUntil } from './wait.mjs';

const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url));
const BUILD_MS_MAX = 600_000;
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };

/** A busy machine may take longer than the configurations give. */
const PATIENT = ['--listen-timeout', '170s', '--kill-timeout', '170s'];

/** Number of answers to wait for before and after a reload. */
const ANSWERS_MIN = 100;
const CLIENTS = { closing: 6, keeping: 6, pauseMs: 20 };
/** Clients whose answers take a second, so that some are in progress at each step of a reload. */
const SLOW_CLIENTS = { closing: 2, keeping: 2 };

/** Node.js 24 first, so that `node` and `npm` are of that version. */
export const PATH = `${dirname(nodeBinary(24))}:${process.env.PATH}`;

/** The folder of an example. @param {string} name */
export function folderOf(name) {
  if (!existsSync(join(EXAMPLES, 'node_modules/next'))) throw new Error('the packages of the examples are missing: run `npm ci --prefix examples` first');
  return join(EXAMPLES, name);
}

/** A package that an example has installed. @param {string} path below `node_modules` */
export const packageOf = (path) => join(EXAMPLES, 'node_modules', path);

/** Runs `npm run build` in an example. @param {string} name */
export async function build(name) {
  const env = { ...process.env, PATH, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' };
  await promisify(execFile)('npm', ['run', 'build'], { cwd: folderOf(name), env, timeout: BUILD_MS_MAX });
}

/** The process id that an answer names. @param {string} body */
export const pidOf = (body) => Number(/"pid":(\d+)/.exec(body)?.[1]);

/** A running example. */
class Example {
  /** @param {import('./sandbox.mjs').Sandbox} forkful @param {string} folder @param {number} port @param {NodeJS.ProcessEnv} env */
  constructor(forkful, folder, port, env) {
    this.forkful = forkful;
    this.folder = folder;
    this.port = port;
    this.options = { cwd: folder, env };
  }

  /** A command in the example's folder that must succeed. @param {string[]} args */
  ok(...args) {
    return this.forkful.ok(args, this.options);
  }

  /** The process ids of its workers. @param {string} [app] */
  async pids(app) {
    return (await this.forkful.jlist(app)).map(({ pid }) => pid);
  }

  /** Stops an app, or all: each worker ends by itself, and in time. @param {string} [app] */
  async stop(app) {
    const pids = await this.pids(app);
    const { stdout, stderr } = await this.ok('stop', app ?? 'all');
    // A worker that ignores the signal is reported.
    assert.doesNotMatch(`${stdout}${stderr}`, /killed|SIGKILL/);
    for (const { name, pm2_env: { status } } of await this.forkful.jlist(app)) assert.equal(status, 'stopped', name);
    assert.deepEqual(pids.filter(isLiving), []);
  }
}

/**
 * Starts an example by its configuration.
 * @param {import('node:test').TestContext} t
 * @param {string} name its folder
 * @param {{ config?: string, env?: NodeJS.ProcessEnv, forkful?: import('./sandbox.mjs').Sandbox }} [options]
 */
export async function startExample(t, name, { config = 'forkful.config.js', env = {}, forkful } = {}) {
  const port = await freePort();
  const example = new Example(forkful ?? await sandbox(t, 24), folderOf(name), port, { PATH, PORT: String(port), ...env });
  await example.ok('start', config, ...PATIENT);
  const { status, body } = await get(port, '/healthz');
  assert.equal(status, 200, body);
  return example;
}

/** Paths of an example: `path` returns the process id, `slow` takes a second, `page` is any other page. */
export class Traffic {
  /** @param {import('node:test').TestContext} t @param {number} port @param {{ path?: string, slow?: string | null, page?: string }} [paths] */
  constructor(t, port, { path = '/', slow = '/slow', page } = {}) {
    this.loads = [
      startLoad({ port, path, ...CLIENTS, expect: /"pid":\d+/ }),
      ...(slow ? [startLoad({ port, path: slow, ...SLOW_CLIENTS, expect: /"pid":\d+/ })] : []),
      ...(page ? [startLoad({ port, path: page, closing: 1, keeping: 1, pauseMs: 20 })] : []),
    ];
    t.after(() => Promise.all(this.loads.map((load) => load.stop())));
  }

  /** Waits until each of these processes has answered, and there were some answers more; a failure ends the wait. @param {number[]} pids */
  async answeredBy(pids) {
    const [load] = this.loads;
    const from = load.counts.success;
    const has = (pid) => [...load.answers.keys()].some((body) => pidOf(body) === pid);
    await waitUntil(`answers of ${pids}`, () =>
      this.loads.some(({ failed }) => failed > 0) || (pids.every(has) && load.counts.success >= from + ANSWERS_MIN));
  }

  /** Ends the load; no request may have failed. */
  async settle() {
    for (const load of this.loads) {
      const { success, ...failed } = await load.stop();
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
      assert.ok(success > 0);
    }
  }
}

/**
 * Starts an example, loads it, reloads it under this load, and stops it.
 * @param {import('node:test').TestContext} t
 * @param {string} name
 * @param {Parameters<typeof startExample>[2] & ConstructorParameters<typeof Traffic>[2]} [options]
 */
export async function lifeOf(t, name, options = {}) {
  const example = await startExample(t, name, options);
  const traffic = new Traffic(t, example.port, options);
  const first = await example.pids();
  await traffic.answeredBy(first);
  await example.ok('reload', 'all');
  const second = await example.pids();
  assert.equal(second.length, first.length);
  assert.deepEqual(second.filter((pid) => first.includes(pid)), [], 'each worker was replaced');
  await traffic.answeredBy(second);
  await traffic.settle();
  await example.stop();
  assert.equal(await accepts({ host: '127.0.0.1', port: example.port }), false);
}

/**
 * Starts an example as one instance, by a command as people have it, and reloads it under load. The process that answers may be
 * one below the command.
 * @param {import('node:test').TestContext} t
 * @param {string} name
 * @param {string[]} command what `forkful start` is given
 * @param {ConstructorParameters<typeof Traffic>[2]} [paths]
 */
export async function singleLifeOf(t, name, command, paths = {}) {
  const port = await freePort();
  const env = { PATH, PORT: String(port), NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' };
  const example = new Example(await sandbox(t, 24), folderOf(name), port, env);
  await example.ok('start', '--name', 'single', ...PATIENT, ...command);
  const answering = async () => pidOf((await get(port, paths.path ?? '/')).body);
  // A wrapper counts as started before its app listens.
  const old = await waitUntil('an answer', () => answering().catch(() => 0));
  const traffic = new Traffic(t, port, paths);
  await traffic.answeredBy([old]);
  const { stdout, stderr } = await example.ok('reload', 'single');
  assert.doesNotMatch(stdout + stderr, /stopped, then started/);
  const next = await answering();
  assert.ok(next > 0 && next !== old);
  await traffic.answeredBy([next]);
  await traffic.settle();
  await example.stop();
}
