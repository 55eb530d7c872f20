// One storm: an app under four kinds of clients, one fault after the other, and then the ledger.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { freePort } from '../lib/http.mjs';
import { waitUntil } from '../lib/wait.mjs';
import { Clients } from './clients.mjs';
import { draw, FAULTS, strike } from './faults.mjs';
import { Cluster, Forkful, Pm2 } from './hosts.mjs';
import { judge, judgeEnds, judgeLogs, killedForMemory } from './ledger.mjs';
import { Random } from './random.mjs';

const HOSTS = { forkful: Forkful, cluster: Cluster, pm2: Pm2 };

/** A line may wait for so long in a worker that does not run, or for the daemon. */
const LINE_LATE_MS = 5000;

/** Requests that clients must have had answered before the next fault. */
const BETWEEN = 40;

/** What processes have executed, by the ids of requests; the ends that the app was asked for; and the processes that handle their stop and were not told to. */
function readExecuted(directory) {
  const executions = new Map();
  const exits = [];
  const untold = new Set();
  for (const name of readdirSync(directory)) {
    const pid = Number(name.split('-')[1]);
    for (const line of readFileSync(join(directory, name), 'utf8').split('\n').filter(Boolean)) {
      const [id, at, ...name] = line.split(' ');
      if (id === 'handles') untold.add(pid);
      else if (id === 'stop') untold.delete(pid);
      else if (id === 'exit') exits.push({ name: name.join(' '), from: Number(at), until: Number(at), dead: [pid] });
      else executions.set(id, [...executions.get(id) ?? [], pid]);
    }
  }
  return { executions, exits, untold };
}

/** The ids of the requests that a fault may have affected the log lines of. @param {(fault: import('./ledger.mjs').Fault) => boolean | undefined} affects */
function idsNear(requests, faults, affects) {
  const near = faults.filter(affects);
  return new Set(requests.filter(({ sentAt, endedAt }) => near.some(({ from, until }) => from <= endedAt + LINE_LATE_MS && until >= sentAt - LINE_LATE_MS)).map(({ id }) => id));
}

/**
 * @typedef {object} Wish
 * @property {number} seed
 * @property {keyof typeof HOSTS} [host]
 * @property {string} [balance]
 * @property {number} [instances]
 * @property {string} [drainTimeout]
 * @property {string} [plant] a mistake of the app's that the ledger must find
 * @property {string[]} [names] of the faults; all that leave a keeper by default
 * @property {Record<string, number>} [kinds] how many clients of each kind
 * @property {(struck: number, ms: number) => boolean} goesOn asked before each fault, with those so far and the time since the beginning
 * @property {(fault: import('./ledger.mjs').Fault, requests: number) => void} [tell]
 */

/** @param {Wish} wish */
export async function storm({ seed, host: name = 'forkful', balance = 'auto', instances = 2, drainTimeout = '10s', plant, names, kinds, goesOn, tell = () => {} }) {
  const random = new Random(seed);
  const directory = mkdtempSync(join(tmpdir(), 'forkful-chaos-'));
  const possible = (names ?? Object.keys(FAULTS).filter((fault) => FAULTS[fault].weight > 0)).filter((fault) => (FAULTS[fault].on ?? [name]).includes(name));
  const needs = new Set(possible.map((fault) => FAULTS[fault].needs));
  const host = new HOSTS[name]({ port: await freePort(), instances, balance, drainTimeout, plant, directory, needs });
  const faults = [];
  try {
    await host.start();
    const clients = new Clients(host.settings.port, new Random(seed + 1), kinds);
    const state = { host, random, clients, count: instances };
    const begun = Date.now();
    /** @type {Promise<void> | undefined} */
    let order;
    while (goesOn(faults.length, Date.now() - begun)) {
      const reached = clients.requests.length + BETWEEN;
      await waitUntil('answers', () => clients.requests.length >= reached);
      await sleep(random.whole(0, 500));
      const ready = possible.filter((fault) => !(order && FAULTS[fault].isOrder) && !host.lacks?.has(FAULTS[fault].needs));
      if (ready.length === 0) continue;
      const next = draw(ready, random);
      const { fault, over } = strike(next, state);
      faults.push(fault);
      const told = over.then(() => tell(fault, clients.requests.length));
      if (FAULTS[next].isOrder) order = told.then(() => { order = undefined; });
      else await told;
    }
    await order;
    const reached = clients.requests.length + BETWEEN;
    await waitUntil('answers after the last fault', () => clients.requests.length >= reached);
    await clients.stop();
    // A scale that a fault has cut off may have been done or not.
    await host.scale(state.count);
    await host.settle(state.count);
    const logs = await host.stop();
    const { executions, exits, untold } = readExecuted(directory);
    const said = host.said?.() ?? [];
    const all = [...faults.filter((fault) => !exits.some((exit) => exit.name === fault.name)), ...exits, ...killedForMemory(said)];
    const { explained, unaccounted } = judge(clients.requests, executions, all);
    // A full disk may cost lines. A daemon that is killed while it writes has the next one write the same lines again.
    const unwritten = idsNear(clients.requests, faults, ({ dropsLines }) => dropsLines);
    const repeated = idsNear(clients.requests, faults, ({ repeatsLines }) => repeatsLines);
    const ends = name === 'forkful' ? judgeEnds(untold, all, said) : [];
    return { requests: clients.requests, faults, explained, unaccounted, said, ends, logs: logs ? judgeLogs(logs, executions, unwritten, repeated) : [], seconds: (Date.now() - begun) / 1000 };
  } finally {
    await host.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
