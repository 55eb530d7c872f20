// What the daemon costs as its work grows: workers, apps, kept connections, log lines, clients of the API. Each dimension
// at several sizes; the cost of one unit at the largest size over that at the smallest says whether it grows faster than
// its cause. CPU times are the scheduler's, so that a busy machine does not change them much.

import { writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MANAGERS } from '../lib/sleepers.mjs';
import { cpuSecondsExact, executableOf, residentBytes } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { Server, waitUntil } from '../lib/server.mjs';
import { finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'what the daemon costs with many workers, apps, kept connections, log lines and API clients';
export const arms = ['forkful-auto'];

const MEBIBYTE = 2 ** 20;
const SIZES = { workers: [50, 100, 200, 500], apps: [100, 300, 1000], connections: [2000, 4000, 8000, 16_000], lines: [1000, 10_000, 50_000], clients: [1, 10, 50] };
const QUICK = { workers: [5, 10], apps: [5, 10], connections: [50, 100], lines: [100, 1000], clients: [1, 5] };
const POLLED_WORKERS = 50;
const STARTED_MS_MAX = 300_000;

/** The one daemon among the processes of a server. */
function daemonOf(server, binary) {
  const daemons = server.members().filter(({ pid }) => executableOf(pid) === binary);
  if (daemons.length !== 1) throw new Error(`${daemons.length} daemons`);
  return daemons[0].pid;
}

const resident = (pid) => residentBytes(pid) / MEBIBYTE;

/** CPU seconds of the daemon while something is done. */
async function cpuOf(pid, work) {
  const before = cpuSecondsExact(pid);
  await work();
  return cpuSecondsExact(pid) - before;
}

const idlePercent = async (pid, seconds) => (100 * (await cpuOf(pid, () => sleep(seconds * 1000)))) / seconds;

async function must(promise) {
  const { code, stdout, stderr } = await promise;
  if (code !== 0) throw new Error(`exit ${code}: ${(stderr || stdout).slice(0, 500)}`);
}

/** Runs `use` beside a daemon with one small app, with its pid. */
async function withDaemon(arm, use) {
  const server = new Server(arm, { app: '/bin/sleep', workers: 0, node: process.execPath });
  try {
    MANAGERS[arm].prepare(server);
    await must(server.forkful('start', '/bin/sleep', '--name', 'first', '--', '3600')); // starts the daemon
    return await use(server, daemonOf(server, server.listCommand[0]));
  } finally {
    await server.stop();
  }
}

/** Life of `count` workers that sleep, in apps as `config` says. */
async function lives(arm, count, config, seconds) {
  return withDaemon(arm, async (server, daemon) => {
    const file = path.join(server.directory, 'scale.config.json');
    writeFileSync(file, JSON.stringify({ apps: config }));
    const empty = resident(daemon);
    const sleepers = () => server.members().filter(({ comm }) => comm === 'sleep').length - 1;
    const start = await cpuOf(daemon, async () => {
      await must(server.forkful('start', file));
      await waitUntil(`${count} sleepers`, STARTED_MS_MAX, () => sleepers() >= count, 200);
    });
    const memory = resident(daemon) - empty;
    const idle = await idlePercent(daemon, seconds);
    const list = await cpuOf(daemon, () => must(server.forkful('list')));
    const restart = await cpuOf(daemon, () => must(server.forkful('restart', 'all')));
    const stop = await cpuOf(daemon, () => must(server.forkful('stop', 'all')));
    return { start, memory, idle, list, restart, stop };
  });
}

const sleeper = (name, instances) => ({ name, script: '/bin/sleep', args: '3600', interpreter: 'none', exec_mode: 'fork', instances, min_uptime: 0 });

/** Opens `count` connections, asks each for one page, and keeps them. */
async function keepOpen(port, count) {
  const sockets = [];
  const open = (i) => new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress: `127.0.${1 + (i % 4)}.1` });
    socket.once('error', reject);
    socket.once('data', () => resolve(socket));
    socket.write('GET /fast HTTP/1.1\r\nHost: localhost\r\n\r\n');
    sockets.push(socket);
  });
  for (let i = 0; i < count; i += 50) await Promise.all(Array.from({ length: Math.min(50, count - i) }, (_, k) => open(i + k)));
  return () => sockets.forEach((socket) => socket.destroy());
}

async function connections(arm, count, { workers, seconds }) {
  return withArm(`${arm}-auto`, { workers }, async (server) => {
    const daemon = daemonOf(server, server.listCommand[0]);
    const warm = await keepOpen(server.port, 50);
    const empty = resident(daemon);
    let close;
    const open = await cpuOf(daemon, async () => {
      close = await keepOpen(server.port, count);
    });
    const memory = resident(daemon) - empty;
    const idle = await idlePercent(daemon, seconds);
    const reload = await cpuOf(daemon, () => must(server.forkful('reload', 'all')));
    close();
    warm();
    return { open, memory, idle, reload };
  });
}

