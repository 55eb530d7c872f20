'use strict';
// The directory of one user's daemon, and its files.
const { statSync } = require('node:fs');
const { homedir } = require('node:os');
const { join, resolve } = require('node:path');

const { ForkfulError } = require('./errors.cjs');

/** The home: the argument, `$FORKFUL_HOME`, or `~/.forkful`. @param {string} [wanted] */
function homePath(wanted) {
  const path = wanted || process.env.FORKFUL_HOME;
  return path ? resolve(path) : join(process.env.HOME || homedir(), '.forkful');
}

/** The daemon's control socket. @param {string} home */
const socketPath = (home) => join(home, 'forkful.sock');

/**
 * Refuses a home that another user owns or may write to, as the command does: a user who can write there controls which process answers
 * requests, and requests hold environments.
 * @param {string} home
 */
function checkHome(home) {
  let found;
  try {
    found = statSync(home);
  } catch {
    // It does not exist or cannot be accessed: the request reports that.
    return;
  }
  const own = process.geteuid();
  if (found.uid !== own) {
    throw new ForkfulError('FOREIGN_HOME', `${home} belongs to user id ${found.uid}, not to yours, ${own}`, {
      hint: 'run as that user, or set FORKFUL_HOME to a directory of yours',
    });
  }
  if ((found.mode & 0o022) !== 0) {
    throw new ForkfulError('FOREIGN_HOME', `others may write to ${home} (mode ${(found.mode & 0o7777).toString(8)})`, { hint: `\`chmod 700 ${home}\`` });
  }
}

module.exports = { checkHome, homePath, socketPath };
