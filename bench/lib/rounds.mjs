// Interleaved rounds: every arm once a round, in a fresh random order, each on a freshly started server.
// A sample that strangers disturbed is measured again; the attempts stay in the raw data.

import { ARMS } from './arms.mjs';
import { seededRandom, shuffled } from './stats.mjs';

const ATTEMPTS_MAX = 3;

/**
 * Fills `context.samples`.
 * @param {import('./context.mjs').Context} context
 * @param {string[]} cases names to be run in every round: arms, or whatever `measure` understands
 * @param {(name: string, round: number) => Promise<object>} measure gives one sample; `cpu.disturbed` asks for another try
 */
export async function interleave(context, cases, measure) {
  const random = seededRandom(context.seed);
  for (let round = 0; round < context.rounds; round += 1) {
    for (const name of shuffled(cases, random)) {
      for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
        const at = new Date().toISOString();
        let sample;
        try {
          sample = await measure(name, round);
        } catch (error) {
          if (context.interrupted) throw error;
          sample = { error: String(error.message ?? error).slice(0, 2000) };
        }
        const last = !(sample.cpu?.disturbed === true) || context.quick || attempt === ATTEMPTS_MAX;
        context.samples.push({ case: name, round, attempt, at, final: last, ...sample });
        context.log(`round ${round + 1}/${context.rounds} ${name}: ${sample.error ?? sample.line ?? 'done'}${sample.cpu?.disturbed ? ' (disturbed)' : ''}`);
        if (last) break;
      }
    }
  }
}

/** Starts the arm, gives it to `use`, and stops it whatever happens. */
export async function withArm(name, options, use) {
  const server = await ARMS[name].start(options);
  let sample;
  try {
    sample = await use(server);
  } finally {
    const killed = await server.stop();
    if (sample !== undefined && killed.length > 0) sample.hadToKill = killed;
  }
  return sample;
}
