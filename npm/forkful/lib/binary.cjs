'use strict';
// Finds the native program: it is in the platform's package, which npm installs next to this one.
const { accessSync, constants } = require('node:fs');
const { dirname, join } = require('node:path');

const { version } = require('../package.json');
const { ForkfulError } = require('./errors.cjs');

/** Platforms with a package, as `${process.platform}-${process.arch}`. */
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * The path of the native program: `FORKFUL_BIN`, or the program in the platform's package.
 * @param {{ env?: NodeJS.ProcessEnv, platform?: string, resolve?: (name: string) => string }} [context] for tests
 * @returns {string}
 */
function binaryPath({ env = process.env, platform = `${process.platform}-${process.arch}`, resolve = require.resolve } = {}) {
  if (env.FORKFUL_BIN) {
    if (isProgram(env.FORKFUL_BIN)) return env.FORKFUL_BIN;
    throw new ForkfulError('NO_BINARY', `FORKFUL_BIN is ${env.FORKFUL_BIN}, which is not a program`, {
      hint: 'set it to the path of the forkful binary, or unset it',
    });
  }
  if (!PLATFORMS.includes(platform)) {
    throw new ForkfulError('NO_BINARY', `there is no forkful for ${platform}, only for ${PLATFORMS.join(' and ')}`, {
      hint: 'build it with cargo from its repository and set FORKFUL_BIN to its path',
    });
  }
  const name = `@forkful/${platform}`;
  let folder;
  try {
    folder = dirname(resolve(`${name}/package.json`));
  } catch (cause) {
    throw new ForkfulError('NO_BINARY', `the package ${name}, which holds the program for this machine, is not installed`, {
      // As an optional dependency, so that the project can still be installed on other platforms.
      hint: `npm leaves it out with --omit=optional, and when node_modules or the lock file comes from another machine; \`npm install --include=optional --save-optional ${name}@${version}\` adds it`,
      cause,
    });
  }
  const path = join(folder, 'bin', 'forkful');
  if (isProgram(path)) return path;
  throw new ForkfulError('NO_BINARY', `${path} is missing, or not executable`, { hint: `install ${name} again` });
}

module.exports = { PLATFORMS, binaryPath };
