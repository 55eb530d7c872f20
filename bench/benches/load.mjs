// The load generators themselves: what a request costs each, against Node's http and against a server of fixed bytes
// that answers faster than any generator asks. One thread each, 64 kept connections, closed loop.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { ARMS } from '../lib/arms.mjs';
import { GENERATORS, example } from '../lib/generators.mjs';
import { measured } from '../lib/measure.mjs';
import { interleave } from '../lib/rounds.mjs';
import { casesOf, finalSamples, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'our load generator beside wrk, autocannon and loadtest';
export const arms = ['plain'];

const CONNECTIONS = 64;
const SERVERS = ['node', 'canned'];

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

async function sample(name, quick) {
  const [kind, generator] = name.split(' ');
  const target = kind === 'canned' ? await canned() : await node();
  try {
    const load = { url: target.url, connections: CONNECTIONS };
    await GENERATORS[generator].run({ ...load, seconds: 1 });
    const { result, cpu } = await measured(target.server, () => GENERATORS[generator].run({ ...load, seconds: quick ? 1 : 3 }));
    const perSecond = result.requests / result.seconds;
    const microseconds = (result.cpuSeconds / result.requests) * 1e6;
    // A canned server is no arm of the harness, so its CPU would count as a stranger's.
    return {
      perSecond, microseconds, perCpuSecond: result.requests / result.cpuSeconds, report: result, errors: result.errors,
      cpu: target.server === null ? { ...cpu, disturbed: false } : cpu,
      line: `${fixed(perSecond)} req/s, ${fixed(microseconds, 2)} µs of generator CPU per request, ${result.errors} errors`,
    };
  } finally {
    await target.stop();
  }
}

export async function run(context) {
  const names = Object.keys(GENERATORS).filter((name) => {
    const missing = GENERATORS[name].missing();
    if (missing !== null) context.log(`without ${name}: ${missing}`);
    return missing === null;
  });
  const cases = SERVERS.flatMap((server) => names.map((name) => `${server} ${name}`));
  return interleave(context, cases, (name) => sample(name, context.quick));
}

export function tables(result) {
  return SERVERS.map((server) => {
    const names = casesOf(result, []).filter((name) => name.startsWith(`${server} `)).sort((a, b) => order(a) - order(b));
    const rows = names.map((name) => [
      name.split(' ')[1],
      spreadText(spreadOf(result, name, (s) => s.perSecond)),
      spreadText(spreadOf(result, name, (s) => s.microseconds), 2),
      ratioText(ratioOf(result, name, `${server} wrk`, (s) => s.perSecond)),
      ratioText(ratioOf(result, name, `${server} wrk`, (s) => s.microseconds)),
      ratioText(ratioOf(result, `${server} forkful`, name, (s) => s.perCpuSecond)),
      fixed(finalSamples(result).filter((s) => s.case === name).reduce((sum, s) => sum + s.errors, 0)),
    ]);
    const what = server === 'canned' ? 'a server of fixed bytes' : 'one Node process, plain http';
    return {
      title: `Load generators, one thread, ${CONNECTIONS} kept connections, against ${what}`,
      columns: ['generator', 'req/s', 'generator CPU per request, µs', 'req/s / wrk', 'CPU / wrk', 'requests per CPU second: forkful / this', 'errors'],
      rows,
    };
  });
}

const order = (name) => Object.keys(GENERATORS).indexOf(name.split(' ')[1]);
