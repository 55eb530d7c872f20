// The faults of a storm. Each is done to a host and gives what it may explain (see ledger.mjs).
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Handles that are left to a process that is short of them. */
const SPARE_HANDLES = 2;

/** Sends a signal to a process that may have ended meanwhile. Says whether it was there. */
function signal(pid, name) {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
    return false;
  }
}

/** Stops a process for a while. */
async function pause(pid, ms) {
  if (!signal(pid, 'SIGSTOP')) return;
  await sleep(ms);
  signal(pid, 'SIGCONT');
}

/** The soft limit of open files of a process; sets it where one is given. */
function filesMax(pid, limit) {
  if (limit !== undefined) execFileSync('prlimit', [`--nofile=${limit}:`, '--pid', String(pid)]);
  return execFileSync('prlimit', ['--nofile', '--raw', '--noheadings', '--output', 'SOFT', '--pid', String(pid)], { encoding: 'utf8' }).trim();
}

/** The parent of a process. */
const parentOf = (pid) => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1).split(' ')[1]);

const kill = async ({ host, random }) => {
  const pid = random.one(await host.workers());
  return { dead: pid !== undefined && signal(pid, 'SIGKILL') ? [pid] : [] };
};

/**
 * By name: how often each is drawn beside the others, which hosts it can be done to, whether it is an order, during which other
 * faults follow (but no other order), what it needs of the host, and what it does.
 * @typedef {{ host: any, random: import('./random.mjs').Random, clients: import('./clients.mjs').Clients, count: number }} Storm
 * @type {Record<string, { weight: number, on?: string[], isOrder?: boolean, needs?: 'keeper' | 'disk' | 'freeze' | 'limit', act: (storm: Storm) => Promise<Partial<import('./ledger.mjs').Fault> | void> }>}
 */
export const FAULTS = {
  'worker killed': { weight: 4, act: kill },
  'worker stopped': {
    weight: 3,
    async act({ host, random }) {
      await pause(random.one(await host.workers()), random.whole(200, 2000));
    },
  },
  'event loop blocked': {
    weight: 4,
    async act({ clients, random }) {
      await clients.alone('new', `?block=${random.whole(100, 1500)}`);
    },
  },
  'worker exits': {
    weight: 3,
    async act({ clients }) {
      await clients.alone('new', '?exit');
    },
  },
  reload: {
    weight: 4,
    isOrder: true,
    async act({ host }) {
      return { leaves: true, refused: await host.reload() };
    },
  },
  scale: {
    weight: 3,
    isOrder: true,
    async act(storm) {
      const { host, random } = storm;
      storm.count = random.whole(1, 4);
      const refused = await host.scale(storm.count);
      return { leaves: true, refused };
    },
  },
  update: {
    weight: 2,
    on: ['forkful'],
    isOrder: true,
    needs: 'keeper',
    async act({ host }) {
      return { refused: await host.update() };
    },
  },
  'daemon killed': {
    weight: 4,
    on: ['forkful'],
    needs: 'keeper',
    async act({ host }) {
      signal(await host.daemon(), 'SIGKILL');
      return { drops: host.settings.balance !== 'direct', repeatsLines: true };
    },
  },
  // Only where it is named: no daemon can be killed after it without the app.
  'keeper killed': {
    weight: 0,
    on: ['forkful'],
    needs: 'keeper',
    async act({ host }) {
      signal(parentOf(await host.daemon()), 'SIGKILL');
      host.lacks.add('keeper');
    },
  },
  'daemon stopped': {
    weight: 2,
    on: ['forkful'],
    async act({ host, random }) {
      await pause(await host.daemon(), random.whole(200, 1500));
    },
  },
  // Longer than the daemon waits for it.
  'keeper stopped': {
    weight: 1,
    on: ['forkful'],
    needs: 'keeper',
    async act({ host, random }) {
      await pause(parentOf(await host.daemon()), random.whole(200, 1500));
    },
  },
  // Lines that are written meanwhile are dropped and counted; nothing else is allowed to fail.
  'disk full': {
    weight: 1,
    on: ['forkful'],
    needs: 'disk',
    async act({ host, random }) {
      await host.fillDisk(() => sleep(random.whole(100, 1000)));
      return { dropsLines: true };
    },
  },
  // Every write and every new file waits meanwhile. The lines that come fit into the daemon's memory, so that none may be missing.
  'disk slow': {
    weight: 1,
    on: ['forkful'],
    needs: 'freeze',
    async act({ host, random }) {
      await host.freezeDisk(random.whole(100, 1000));
    },
  },
  // The kernel kills the worker that takes the app over its limit.
  'memory limit': {
    weight: 1,
    on: ['forkful'],
    needs: 'limit',
    async act({ clients }) {
      await clients.alone('new', '?hog');
    },
  },
  'daemon short of handles': {
    weight: 2,
    on: ['forkful'],
    async act({ host, random }) {
      const pid = await host.daemon();
      const before = filesMax(pid);
      const used = readdirSync(`/proc/${pid}/fd`).length;
      filesMax(pid, used + SPARE_HANDLES);
      await sleep(random.whole(200, 1000));
      filesMax(pid, before);
    },
  },
};

/**
 * Does one fault. Its `until` is infinite as long as it is under way.
 * @param {string} name
 * @param {Storm} storm
 * @returns {{ fault: import('./ledger.mjs').Fault & { refused?: string }, over: Promise<void> }}
 */
export function strike(name, storm) {
  const fault = { name, from: Date.now(), until: Infinity };
  const act = async () => {
    const done = await FAULTS[name].act(storm).catch((error) => ({ refused: error.message }));
    Object.assign(fault, { until: Date.now() }, done);
  };
  return { fault, over: act() };
}

/** The name of a fault that can be done to a host. @param {string[]} names */
export function draw(names, random) {
  const weight = (name) => Math.max(1, FAULTS[name].weight);
  let at = random.next() * names.reduce((sum, name) => sum + weight(name), 0);
  return names.find((name) => (at -= weight(name)) < 0) ?? names[0];
}
