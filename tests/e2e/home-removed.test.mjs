// The home of a running daemon is removed or moved, or loses its socket: the daemon becomes reachable again
// with the same apps, and no second daemon is started.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const LOSSES = {
  removed: (home) => {
    try {
      rmSync(home, { recursive: true });
    } catch (error) {
      // On a busy machine the daemon may be there before the folder itself is gone.
      if (error.code !== 'ENOTEMPTY') throw error;
    }
  },
  'moved away': (home) => renameSync(home, `${home}-moved`),
  'without its socket': (home) => rmSync(join(home, 'forkful.sock')),
};

for (const [what, lose] of Object.entries(LOSSES)) {
  test(`a home that is ${what} under its daemon is made anew`, async (t) => {
    const forkful = await sandbox(t);
    const script = join(forkful.directory, 'idle.cjs');
    writeFileSync(script, "setInterval(() => console.log('tick'), 20);");
    await forkful.ok(['start', script, '--name', 'one']);
    const pid = await forkful.daemonPid();
    const [{ pid: worker }] = await forkful.jlist('one');

    lose(forkful.home);
    const socket = join(forkful.home, 'forkful.sock');
    await waitUntil('the socket to be there again', () => existsSync(socket));
    assert.equal(await forkful.daemonPid(), pid, 'the same daemon');
    await forkful.ok(['start', script, '--name', 'two']);
    assert.equal(await forkful.daemonPid(), pid, 'and no second one');
    const listed = await forkful.jlist();
    assert.deepEqual(listed.map(({ name }) => name), ['one', 'two']);
    assert.equal(listed[0].pid, worker, 'nothing was restarted');
    const { apps } = JSON.parse(readFileSync(join(forkful.home, 'state.json'), 'utf8'));
    assert.deepEqual(apps.map(({ definition }) => definition.name), ['one', 'two']);
    await waitUntil('output in the files that are there now', () => {
      const logs = join(forkful.home, 'logs');
      const names = existsSync(logs) ? readdirSync(logs).filter((name) => name.startsWith('one-out')) : [];
      return names.some((name) => readFileSync(join(logs, name), 'utf8').includes('tick'));
    });
    assert.match(readFileSync(join(forkful.home, 'daemon.log'), 'utf8'), /was removed under this daemon: it is made anew/);

    await forkful.ok(['kill']);
    await waitUntil('everything to end', () => !existsSync(`/proc/${pid}`) && !existsSync(`/proc/${worker}`));
    rmSync(`${forkful.home}-moved`, { recursive: true, force: true });
  });
}
