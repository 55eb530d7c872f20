// Start at boot as docs/REBOOT.md and docs/SYSTEMD.md say: their commands and their unit. A stand-in for systemctl starts what the units say
// (fixtures/systemd). Root has a mount namespace of its own, so that nothing is written to the system.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { blockOf } from './lib/elsewhere.mjs';
import { freePort } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';

const STAND_INS = fileURLToPath(new URL('fixtures/systemd', import.meta.url));
const IS_ROOT = process.getuid?.() === 0;
/** Empty folders for units, and what tells that systemd runs. */
const NAMESPACE = 'mount -t tmpfs tmpfs /etc/systemd && mkdir /etc/systemd/system && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system';
const SERVER = `require('node:http').createServer((request, response) => response.end(process.env.GREETING ?? 'hello')).listen(process.env.PORT);
process.on('SIGTERM', () => process.exit());
`;

/** Why the pages cannot be run here. */
function missing() {
  if (!IS_ROOT) return existsSync('/run/systemd/system') ? false : 'there is no systemd, and only root can let it seem so';
  return spawnSync('unshare', ['--mount', 'sh', '-c', NAMESPACE]).status === 0 ? false : 'WARNING: needs mount namespaces';
}

/** Runs a script with the stand-ins, in a folder with a server. @param {import('node:test').TestContext} t @param {(place: { folder: string, port: number }) => string} script */
async function run(t, script) {
  const forkful = await sandbox(t);
  const folder = join(forkful.directory, 'app');
  mkdirSync(folder);
  for (const name of ['app.js', 'server.js']) writeFileSync(join(folder, name), SERVER);
  const port = await freePort();
  const env = {
    // Without it, the user's own folder of units would be found in the list of users.
    XDG_CONFIG_HOME: join(forkful.directory, '.config'),
    STAND_IN: folder, HOME: forkful.directory, PORT: String(port), PATH: [STAND_INS, dirname(binary()), dirname(nodeBinary(NEWEST)), process.env.PATH].join(':'),
  };
  const begin = IS_ROOT ? `${NAMESPACE}\n` : '';
  const [program, ...args] = [...(IS_ROOT ? ['unshare', '--mount'] : []), 'bash', '-euo', 'pipefail', '-c', begin + script({ folder, port })];
  const { code, stdout, stderr } = await forkful.spawn(args, { program, cwd: folder, env }).outcome;
  assert.equal(code, 0, stdout + stderr);
  return { stdout, calls: readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n') };
}

const SERVES = 'serves() { local n; for n in {1..600}; do curl --silent --fail "http://127.0.0.1:$PORT/" && return; sleep 0.1; done; return 1; }';

test('the service brings the apps back after the daemon was ended, and is removed', { skip: missing() }, async (t) => {
  const asUser = (text) => (IS_ROOT ? text.replace('systemctl --user', 'systemctl') : text);
  const [, remove] = blockOf('REBOOT.md', 'sh', 'forkful unstartup').split('\n');
  const { stdout, calls } = await run(t, () => `${SERVES}
    ${blockOf('FIRST-APP.md', 'sh', 'forkful startup')}
    forkful start app.js
    ${asUser(blockOf('REBOOT.md', 'sh', 'systemctl --user restart')).replace('\nforkful list', '\nserves\nforkful list')}
    forkful kill
    ${remove}`);
  assert.match(stdout, /forkful\.service is installed: the daemon starts at boot/);
  // A worker that has no core for a while is shown as blocked.
  assert.match(stdout, /hello.*\n(.*\n)*.*app .*(online|blocked)/);
  assert.match(stdout, /forkful\.service is removed: nothing starts at boot any more/);
  const user = IS_ROOT ? '' : '--user ';
  assert.deepEqual(calls, ['daemon-reload', 'enable forkful.service', 'restart forkful', 'disable forkful.service'].map((call) => `systemctl ${user}${call}`));
});

test('root installs a service for another user, and a unit for one app', { skip: missing() || !IS_ROOT && 'only root installs services of the system' }, async (t) => {
  const unit = blockOf('SYSTEMD.md', 'ini', 'api.service');
  const [path] = /\/etc\/\S+/.exec(unit) ?? [];
  const { stdout, calls } = await run(t, ({ folder, port }) => {
    const own = unit.replace('/srv/api', folder).replace('/etc/api.env', join(folder, 'api.env')).replace('/usr/bin/forkful', binary()).replace('-i max', '-i 1');
    writeFileSync(join(folder, 'api.service'), own);
    writeFileSync(join(folder, 'api.env'), `PORT=${port}\nGREETING=from-the-unit\n`);
    return `${SERVES}
      ${blockOf('SYSTEMD.md', 'sh', '--system --user').replace('deploy', userInfo().username)}
      grep '^User=' /etc/systemd/system/forkful.service
      cp api.service ${path}
      ${blockOf('SYSTEMD.md', 'sh', 'enable --now api')}
      serves
      systemctl stop api`;
  });
  assert.match(stdout, new RegExp(`\\nUser=${userInfo().username}\\n`));
  assert.match(stdout, /active \(api\)\nfrom-the-unit/);
  assert.deepEqual(calls.slice(-4), ['daemon-reload', 'enable --now api', 'status api', 'stop api'].map((call) => `systemctl ${call}`));
});
