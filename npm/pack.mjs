#!/usr/bin/env node
// Packs the npm packages: `node npm/pack.mjs --binary PROGRAM --out dist [--platform linux-x64]`.
//
// The program is linked statically, so that one package works on systems with glibc and with musl (`dev/release` builds it);
// a dynamically linked program is refused, unless `--dynamic` says that the packages are only for this machine.
//
// The repository holds no binaries: each package is put together in a temporary folder from its own files, the licence,
// and the binary, and `npm pack` makes a tarball of it. Prints the tarballs' paths, one per line.
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(HERE);

/** ELF's `e_machine` (elf(5)) of each platform's program. */
const MACHINES = { 'linux-x64': 62, 'linux-arm64': 183 };

/** The kind of a program header that names the loader (elf(5)). */
const PT_INTERP = 3;

/** Files that are not part of a package. */
const LEFT_OUT = new Set(['node_modules', 'test', 'package-lock.json']);

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

const manifest = (name) => JSON.parse(readFileSync(join(HERE, name, 'package.json'), 'utf8'));

/** Checks that all packages and the program have the same version. */
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

/** Whether a program of 64 bits needs a dynamic loader of the system. @param {Buffer} program */
function needsLoader(program) {
  const [at, size, count] = [Number(program.readBigUInt64LE(32)), program.readUInt16LE(54), program.readUInt16LE(56)];
  return Array.from({ length: count }, (_, index) => program.readUInt32LE(at + index * size)).includes(PT_INTERP);
}

/** @param {string} path @param {string} platform @param {boolean} dynamic whether it may need the system's loader */
function checkBinary(path, platform, dynamic) {
  const head = readFileSync(path);
  if (head.toString('latin1', 0, 4) !== '\x7fELF') fail(`${path} is not a Linux program`);
  if (head.readUInt16LE(18) !== MACHINES[platform]) fail(`${path} is not a program for ${platform}`);
  if (!dynamic && needsLoader(head)) {
    fail(`${path} needs the loader of the system that it was built on: build it with \`dev/release --dry-run\`, or say --dynamic when the packages are for this machine alone`);
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
  options: { binary: { type: 'string' }, out: { type: 'string' }, platform: { type: 'string', default: `linux-${process.arch}` }, dynamic: { type: 'boolean', default: false } },
});
const { platform } = values;
if (!values.binary || !values.out) fail('say --binary <path> and --out <folder>');
if (!(platform in MACHINES)) fail(`there is no package for ${platform}, only for ${Object.keys(MACHINES).join(' and ')}`);
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
checkVersions();
checkBinary(values.binary, platform, values.dynamic);

const program = pack(platform, out, (folder) => {
  mkdirSync(join(folder, 'bin'));
  copyFileSync(values.binary, join(folder, 'bin', 'forkful'));
  chmodSync(join(folder, 'bin', 'forkful'), 0o755);
});
const main = pack('forkful', out, () => {});
process.stdout.write(`${program}\n${main}\n`);
