// examples/ci/performance.yml: what its step does with each result of a comparison, and that the real command takes its arguments.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

import { parse } from 'yaml';

import { WRONG_USE, binary, sandbox } from './lib/sandbox.mjs';

const WORKFLOW = parse(readFileSync(fileURLToPath(new URL('../../examples/ci/performance.yml', import.meta.url)), 'utf8'));
const { run: SCRIPT } = WORKFLOW.jobs.compare.steps.find((/** @type {{ name?: string }} */ step) => step.name === 'Compare');

/**
 * Runs the step as GitHub does, with another program as `forkful`.
 * @param {string} directory
 * @param {string} program a shell script
 */
function step(directory, program) {
  mkdirSync(join(directory, 'bin'), { recursive: true });
  writeFileSync(join(directory, 'bin/forkful'), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
  writeFileSync(join(directory, 'summary'), '');
  const { status, stdout } = spawnSync('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', SCRIPT], {
    cwd: directory, encoding: 'utf8', env: { ...process.env, PATH: `${directory}/bin:${process.env.PATH}`, GITHUB_STEP_SUMMARY: join(directory, 'summary') },
  });
  return { status, stdout, summary: readFileSync(join(directory, 'summary'), 'utf8') };
}

test('a pull request that is slower fails, one that is not known to be slower passes with a warning', async (t) => {
  const { directory } = await sandbox(t);
  for (const [told, expected, warns] of [[0, 0, false], [5, 5, false], [6, 0, true], [1, 1, false]]) {
    const { status, stdout, summary } = step(directory, `echo 'the verdict'; exit ${told}`);
    assert.equal(status, expected, `the comparison exits with ${told}`);
    assert.equal(/^::warning::/m.test(stdout), warns);
    assert.equal(summary, 'the verdict\n');
  }
});

test('the command knows its arguments', async (t) => {
  const { directory } = await sandbox(t);
  execFileSync('git', ['init', '--quiet', directory]);
  const { status, summary } = step(directory, `exec '${binary()}' "$@" 2>&1`);
  assert.equal(status, WRONG_USE);
  assert.match(summary, /HEAD\^1: git knows no commit of this name/, 'all else was understood');
});
