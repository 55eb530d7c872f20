// The core stories with what every Unix has: no pidfd, BPF, netlink, keeper and control groups (docs/MACOS.md).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { freePort } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';

const EXAMPLE = fileURLToPath(new URL('../../examples/fast-slow/server.js', import.meta.url));

/**
 * Tests of other files that depend on these mechanisms, each by a part of its name. Not here: what docs/MACOS.md lists as lacking, such as children in
 * a session of their own; balance modes, which all act as `exact` or `shared`; and further rounds and versions of Node.js.
 */
const CORE = {
  'supervision.test.mjs': [
    'a worker that exits is started again, and counted',
    'a crash loop is given up',
    'an exit code of stop_exit_codes ends a worker for good',
    'stop, start, restart, scale and delete do what they say',
    'a worker is asked by SIGINT, and may finish its work',
    'an app that only closes its server when it is to end does end',
    'a worker whose event loop does not turn is shown to be blocked',
    'a worker that has closed its servers is shown not to listen',
    'a worker that ignores its signal is killed after kill_timeout',
    'a stop leaves nothing of a worker: a child',
    'a stop leaves nothing of a worker: a grandchild',
    'a signal reaches each worker',
    'fork mode runs whatever runs',
    'logs: whole lines, of both streams',
    'CPU is that of each worker',
    'run, in the foreground',
  ],
  'signals.test.mjs': ['a daemon outlives stray signals', 'a command waits for a daemon that does not answer yet'],
  'crash.test.mjs': [
    'balance exact: 8 workers killed under load',
    'balance exact: a blocked worker holds nobody',
    'balance exact: a worker out of descriptors comes back',
    'a worker that is stopped (SIGSTOP) under load',
    'balance exact: workers that say much on their channel',
  ],
  'reload.test.mjs': [
    'a new version that crashes at its start is given up',
    'a new version replaces the old one when it listens wherever that one does',
    'a reload without the agent loses no request',
    'connections that are not HTTP/1',
  ],
};

/** Runs the tests of a file with these names, and gives their report. @returns {Promise<{ code: number, report: string }>} */
function testsOf(file, names) {
  const patterns = names.map((name) => `--test-name-pattern=${name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')}`);
  const path = fileURLToPath(new URL(file, import.meta.url));
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(process.execPath, ['--test', '--test-reporter=tap', ...patterns, path], { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, report: stdout + stderr });
    });
  });
}

// Commands of a sandbox, and the daemons that they start, have the test's variables that begin so.
process.env.FORKFUL_PORTABLE = '1';

// The same test as in its own file: start, list, logs, a reload under load, a killed worker, stop, the daemon's end.
await import('./story.test.mjs');

test('what is lacking is told once when the daemon starts, in the report, with each app that is concerned, and by the doctor', async (t) => {
  const forkful = await sandbox(t);
  const sleeper = (name) => ['start', 'sleep 1000', '--name', name];
  const first = await forkful.ok(sleeper('one'));
  assert.match(first.stderr, /note: portable mode, for development: .*macos/is);
  assert.doesNotMatch((await forkful.ok(sleeper('two'))).stderr, /portable mode/);
  const { stdout: report } = await forkful.ok(['report']);
  assert.match(report, /^portable mode +no keeper/m);
  assert.match(report, /^daemon .*no keeper$/m);
  const { stderr, code } = await forkful.run([...sleeper('limited'), '--memory-max', '100M']);
  assert.match(stderr, /there are no control groups in the portable mode/);
  assert.notEqual(code, 0);
  // A chosen balance that cannot be had is told at the start, in the list and in the app's description.
  const port = await freePort();
  const sticky = ['start', EXAMPLE, '--name', 'web', '-i', '2', '--balance', 'sticky'];
  const told = /`balance` sticky acts as exact in the portable mode/;
  assert.match((await forkful.ok(sticky, { env: { PORT: String(port) } })).stderr, told);
  assert.match((await forkful.ok(['list'])).stderr, told);
  // The daemon is asked, so that this does not depend on the environment of the command.
  const { stdout: verdict } = await forkful.ok(['doctor', 'web', '--for', '10s', '--json'], { env: { FORKFUL_PORTABLE: '' } });
  assert.match(JSON.parse(verdict).unseen.join('\n'), /how the kernel spreads connections/);
  // A process below a worker ends with it.
  await forkful.ok(['start', 'sh -c "sleep 1000 & wait"', '--name', 'tree']);
  await forkful.ok(['delete', 'tree']);
  await forkful.ok(['restart', 'one']);
  const [{ pid }] = await forkful.jlist('one');
  process.kill(pid, 'SIGKILL');
  await forkful.ok(['kill']);
  assert.deepEqual(forkful.processes(forkful.directory), []);
});

test('the core works in the portable mode', { concurrency: 2 }, async (t) => {
  const files = Object.entries(CORE).map(([file, names]) => t.test(file, async () => {
    const { code, report } = await testsOf(file, names);
    assert.equal(code, 0, report);
    const ran = report.split('\n').filter((line) => /^ *ok /.test(line) && !/# SKIP/.test(line)).join('\n');
    for (const name of names) assert.ok(ran.includes(name), `no test is called ${name}`);
  }));
  await Promise.all(files);
});
