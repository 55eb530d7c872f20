'use strict';
// Runs the native program to start the daemon and to read configurations.
const { spawn } = require('node:child_process');

const { binaryPath } = require('./binary.cjs');
const { ForkfulError } = require('./errors.cjs');

/** Exit codes of the command, see `forkful --help`, as codes of errors. */
const EXIT_CODES = { 1: 'FAILED', 2: 'BAD_REQUEST', 3: 'NO_SUCH_TARGET', 4: 'NO_DAEMON' };

/** The error that the command has written to stderr: `error: …`, `caused by: …`, a blank line, `hint: …`, `see: …`. */
function toldError(code, stderr) {
  const lines = stderr.trimEnd().split('\n');
  const hint = lines.find((line) => line.startsWith('hint: '));
  const see = lines.find((line) => line.startsWith('see: '));
  const first = lines.findIndex((line) => line.startsWith('error: '));
  const told = lines.slice(Math.max(first, 0)).filter((line) => line !== '' && !/^(hint|see): /.test(line));
  const message = told.map((line) => line.replace(/^ *(error|caused by): /, '').trim()).join(': ');
  return new ForkfulError(EXIT_CODES[code] ?? 'FAILED', message || `the command ended with ${code}`, {
    hint: hint?.slice('hint: '.length),
    see: see?.slice('see: '.length),
  });
}

/** Its warnings, one text each. */
function warnings(stderr) {
  return stderr.split('\n').filter((line) => line.startsWith('warning: ')).map((line) => line.slice('warning: '.length));
}

/**
 * Runs the native program until it exits.
 * @param {string} home
 * @param {string[]} args
 * @param {{ input?: string, binary?: string, env?: NodeJS.ProcessEnv, cwd?: string }} [options]
 * @returns {Promise<{ stdout: string, warnings: string[] }>} rejects with its error if it fails
 */
function runCommand(home, args, { input = '', binary = binaryPath(), env = process.env, cwd } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { stdio: 'pipe', cwd, env: { ...env, FORKFUL_HOME: home, NO_COLOR: '1' } });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text; });
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
    // It exits before it has read all of an invalid request.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    child.on('error', (cause) => reject(new ForkfulError('NO_BINARY', `cannot run ${binary}: ${cause.message}`, { cause })));
    child.on('close', (code, signal) => {
      if (code === 0) resolve({ stdout, warnings: warnings(stderr) });
      else reject(toldError(code ?? signal, stderr));
    });
  });
}

module.exports = { runCommand };
