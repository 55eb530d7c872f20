'use strict';
// The version of an app, from the package.json nearest to its script. The daemon does not look: it is somebody else's disk.
const { readFileSync, statSync } = require('node:fs');
const { dirname, join } = require('node:path');

/** The largest package.json that is read. */
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
 * Fills in the versions of a list in PM2's shape.
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
