// Forkful's own command as a load generator, and servers that end when their standard input ends.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { forkfulBinary } from './arms/forkful.mjs';

const RUN_MS_MAX = 600_000;
/** The exit codes of `bench` after a measurement: success, expectation missed, not reliable. */
const MEASURED = [0, 5, 6];

/**
 * `forkful bench --json` to its end.
 * @param {string[]} args
 * @param {(pid: number) => void} [watch] called about ten times a second while it runs
 */
export async function bench(args, watch) {
  const child = spawn(forkfulBinary(), ['bench', '--json', '--no-progress', ...args], { stdio: ['ignore', 'pipe', 'pipe'], timeout: RUN_MS_MAX });
  const text = { out: '', err: '' };
  child.stdout.on('data', (piece) => { text.out += piece; });
  child.stderr.on('data', (piece) => { text.err += piece; });
  const timer = watch === undefined ? undefined : setInterval(() => watch(child.pid), 100);
  try {
    const [code] = await once(child, 'close');
    if (!MEASURED.includes(code)) throw new Error(`forkful bench ended with ${code}: ${text.err.slice(-500)}`);
    return JSON.parse(text.out);
  } finally {
    clearInterval(timer);
  }
}

/** A program that prints its address, and something more when its standard input ends. */
export async function served(file, args) {
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  const first = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', () => reject(new Error(`${file} ended before it listened`)));
    child.stdout.on('data', (piece) => {
      text += piece;
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
    });
  });
  const url = await first;
  return {
    url,
    /** @returns {Promise<string>} what it printed at its end */
    async stop() {
      child.stdin.end();
      await once(child, 'close');
      return text.slice(url.length + 1);
    },
  };
}
