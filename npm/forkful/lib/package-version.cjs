'use strict';
// The version of an app, from the package.json nearest to its script. The daemon does not read it: the file may belong to another user.
const { readFileSync, statSync } = require('node:fs');
const { dirname, isAbsolute, join } = require('node:path');

/** Maximum bytes of a package.json. */
const PACKAGE_BYTES_MAX = 1024 * 1024;

/** @param {string} path */
function readVersion(path) {
  try {
    if (statSync(path).size > PACKAGE_BYTES_MAX) return undefined;
    const { version } = JSON.parse(readFileSync(path, 'utf8'));
    return typeof version === 'string' ? version : undefined;
  } catch {
    return undefined;
  }
}

/** A folder that cannot be entered, or a path that is too long, has none. @param {string} path */
function isFile(path) {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** A command line is no path, and may be longer than a path can be. @param {string} script */
function nearestVersion(script) {
  if (!isAbsolute(script)) return undefined;
  for (let folder = dirname(script); ; folder = dirname(folder)) {
    const path = join(folder, 'package.json');
    if (isFile(path)) return readVersion(path);
    if (folder === dirname(folder)) return undefined;
  }
}

/**
 * Adds the versions to a list in PM2's format.
 * @template {{ pm2_env: { pm_exec_path: string, version: string } }} T
 * @param {T[]} list
 */
function fillInVersions(list) {
  const known = new Map();
  for (const { pm2_env: env } of list) {
    if (!known.has(env.pm_exec_path)) known.set(env.pm_exec_path, nearestVersion(env.pm_exec_path));
    env.version = known.get(env.pm_exec_path) ?? env.version;
  }
  return list;
}

module.exports = { fillInVersions };
