// The types say what users write: their programs compile, and what is wrong does not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import * as esm from '../forkful/index.mjs';
import { PACKAGE, sandbox } from './lib/sandbox.mjs';

const HERE = new URL('.', import.meta.url).pathname;
const require = createRequire(import.meta.url);

test('programs that use the package compile', (t) => {
  const { directory, write } = sandbox(t);
  cpSync(join(HERE, 'types'), directory, { recursive: true });
  mkdirSync(join(directory, 'node_modules'));
  symlinkSync(PACKAGE, join(directory, 'node_modules/forkful'));
  write('package.json', '{ "type": "module" }');
  write('tsconfig.json', JSON.stringify({
    compilerOptions: {
      strict: true, noEmit: true, target: 'es2022', module: 'nodenext', moduleResolution: 'nodenext', skipLibCheck: false,
      preserveSymlinks: true, types: ['node'], typeRoots: [join(HERE, 'node_modules/@types')],
    },
    files: ['usage.mts', 'usage.cts'],
  }));
  const tsc = spawnSync(process.execPath, [join(HERE, 'node_modules/typescript/bin/tsc'), '-p', directory], { encoding: 'utf8' });
  assert.equal(tsc.status, 0, tsc.stdout);
});

test('what the types promise is there', () => {
  const cjs = require('../forkful/index.cjs');
  const declared = [...readFileSync(join(PACKAGE, 'index.d.ts'), 'utf8').matchAll(/^export (?:declare )?(?:const|function|class) (\w+)/gm)].map(([, name]) => name);
  for (const name of new Set([...declared, 'delete'])) {
    assert.equal(typeof cjs[name], 'function', name);
    assert.equal(esm[name], cjs[name], name);
  }
  const pm2 = require('../forkful/pm2.cjs');
  const body = readFileSync(join(PACKAGE, 'pm2.d.ts'), 'utf8').split('interface Pm2 {')[1];
  for (const [, name] of body.matchAll(/^ {4}(\w+)[(:]/gm)) assert.equal(typeof pm2[name], 'function', name);
});
