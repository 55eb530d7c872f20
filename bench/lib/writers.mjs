// Four writers of log lines under a manager, with and without a reader that follows them; and the content of its log files.

import { spawn } from 'node:child_process';
import { readFileSync, readdirSync, existsSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { createGunzip } from 'node:zlib';
import { baselineBinary, forkfulBinary, isDaemonOf, prepareForkful } from './arms/forkful.mjs';
import { PM2, preparePm2 } from './arms/pm2.mjs';
import { BENCH } from './paths.mjs';
import { cpuSecondsExact, residentBytes } from './proc.mjs';
import { Server, waitUntil } from './server.mjs';

const APP = path.join(BENCH, 'apps/writer.cjs');
const START_MS_MAX = 60_000;
const WRITE_MS_MAX = 180_000;
const SETTLE_MS_MAX = 60_000;
const BYTES_PER_LINE = 1000;
/** CPU time in a tenth of a second that still counts as idle: PM2 is never completely idle. */
const REST_CPU_SECONDS = 0.02;

/** Everything is kept, so that every line can be counted. */
const ROTATION = { max_size: '10M', keep: 1000, total: '8G', min_free: 0 };

/** A build of this project. @param {() => string | null} binary */
function forkful(binary) {
  return {
    present: () => binary() !== null && existsSync(binary()),
    prepare: (server) => prepareForkful(server, binary()),
    async start(server, writers) {
      const config = path.join(server.directory, 'forkful.config.json');
      const app = { name: 'writer', script: APP, exec_mode: 'fork', instances: writers, log_rotate: ROTATION };
      writeFileSync(config, JSON.stringify({ apps: [app] }));
      return server.forkful('start', config);
    },
    logs: (server) => path.join(server.directory, 'home/logs'),
    follow: () => [binary(), ['logs', '--raw', '--lines', '0']],
    isManager: (member) => isDaemonOf(binary())(member),
  };
}

const MANAGERS = {
  forkful: forkful(forkfulBinary),
  baseline: forkful(baselineBinary),
  pm2: {
    present: () => existsSync(PM2),
    prepare: preparePm2,
    start: (server, writers) => server.pm2('start', APP, '-x', '-i', String(writers), '--name', 'writer'),
    logs: (server) => path.join(server.directory, 'pm2/logs'),
    follow: (server) => [server.node, [PM2, 'logs', '--raw', '--lines', '0']],
    isManager: ({ comm }) => comm.startsWith('PM2'),
  },
};

export const present = (name) => MANAGERS[name].present();

/** A log file, or its compressed file if it was compressed since its name was read. */
async function opened(file) {
  try {
    return { file: await open(file), packed: file.endsWith('.gz') };
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return { file: await open(`${file}.gz`), packed: true };
  }
}

/** Counts in the files: lines, torn lines, and lines out of their writer's order. */
async function count(folder) {
  const found = { lines: 0, torn: 0, disordered: 0, files: 0 };
  const next = new Map();
  const names = readdirSync(folder).filter((name) => name.startsWith('writer-') && !name.endsWith('.tmp'));
  // By log file, and for each the rotated files first, in order of time.
  const order = (name) => { const [, log, stamp] = /^(.*?\.log)(?:\.(.*))?$/.exec(name); return `${log} ${stamp ?? 'z'}`; };
  for (const name of names.sort((a, b) => (order(a) < order(b) ? -1 : 1))) {
    found.files += 1;
    const { file, packed } = await opened(path.join(folder, name));
    const stream = file.createReadStream({ highWaterMark: 1 << 20 });
    let rest = Buffer.alloc(0);
    for await (const piece of packed ? stream.pipe(createGunzip()) : stream) {
      const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      let from = 0;
      for (let to = bytes.indexOf(10, from); to >= 0; to = bytes.indexOf(10, from)) {
        const head = bytes.toString('latin1', from, Math.min(to, from + 20));
        const [, writer, number] = /^ *(\d+) +(\d+) $/.exec(head) ?? [];
        found.lines += 1;
        if (to - from !== BYTES_PER_LINE - 1 || writer === undefined) found.torn += 1;
        else {
          if (Number(number) !== (next.get(writer) ?? 0)) found.disordered += 1;
          next.set(writer, Number(number) + 1);
        }
        from = to + 1;
      }
      rest = bytes.subarray(from);
    }
    if (rest.length > 0) found.torn += 1;
  }
  return found;
}

/** Follows the log and counts lines. */
function follower(server, [file, args]) {
  const child = spawn(file, args, { cwd: server.directory, env: server.environment(), stdio: ['ignore', 'pipe', 'pipe'] });
  const seen = { lines: 0, said: '' };
  child.stdout.on('data', (piece) => {
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) seen.lines += 1;
  });
  child.stderr.on('data', (piece) => { seen.said = (seen.said + piece).slice(-2000); });
  return { child, seen };
}

