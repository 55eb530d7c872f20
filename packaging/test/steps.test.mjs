// Steps of dev/release that refuse before anything is published.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PACKAGING, folder } from './release.mjs';

const step = (...args) => spawnSync(join(PACKAGING, '../dev/release'), args, { encoding: 'utf8', env: { ...process.env, npm_config_registry: 'http://127.0.0.1:1/' } });
const { version } = JSON.parse(readFileSync(join(PACKAGING, '../npm/forkful/package.json'), 'utf8'));

test('a tag of another version is refused', () => {
  const told = step('check-tag', 'v99.0.0');
  assert.equal(told.status, 1);
  assert.equal(told.stderr, `dev/release: the tag is v99.0.0, but Cargo.toml says ${version}: tag v${version}\n`);
});

test('nothing is published when a package is missing', (t) => {
  const directory = folder(t);
  for (const name of [`forkful-linux-x64-${version}.tgz`, `forkful-${version}.tgz`]) writeFileSync(join(directory, name), '');
  const told = step('npm', directory);
  assert.equal(told.status, 1);
  assert.equal(told.stderr, `dev/release: ${directory}/forkful-linux-arm64-${version}.tgz is missing\n`);
});

test('without a step it publishes nothing', () => {
  assert.equal(step().status, 2);
  assert.match(step('--help').stdout, /^Builds, checks and publishes/);
});
