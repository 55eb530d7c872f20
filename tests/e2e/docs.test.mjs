// Pages of docs/ whose code a reader runs from top to bottom: the code runs, and prints what the page shows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { unknownCommands } from './lib/commands.mjs';
import { notExecuted } from './lib/elsewhere.mjs';
import { blocks, checkExample, elsewhere, notRun, pages, runPage } from './lib/pages.mjs';
import { withRedis } from './lib/redis.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Pages about examples, with the folder in examples/. */
const EXAMPLES = { 'SOCKET-IO.md': 'socket-io', 'NESTJS.md': 'nestjs', 'NEXTJS.md': 'nextjs', 'BULLMQ.md': 'bullmq' };
/** Pages for contributors, and the reference of commands, whose examples are compared with the command line below. */
const NOT_FOR_USERS = ['ARCHITECTURE.md', 'BENCHMARKS.md', 'CLI.md', 'PROTOCOL.md', 'SCALE.md', 'SECURITY.md'];
/** Programs that pages need and that a machine may not have. */
const NEEDS = { 'NGINX.md': ['nginx', '-v'], 'BULLMQ.md': ['redis-server', '--version'], 'LOGS.md': ['jq', '--version'] };
/** What nothing executes: each has a reason why no test can. */
const NOT_RUN = [
  'BLOCKED-WORKER.md: a conversation with a person',
  'DOCKER.md: needs Docker',
  'DOCKER.md: needs Docker',
  'EXPORT.md: needs a cluster; tests/kubernetes checks manifests with the code of its API server',
  'RELEASES.md: attestations exist only for a published release',
  'UPDATE.md: builds an older version, and then runs the test that it names',
];
/** Number of pages that run at the same time: they wait for processes more than for a core. */
const SIDE_BY_SIDE = 3;

const ours = pages().filter((page) => !NOT_FOR_USERS.includes(page));
const runs = ours.filter((page) => blocks(page).some(({ kind }) => kind !== 'file' && kind !== 'text'));

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

test('what a page does not run is executed by the file that it names', () => {
  const all = pages().flatMap((page) => elsewhere(page).map((block) => ({ page, block })));
  assert.ok(all.length > 30, `${all.length} blocks`);
  assert.deepEqual(all.flatMap(({ page, block }) => notExecuted(page, block)), []);
});

test('a command that the named file does not execute is found', () => {
  const block = (by, text, language = 'sh') => notExecuted('PAGE.md', { by: [by], language, text });
  const lab = 'crates/forkful/tests/cli/lab.rs';
  assert.deepEqual(block(lab, 'forkful tune server.js --path / --save   # writes a file\n'), []);
  assert.deepEqual(block(lab, 'forkful tune server.js --path / --markdown\n'), [`PAGE.md: ${lab}: nothing executes: forkful tune server.js --path / --markdown`]);
  assert.deepEqual(block(lab, 'forkful reload api\n'), [`PAGE.md: ${lab}: nothing executes: forkful reload api`]);
  assert.deepEqual(block('no/such.rs', 'forkful list\n'), ['PAGE.md: there is no no/such.rs']);
  const stalls = 'crates/forkful/src/output/stalls.rs';
  assert.deepEqual(block(stalls, 'app: 7 stalls, 2.1 s in all, the longest 31 ms; 4 requests waited 1.3 s\n', 'text'), []);
  assert.equal(block(stalls, 'app: 7 stalls, and the worst of these took 31 ms\n', 'text').length, 1);
});

test('nothing else is left out', () => {
  assert.deepEqual(pages().flatMap((page) => notRun(page).map((reason) => `${page}: ${reason}`)), NOT_RUN);
});

// A whole one takes half a minute.
test('an app is compared with itself', async (t) => {
  const forkful = await sandbox(t);
  const path = forkful.script(({ require }) => require('http').createServer((_, response) => response.end('ok')).listen(process.env.PORT));
  const running = forkful.spawn(['compare', path, '--path', '/', '--aa']);
  await waitUntil('the first block', () => running.stderr.includes('blocks in random order') || running.child.exitCode !== null);
  running.child.kill('SIGINT');
  const { code, stderr } = await running.outcome;
  assert.equal(code, 130, stderr);
  assert.match(stderr, /^cluster A, cluster B: /);
});