/**
 * One run: `writers` processes of `lines` lines each.
 * @returns {Promise<object>} CPU of the manager, waits of the writers, what is in the files
 */
export async function withWriters(name, { writers, lines, linesPerSecond, follow }) {
  const manager = MANAGERS[name];
  const server = new Server(name, { app: APP, workers: writers, node: process.execPath });
  const file = (kind) => path.join(server.directory, kind);
  const reports = (kind) => readdirSync(server.directory).filter((entry) => entry.startsWith(`${kind}.`)).map((entry) => file(entry));
  Object.assign(server.extraEnv, {
    BENCH_LINES: String(lines), BENCH_LINE_BYTES: String(BYTES_PER_LINE), BENCH_LINES_PER_SECOND: String(linesPerSecond),
    BENCH_GO: file('go'), BENCH_READY: file('ready'), BENCH_DONE: file('done'),
  });
  let reading = null;
  try {
    manager.prepare(server);
    const { code, stdout, stderr } = await manager.start(server, writers);
    if (code !== 0) throw new Error(`${name} start exited with ${code}\n${stdout}${stderr}`.slice(0, 2000));
    await waitUntil(`${writers} writers`, START_MS_MAX, () => reports('ready').length >= writers, 20);
    if (follow) {
      reading = follower(server, manager.follow(server));
      await waitUntil('a follower', START_MS_MAX, () => server.members().some(({ pid }) => pid === reading.child.pid), 20);
    }
    const managers = server.members().filter((member) => manager.isManager(member) && member.pid !== reading?.child.pid).map(({ pid }) => pid);
    if (managers.length === 0) throw new Error(`${name}: its manager was not found`);
    const cpu = () => managers.reduce((sum, pid) => sum + cpuSecondsExact(pid), 0);
    const [cpuBefore, from] = [cpu(), performance.now()];
    writeFileSync(file('go'), '');
    let memory = 0;
    const sample = () => { memory = Math.max(memory, ...managers.map((pid) => residentBytes(pid) ?? 0)); };
    await waitUntil('all lines written', WRITE_MS_MAX, () => { sample(); return reports('done').length >= writers; }, 50);
    // Work that the manager has not finished counts too: wait until it is idle.
    let [last, quiet] = [cpu(), 0];
    await waitUntil('the manager at rest', SETTLE_MS_MAX, () => {
      sample();
      const now = cpu();
      quiet = now - last < REST_CPU_SECONDS ? quiet + 1 : 0;
      last = now;
      return quiet >= 5;
    }, 100);
    const done = reports('done').map((entry) => JSON.parse(readFileSync(entry, 'utf8')));
    const bytes = writers * lines * BYTES_PER_LINE;
    return {
      bytes,
      seconds: Math.max(...done.map((report) => report.seconds)),
      wallSeconds: (performance.now() - from) / 1000,
      cpuSecondsPerGB: (cpu() - cpuBefore) / (bytes / 1e9),
      memoryMiB: memory / 2 ** 20,
      waitMsMax: Math.max(...done.map((report) => report.waitMsMax)),
      blockedMsMax: Math.max(...done.map((report) => report.blockedMsMax)),
      waitsOver10: done.reduce((sum, report) => sum + report.waitsOver10, 0),
      sent: writers * lines,
      found: await count(manager.logs(server)),
      followed: reading?.seen.lines ?? null,
    };
  } finally {
    reading?.child.kill('SIGKILL');
    await server.stop();
  }
}
