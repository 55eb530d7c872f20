// A storm by hand: `dev/chaos --help`.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { FAULTS } from './faults.mjs';
import { storm } from './storm.mjs';

const HELP = `usage: dev/chaos [options]

Kills, stops, blocks, reloads and scales a real app and its daemon under load, and accounts for each request: it was executed once and
answered, or a fault of the storm explains what became of it. Each worker that is not killed must be told to stop before it ends.
Exits with 1 if a request or a worker is left over.

  --seed N       draws the faults, default 1
  --minutes M    how long, default 3
  --balance B    auto (default), exact, direct or least
  --instances N  workers at the beginning, default 2
  --against H    what runs the app: forkful (default), cluster (Node's own module) or pm2
  --faults A,B   only these: ${Object.keys(FAULTS).join(', ')}
  --plant P      a mistake of the app's that must be found: lost, doubled, mixed, unexecuted, unlogged or deaf
  --json FILE    writes the report as JSON, too
  --help         this

examples:
  dev/chaos --seed 7 --minutes 1
  dev/chaos --minutes 60 --json chaos.json
  dev/chaos --against cluster --faults "worker killed,reload"
`;

/** At most so many of the requests that are left over are printed. */
const SHOWN_MAX = 20;
/** How long before a request was sent, and after its end, the daemon may have said what explains it, and at most how many lines of that are shown. */
const SAID_MS = 8000;
const SAID_MAX = 60;

const OPTIONS = /** @type {const} */ ({
  seed: { type: 'string', default: '1' }, minutes: { type: 'string', default: '3' }, balance: { type: 'string', default: 'auto' }, instances: { type: 'string', default: '2' },
  against: { type: 'string', default: 'forkful' }, faults: { type: 'string' }, plant: { type: 'string' }, json: { type: 'string' }, help: { type: 'boolean', short: 'h', default: false },
});

function wrongUse(text) {
  console.error(`dev/chaos: ${text}; see dev/chaos --help`);
  process.exit(2);
}

function readOptions() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (error) {
    return wrongUse(error.message.split('. ')[0]);
  }
}

/** The value of an option that must be one of some words. */
function oneOf(name, words) {
  const value = values[name];
  return value === undefined || words.includes(value) ? value : wrongUse(`--${name} must be ${words.join(', ')}, not "${value}"`);
}

function number(name, least) {
  const value = Number(values[name]);
  return Number.isFinite(value) && value >= least ? value : wrongUse(`--${name} must be a number from ${least} on, not "${values[name]}"`);
}

const values = readOptions();
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const names = values.faults?.split(',').map((name) => name.trim());
for (const name of names ?? []) if (!Object.hasOwn(FAULTS, name)) wrongUse(`there is no fault "${name}"`);
const against = oneOf('against', ['forkful', 'cluster', 'pm2']);
const balance = oneOf('balance', ['auto', 'exact', 'direct', 'least']);
const plant = oneOf('plant', ['lost', 'doubled', 'mixed', 'unexecuted', 'unlogged', 'deaf']);
const seed = number('seed', 0);
const boundMs = number('minutes', 0.01) * 60_000;

const clock = (ms) => new Date(ms).toISOString().slice(11, 19);
// A storm that is interrupted ends what it has begun, and reports on it.
let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => { isInterrupted = true; });
const result = await storm({
  seed, host: against, balance, instances: number('instances', 1), plant, names,
  goesOn: (_struck, ms) => !isInterrupted && ms < boundMs,
  tell: ({ name, from, dead, refused }, requests) => {
    console.log(`${clock(from)}  ${name}${dead?.length ? ` (pid ${dead.join()})` : ''}${refused ? ` – ${refused.split('\n')[0]}` : ''}, ${requests} requests`);
  },
});

const { requests, faults, explained, unaccounted, said, ends, logs, seconds } = result;
const answered = requests.filter(({ end }) => end === 'answered').length;
console.log(`\n${requests.length} requests in ${seconds.toFixed(0)} s, ${answered} answered; ${faults.length} faults (seed ${seed})`);
const counts = new Map();
for (const { name } of faults) counts.set(name, (counts.get(name) ?? 0) + 1);
for (const [name, count] of [...counts].sort()) console.log(`  ${String(count).padStart(4)} × ${name.padEnd(24)} ${explained.get(name)?.length ?? 0} requests ended with it`);
for (const kind of new Set(requests.map((request) => request.kind))) {
  const times = requests.filter((request) => request.kind === kind && request.end === 'answered').map(({ sentAt, endedAt }) => endedAt - sentAt).sort((a, b) => a - b);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
  console.log(`  ${kind.padEnd(10)} p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`);
}
const shown = new Set();
for (const { request: { id, sentAt, endedAt, pid, heldBy }, what, by } of unaccounted.slice(0, SHOWN_MAX)) {
  const process = by[0] ?? pid ?? heldBy;
  console.log(`unaccounted: ${id}, sent ${clock(sentAt)}, ended after ${endedAt - sentAt} ms: ${what}${process ? `, process ${process}` : ''}`);
  const near = (line) => {
    const at = Date.parse(line.slice(0, line.indexOf(' ')));
    return at > sentAt - SAID_MS && at < endedAt + SAID_MS;
  };
  for (const line of said.filter((line) => near(line) && !shown.has(line)).slice(0, SAID_MAX)) {
    shown.add(line);
    console.log(`  the daemon: ${line}`);
  }
}
for (const fault of logs.slice(0, SHOWN_MAX)) console.log(`log: ${fault}`);
for (const fault of ends) console.log(`ends: ${fault}`);
const isWhole = unaccounted.length + logs.length + ends.length === 0;
console.log(isWhole ? 'every request is accounted for' : `${unaccounted.length} requests are not accounted for, ${logs.length} faults of the log, ${ends.length} of the workers' ends`);
if (values.json) {
  const summary = { seed, balance, against, seconds, requests: requests.length, answered, faults: Object.fromEntries(counts), explained: Object.fromEntries([...explained].map(([name, all]) => [name, all.length])), unaccounted, logs, ends };
  writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`);
}
process.exit(isWhole ? 0 : 1);
