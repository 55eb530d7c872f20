// The load generators themselves: what a request costs each, against Node's http and against a server of fixed bytes
// that answers faster than any generator asks, one by one and ten in a row. One thread each, 64 kept connections, closed loop.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { ARMS } from '../lib/arms.mjs';
import { GENERATORS, example } from '../lib/generators.mjs';
import { measured } from '../lib/measure.mjs';
import { areDisturbed } from '../lib/rounds.mjs';
import { seededRandom, shuffled } from '../lib/stats.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'our load generator beside wrk, autocannon and loadtest';
export const arms = ['plain'];

const CONNECTIONS = 64;
const PIPELINING = 10;
/** @type {Record<string, {what: string, pipelining: number}>} */
const CASES = {
  node: { what: 'one Node process, plain http', pipelining: 1 },
  canned: { what: 'a server of fixed bytes', pipelining: 1 },
  // Where requests share the system calls, what is left is the generator's own work.
  pipelined: { what: `a server of fixed bytes, ${PIPELINING} requests under way on each`, pipelining: PIPELINING },
};
/** The warm-up of a Node.js process, until V8 has compiled its hot code. */
const WARM_UP_SECONDS = 4;
/** The turns of all generators in each round, and the length of a turn. */
const [TURNS, TURN_SECONDS] = [4, 2];

/** A server of fixed bytes; it ends when its standard input does. */
async function canned() {
  const child = spawn(example('canned'), [], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await Promise.race([once(child.stdout, 'data'), once(child, 'error').then(([error]) => { throw error; })]);
  return {
    url: String(line).trim(),
    server: null,
    async stop() {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}

async function node() {
  const server = await ARMS.plain.start({ workers: 1 });
  return { url: `http://127.0.0.1:${server.port}/`, server, stop: () => server.stop() };
}

/** One run of a generator, as a piece of a round. */
async function piece(generator, target, seconds, pipelining) {
  const { result, cpu } = await measured(target.server, () => GENERATORS[generator].run({ url: target.url, connections: CONNECTIONS, seconds, pipelining }));
  // A canned server is not an arm of the harness, so its CPU time would count as that of another program.
  return { ...result, cpu: target.server === null ? { ...cpu, disturbed: false } : cpu };
}

function sampleOf(pieces) {
  const total = (value) => pieces.reduce((sum, one) => sum + value(one), 0);
  const requests = total((one) => one.requests);
  const cpuSeconds = total((one) => one.cpuSeconds);
  const [perSecond, microseconds, errors] = [requests / total((one) => one.seconds), (cpuSeconds / requests) * 1e6, total((one) => one.errors)];
  return {
    perSecond, microseconds, perCpuSecond: requests / cpuSeconds, errors, pieces,
    cpu: { disturbed: areDisturbed(pieces) },
    line: `${fixed(perSecond)} req/s, ${fixed(microseconds, 2)} µs of generator CPU per request, ${errors} errors`,
  };
}

/** A round has one server of each kind; when it is warm, the generators take turns at it, in a fresh random order each time. */
export async function run(context) {
  const names = Object.keys(GENERATORS).filter((name) => {
    const missing = GENERATORS[name].missing();
    if (missing !== null) context.log(`without ${name}: ${missing}`);
    return missing === null;
  });
  const random = seededRandom(context.seed);
  for (let round = 0; round < context.rounds; round += 1) {
    for (const kind of shuffled(Object.keys(CASES), random)) {
      const { pipelining } = CASES[kind];
      const taking = names.filter((name) => pipelining === 1 || GENERATORS[name].pipelines);
      const at = new Date().toISOString();
      const target = await (kind === 'node' ? node() : canned());
      const taken = new Map(taking.map((name) => [name, []]));
      try {
        await piece('forkful', target, context.quick ? 0.5 : WARM_UP_SECONDS, pipelining);
        for (let turn = 0; turn < (context.quick ? 1 : TURNS); turn += 1) {
          for (const name of shuffled(taking, random)) taken.get(name).push(await piece(name, target, context.quick ? 1 : TURN_SECONDS, pipelining));
        }
      } finally {
        await target.stop();
      }
      for (const [name, pieces] of taken) {
        const sample = sampleOf(pieces);
        context.samples.push({ case: `${kind} ${name}`, round, attempt: 1, at, final: true, ...sample });
        context.log(`round ${round + 1}/${context.rounds} ${kind} ${name}: ${sample.line}${sample.cpu.disturbed ? ' (disturbed)' : ''}`);
      }
    }
  }
}

export function tables(result) {
  const namesOf = (server) => casesOf(result, []).filter((name) => name.startsWith(`${server} `)).sort((a, b) => order(a) - order(b));
  return Object.entries(CASES).filter(([server]) => namesOf(server).length > 0).map(([server, { what }]) => {
    const names = namesOf(server);
    const rows = names.map((name) => [
      name.split(' ')[1],
      spreadText(spreadOf(result, name, (s) => s.perSecond)),
      spreadText(spreadOf(result, name, (s) => s.microseconds), 2),
      ratioText(ratioOf(result, name, `${server} wrk`, (s) => s.perSecond)),
      ratioText(ratioOf(result, name, `${server} wrk`, (s) => s.microseconds)),
      ratioText(ratioOf(result, name, `${server} floor`, (s) => s.microseconds)),
      ratioText(ratioOf(result, `${server} forkful`, name, (s) => s.perCpuSecond)),
      fixed(finalSamples(result).filter((s) => s.case === name).reduce((sum, s) => sum + s.errors, 0)),
    ]);
    return {
      title: `Load generators, one thread, ${CONNECTIONS} kept connections, against ${what}`,
      columns: ['generator', 'req/s', 'generator CPU per request, µs', 'req/s / wrk', 'CPU / wrk', 'CPU / floor', 'requests per CPU second: forkful / this', 'errors'],
      rows,
    };
  });
}

const order = (name) => Object.keys(GENERATORS).indexOf(name.split(' ')[1]);
