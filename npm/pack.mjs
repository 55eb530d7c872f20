#!/usr/bin/env node
// Packs the npm packages: `node npm/pack.mjs --binary target/release/forkful --out dist [--platform linux-x64]`.
//
// The repository holds no binaries: each package is put together in a temporary folder from its own files, the licence,
// and the binary, and `npm pack` makes a tarball of it. Prints the tarballs' paths, one a line.
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import binaries from './forkful/lib/binary.cjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(HERE);

/** ELF's `e_machine` (elf(5)) of each platform's program. */
const MACHINES = { 'linux-x64': 62, 'linux-arm64': 183 };

const { GLIBC_MIN } = binaries;

/** What a package leaves at home. */
const LEFT_OUT = new Set(['node_modules', 'test', 'package-lock.json']);

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

const manifest = (name) => JSON.parse(readFileSync(join(HERE, name, 'package.json'), 'utf8'));

/** All packages and the program have one version; a forgotten one would be found by users. */
function checkVersions() {
  const cargo = /^\[workspace\.package\]\nversion = "([^"]+)"/m.exec(readFileSync(join(ROOT, 'Cargo.toml'), 'utf8'))?.[1];
  const main = manifest('forkful');
  for (const platform of Object.keys(MACHINES)) {
    const { name, version } = manifest(platform);
    if (version !== cargo) fail(`${name} is ${version}, but Cargo.toml says ${cargo}`);
    if (main.optionalDependencies[name] !== cargo) fail(`forkful depends on ${name} ${main.optionalDependencies[name]}, but Cargo.toml says ${cargo}`);
  }
  if (main.version !== cargo) fail(`forkful is ${main.version}, but Cargo.toml says ${cargo}`);
}

/** @param {string} path @param {string} platform */
function checkBinary(path, platform) {
  const head = readFileSync(path).subarray(0, 20);
  if (head.toString('latin1', 0, 4) !== '\x7fELF') fail(`${path} is no program of Linux`);
  if (head.readUInt16LE(18) !== MACHINES[platform]) fail(`${path} is no program for ${platform}`);
  const needed = Math.max(0, ...Array.from(readFileSync(path, 'latin1').matchAll(/GLIBC_2\.(\d+)/g), ([, minor]) => Number(minor)));
  if (needed > Number(GLIBC_MIN.split('.')[1])) {
    process.stderr.write(`warning: ${path} needs glibc 2.${needed}, but the packages promise ${GLIBC_MIN}: build it on an older system before you publish it\n`);
  }
}

/** Packs a folder of this directory, with more files in it. @returns {string} the tarball */
function pack(name, out, add) {
  const staged = mkdtempSync(join(tmpdir(), 'forkful-pack-'));
  try {
    const folder = join(staged, name);
    cpSync(join(HERE, name), folder, { recursive: true, filter: (path) => !LEFT_OUT.has(path.slice(join(HERE, name).length + 1).split('/')[0]) });
    copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
    add(folder);
    const text = execFileSync('npm', ['pack', '--json', '--pack-destination', out], { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return join(out, JSON.parse(text)[0].filename);
  } finally {
    rmSync(staged, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: { binary: { type: 'string' }, out: { type: 'string' }, platform: { type: 'string', default: `linux-${process.arch}` } },
});
const { platform } = values;
if (!values.binary || !values.out) fail('say --binary <path> and --out <folder>');
if (!(platform in MACHINES)) fail(`there is no package for ${platform}, only for ${Object.keys(MACHINES).join(' and ')}`);
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
checkVersions();
checkBinary(values.binary, platform);

const program = pack(platform, out, (folder) => {
  mkdirSync(join(folder, 'bin'));
  copyFileSync(values.binary, join(folder, 'bin', 'forkful'));
  chmodSync(join(folder, 'bin', 'forkful'), 0o755);
});
const main = pack('forkful', out, () => {});
process.stdout.write(`${program}\n${main}\n`);
