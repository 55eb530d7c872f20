'use strict';
// Runs the native program in place of this one. Newer versions of Node.js can become it; older ones start
// it, forward every signal to it, and exit with its result.
const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { constants } = require('node:os');

const { binaryPath } = require('./binary.cjs');

/** Signals to forward to the native program. SIGKILL and SIGSTOP cannot be caught, and fault signals are this process's own. */
const FORWARDED = [
  'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2', 'SIGCONT', 'SIGTSTP', 'SIGWINCH', 'SIGALRM',
];

/** Of these, the signals that a terminal sends to every foreground process. */
const FROM_TERMINALS = new Set(['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTSTP', 'SIGWINCH']);

/** Whether the terminal sends its signals to both this process and its child. */
function isInForeground() {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return group === foreground;
  } catch {
    return false;
  }
}

/** @param {string} binary @param {string[]} args */
function stayAndForward(binary, args) {
  // Before the program starts: a signal that comes while it starts would end this process alone. Handlers run when this
  // function has returned.
  for (const signal of FORWARDED) {
    process.on(signal, () => {
      // A signal from the terminal has reached the child too; a second signal would mean "at once".
      if (!FROM_TERMINALS.has(signal) || !isInForeground()) child.kill(signal);
      if (signal === 'SIGTSTP') process.kill(process.pid, 'SIGSTOP');
    });
  }
  const child = spawn(binary, args, { stdio: 'inherit' });
  child.on('error', (error) => {
    process.stderr.write(`error: cannot run ${binary}: ${error.message}\n`);
    process.exit(126);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    // Ends by the same signal, so that the parent process sees the real cause.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // The signal is ignored: use the exit code of shells.
    setImmediate(() => process.exit(128 + constants.signals[signal]));
  });
}

function launch() {
  let binary;
  try {
    binary = binaryPath();
  } catch (error) {
    process.stderr.write(`error: ${error.message}\n${error.hint ? `\nhint: ${error.hint}\nsee: ${error.see}\n` : ''}`);
    process.exitCode = 127;
    return;
  }
  const args = process.argv.slice(2);
  if (typeof process.execve === 'function') {
    try {
      process.execve(binary, [binary, ...args], process.env);
    } catch {
      // Not on this platform, or not permitted: use the fallback.
    }
  }
  stayAndForward(binary, args);
}

launch();
