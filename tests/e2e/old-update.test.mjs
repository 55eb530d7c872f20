// Updates from a build of an older commit to this one and back, under load. `FORKFUL_OLD_BIN` names that
// build (`dev/old-build COMMIT` makes it); without it the tests are skipped, because building needs a
// compiler. update.test.mjs has the rules of updates.
import assert from 'node:assert/strict';
import { readlinkSync } from 'node:fs';
import { test } from 'node:test';

import { freePort } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const OLD = process.env.FORKFUL_OLD_BIN;
/** An update and the way back are two. */
const UPDATES = Number(process.env.UPDATES ?? 4);
const NONE_FAILED = { reset: 0, refused: 0, timeout: 0, unexpected: 0 };
/** Requests between two updates. */
const BETWEEN = 500;

/** Answers with its pid. */
function plain({ require }) {
  require('http').createServer((_request, response) => {
    const text = String(process.pid);
    response.setHeader('Content-Length', text.length).end(text);
  }).listen(Number(process.env.PORT));
}

for (const balance of ['direct', 'auto', 'exact']) {
  test(`${UPDATES} updates between ${OLD} and this build, ${balance}: no request fails, and all processes stay`, { skip: !OLD && 'FORKFUL_OLD_BIN is not set' }, async (t) => {
    const forkful = await sandbox(t, NEWEST);
    const script = forkful.script(plain);
    const ports = { cluster: await freePort(), single: await freePort() };
    const options = ['--interpreter', nodeBinary(NEWEST)];
    await forkful.ok(['start', script, '--name', 'cluster', '-i', '2', '--balance', balance, ...options], { program: OLD, env: { PORT: String(ports.cluster) } });
    await forkful.ok(['start', script, '--name', 'single', ...options], { program: OLD, env: { PORT: String(ports.single) } });
    const ping = async (program) => JSON.parse((await forkful.ok(['ping', '--json'], { program })).stdout);
    const workers = async (program) => JSON.parse((await forkful.ok(['jlist'], { program })).stdout).map(({ name, pid, pm2_env: { status, restart_time } }) => `${name} ${pid} ${status} ${restart_time}`);
    const { keeper } = await ping(OLD);
    const before = await workers(OLD);
    assert.equal(before.length, 3);
    const loads = Object.values(ports).map((port) => startLoad({ port, closing: 4, keeping: 4, expect: /^\d+$/ }));
    t.after(() => Promise.all(loads.map((load) => load.stop())));
    const busy = async () => {
      const reached = loads.map((load) => load.counts.success + BETWEEN);
      await waitUntil('busy apps', () => loads.every((load, n) => load.counts.success >= reached[n] || load.failed > 0));
    };
    await busy();
    for (let n = 0; n < UPDATES; n += 1) {
      const to = [binary(), OLD][n % 2];
      await forkful.ok(['update'], { program: to });
      await busy();
      const now = await ping(to);
      assert.equal(now.keeper, keeper);
      assert.deepEqual([now.pid, keeper].map((pid) => readlinkSync(`/proc/${pid}/exe`)), [to, to]);
      assert.deepEqual(await workers(to), before);
    }
    for (const load of loads) {
      const { success, ...failed } = await load.stop();
      assert.deepEqual(failed, NONE_FAILED, load.failures.join('\n'));
      assert.ok(success > BETWEEN * UPDATES);
    }
  });
}
