// The core stories with what every Unix has: no pidfd, BPF, netlink, keeper and control groups (docs/MACOS.md).
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { sandbox } from './lib/sandbox.mjs';

// Commands of a sandbox, and the daemons that they start, have the test's variables that begin so.
process.env.FORKFUL_PORTABLE = '1';

// The same test as in its own file: start, list, logs, a reload under load, a killed worker, stop, the daemon's end.
await import('./story.test.mjs');

test('what is lacking is told once, when the daemon starts, and in the report', async (t) => {
  const forkful = await sandbox(t);
  const sleeper = (name) => ['start', 'sleep 1000', '--name', name];
  const first = await forkful.ok(sleeper('one'));
  assert.match(first.stderr, /note: this system lacks mechanisms that Forkful uses on Linux.*macos/is);
  assert.doesNotMatch((await forkful.ok(sleeper('two'))).stderr, /lacks mechanisms/);
  const { stdout: report } = await forkful.ok(['report']);
  assert.match(report, /^portable mode +no keeper/m);
  assert.match(report, /^daemon .*no keeper$/m);
  const { stderr, code } = await forkful.run([...sleeper('limited'), '--memory-max', '100M']);
  assert.match(stderr, /this system has no control groups/);
  assert.notEqual(code, 0);
  // A process below a worker ends with it.
  await forkful.ok(['start', 'sh -c "sleep 1000 & wait"', '--name', 'tree']);
  await forkful.ok(['delete', 'tree']);
  await forkful.ok(['restart', 'one']);
  const [{ pid }] = await forkful.jlist('one');
  process.kill(pid, 'SIGKILL');
  await forkful.ok(['kill']);
  assert.deepEqual(forkful.processes(forkful.directory), []);
});
