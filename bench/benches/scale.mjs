// What the daemon costs as its work grows: workers, apps, connections, log lines, clients of the API. Each kind of work
// at several sizes; the cost of one unit at the largest size over that at the smallest says whether it grows faster than
// its cause. CPU times are the scheduler's, so that a busy machine does not change them much.

import { writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bench } from '../lib/engine.mjs';
import { MANAGERS } from '../lib/sleepers.mjs';
import { cpuSecondsExact, executableOf, ownCpuSeconds, proportionalBytes, residentBytes } from '../lib/proc.mjs';
import { interleave, withArm } from '../lib/rounds.mjs';
import { Server, waitUntil } from '../lib/server.mjs';
import { finalSamples, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'what the daemon costs with many workers, apps, kept connections, log lines and API clients';
export const arms = ['forkful-auto'];

const MEBIBYTE = 2 ** 20;
const SIZES = {
  workers: [50, 100, 200, 500], apps: [100, 300, 1000], nodes: [10, 50], connections: [2000, 4000, 8000, 16_000],
  exact: [400, 800, 1600, 3200], exactfull: [8, 64], lines: [1000, 10_000, 50_000], clients: [1, 10, 50], clientsfull: [1, 4, 16],
};
const QUICK = {
  workers: [5, 10], apps: [5, 10], nodes: [1, 2], connections: [50, 100], exact: [50, 100], exactfull: [4], lines: [100, 1000], clients: [1, 5], clientsfull: [1, 4],
};
const POLLED_WORKERS = 50;
/** Workers are asked for their number of connections until 30 s after the last change; then the daemon is idle. */
const RESTED_MS = 35_000;
const STARTED_MS_MAX = 300_000;

/** The one daemon among the processes of a server; its keeper, if it has one, is its parent. */
function daemonOf(server, binary) {
  const all = server.members().filter(({ pid }) => executableOf(pid) === binary);
  const daemons = all.filter(({ ppid }) => all.length === 1 || all.some(({ pid }) => pid === ppid));
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
    const before = ownCpuSeconds();
    await must(server.forkful('validate', file));
    const validate = ownCpuSeconds() - before;
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
    return { validate, start, memory, idle, list, restart, stop };
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

async function connections(arm, count, { workers, seconds, rests }) {
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
    if (rests) await sleep(RESTED_MS);
    const rest = rests ? await idlePercent(daemon, seconds) : undefined;
    const reload = await cpuOf(daemon, () => must(server.forkful('reload', 'all')));
    close();
    warm();
    return { open, memory, idle, rest, reload };
  });
}

let hosts = 0;

/** Measures the daemon while it hands connections over. Each connection carries one request; `load` gives their rate or number. */
async function handedOver(load, { workers, seconds }) {
  return withArm('forkful-exact', { workers }, async (server) => {
    const daemon = daemonOf(server, server.listCommand[0]);
    hosts += 1;
    const url = `http://127.0.7.${1 + (hosts % 250)}:${server.port}/`; // its own, so that the ports of the run before are free
    const ask = (duration) => bench([...load, '--no-keepalive', '-d', `${duration}s`, url]);
    await ask(1);
    let result;
    const from = performance.now();
    const handed = await cpuOf(daemon, async () => {
      result = await ask(seconds);
    });
    const share = (100 * handed * 1000) / (performance.now() - from);
    return { handed, asked: result.requests.completed, share, perSecond: result.requests.completed / seconds, p99: result.latency_ms.p99, errors: result.errors.total };
  });
}

/** Memory of Node.js workers and of their daemon. */
async function nodes(arm, count) {
  return withArm(`${arm}-auto`, { workers: count }, async (server) => {
    const daemon = daemonOf(server, server.listCommand[0]);
    const workers = server.workerPids();
    const proportional = workers.reduce((sum, pid) => sum + proportionalBytes(pid), 0) / MEBIBYTE;
    return { each: proportional / workers.length, resident: resident(workers[0]), daemon: proportionalBytes(daemon) / MEBIBYTE };
  });
}

/** A program that writes this many lines of 100 bytes, evenly over some seconds, after it has been up for one. */
const writer = (lines, seconds) => `setTimeout(()=>{let n=0;const t=setInterval(()=>{const to=Math.min(${lines},Math.ceil((performance.now()-from)/${seconds * 1000}*${lines}));let s='';for(;n<to;n++)s+='x'.repeat(99)+'\\n';process.stdout.write(s);if(n>=${lines})clearInterval(t);},20);const from=performance.now();setInterval(()=>{},1e6);},1000);`;

