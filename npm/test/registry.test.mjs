// The packages as package managers install them from a registry: the program of this platform and no other, a command that
// runs it, with or without install scripts, in a project and for all, and from a lock file that another platform made.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { GLOBALLY, LOCKED_ELSEWHERE, ONCE, PROJECTS, run } from './lib/managers.mjs';
import { registry } from './lib/registry.mjs';
import { ROOT } from './lib/sandbox.mjs';

const OURS = `linux-${process.arch}`;

let directory = '';
/** @type {string[]} */
let tarballs = [];

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'forkful-registry-test-'));
  tarballs = ['linux-x64', 'linux-arm64', 'forkful'].map((name) => {
    const folder = join(directory, name);
    cpSync(join(ROOT, 'npm', name), folder, { recursive: true });
    if (name !== 'forkful') {
      // Says of which package it is; pack.test.mjs has the real one.
      mkdirSync(join(folder, 'bin'));
      writeFileSync(join(folder, 'bin/forkful'), `#!/bin/sh\necho "program of ${name}: $*"\n`, { mode: 0o755 });
    }
    const packed = execFileSync('npm', ['pack', folder, '--silent', '--pack-destination', directory], { cwd: directory, encoding: 'utf8' });
    return join(directory, packed.trim());
  });
});

after(() => rmSync(directory, { recursive: true, force: true }));

/** A project without dependencies, and the registry. */
async function project(t) {
  const folder = mkdtempSync(join(directory, 'project-'));
  writeFileSync(join(folder, 'package.json'), '{"name":"project","version":"1.0.0","private":true}');
  return { folder, address: await registry(t, tarballs) };
}

/** The programs below a node_modules, wherever a package manager puts them. @param {string} folder */
const programsBelow = (folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .map((path) => /@forkful\/(linux-\w+)\/bin\/forkful$/.exec(path)?.[1])
  .filter((platform) => platform !== undefined);

const SAID = `program of ${OURS}: list --json\n`;

for (const [name, { install, command }] of Object.entries(PROJECTS)) {
  test(`${name}: a project gets the program of this platform and no other`, async (t) => {
    const { folder, address } = await project(t);
    await install(folder, address);
    if (existsSync(join(folder, 'node_modules'))) assert.deepEqual([...new Set(programsBelow(join(folder, 'node_modules')))], [OURS]);
    const [program, ...args] = command(folder);
    assert.equal(await run(program, [...args, 'list', '--json'], folder, address), SAID);
  });
}

for (const [name, { make, install, command }] of Object.entries(LOCKED_ELSEWHERE)) {
  test(`${name}: a lock file made on another platform serves this one`, async (t) => {
    const { folder, address } = await project(t);
    await make(folder, address);
    const before = programsBelow(folder);
    assert.deepEqual(before, [], 'the other platform has no program');
    await install(folder, address);
    const [program, ...args] = command(folder);
    assert.equal(await run(program, [...args, 'list', '--json'], folder, address), SAID);
  });
}

for (const [name, { install, command }] of Object.entries(GLOBALLY)) {
  test(`${name}: for all projects`, async (t) => {
    const { folder, address } = await project(t);
    await install(folder, address);
    assert.equal(await run(command(folder), ['list', '--json'], '/', address, folder), SAID);
  });
}

for (const [name, command] of Object.entries(ONCE)) {
  test(`${name}: once, without an install`, async (t) => {
    const { folder, address } = await project(t);
    const [program, ...args] = command;
    assert.match(await run(program, [...args, 'list', '--json'], folder, address), new RegExp(SAID));
  });
}

test('node_modules of another machine: the cure that the launcher names works', async (t) => {
  const { folder, address } = await project(t);
  // As npm on a Mac leaves it, down to the lock file.
  await run('npm', ['install', 'forkful', '--os=darwin', '--cpu=arm64', '--omit=optional', '--no-audit', '--no-fund'], folder, address);
  const launcher = join(folder, 'node_modules/.bin/forkful');
  const told = await run(launcher, ['list'], folder, address).then(() => '', (error) => error.stderr);
  assert.match(told, new RegExp(`^error: the package @forkful/${OURS}, which holds the program for this machine, is not installed\n`));
  const cure = /`(npm install [^`]+)`/.exec(told)?.[1] ?? assert.fail(told);
  const [program, ...args] = cure.split(' ');
  // Also where optional packages are left out by a setting.
  writeFileSync(join(folder, '.npmrc'), 'omit=optional\n');
  await run(program, args, folder, address);
  assert.equal(await run(launcher, ['list', '--json'], folder, address), SAID);
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  assert.deepEqual(Object.keys(dependencies), ['forkful'], 'other platforms can still install the project');
  assert.deepEqual(Object.keys(optionalDependencies), [`@forkful/${OURS}`]);
});

test('no package has a script that an install runs', () => {
  for (const name of ['forkful', 'linux-x64', 'linux-arm64']) {
    const { scripts, dependencies, optionalDependencies = {}, version } = JSON.parse(readFileSync(join(ROOT, 'npm', name, 'package.json'), 'utf8'));
    assert.deepEqual({ scripts, dependencies }, { scripts: undefined, dependencies: undefined });
    // Not a range: the program and its launcher are made for each other.
    assert.ok(Object.values(optionalDependencies).every((wanted) => wanted === version));
  }
});
