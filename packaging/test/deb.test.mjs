// The Debian package: its fields, its files, and that equal tarballs make equal packages.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PACKAGING, folder, release } from './release.mjs';

const skip = spawnSync('dpkg-deb', ['--version']).error ? 'no dpkg-deb' : false;
const ARCHITECTURE = { x64: 'amd64', arm64: 'arm64' }[process.arch];

/** Makes the package in a folder. @param {string} tarball @param {string} out @param {string} version */
function made(tarball, out, version) {
  mkdirSync(out);
  execFileSync(join(PACKAGING, 'deb'), [tarball, out], { env: { ...process.env, TZ: out.length % 2 ? 'UTC' : 'Asia/Tokyo' } });
  return join(out, `forkful_${version}_${ARCHITECTURE}.deb`);
}

test('a package with the program, man pages and completions, and no scripts', { skip }, (t) => {
  const directory = folder(t);
  const tarball = release(directory, '1.2.3');
  const deb = made(tarball, join(directory, 'out'), '1.2.3');
  const field = (name) => execFileSync('dpkg-deb', ['--field', deb, name], { encoding: 'utf8' }).trim();
  assert.deepEqual(['Package', 'Version', 'Architecture', 'Recommends', 'Depends'].map(field), ['forkful', '1.2.3', ARCHITECTURE, 'nodejs (>= 18)', '']);
  const listed = execFileSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8' }).trim().split('\n');
  assert.ok(listed.every((line) => line.includes(' root/root ')), listed.join('\n'));
  const files = listed.filter((line) => line.startsWith('-')).map((line) => line.split(' ').at(-1)).sort();
  assert.deepEqual(files, [
    './usr/bin/forkful', './usr/share/bash-completion/completions/forkful', './usr/share/doc/forkful/CHANGELOG.md.gz', './usr/share/doc/forkful/changelog.gz', './usr/share/doc/forkful/copyright',
    './usr/share/fish/vendor_completions.d/forkful.fish', './usr/share/man/man1/forkful-start.1.gz', './usr/share/man/man1/forkful.1.gz',
    './usr/share/zsh/vendor-completions/_forkful',
  ]);
  const control = execFileSync('dpkg-deb', ['--ctrl-tarfile', deb]);
  assert.equal(execFileSync('tar', ['t'], { input: control, encoding: 'utf8' }).split('\n').filter((name) => /inst|rm/.test(name)).length, 0);
  const copyright = execFileSync('sh', ['-c', `dpkg-deb --fsys-tarfile "$1" | tar xO ./usr/share/doc/forkful/copyright`, 'sh', deb], { encoding: 'utf8' });
  assert.match(copyright, /^Copyright: 2026 .*\nLicense: Expat\n Permission is hereby granted/m);
});

test('a version before a release is older than it', { skip }, (t) => {
  const directory = folder(t);
  made(release(directory, '1.0.0-rc.1'), join(directory, 'out'), '1.0.0~rc.1');
  assert.equal(spawnSync('dpkg', ['--compare-versions', '1.0.0~rc.1', 'lt', '1.0.0']).status, 0);
});

test('the same tarball gives the same package', { skip }, (t) => {
  const directory = folder(t);
  const tarball = release(directory, '1.2.3');
  assert.deepEqual(readFileSync(made(tarball, join(directory, 'one'), '1.2.3')), readFileSync(made(tarball, join(directory, 'three'), '1.2.3')));
});
