// Pages of docs/ whose code a reader runs from top to bottom: the code runs, and prints what the page shows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { unknownCommands } from './lib/commands.mjs';
import { blocks, checkExample, pages, runPage } from './lib/pages.mjs';
import { withRedis } from './lib/redis.mjs';
import { sandbox } from './lib/sandbox.mjs';

/** Pages about examples, with the folder in examples/. */
const EXAMPLES = { 'SOCKET-IO.md': 'socket-io', 'NESTJS.md': 'nestjs', 'NEXTJS.md': 'nextjs', 'BULLMQ.md': 'bullmq' };
/** Pages for contributors, and the reference of commands, whose examples are compared with the command line below. */
const NOT_FOR_USERS = ['ARCHITECTURE.md', 'BENCHMARKS.md', 'CLI.md', 'PROTOCOL.md', 'SCALE.md', 'SECURITY.md'];
/** Programs that pages need and that a machine may not have. */
const NEEDS = { 'NGINX.md': ['nginx', '-v'], 'BULLMQ.md': ['redis-server', '--version'] };
/** Number of pages that run at the same time: they wait for processes more than for a core. */
const SIDE_BY_SIDE = 3;

const ours = pages().filter((page) => !NOT_FOR_USERS.includes(page));
const runs = ours.filter((page) => blocks(page).some(({ kind }) => kind === 'sh'));

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

describe('the code of a page runs', { concurrency: SIDE_BY_SIDE }, () => {
  for (const page of runs) {
    test(page, { skip: missing(page) }, async (t) => {
      if (page === 'BULLMQ.md') {
        const { forkful, env } = await withRedis(t);
        await runPage(forkful, page, { example: 'bullmq', env });
      } else {
        await runPage(await sandbox(t), page, { example: EXAMPLES[page] });
      }
    });
  }
});

test('most pages are run', () => {
  assert.ok(runs.length >= 24, `${runs.length} pages are run: ${runs.join(' ')}`);
});

test('a page about an example shows its files', () => {
  for (const [page, example] of Object.entries(EXAMPLES)) checkExample(page, example);
});

test('every command and option that a page names exists', () => {
  const { faults, commands } = unknownCommands();
  assert.ok(commands > 40, 'the reference was read');
  assert.deepEqual(faults, []);
});
