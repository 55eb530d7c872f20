// One private Forkful per test file or test: a separate home and directory, the real binary, and a cleanup
// that fails if any process is left behind.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Control } from './control.mjs';
import { isListenedOn } from './http.mjs';
import { isLiving } from './living.mjs';
import { NEWEST, nodeBinary } from './nodes.mjs';
import { waitUntil } from './wait.mjs';

export { isLiving };

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const CONTROL = fileURLToPath(new URL('../fixtures/control.cjs', import.meta.url));

/** Time limit of a command. */
const COMMAND_MS_MAX = 300_000;

/** From a command's end to the end of its output. */
const PIPES_MS_MAX = 180_000;

/** The variables that commands get from the caller's environment: no settings of the test runner, and nothing that would change their output. */
const FROM_CALLER = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TERM|TMPDIR|FORKFUL_\w+)$/;

/** From the daemon's end to the end of the last of its processes. */
const PROCESSES_MS_MAX = 60_000;

/** Exit codes of the command, as in `forkful --help`. */
export const FAILED = 1;
export const WRONG_USE = 2;
export const NO_SUCH_APP = 3;
export const NO_DAEMON = 4;
export const INTERRUPTED = 130;

/** The command under test: `FORKFUL_BIN`, or cargo's build, release first. */
export function binary() {
  const candidates = process.env.FORKFUL_BIN
    ? [process.env.FORKFUL_BIN]
    : ['release', 'debug'].map((profile) => join(ROOT, 'target', profile, 'forkful'));
  const found = candidates.find((path) => existsSync(path));
  if (!found) throw new Error(`no forkful at ${candidates.join(' or ')}: run \`cargo build --release\` first`);
  return found;
}

/**
 * The result of a command.
 * @typedef {{ code: number | null, signal: string | null, stdout: string, stderr: string }} Outcome
 */

/** The processes whose environment or command line names a directory. @param {string} directory */
function processesOf(directory) {
  const found = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ');
      const environment = readFileSync(`/proc/${name}/environ`, 'latin1');
      const state = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1)?.[0];
      if (state !== 'Z' && (environment.includes(directory) || command.includes(directory))) {
        found.push({ pid: Number(name), command });
      }
    } catch {
      // It ended while we looked.
    }
  }
  return found;
}

/** Whether apps of a configuration are given a port. @param {string} path */
function namesPorts(path) {
  try {
    return path.endsWith('.json') && JSON.parse(readFileSync(path, 'utf8')).apps.some(({ env }) => Number(env?.PORT ?? 0) > 0);
  } catch {
    // It is the name of an app, or has comments.
    return false;
  }
}

/** A home, a directory for the test's files, and the commands that run there. */
export class Sandbox {
  #children = new Set();

  /** @param {number} major the Node version of its apps */
  constructor(major) {
    this.major = major;
    this.directory = mkdtempSync(join(tmpdir(), 'forkful-e2e-'));
    this.home = join(this.directory, 'home');
    this.control = new Control(join(this.directory, 'control.sock'));
    this.lastScript = 0;
  }

