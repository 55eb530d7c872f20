// One started arm: its private directory, its port, its processes, and how it is shut down.
// Every process is found by the arm's marker and ended by its own id; nothing outlives `stop`.

import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { get } from './http.mjs';
import { MARKER, isSameProcess, membersOf } from './proc.mjs';

const PORT_FIRST = 20_000;
const PORT_LAST = 29_999; // below the usual ephemeral range, so that no client connection takes it
const READY_MS_MAX = 60_000;
const EXIT_MS_MAX = 8_000;
const COMMAND_MS_MAX = 120_000;
const POLL_MS = 5;

let started = 0;
/** Servers that are up, so that an interrupt can stop them. */
const running = new Set();

/** Waits until `predicate` returns something truthy; throws with `what` after `boundMs`. */
export async function waitUntil(what, boundMs, predicate, pollMs = POLL_MS) {
  const deadline = performance.now() + boundMs;
  for (;;) {
    const value = await predicate();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`${what}: not so after ${boundMs} ms`);
    await sleep(pollMs);
  }
}

/** A TCP port that is free on all addresses right now. */
export async function freePort() {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = PORT_FIRST + Math.floor(Math.random() * (PORT_LAST - PORT_FIRST));
    const free = await new Promise((resolve) => {
      const probe = net.createServer();
      probe.once('error', () => resolve(false));
      probe.listen(port, () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
  throw new Error('no free port between 20000 and 29999');
}

export class Server {
  /** @param {string} arm name of the arm @param {{app: string, workers: number, node: string, env?: Record<string, string>, listenTimeoutMs?: number}} options */
  constructor(arm, options) {
    started += 1;
    this.arm = arm;
    this.app = options.app;
    this.workersWanted = options.workers;
    this.node = options.node;
    this.marker = `${process.pid}-${started}-${arm}`;
    /** Marks in the environment of the arm's processes; an arm whose daemon filters its environment adds a mark that remains. */
    this.marks = [`${MARKER}=${this.marker}`];
    this.directory = mkdtempSync(path.join(tmpdir(), 'fb-'));
    this.listenLog = path.join(this.directory, 'listening');
    this.outputLog = path.join(this.directory, 'output');
    /** Arguments of `start` for tools that have a bound on how long a worker may take to listen. */
    this.listenTimeout = options.listenTimeoutMs === undefined ? [] : ['--listen-timeout', String(options.listenTimeoutMs)];
    this.port = 0;
    this.extraEnv = options.env ?? {};
    /** Monotonic time of the first command of this arm. */
    this.begunNs = null;
    this.shutdown = async () => {};
    running.add(this);
  }

  /** The environment of every process of this arm. `node` on its PATH is the arm's own Node. */
  environment() {
    const inherited = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^(npm_|PM2_|FORKFUL_|PORT$|NODE_OPTIONS$)/.test(name)),
    );
    return {
      ...inherited,
      PATH: `${path.dirname(this.node)}:${process.env.PATH}`,
      TMPDIR: this.directory, // files that a peer leaves behind are removed with the directory
      PORT: String(this.port),
      NODE_ENV: 'production',
      BENCH_LISTEN_LOG: this.listenLog,
      [MARKER]: this.marker,
      ...this.extraEnv,
    };
  }

  /**
   * Starts a long-running child whose output goes to the arm's file. In a session of its own, as every daemon and every
   * service is: Linux schedules by session first (autogroups), and a server in the generator's own session would be
   * scheduled differently from a server behind a daemon. Any server in that session got half as many requests again.
   */
  spawn(command, args, options = {}) {
    const output = openSync(this.outputLog, 'a');
    this.begunNs ??= process.hrtime.bigint();
    const child = spawn(command, args, {
      cwd: this.directory, env: this.environment(), stdio: ['ignore', output, output], detached: true, ...options,
    });
    closeSync(output);
    child.on('error', () => {}); // seen as "not ready"
    return child;
  }

  /** Runs a command of the arm's tool to its end. Never throws for an exit code. */
  command(file, args) {
    return new Promise((resolve) => {
      this.begunNs ??= process.hrtime.bigint();
      const options = { cwd: this.directory, env: this.environment(), timeout: COMMAND_MS_MAX, maxBuffer: 64 << 20 };
      execFile(file, args, options, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : (error.code ?? 1), stdout, stderr });
      });
    });
  }

  /** Lines "<worker id> <ns>" that workers wrote when they listened. */
  listened() {
    if (!existsSync(this.listenLog)) return [];
    return readFileSync(this.listenLog, 'utf8').trim().split('\n').filter(Boolean).map((line) => {
      const [worker, at] = line.split(' ');
      return { worker, atNs: BigInt(at) };
    });
  }

  /** Waits until all workers have listened and one answers. */
  async ready(workers = this.workersWanted) {
    try {
      await waitUntil(`${this.arm}: ${workers} workers listening`, READY_MS_MAX, () => this.listened().length >= workers);
      await waitUntil(`${this.arm}: an answer`, READY_MS_MAX, async () => (await get(this.port, '/pid')).status === 200);
    } catch (error) {
      const output = existsSync(this.outputLog) ? readFileSync(this.outputLog, 'utf8').slice(-2000) : '';
      throw new Error(`${error.message}\n${output}`, { cause: error });
    }
  }

  /** All processes of the arm, managers and workers. */
  members() {
    return membersOf(this.marks);
  }

  /** Process ids that wrote a listening line and still run: the workers, if workers are processes. */
  workerPids() {
    const listened = new Set(this.listened().map(({ worker }) => Number(worker.split('.')[0])));
    return this.members().filter(({ pid }) => listened.has(pid)).map(({ pid }) => pid);
  }

  /** Everything that is not a worker: the cost of the manager. */
  managerPids() {
    const workers = new Set(this.workerPids());
    return this.members().filter(({ pid }) => !workers.has(pid)).map(({ pid }) => pid);
  }

  /** Shuts the arm down with its own command, then checks each process. @returns {Promise<string[]>} the processes that had to be killed */
  async stop() {
    running.delete(this);
    const members = this.members();
    await this.shutdown();
    const killed = [];
    for (const signal of ['SIGTERM', 'SIGKILL']) {
      const gone = await exited(members, signal === 'SIGTERM' ? EXIT_MS_MAX / 2 : EXIT_MS_MAX);
      if (gone) break;
      for (const member of [...members, ...this.members()]) {
        if (!isSameProcess(member)) continue;
        killed.push(`${signal} ${member.comm}`);
        process.kill(member.pid, signal);
      }
    }
    for (const member of this.members()) process.kill(member.pid, 'SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
    return killed;
  }
}

async function exited(members, boundMs) {
  try {
    await waitUntil('exit', boundMs, () => !members.some(isSameProcess), 20);
    return true;
  } catch {
    return false;
  }
}

/** Stops all servers that still run, after interrupts and errors. */
export async function stopAll() {
  await Promise.allSettled([...running].map((server) => server.stop()));
}
