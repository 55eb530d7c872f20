'use strict';
// The directory of one user's daemon, and what is in it.
const { homedir } = require('node:os');
const { join, resolve } = require('node:path');

/** The home: what is asked for, `$FORKFUL_HOME`, or `~/.forkful`. @param {string} [wanted] */
function homePath(wanted) {
  const path = wanted || process.env.FORKFUL_HOME;
  return path ? resolve(path) : join(process.env.HOME || homedir(), '.forkful');
}

/** The daemon's control socket. @param {string} home */
const socketPath = (home) => join(home, 'forkful.sock');

module.exports = { homePath, socketPath };