  /** @returns {NodeJS.ProcessEnv} */
  get env() {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => FROM_CALLER.test(name)));
    return { ...env, FORKFUL_HOME: this.home, E2E_CONTROL: this.control.path, NO_COLOR: '1' };
  }

  /**
   * Starts a command and leaves it running; the cleanup stops it.
   * @param {string[]} args
   * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, program?: string, detached?: boolean }} [options] `detached`: in a process group of its own
   */
  spawn(args, options = {}) {
    const child = spawn(options.program ?? binary(), args, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env },
      detached: options.detached,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const running = { child, stdout: '', stderr: '', outcome: /** @type {Promise<Outcome>} */ (Promise.resolve()) };
    child.stdout.setEncoding('utf8').on('data', (text) => { running.stdout += text; });
    child.stderr.setEncoding('utf8').on('data', (text) => { running.stderr += text; });
    running.outcome = new Promise((resolve, reject) => {
      child.on('error', reject);
      // 'close' comes when the last holder of its pipes is gone; a daemon that keeps them is a fault.
      child.on('exit', () => {
        this.#children.delete(child);
        const late = setTimeout(() => reject(new Error(`forkful ${args.join(' ')} has ended, but somebody holds its output`)), PIPES_MS_MAX);
        child.on('close', (code, signal) => {
          clearTimeout(late);
          resolve({ code, signal, stdout: running.stdout, stderr: running.stderr });
        });
      });
    });
    this.#children.add(child);
    return running;
  }

  /**
   * Runs a command until it exits.
   * @param {string[]} args
   * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
   * @returns {Promise<Outcome>}
   */
  async run(args, options) {
    const running = this.spawn(args, options);
    const timer = setTimeout(() => running.child.kill('SIGKILL'), COMMAND_MS_MAX);
    try {
      return await running.outcome;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Runs a command that must succeed. After the start of apps with a `PORT` or a `SOCKET`, it waits until they listen with all their workers: on a slow or
   * busy machine that may be after the end of `start`, which waits 3 s for workers of a cluster, and 1 s in fork mode.
   * @param {string[]} args @param {Parameters<Sandbox['run']>[1]} [options]
   */
  async ok(args, options) {
    const outcome = await this.run(args, options);
    assert.equal(outcome.code, 0, `forkful ${args.join(' ')}\n${outcome.stdout}${outcome.stderr}`);
    if (args[0] === 'start') await this.#listening(args, outcome, options);
    return outcome;
  }

  /** Waits until apps listen that are given a port or a socket. @param {string[]} args @param {Outcome} outcome @param {Parameters<Sandbox['run']>[1]} [options] */
  async #listening(args, outcome, options) {
    const told = `${outcome.stdout}${outcome.stderr}`;
    const port = Number(options?.env?.PORT ?? 0);
    if (port > 0) await waitUntil(`a listener on port ${port}\n${told}`, () => isListenedOn(port));
    const late = [...told.matchAll(/^note: (.+): it runs, but has not listened on any port yet/gm)].map(([, name]) => name);
    const path = resolve(options?.cwd ?? this.directory, args[1]);
    const listens = port > 0 || options?.env?.SOCKET !== undefined || namesPorts(path);
    if (late.length > 0 && listens) await waitUntil(`all workers of ${late} to listen`, () => this.#listen(late));
  }

  /** Whether all workers of these apps listen. @param {string[]} names */
  async #listen(names) {
    const { apps } = JSON.parse((await this.run(['list', '--json'])).stdout);
    const workers = apps.filter(({ definition }) => names.includes(definition.name)).flatMap((app) => app.workers);
    return workers.every(({ reason }) => !/does not listen on any port/.test(reason ?? ''));
  }

  /** Runs a command that must fail. @param {string[]} args @param {Parameters<Sandbox['run']>[1]} [options] */
  async fails(args, options) {
    const outcome = await this.run(args, options);
    assert.ok(outcome.code !== 0 && outcome.code !== null, `succeeded: forkful ${args.join(' ')}\n${outcome.stdout}${outcome.stderr}`);
    assert.doesNotMatch(outcome.stderr, /panicked|RUST_BACKTRACE/);
    return outcome;
  }

  /** The workers, as `jlist` shows them. @param {string} [name] of one app */
  async jlist(name) {
    const { stdout } = await this.ok(['jlist']);
    const all = JSON.parse(stdout);
    return name === undefined ? all : all.filter((worker) => worker.name === name);
  }

  /** The processes that carry a text in their environment or command line. @param {string} mark */
  processes(mark) {
    return processesOf(mark);
  }

  /** The daemon's pid, from its home. */
  async daemonPid() {
    return JSON.parse((await this.ok(['ping', '--json'])).stdout).pid;
  }

  /** Kills the daemon, and waits until the next daemon of its keeper answers; returns that daemon's pid. */
  async replaceDaemon() {
    const killed = await this.daemonPid();
    process.kill(killed, 'SIGKILL');
    return waitUntil('another daemon', async () => {
      const pid = await this.daemonPid();
      return pid !== killed && pid;
    });
  }

  /** Kills the daemon together with its keeper, so that no new daemon starts. Returns the daemon's pid. */
  async killDaemon() {
    const { pid, keeper } = JSON.parse((await this.ok(['ping', '--json'])).stdout);
    for (const one of [keeper, pid]) if (one !== undefined) process.kill(one, 'SIGKILL');
    await waitUntil('the daemon to end', () => [keeper, pid].every((one) => one === undefined || !isLiving(one)));
    return pid;
  }

  /**
   * Writes a script whose body is a function of the test; the function gets `require` and `report`.
   * @param {Function} body
   * @param {string} [name] of an existing script, to write its next version
   */
  script(body, name) {
    this.lastScript += 1;
    const path = join(this.directory, name ?? `app-${this.lastScript}.cjs`);
    // At once, so that a worker that begins meanwhile never reads half a script; next to the directory, where no app watches.
    const whole = `${this.directory}.script`;
    writeFileSync(whole, `'use strict';\nconst { report } = require(${JSON.stringify(CONTROL)});\n(${body})({ require, report, module });\n`);
    renameSync(whole, path);
    return path;
  }

  /**
   * Starts an app with two workers (unless `-i` is among the options) and waits for them.
   * @param {Function | string} script a function, or a path
   * @param {{ name: string, instances?: number, options?: string[], args?: string[], env?: NodeJS.ProcessEnv, major?: number }} wish
   */
  async start(script, { name, instances = 2, options = [], args = [], env, major = this.major }) {
    const path = typeof script === 'string' ? script : this.script(script);
    await this.ok([
      'start', path, '--name', name, '-i', String(instances), '--interpreter', nodeBinary(major), ...options,
      ...(args.length ? ['--', ...args] : []),
    ], { env });
    const app = {
      name,
      path,
      /** The living workers, when their number is as requested. */
      workers: (count = instances) => waitUntil(`${count} workers of ${name}`, () => {
        const living = this.control.living(path);
        return living.length === count && living;
      }),
    };
    return app;
  }

  /** Stops everything, and reports processes that did not stop or should not exist. */
  async close() {
    const faults = [];
    for (const child of this.#children) child.kill('SIGKILL');
    if (existsSync(this.home)) {
      const killed = await this.run(['kill']);
      const done = killed.code === 0 || killed.code === NO_DAEMON;
      if (!done) faults.push(`forkful kill: exit ${killed.code}: ${killed.stdout}${killed.stderr}`);
    }
    const gone = await waitUntil('the processes to end', () => processesOf(this.directory).length === 0, PROCESSES_MS_MAX)
      .catch(() => false);
    if (!gone) {
      for (const { pid, command } of processesOf(this.directory)) {
        faults.push(`left running: ${pid} ${command}`);
        process.kill(pid, 'SIGKILL');
      }
    }
    this.control.close();
    const sockets = existsSync(this.home)
      ? readdirSync(this.home, { recursive: true, withFileTypes: true }).filter((entry) => entry.isSocket())
      : [];
    for (const socket of sockets) faults.push(`left behind: socket ${socket.name}`);
    // For looking into a failure by hand: logs stay where they are.
    if (process.env.E2E_KEEP) console.error(`kept ${this.directory}`);
    else rmSync(this.directory, { recursive: true, force: true });
    assert.deepEqual(faults, []);
  }
}

/**
 * A sandbox for a test, or for a suite when called in its `before`; `close` it in `after`.
 * @param {{ after: (step: () => Promise<void>) => void } | null} t null when the caller closes it
 * @param {number} [major]
 */
export async function sandbox(t, major = NEWEST) {
  const box = new Sandbox(major);
  await box.control.listen();
  t?.after(() => box.close());
  return box;
}
