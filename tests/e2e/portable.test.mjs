// The core stories with what every Unix has: no pidfd, BPF, netlink, keeper and control groups (docs/MACOS.md).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { freePort } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';

const EXAMPLE = fileURLToPath(new URL('../../examples/fast-slow/server.js', import.meta.url));

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
