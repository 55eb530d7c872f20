// The types say what users write: their programs compile, and what is wrong does not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import * as esm from '../forkful/index.mjs';
import { PACKAGE, ROOT, sandbox } from './lib/sandbox.mjs';

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

/** The types of index.d.ts that describe what the daemon sends, with the names of their schemas. */
const SCHEMAS = {
  AppOutcome: 'AppOutcome', AppUsage: 'AppUsage', AppView: 'AppView', DispatchView: 'DispatchView', EndingEvent: 'Ending', HostLoad: 'HostLoad',
  HostUse: 'HostUse', IncidentSummary: 'IncidentSummary', LogLine: 'LogLine', MemoryPlan: 'MemoryPlanView', MessageEvent: 'MessageEvent', OpenTrial: 'OpenTrial',
  Ping: 'Ping', PlannedApp: 'PlannedApp', Process: 'JlistEntry', ProcessEvent: 'ProcessEvent', SkippedEvent: 'SkippedEvents', StallCost: 'StallCost',
  StallEvent: 'StallEvent', WorkerReply: 'WorkerReply', WorkerUsage: 'WorkerUsage', WorkerView: 'WorkerView',
};

test('the types have the fields that the daemon sends', () => {
  const types = ['index.d.ts', 'index.views.d.ts'].map((file) => readFileSync(join(PACKAGE, file), 'utf8')).join('\n');
  const { schemas } = JSON.parse(readFileSync(join(ROOT, 'crates/forkful-api/openapi.json'), 'utf8')).components;
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    const body = new RegExp(`^export interface ${name} \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(types)?.[1] ?? '';
    const declared = [...body.matchAll(/^ {2}(\w+)\??:/gm)].map(([, field]) => field).filter((field) => field !== 'type');
    assert.deepEqual(declared.sort(), Object.keys(schemas[schema].properties).sort(), name);
  }
  const names = readFileSync(join(ROOT, 'docs/EVENTS.md'), 'utf8').match(/^\| `\w+:\w+`/gm).map((row) => row.slice(3, -1));
  const readme = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
  for (const name of names) {
    assert.ok(types.includes(`'${name}'`), name);
    assert.ok(readme.includes(`\`${name}\``), name);
  }
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
