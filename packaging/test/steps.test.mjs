// Steps of dev/release that refuse before anything is published.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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

/** Runs packaging/docker/build with a stand-in for Docker, which writes down its arguments. @param {import('node:test').TestContext} t @param {...string} args */
function images(t, ...args) {
  const directory = folder(t);
  const log = join(directory, 'log');
  mkdirSync(join(directory, 'bin'));
  const standIn = `#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$LOG"
while (($#)); do if [[ "$1" == --metadata-file ]]; then printf '{ "containerimage.digest": "sha256:%064d" }\\n' 7 >"$2"; fi; shift; done
`;
  writeFileSync(join(directory, 'bin/docker'), standIn, { mode: 0o755 });
  writeFileSync(join(directory, 'output'), '');
  const env = { ...process.env, PATH: `${directory}/bin:${process.env.PATH}`, LOG: log, GITHUB_OUTPUT: join(directory, 'output') };
  const told = spawnSync(join(PACKAGING, 'docker/build'), args, { encoding: 'utf8', env });
  assert.equal(told.status, 0, told.stderr);
  const tags = readFileSync(log, 'utf8').trim().split('\n').map((line) => [...line.matchAll(/--tag (\S+)/g)].map(([, tag]) => tag));
  return { tags, lines: readFileSync(log, 'utf8').trim().split('\n'), output: readFileSync(join(directory, 'output'), 'utf8') };
}

test('the images of a release: three for both architectures, with their tags, and the digest of the first', (t) => {
  const { tags, lines, output } = images(t, 'context', 'example/forkful', '1.2.3', '--push');
  assert.deepEqual(tags, [['example/forkful:1.2.3', 'example/forkful:latest'], ['example/forkful:1.2.3-node24'], ['example/forkful:1.2.3-node24-alpine']]);
  for (const line of lines) assert.match(line, /^buildx build --platform linux\/amd64,linux\/arm64 .*--push context$/);
  assert.deepEqual(lines.slice(1).map((line) => /NODE=(\S+)/.exec(line)?.[1]), ['24-slim', '24-alpine']);
  assert.equal(output, `digest=sha256:${'7'.padStart(64, '0')}\n`);
});

test('a version before a release does not become the latest image', (t) => {
  assert.deepEqual(images(t, 'context', 'example/forkful', '1.2.3-rc.1').tags[0], ['example/forkful:1.2.3-rc.1']);
});
