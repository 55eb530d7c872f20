// A separate home for each test, the real binary, and a cleanup that fails if any process is left behind.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { waitUntil } from '../../../tests/e2e/lib/wait.mjs';

export { waitUntil, within } from '../../../tests/e2e/lib/wait.mjs';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const PACKAGE = join(ROOT, 'npm', 'forkful');

/** The native program: `FORKFUL_BIN`, or cargo's build, release first. */
export function binary() {
  const candidates = process.env.FORKFUL_BIN
    ? [process.env.FORKFUL_BIN]
    : ['release', 'debug'].map((profile) => join(ROOT, 'target', profile, 'forkful'));
  const found = candidates.find((path) => existsSync(path));
  if (!found) throw new Error(`no forkful at ${candidates.join(' or ')}: run \`cargo build --release\` first`);
  return found;
}

/** Makes another build of the same code: a copy with a few bytes appended, which no loader reads. @param {string} directory */
export function build(directory) {
  const path = join(directory, 'forkful-next');
  copyFileSync(binary(), path);
  appendFileSync(path, 'next');
  return path;
}

/** Kills a daemon together with its keeper, so that no daemon follows. @param {NodeJS.ProcessEnv} env */
export async function loseDaemon(env) {
  const { pid, keeper } = JSON.parse(execFileSync(binary(), ['ping', '--json'], { env, encoding: 'utf8' }));
  for (const one of [keeper, pid]) process.kill(one, 'SIGKILL');
  await waitUntil('the daemon to end', () => [keeper, pid].every((one) => !existsSync(`/proc/${one}`)));
}

/** The processes whose environment or command line names a directory. @param {string} directory */
export function processesOf(directory) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid).filter((name) => {
    try {
      const text = readFileSync(`/proc/${name}/cmdline`, 'latin1') + readFileSync(`/proc/${name}/environ`, 'latin1');
      const state = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1)?.[0];
      return state !== 'Z' && text.includes(directory);
    } catch {
      // It ended meanwhile.
      return false;
    }
  }).map(Number);
}

/** The environment of a program under test: without the test runner's settings, with a separate home. */
export function environment(directory, more = {}) {
  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, FORKFUL_HOME: _home, ...env } = process.env;
  return { ...env, FORKFUL_BIN: binary(), FORKFUL_HOME: join(directory, 'home'), NO_COLOR: '1', ...more };
}

/**
 * @param {{ after: (step: () => unknown) => void }} t
 * @returns {{ directory: string, home: string, env: NodeJS.ProcessEnv, write: (name: string, text: string) => string, atEnd: (step: () => void) => void }}
 */
export function sandbox(t) {
  const directory = mkdtempSync(join(tmpdir(), 'forkful-npm-'));
  const home = join(directory, 'home');
  const env = environment(directory);
  const steps = [];
  t.after(async () => {
    for (const step of steps) step();
    if (existsSync(home)) execFileSync(binary(), ['kill'], { env, stdio: 'ignore' });
    await waitUntil('all processes to end', () => processesOf(directory).length === 0)
      .catch(() => assert.deepEqual(processesOf(directory), [], 'processes were left'))
      .finally(() => rmSync(directory, { recursive: true, force: true }));
  });
  const write = (name, text) => {
    const path = join(directory, name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, text);
    return path;
  };
  /** Adds a step that runs first when the test ends. */
  const atEnd = (step) => steps.push(step);
  return { directory, home, env, write, atEnd };
}
