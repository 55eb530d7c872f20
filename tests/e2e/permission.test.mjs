// Apps that Node.js lets do only what they are allowed to (`--permission`): the agent is read all the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { freePort, get } from './lib/http.mjs';
import { MAJORS } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Serves; says whether it may read the files of the system. */
function serves({ require }) {
  require('http').createServer((_request, response) => {
    response.end(String(process.permission.has('fs.read', '/etc/passwd')));
  }).listen(Number(process.env.PORT));
}

for (const major of MAJORS.filter((version) => version >= 20)) {
  test(`Node ${major}: an app with permissions has the agent, and reads nothing else because of it`, async (t) => {
    const forkful = await sandbox(t, major);
    const port = await freePort();
    const flag = major < 24 ? '--experimental-permission' : '--permission';
    const lib = new URL('fixtures', import.meta.url).pathname;
    const allowed = [forkful.directory, lib].map((folder) => `--allow-fs-read=${folder}/*`);
    const args = [flag, ...allowed, ...(major > 24 ? ['--allow-net'] : [])].join(' ');
    await forkful.start(serves, { name: 'app', options: ['--node-args', args], env: { PORT: String(port) } });
    assert.equal((await get(port, '/')).body, 'false');
    const reported = async () => JSON.parse((await forkful.ok(['list', '--json'])).stdout).apps[0].workers.every(({ metrics }) => metrics.heap_used_bytes > 0);
    await waitUntil('reports of the agents', reported);
    await forkful.ok(['reload', 'app']);
    assert.equal((await get(port, '/')).body, 'false');
  });
}
