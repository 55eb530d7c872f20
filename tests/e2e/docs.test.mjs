// Pages of docs/ whose code a reader runs from top to bottom: it runs, and prints what the page says.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { unknownCommands } from './lib/commands.mjs';
import { runPage } from './lib/pages.mjs';
import { sandbox } from './lib/sandbox.mjs';

const PAGES = [
  'FIRST-APP.md', 'FROM-CLUSTER.md', 'NGINX.md', 'SYSTEMD.md', 'DEPLOY.md', 'ENVIRONMENT.md', 'STICKY.md', 'HEALTH.md', 'BLOCKED-WORKER.md', 'NODE-UPGRADE.md', 'FAQ.md',
];

/** Programs that pages need and that a machine may not have. */
const NEEDS = { 'NGINX.md': ['nginx', '-v'] };

function missing(page) {
  if (!(page in NEEDS)) return false;
  const [program, ...args] = NEEDS[page];
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return false;
  } catch {
    return `no ${program} is installed`;
  }
}

for (const page of PAGES) {
  test(`the code of ${page} runs`, { skip: missing(page) }, async (t) => {
    await runPage(await sandbox(t), page);
  });
}

test('every command and option that a page names exists', () => {
  const { faults, commands } = unknownCommands();
  assert.ok(commands > 40, 'the reference was read');
  assert.deepEqual(faults, []);
});
