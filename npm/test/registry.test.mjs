// The packages as package managers install them from a registry: the program of this platform, and of no other.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { registry } from './lib/registry.mjs';
import { ROOT } from './lib/sandbox.mjs';

const YARN = createRequire(import.meta.url).resolve('yarn/bin/yarn.js');
const run = promisify(execFile);

let directory = '';
/** @type {string[]} */
let tarballs = [];

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'forkful-registry-test-'));
  tarballs = ['linux-x64', 'linux-arm64', 'forkful'].map((name) => {
    const folder = join(directory, name);
    cpSync(join(ROOT, 'npm', name), folder, { recursive: true });
    if (name !== 'forkful') {
      // Nobody runs the program.
      mkdirSync(join(folder, 'bin'));
      writeFileSync(join(folder, 'bin/forkful'), '#!/bin/sh\n', { mode: 0o755 });
    }
    const packed = execFileSync('npm', ['pack', folder, '--silent', '--pack-destination', directory], { cwd: directory, encoding: 'utf8' });
    return join(directory, packed.trim());
  });
});

after(() => rmSync(directory, { recursive: true, force: true }));

const installers = {
  npm: (address, folder) => run('npm', ['install', 'forkful', '--no-audit', '--no-fund', '--registry', address, '--cache', join(folder, 'cache')], { cwd: folder }),
  'Yarn 1': (address, folder) =>
    run(process.execPath, [YARN, 'add', 'forkful', '--non-interactive', '--registry', address, '--cache-folder', join(folder, 'cache')], { cwd: folder }),
};

for (const [name, install] of Object.entries(installers)) {
  test(`${name} installs the program of this platform and no other`, async (t) => {
    const folder = mkdtempSync(join(directory, 'project-'));
    writeFileSync(join(folder, 'package.json'), '{"name":"project","version":"1.0.0","private":true}');
    await install(await registry(t, tarballs), folder);
    assert.deepEqual(readdirSync(join(folder, 'node_modules/@forkful')), [`linux-${process.arch}`]);
    assert.ok(readdirSync(join(folder, 'node_modules/forkful')).includes('bin'));
  });
}