async function lines(arm, perSecond, { seconds }) {
  return withDaemon(arm, async (server, daemon) => {
    const file = path.join(server.directory, 'writer.cjs');
    writeFileSync(file, writer(perSecond * seconds, seconds));
    const config = path.join(server.directory, 'scale.config.json');
    writeFileSync(config, JSON.stringify({ apps: [{ name: 'writer', script: file, exec_mode: 'fork', min_uptime: 0 }] }));
    await must(server.forkful('start', config));
    const write = await cpuOf(daemon, () => sleep((seconds + 2) * 1000));
    return { write };
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

async function clients(arm, count, { seconds, pauseMs }) {
  return withDaemon(arm, async (server, daemon) => {
    await must(server.forkful('start', '/bin/sleep', '-i', String(POLLED_WORKERS), '--name', 'idle', '--', '3600'));
    const socket = path.join(server.extraEnv.FORKFUL_HOME, 'forkful.sock');
    const until = performance.now() + seconds * 1000;
    let asked = 0;
    const poll = async () => {
      while (performance.now() < until) {
        await get(socket, '/v1/table');
        asked += 1;
        if (pauseMs > 0) await sleep(pauseMs);
      }
    };
    const from = performance.now();
    const request = await cpuOf(daemon, () => Promise.all(Array.from({ length: count }, poll)));
    const took = (performance.now() - from) / 1000;
    return { request, asked, perSecond: asked / took, share: (100 * request) / took };
  });
}

export async function run(context) {
  const seconds = context.quick ? 1 : 5;
  const sizes = context.quick ? QUICK : SIZES;
  const kinds = {
    workers: (arm, size) => lives(arm, size, [sleeper('idle', size)], seconds),
    apps: (arm, size) => lives(arm, size, Array.from({ length: size }, (_, i) => sleeper(`app-${i}`, 1)), seconds),
    nodes,
    connections: (arm, size) => connections(arm, size, { workers: context.workers, seconds, rests: !context.quick && size === Math.max(...sizes.connections) }),
    exact: (arm, size) => handedOver(['--rate', String(size), '--connections-max', '200'], { workers: context.workers, seconds }),
    exactfull: (arm, size) => handedOver(['-c', String(size)], { workers: context.workers, seconds }),
    lines: (arm, size) => lines(arm, size, { seconds }),
    clients: (arm, size) => clients(arm, size, { seconds, pauseMs: 100 }),
    clientsfull: (arm, size) => clients(arm, size, { seconds, pauseMs: 0 }),
  };
  const present = context.arms.map((arm) => arm.replace('-auto', ''));
  const unknown = context.kinds?.find((kind) => !(kind in sizes));
  if (unknown !== undefined) throw new Error(`no kind "${unknown}"; there are: ${Object.keys(sizes).join(', ')}`);
  const wanted = Object.entries(sizes).filter(([kind]) => context.kinds === null || context.kinds.includes(kind));
  const cases = wanted.flatMap(([kind, all]) => all.flatMap((size) => present.map((arm) => `${kind} ${size} ${arm}`)));
  return interleave(context, cases, async (name) => {
    const [kind, size, arm] = name.split(' ');
    const cost = await kinds[kind](arm, Number(size));
    return { kind, size: Number(size), arm, cost, line: Object.entries(cost).filter(([, value]) => value !== undefined).map(([what, value]) => `${what} ${fixed(value, 3)}`).join(' · ') };
  });
}

/** Costs that are counted for each unit, with the factor and the name of their column; the others stand as they are. */
const PER_UNIT = {
  validate: [1e6, 'CPU of `validate`, µs'], start: [1e6, 'CPU of a start, µs'], restart: [1e6, 'of a restart, µs'], stop: [1e6, 'of a stop, µs'], list: [1e6, 'of `list`, µs'],
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
      idle: ['CPU soon after, %', (sample) => sample.cost.idle],
      rest: ['CPU at rest, %', (sample) => sample.cost.rest],
      each: ['memory of a worker, MiB', (sample) => sample.cost.each],
      daemon: ['memory of the daemon, MiB', (sample) => sample.cost.daemon],
      perSecond: ['requests/s', (sample) => sample.cost.perSecond],
      share: ['of a core, %', (sample) => sample.cost.share],
      handed: ['CPU for a connection, µs', (sample) => (sample.cost.handed * 1e6) / sample.cost.asked],
      p99: ['p99, ms', (sample) => sample.cost.p99],
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
