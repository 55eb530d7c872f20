// HTTP/2 beside h2load: the same connections and streams, the same number of requests to one Node http2 server in the
// clear, whose own count of answers is compared with what the generator says.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { forkfulBinary } from '../lib/arms/forkful.mjs';
import { served } from '../lib/engine.mjs';
import { timed } from '../lib/generators.mjs';
import { missingGenerator } from '../lib/load.mjs';
import { measured } from '../lib/measure.mjs';
import { BENCH } from '../lib/paths.mjs';
import { interleave } from '../lib/rounds.mjs';
import { casesOf, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'our HTTP/2 engine beside h2load';
export const arms = [];

const CONNECTIONS = 8;
const [REQUESTS, REQUESTS_QUICK, WARMUP] = [60_000, 4_000, 10_000];
const STREAMS = [1, 16];

/** The exit codes of `forkful bench` after a measurement. */
const MEASURED = [0, 6];

/** @type {Record<string, {missing: () => string | null, run: (url: string, requests: number, streams: number) => Promise<object>}>} */
const GENERATORS = {
  forkful: {
    missing: () => (existsSync(forkfulBinary()) ? null : 'build forkful first'),
    async run(url, requests, streams) {
      const args = ['bench', '--json', '--no-progress', '--http2', '--threads', '1', '-c', String(CONNECTIONS), '--streams', String(streams), '-n', String(requests), url];
      const { text, cpuSeconds } = await timed(forkfulBinary(), args, MEASURED);
      const document = JSON.parse(text.slice(text.indexOf('{')));
      return { cpuSeconds, requests: document.requests.completed, perSecond: document.requests.per_second, errors: document.errors.total };
    },
  },
  h2load: {
    missing: () => missingGenerator('h2load'),
    async run(url, requests, streams) {
      const args = ['-t', '1', '-c', String(CONNECTIONS), '-m', String(streams), '-n', String(requests), url];
      const { text, cpuSeconds } = await timed('h2load', args);
      const number = (pattern) => Number(pattern.exec(text)?.[1] ?? NaN);
      const [succeeded, failed] = [number(/(\d+) succeeded/), number(/(\d+) failed/)];
      return { cpuSeconds, requests: succeeded, perSecond: number(/finished in [^,]+, ([\d.]+) req\/s/), errors: failed };
    },
  },
};

async function sample(name, quick) {
  const [generator, streams] = name.split(' ');
  const requests = quick ? REQUESTS_QUICK : REQUESTS;
  const server = await served(process.execPath, [path.join(BENCH, 'apps/http2.cjs')]);
  let found;
  let counted;
  try {
    await GENERATORS[generator].run(server.url, WARMUP, Number(streams));
    found = await measured(null, () => GENERATORS[generator].run(server.url, requests, Number(streams)));
  } finally {
    counted = Number(await server.stop()) - WARMUP;
  }
  const { result, cpu } = found;
  const microseconds = (result.cpuSeconds / result.requests) * 1e6;
  return {
    perSecond: result.perSecond, microseconds, errors: result.errors, requests: result.requests, counted,
    // The server is not an arm of the harness, so its CPU time would count as that of another program.
    cpu: { ...cpu, disturbed: false },
    line: `${fixed(result.perSecond)} req/s, ${fixed(microseconds, 2)} µs of generator CPU per request, ${result.requests} answers, the server's count ${counted}, ${result.errors} errors`,
  };
}

export async function run(context) {
  const names = Object.keys(GENERATORS).filter((name) => {
    const missing = GENERATORS[name].missing();
    if (missing !== null) context.log(`without ${name}: ${missing}`);
    return missing === null;
  });
  const cases = STREAMS.flatMap((streams) => names.map((name) => `${name} ${streams}`));
  return interleave(context, cases, (name) => sample(name, context.quick));
}

export function tables(result) {
  const rows = casesOf(result, STREAMS.flatMap((streams) => Object.keys(GENERATORS).map((name) => `${name} ${streams}`))).map((name) => {
    const [generator, streams] = name.split(' ');
    return [
      generator, streams,
      spreadText(spreadOf(result, name, (s) => s.perSecond)),
      spreadText(spreadOf(result, name, (s) => s.microseconds), 2),
      ratioText(ratioOf(result, name, `h2load ${streams}`, (s) => s.perSecond)),
      ratioText(ratioOf(result, name, `h2load ${streams}`, (s) => s.microseconds)),
      fixed(spreadOf(result, name, (s) => Math.abs(s.counted - s.requests)).max),
      fixed(spreadOf(result, name, (s) => s.errors).max),
    ];
  });
  return [{
    title: `HTTP/2 in the clear, ${CONNECTIONS} connections, ${fixed(REQUESTS)} requests, one thread, against one Node http2 process`,
    columns: ['generator', 'streams', 'req/s', 'generator CPU per request, µs', 'req/s / h2load', 'CPU / h2load', "most answers off the server's count", 'errors'],
    rows,
  }];
}
