'use strict';
// Where the native program is: in the package of this platform, which npm installs beside this one.
const { accessSync, constants, existsSync } = require('node:fs');
const { dirname, join } = require('node:path');

const { ForkfulError } = require('./errors.cjs');

/** Platforms that there are packages for, as `${process.platform}-${process.arch}`. */
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/** The program's loader on each platform, a part of glibc (ld.so(8)). */
const LOADERS = { 'linux-x64': '/lib64/ld-linux-x86-64.so.2', 'linux-arm64': '/lib/ld-linux-aarch64.so.1' };

/** The oldest version of glibc that has all symbols of the packed program. */
const GLIBC_MIN = '2.34';

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
 * The path of the native program: `FORKFUL_BIN`, or the one of the platform's package.
 * @param {{ env?: NodeJS.ProcessEnv, platform?: string, resolve?: (name: string) => string, exists?: (path: string) => boolean }} [context] for tests
 * @returns {string}
 */
function binaryPath({ env = process.env, platform = `${process.platform}-${process.arch}`, resolve = require.resolve, exists = existsSync } = {}) {
  if (env.FORKFUL_BIN) {
    if (isProgram(env.FORKFUL_BIN)) return env.FORKFUL_BIN;
    throw new ForkfulError('NO_BINARY', `FORKFUL_BIN is ${env.FORKFUL_BIN}, which is no program`, {
      hint: 'set it to the path of the forkful binary, or unset it',
    });
  }
  if (!PLATFORMS.includes(platform)) {
    throw new ForkfulError('NO_BINARY', `there is no forkful for ${platform}, only for ${PLATFORMS.join(' and ')}`, {
      hint: 'build it with cargo from its repository and set FORKFUL_BIN to its path',
    });
  }
  if (!exists(LOADERS[platform])) {
    throw new ForkfulError('NO_BINARY', `forkful needs glibc ${GLIBC_MIN} or later, and this system has no ${LOADERS[platform]}`, {
      hint: 'Alpine Linux and other systems with musl cannot run it: use an image with glibc, such as node:22-slim; or build forkful there with cargo and set FORKFUL_BIN to its path',
    });
  }
  const name = `@forkful/${platform}`;
  let folder;
  try {
    folder = dirname(resolve(`${name}/package.json`));
  } catch (cause) {
    throw new ForkfulError('NO_BINARY', `the package ${name}, which holds the program for this machine, is not installed`, {
      hint: `npm leaves it out with --omit=optional, and when node_modules comes from another machine; \`npm install ${name}\` adds it`,
      cause,
    });
  }
  const path = join(folder, 'bin', 'forkful');
  if (isProgram(path)) return path;
  throw new ForkfulError('NO_BINARY', `${path} is missing, or not executable`, { hint: `install ${name} again` });
}

module.exports = { GLIBC_MIN, PLATFORMS, binaryPath };
