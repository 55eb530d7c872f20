// What docs/DEPLOY.md and docs/DASHBOARD.md do on another machine: the step of the workflow, and the way to the dashboard. The other machine is an sshd
// on loopback whose logins begin in a folder of the test; hosts and users of the pages are replaced by it.
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { parse } from 'yaml';

import { blockOf } from './lib/elsewhere.mjs';
import { accepts, freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { SSHD, startSshd } from './lib/sshd.mjs';
import { waitUntil } from './lib/wait.mjs';

const RSYNC = fileURLToPath(new URL('fixtures/rsync', import.meta.url));
const skip = SSHD ? false : 'there is no sshd on this machine';

const server = (version) => `require('node:http').createServer((request, response) => response.end('${version}')).listen(process.env.PORT);\n`;

/** Two machines: `here` is the folder of the workflow, `there` that of the logins. @param {import('node:test').TestContext} t */
async function machines(t) {
  const forkful = await sandbox(t);
  const [here, there, programs] = ['here', 'there', 'programs'].map((name) => join(forkful.directory, name));
  for (const folder of [here, there, programs]) mkdirSync(folder);
  const sshd = await startSshd(forkful.directory);
  const { close } = forkful;
  forkful.close = async () => {
    sshd.stop();
    await close.call(forkful);
  };
  const PATH = [programs, dirname(binary()), dirname(nodeBinary(NEWEST)), process.env.PATH].join(':');
  const port = await freePort();
  const inside = join(forkful.directory, 'inside.sh');
  writeFileSync(inside, `export HOME='${there}' FORKFUL_HOME='${forkful.home}' PATH='${PATH}' PORT=${port}\ncd "$HOME"\neval "$SSH_ORIGINAL_COMMAND"\n`);
  const key = join(forkful.directory, 'user.pub');
  writeFileSync(key, `command="sh ${inside}" ${readFileSync(key, 'utf8')}`);
  // ssh looks for its files where the user's login is, and not in HOME.
  const config = join(forkful.directory, 'ssh_config');
  const settings = { HostName: '127.0.0.1', Port: sshd.login.port, IdentityFile: join(here, '.ssh/id_ed25519'), UserKnownHostsFile: join(here, '.ssh/known_hosts'), StrictHostKeyChecking: 'yes' };
  writeFileSync(config, `Host server app.example.com\n${Object.entries(settings).map((pair) => `${pair.join(' ')}\n`).join('')}`);
  const ssh = spawnSync('sh', ['-c', 'command -v ssh'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(join(programs, 'ssh'), `#!/usr/bin/env bash\nexec ${ssh} -F '${config}' "\${@/#deploy@/}"\n`, { mode: 0o755 });
  if (spawnSync('rsync', ['--version']).error) symlinkSync(RSYNC, join(programs, 'rsync'));
  const env = {
    PATH, HOME: here, KEY: readFileSync(sshd.login.key, 'utf8').trim(),
    KNOWN_HOSTS: `[127.0.0.1]:${sshd.login.port} ${readFileSync(join(forkful.directory, 'host.pub'), 'utf8')}`,
  };
  const run = (script, options) => forkful.spawn(['-euo', 'pipefail', '-c', script], { program: 'bash', cwd: here, env, ...options });
  return { forkful, here, there, port, env, run };
}

test('the workflow brings a release to the server, and reloads the app', { skip }, async (t) => {
  const { forkful, here, there, port, env, run } = await machines(t);
  mkdirSync(join(there, 'api/releases/first'), { recursive: true });
  writeFileSync(join(there, 'api/releases/first/app.js'), server('first'));
  symlinkSync('releases/first', join(there, 'api/current'));
  await forkful.ok(['start', 'current/app.js', '--name', 'api', '--cwd', join(there, 'api/current')], { cwd: join(there, 'api'), env: { PATH: env.PATH, PORT: String(port) } });
  assert.equal((await get(port)).body, 'first');

  writeFileSync(join(here, 'app.js'), server('second'));
  const about = { name: 'api', version: '1.0.0' };
  writeFileSync(join(here, 'package.json'), JSON.stringify({ ...about, scripts: { test: 'node --check app.js' } }));
  writeFileSync(join(here, 'package-lock.json'), JSON.stringify({ ...about, lockfileVersion: 3, packages: { '': about } }));
  const { steps } = parse(blockOf('DEPLOY.md', 'yaml', 'deploy.yml')).jobs.deploy;
  const [check, deploy] = steps.filter((step) => step.run);
  assert.deepEqual(Object.keys(deploy.env), ['KEY', 'KNOWN_HOSTS']);
  for (const step of [check, deploy]) {
    const { code, stdout, stderr } = await run(step.run, { env: { ...env, GITHUB_SHA: '5ec0nd' } }).outcome;
    assert.equal(code, 0, stdout + stderr);
  }
  assert.equal((await get(port)).body, 'second');
  const { incidents } = JSON.parse((await forkful.ok(['events', 'api', '--json'])).stdout);
  assert.deepEqual(incidents.map(({ kind, reason }) => [kind, reason]), [['deployed', '5ec0nd']]);
});

test('the dashboard of a server is reached through ssh', { skip }, async (t) => {
  const { forkful, here, env, run } = await machines(t);
  mkdirSync(join(here, '.ssh'));
  copyFileSync(join(forkful.directory, 'user'), join(here, '.ssh/id_ed25519'));
  appendFileSync(join(here, '.ssh/known_hosts'), env.KNOWN_HOSTS);
  writeFileSync(join(here, 'app.js'), server('hello'));
  await forkful.ok(['start', 'app.js'], { cwd: here, env: { PORT: String(await freePort()) } });
  const [show, forward] = blockOf('DASHBOARD.md', 'sh', 'ssh server').split('\n');
  const { stdout, stderr } = await run(show).outcome;
  const [, port, token] = /^http:\/\/127\.0\.0\.1:(\d+)\/(#token=\w+)$/m.exec(stdout) ?? assert.fail(stdout + stderr);
  assert.ok(token);
  const own = await freePort();
  const tunnel = run(`exec ${forward.replace('4000', String(own)).replace('PORT', port)}`);
  await waitUntil('the tunnel', () => accepts({ host: '127.0.0.1', port: own }));
  const page = await get(own, '/');
  assert.equal(page.status, 200, page.body);
  assert.match(page.body, /<!doctype html>/i);
  tunnel.child.kill();
  await tunnel.outcome;
});
