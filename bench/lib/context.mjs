// The context of a benchmark: its options, the arms that can run, a log for people; and the record of its results.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ARMS, usable } from './arms.mjs';
import { REPOSITORY, RESULTS } from './paths.mjs';

/**
 * @typedef {object} Context
 * @property {string} name of the benchmark
 * @property {number} rounds
 * @property {number} workers
 * @property {boolean} quick a smoke test: one short round, never for the record
 * @property {string[] | null} kinds of work of the `scale` benchmark, if only some are selected
 * @property {number} attempts that a sample gets while other work disturbs it
 * @property {number} seed of the order
 * @property {string[]} arms that can run here
 * @property {Record<string, string>} absent arms that cannot, with the reason
 * @property {number} blockGapMs pause between two blocks of the `blocked` benchmark
 * @property {object[]} samples in order of measurement
 * @property {boolean} interrupted
 * @property {(text: string) => void} log
 */

/** @returns {Context} */
export function makeContext(name, benchmark, options) {
  const wanted = options.arms ?? benchmark.arms;
  const { present, absent } = usable(wanted);
  return {
    name,
    rounds: options.quick ? 1 : options.rounds,
    workers: options.workers,
    quick: options.quick,
    attempts: options.attempts,
    kinds: options.kinds?.split(',') ?? null,
    seed: options.seed,
    blockGapMs: options.blockGapMs,
    arms: present,
    absent,
    samples: [],
    interrupted: false,
    log: (text) => process.stderr.write(`${text}\n`),
  };
}

const attempt = (read) => {
  try {
    return read();
  } catch {
    return null;
  }
};

/** The machine and the versions, as far as a reader needs them to repeat the run. */
export function machine() {
  const git = (...args) => attempt(() => execFileSync('git', ['-C', REPOSITORY, ...args], { encoding: 'utf8' }).trim());
  return {
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    virtual: attempt(() => /^flags.*\bhypervisor\b/m.test(readFileSync('/proc/cpuinfo', 'utf8'))),
    governor: attempt(() => readFileSync('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor', 'utf8').trim()),
    node: process.version,
    commit: git('rev-parse', '--short', 'HEAD'),
    loadAverage: os.loadavg(),
  };
}

/** Writes the raw data of a run, even if it is incomplete. @returns {string} its path */
export function record(context, started) {
  mkdirSync(RESULTS, { recursive: true });
  const file = path.join(RESULTS, `${context.name}-${started.toISOString().replaceAll(':', '-').slice(0, 19)}${context.quick ? '-quick' : ''}${context.interrupted ? '-partial' : ''}.json`);
  const versions = Object.fromEntries(context.arms.map((arm) => [arm, attempt(() => ARMS[arm].version())]));
  const { name, rounds, workers, quick, seed, arms, absent, blockGapMs, samples } = context;
  const command = `node bench/run.mjs ${process.argv.slice(2).join(' ')}`;
  const data = { benchmark: name, command, started, finished: new Date(), rounds, workers, quick, seed, arms, absent, blockGapMs, versions, machine: machine(), samples };
  writeFileSync(file, `${JSON.stringify(data)}\n`);
  return file;
}
