// Two hundred apps: started from one file, listed, saved, lost with the daemon, and restored in the same
// states.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const APPS = 200;

test(`${APPS} apps survive their daemon, each in its state`, async (t) => {
  const forkful = await sandbox(t);
  const mark = `${forkful.directory}/idle`;
  const apps = Array.from({ length: APPS }, (_, number) => ({
    name: `app-${number}`,
    namespace: number % 2 ? 'odd' : 'even',
    script: '/bin/sleep',
    args: ['3600'],
    interpreter: 'none',
    env: { MARK: mark, NUMBER: String(number) },
    ...(number % 50 === 7 ? { autostart: false } : {}),
  }));
  const file = join(forkful.directory, 'forkful.config.json');
  writeFileSync(file, JSON.stringify({ apps }));

  const list = async () => JSON.parse((await forkful.ok(['list', '--json'])).stdout).apps;
  /** The state that must be the same before and after, by name. */
  const states = async () => Object.fromEntries((await list()).map(({ definition, workers }) =>
    [definition.name, [definition.namespace, ...workers.map(({ status }) => status)]]));
  const settled = (what) => waitUntil(what, async () => {
    const all = Object.values(await states()).flatMap(([, ...statuses]) => statuses);
    return all.length === APPS && all.every((status) => status === 'online' || status === 'stopped');
  });
  const sleeping = () => forkful.processes(`MARK=${mark}\0`).length;

  await forkful.ok(['start', file]);
  await settled('all apps to be settled');
  for (const name of ['app-3', 'app-100', 'app-199']) await forkful.ok(['stop', name]);
  await forkful.ok(['delete', 'app-50']);
  const late = join(forkful.directory, 'late.config.json');
  writeFileSync(late, JSON.stringify({ apps: [{ ...apps[0], name: 'late' }] }));
  await forkful.ok(['start', late]);
  const before = await states();
  assert.equal(Object.keys(before).length, APPS);
  const stopped = Object.values(before).filter(([, status]) => status === 'stopped').length;
  assert.equal(stopped, 3 + 4);
  assert.equal(sleeping(), APPS - stopped);
  const { stdout } = await forkful.ok(['list']);
  for (const name of Object.keys(before)) assert.match(stdout, new RegExp(`\\b${name}\\b`));
  assert.match((await forkful.ok(['save'])).stdout, new RegExp(`^${APPS} apps saved`, 'm'));

  await t.test('killed like a crash', async () => {
    await forkful.killDaemon();
    await forkful.ok(['resurrect']);
    await settled('all apps to be back');
    assert.deepEqual(await states(), before);
    assert.equal(sleeping(), APPS - stopped, 'no app runs twice');
  });

  await t.test('ended in order', async () => {
    await forkful.ok(['kill']);
    assert.equal(sleeping(), 0);
    await forkful.ok(['resurrect']);
    await settled('all apps to be back');
    assert.deepEqual(await states(), before);
    assert.equal(sleeping(), APPS - stopped);
  });

  await t.test('from what was saved by hand', async () => {
    await forkful.ok(['delete', 'all']);
    assert.deepEqual(await states(), {});
    await forkful.ok(['resurrect', '--saved']);
    await settled('all apps to be back');
    assert.deepEqual(await states(), before);
  });

  await t.test('a namespace is one target', async () => {
    await forkful.ok(['stop', 'odd']);
    const after = await states();
    for (const [name, [namespace, status]] of Object.entries(after)) {
      assert.equal(status, namespace === 'odd' ? 'stopped' : before[name][1], name);
    }
  });

  const saved = JSON.parse(readFileSync(join(forkful.home, 'state.json'), 'utf8'));
  assert.equal(saved.apps.length, APPS);
});
