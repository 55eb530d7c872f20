'use strict';
// The version of an app, from the package.json nearest to its script. The daemon does not read it: the file may belong to another user.
const { readFileSync, statSync } = require('node:fs');
const { dirname, join } = require('node:path');

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

/** @param {string} script */
function nearestVersion(script) {
  for (let folder = dirname(script); ; folder = dirname(folder)) {
    const path = join(folder, 'package.json');
    if (statSync(path, { throwIfNoEntry: false })?.isFile()) return readVersion(path);
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
