// Does the generator's memory grow? Ten million requests to a server of fixed bytes, its resident memory ten times a
// second.

import { existsSync, readFileSync } from 'node:fs';
import { bench, served } from '../lib/engine.mjs';
import { example } from '../lib/generators.mjs';
import { interleave } from '../lib/rounds.mjs';
import { casesOf, fixed, spreadOf, spreadText } from '../lib/summary.mjs';

export const about = 'memory of our generator over ten million requests';
export const arms = [];

const REQUESTS = 10_000_000;
const REQUESTS_QUICK = 200_000;
const CONNECTIONS = 64;

/** Resident memory of a process, MiB; null when it is gone. */
function resident(pid) {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  } catch {
    return null;
  }
}

async function sample(name, quick) {
  const requests = quick ? REQUESTS_QUICK : REQUESTS;
  const server = await served(example('canned'), []);
  const memory = [];
  try {
    const document = await bench(['-n', String(requests), '-c', String(CONNECTIONS), server.url], (pid) => {
      const now = resident(pid);
      if (Number.isFinite(now)) memory.push(now);
    });
    const [half, peakMiB] = [memory[Math.floor(memory.length / 2)], document.generator.memory_peak_bytes / 2 ** 20];
    return {
      memory, peakMiB, grewMiB: memory.at(-1) - half, completed: document.requests.completed, errors: document.errors.total,
      perSecond: document.requests.per_second,
      line: `${fixed(document.requests.completed)} requests, peak ${fixed(peakMiB, 1)} MiB, ${fixed(memory.at(-1) - half, 2)} MiB grown in the second half`,
    };
  } finally {
    await server.stop();
  }
}

export async function run(context) {
  if (!existsSync(example('canned'))) throw new Error(`${example('canned')} is missing: cargo build --release -p forkful-load --examples`);
  return interleave(context, ['forkful'], (name) => sample(name, context.quick));
}

export function tables(result) {
  const rows = casesOf(result, ['forkful']).map((name) => [
    name,
    fixed(spreadOf(result, name, (s) => s.completed).median),
    spreadText(spreadOf(result, name, (s) => s.peakMiB), 1),
    spreadText(spreadOf(result, name, (s) => s.grewMiB), 2),
    spreadText(spreadOf(result, name, (s) => s.perSecond)),
    fixed(spreadOf(result, name, (s) => s.errors).max),
  ]);
  return [{
    title: `Memory of the generator, ${CONNECTIONS} kept connections, against a server of fixed bytes`,
    columns: ['generator', 'requests', 'peak, MiB', 'grown in the second half, MiB', 'req/s', 'errors'],
    rows,
  }];
}
