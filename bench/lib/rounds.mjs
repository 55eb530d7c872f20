// Interleaved rounds: every arm once a round, in a fresh random order, each on a freshly started server.
// A sample that other programs disturbed is measured again; all attempts stay in the raw data.

import { ARMS } from './arms.mjs';
import { errorCount } from './load.mjs';
import { seededRandom, shuffled } from './stats.mjs';

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
      for (let attempt = 1; attempt <= context.attempts; attempt += 1) {
        const at = new Date().toISOString();
        let sample;
        try {
          sample = await measure(name, round);
        } catch (error) {
          if (context.interrupted) throw error;
          sample = { error: String(error.message ?? error).slice(0, 2000) };
        }
        const last = !(sample.cpu?.disturbed === true) || context.quick || attempt === context.attempts;
        context.samples.push({ case: name, round, attempt, at, final: last, ...sample });
        context.log(`round ${round + 1}/${context.rounds} ${name}: ${sample.error ?? sample.line ?? 'done'}${sample.cpu?.disturbed ? ' (disturbed)' : ''}`);
        if (last) break;
      }
    }
  }
}

/** A round of turns is disturbed when more of an arm's pieces are than this share. */
const DISTURBED_MAX = 0.25;

/** @param {{cpu: {disturbed: boolean}}[]} pieces */
export const areDisturbed = (pieces) => pieces.filter(({ cpu }) => cpu.disturbed).length > DISTURBED_MAX * pieces.length;

/**
 * Fills `context.samples`: in each round all arms are started, warmed up, and then take turns of a few seconds, in a
 * fresh random order each time, so that a core that is slow for a while is slow for all of them; that is why nothing is measured again here. A
 * round's sample of an arm is the sum of its pieces.
 * @template Piece
 * @param {import('./context.mjs').Context} context
 * @param {object} how
 * @param {string} [how.app] another script than the usual one
 * @param {number} how.turns of each round
 * @param {(server: import('./server.mjs').Server) => Promise<void>} how.warmUp
 * @param {((server: import('./server.mjs').Server) => Promise<Piece & {cpu: {disturbed: boolean}}>)[]} how.pieces of each turn
 * @param {(pieces: Piece[][]) => object} how.sum makes the sample of the pieces, a list for each function of `pieces`
 */
export async function takeTurns(context, { app, turns, warmUp, pieces, sum }) {
  const random = seededRandom(context.seed);
  for (let round = 0; round < context.rounds; round += 1) {
    const at = new Date().toISOString();
    const servers = new Map();
    const taken = new Map();
    const faults = new Map();
    const hadToKill = new Map();
    const attempt = async (name, work) => {
      if (faults.has(name)) return;
      try {
        await work();
      } catch (error) {
        if (context.interrupted) throw error;
        faults.set(name, String(error.message ?? error).slice(0, 2000));
      }
    };
    try {
      for (const name of shuffled(context.arms, random)) {
        await attempt(name, async () => {
          servers.set(name, await ARMS[name].start({ app, workers: context.workers }));
          taken.set(name, pieces.map(() => []));
          await warmUp(servers.get(name));
        });
      }
      for (let turn = 0; turn < (context.quick ? 1 : turns); turn += 1) {
        for (const name of shuffled(context.arms, random)) {
          await attempt(name, async () => {
            for (const [kind, piece] of pieces.entries()) {
              taken.get(name)[kind].push(await piece(servers.get(name)));
            }
          });
        }
      }
    } finally {
      for (const [name, server] of servers) {
        const killed = await server.stop();
        if (killed.length > 0) hadToKill.set(name, killed);
      }
    }
    for (const name of context.arms) {
      const error = faults.get(name);
      const all = taken.get(name) ?? [];
      const disturbed = areDisturbed(all.flat());
      const sample = error === undefined ? { ...sum(all), pieces: all, cpu: { disturbed } } : { error };
      context.samples.push({ case: name, round, attempt: 1, at, final: true, hadToKill: hadToKill.get(name), ...sample });
      context.log(`round ${round + 1}/${context.rounds} ${name}: ${error ?? sample.line}${disturbed ? ' (disturbed)' : ''}`);
    }
  }
}

/** The sum of an arm's runs of a generator. @param {{requests: number, seconds: number, errors: object, cpu: {serverSeconds: number, harnessSeconds: number, wallSeconds: number}}[]} pieces */
export function together(pieces) {
  const total = (value) => pieces.reduce((sum, one) => sum + value(one), 0);
  const requests = total((one) => one.requests);
  return {
    perSecond: requests / total((one) => one.seconds),
    serverMicroseconds: (total((one) => one.cpu.serverSeconds) / requests) * 1e6,
    errors: total((one) => errorCount(one.errors)),
    generatorShare: total((one) => one.cpu.harnessSeconds) / total((one) => one.cpu.wallSeconds),
  };
}

/** Starts the arm, gives it to `use`, and always stops it. */
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
