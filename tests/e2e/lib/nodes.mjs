// The Node versions that the tests use, and where npm has installed them.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MODULES = new URL('../node_modules/', import.meta.url);

/** Major versions, oldest first; each is an alias in package.json. */
export const MAJORS = [18, 20, 22, 24, 26];

/** The newest version, for tests that need not run on all versions. */
export const NEWEST = MAJORS.at(-1);

/**
 * The executable of a major version.
 * @param {number} major
 */
export function nodeBinary(major) {
  const path = fileURLToPath(new URL(`node${major}/bin/node`, MODULES));
  if (!existsSync(path)) throw new Error(`${path} is missing: run \`npm ci --prefix tests/e2e\` first`);
  return path;
}

/**
 * Its full version, such as `v22.23.3`.
 * @param {number} major
 */
export function nodeVersion(major) {
  return execFileSync(nodeBinary(major), ['--version'], { encoding: 'utf8' }).trim();
}