/** A program that writes this many lines of 100 bytes, evenly over some seconds. */
const writer = (lines, seconds) => `let n=0;const t=setInterval(()=>{const to=Math.min(${lines},Math.ceil((performance.now()-from)/${seconds * 1000}*${lines}));let s='';for(;n<to;n++)s+='x'.repeat(99)+'\\n';process.stdout.write(s);if(n>=${lines})clearInterval(t);},20);const from=performance.now();setInterval(()=>{},1e6);`;

async function lines(arm, perSecond, { seconds }) {
  return withDaemon(arm, async (server, daemon) => {
    const file = path.join(server.directory, 'writer.cjs');
    writeFileSync(file, writer(perSecond * seconds, seconds));
    const config = path.join(server.directory, 'scale.config.json');
    writeFileSync(config, JSON.stringify({ apps: [{ name: 'writer', script: file, exec_mode: 'fork' }] }));
    const empty = resident(daemon);
    const write = await cpuOf(daemon, async () => {
      await must(server.forkful('start', config));
      await sleep((seconds + 1) * 1000);
    });
    return { write, memory: resident(daemon) - empty };
  });
}

function get(socketPath, route) {
  return new Promise((resolve, reject) => {
    const request = http.get({ socketPath, path: route }, (response) => {
      response.resume();
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))));
    });
    request.on('error', reject);
  });
}

async function clients(arm, count, { seconds }) {
  return withDaemon(arm, async (server, daemon) => {
    await must(server.forkful('start', '/bin/sleep', '-i', String(POLLED_WORKERS), '--name', 'idle', '--', '3600'));
    const socket = path.join(server.extraEnv.FORKFUL_HOME, 'forkful.sock');
    const until = performance.now() + seconds * 1000;
    let asked = 0;
    const poll = async () => {
      while (performance.now() < until) {
        await get(socket, '/v1/table');
        asked += 1;
        await sleep(100);
      }
    };
    const cpu = await cpuOf(daemon, () => Promise.all(Array.from({ length: count }, poll)));
    return { request: cpu, asked };
  });
}

export async function run(context) {
  const seconds = context.quick ? 1 : 5;
  const sizes = context.quick ? QUICK : SIZES;
  const kinds = {
    workers: (arm, size) => lives(arm, size, [sleeper('idle', size)], seconds),
    apps: (arm, size) => lives(arm, size, Array.from({ length: size }, (_, i) => sleeper(`app-${i}`, 1)), seconds),
    connections: (arm, size) => connections(arm, size, { workers: context.workers, seconds }),
    lines: (arm, size) => lines(arm, size, { seconds }),
    clients: (arm, size) => clients(arm, size, { seconds }),
  };
  const present = context.arms.map((arm) => arm.replace('-auto', ''));
  const cases = Object.entries(sizes).flatMap(([kind, all]) => all.flatMap((size) => present.map((arm) => `${kind} ${size} ${arm}`)));
  return interleave(context, cases, async (name) => {
    const [kind, size, arm] = name.split(' ');
    const cost = await kinds[kind](arm, Number(size));
    return { kind, size: Number(size), arm, cost, line: Object.entries(cost).map(([what, value]) => `${what} ${fixed(value, 3)}`).join(' · ') };
  });
}

/** Costs that are counted for each unit, with the factor and the name of their column; the others stand as they are. */
const PER_UNIT = {
  start: [1e6, 'CPU of a start, µs'], restart: [1e6, 'of a restart, µs'], stop: [1e6, 'of a stop, µs'], list: [1e6, 'of `list`, µs'],
  memory: [1024, 'memory, KiB'], open: [1e6, 'CPU of an open, µs'], reload: [1e6, 'CPU of a reload, µs'],
};

export function tables(result) {
  const samples = finalSamples(result);
  return [...new Set(samples.map((sample) => `${sample.kind} ${sample.arm}`))].sort().map((key) => {
    const [kind, arm] = key.split(' ');
    const mine = samples.filter((sample) => sample.kind === kind && sample.arm === arm);
    const sizes = [...new Set(mine.map(({ size }) => size))].sort((a, b) => a - b);
    const columns = {
      ...Object.fromEntries(Object.entries(PER_UNIT).map(([what, [factor, title]]) => [what, [title, (sample) => (sample.cost[what] * factor) / sample.size]])),
      idle: ['CPU at rest, %', (sample) => sample.cost.idle],
      write: ['CPU for a line, µs', (sample) => (sample.cost.write * 1e6) / sample.size / 5],
      request: ['CPU for a request, µs', (sample) => (sample.cost.request * 1e6) / sample.cost.asked],
    };
    const shown = Object.entries(columns).filter(([what]) => mine.some(({ cost }) => cost[what] !== undefined)).map(([, column]) => column);
    return {
      title: `${kind} (${arm}), for each`,
      columns: [kind, ...shown.map(([title]) => title)],
      rows: sizes.map((size) => [fixed(size), ...shown.map(([, read]) => spreadText(spreadOf(result, `${kind} ${size} ${arm}`, read), 2))]),
    };
  });
}
