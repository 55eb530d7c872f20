// What commands print with `--json` is as docs/output.schema.json says, which is made from their types.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { get } from './lib/http.mjs';
import { checkOutput as check, SCHEMA } from './lib/outputs.mjs';
import { sandbox, WRONG_USE } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const documented = readFileSync(new URL('../../docs/CLI.md', import.meta.url), 'utf8').split(/^### forkful /m).slice(1);

/** Blocks its event loop at `/block`, throws at `/crash`, and has an action. */
function app({ require }) {
  process.send?.({ type: 'axm:action', data: { action_name: 'double', action_type: 'custom', arity: 2 } });
  process.on('message', (message) => {
    if (message?.msg === 'double') process.send({ type: 'axm:reply', data: { return: { got: message.opts }, action_name: 'double' } });
  });
  function holdFor(ms) {
    const end = performance.now() + ms;
    while (performance.now() < end);
  }
  require('http').createServer((request, response) => {
    if (request.url === '/block') holdFor(120);
    response.end('done');
    if (request.url === '/crash') setImmediate(() => { throw new Error('a planned crash'); });
  }).listen(process.env.SOCKET);
}

test('the document has each command that prints JSON', () => {
  const names = documented.filter((section) => /^\| `--json`/m.test(section)).map((section) => section.split(/\s/, 1)[0]);
  const described = Object.keys(SCHEMA.properties).map((name) => name.split(' ')[0]);
  assert.deepEqual([...new Set(described)].sort(), [...new Set([...names, 'jlist'])].sort());
});

test('outputs of real commands are as the document says', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'app.sock');
  const json = async (command, ...args) => JSON.parse((await forkful.ok([command, ...args, '--json'])).stdout);
  const checked = async (command, ...args) => {
    const output = await json(command.split(' ')[0], ...args);
    check(command, output);
    return output;
  };
  // Without a daemon.
  await checked('list');
  await forkful.start(app, { name: 'api', instances: 2, env: { SOCKET: socket, API_TOKEN: 'a-token-of-nobody' } });
  await waitUntil('the stall', async () => {
    await get(socket, '/block');
    return (await json('stalls', 'api')).apps[0].groups.length > 0;
  });
  await get(socket, '/crash');
  await waitUntil('the crash', async () => (await json('events', 'api')).incidents.length > 0);
  await waitUntil('both workers', async () => (await forkful.jlist('api')).every(({ pm2_env: { status } }) => status === 'online'));
  // In cluster mode there is no stdin.
  check('send', JSON.parse((await forkful.fails(['send', 'api', 'text', '--json'])).stdout));
  const { stdout: lines } = await forkful.ok(['logs', 'api', '--err', '--nostream', '--json']);
  for (const line of lines.trim().split('\n')) check('logs', JSON.parse(line));
  await reports(forkful, socket);
  for (const [command, ...args] of [
    ['list'], ['describe', 'api'], ['stalls', 'api'], ['doctor', 'api', '--for', '10s'], ['env', 'api'], ['ping'], ['dashboard'],
    ['scale', 'api', '3'], ['reload', 'api'], ['restart', 'api'], ['reset', 'api'], ['flush', 'api'], ['reloadLogs'], ['signal', 'SIGCONT', 'api'],
    ['trigger', 'api', 'double', 'x'], ['heap', 'api', '--output', join(forkful.directory, 'heap.heapsnapshot')], ['save'], ['stop', 'api'], ['list'], ['describe', 'api'], ['start', 'api'], ['delete', 'api'], ['resurrect', '--saved'], ['cleardump'],
  ]) {
    await checked(command, ...args);
  }
  check('jlist', await forkful.jlist());
  const ping = await json('ping');
  assert.throws(() => check('ping', { ...ping, more: 1 }), /unevaluated/);
  assert.throws(() => check('ping', { ...ping, pid: 'x' }), /integer/);
  const { incidents: [{ id }] } = await checked('events', 'api');
  await checked('events --show', '--show', String(id));
  check('events --follow', (await json('events', 'api')).incidents[0]);
  await configurations(forkful, checked);
  await checked('update');
  await checked('kill');
});

/** Reports of load tests. */
async function reports(forkful, socket) {
  const saved = ['before.json', 'after.json'].map((name) => join(forkful.directory, name));
  for (const file of saved) {
    const { stdout } = await forkful.run(['bench', '-c', '2', '-d', '200ms', '--json', '--unix-socket', socket, 'http://localhost/']);
    check('bench', JSON.parse(stdout));
    writeFileSync(file, stdout);
  }
  const search = ['bench', '--search', 'errors<1%', '-d', '100ms', '--rate-max', '20', '-c', '2', '--json', '--unix-socket', socket, 'http://localhost/'];
  check('bench --search', JSON.parse((await forkful.run(search)).stdout));
  // Those of `compare` and `experiment` are checked in page/test/real.test.mjs, which makes such runs anyway.
  check('experiment list', JSON.parse((await forkful.ok(['experiment', 'list', '--json'])).stdout));
  check('compare of reports', JSON.parse((await forkful.run(['compare', ...saved, '--json'])).stdout));
}

/** What is about files. */
async function configurations(forkful, checked) {
  const file = (name, content) => {
    const path = join(forkful.directory, name);
    writeFileSync(path, JSON.stringify(content));
    return path;
  };
  const wanted = { name: 'resting', script: forkful.script(app), autostart: false };
  const config = file('forkful.config.json', { apps: [wanted] });
  await checked('validate', config);
  const wrong = await forkful.fails(['validate', file('wrong.config.json', { apps: [{ ...wanted, kill_timeout: 'soon' }] }), '--json']);
  assert.equal(wrong.code, WRONG_USE);
  check('validate', JSON.parse(wrong.stdout));
  await checked('apply', config, '--dry-run');
  await checked('apply', config);
  const dump = [{ name: wanted.name, pm_exec_path: wanted.script, exec_mode: 'cluster_mode', instances: 1, env: {} }];
  await checked('import', 'pm2', '--file', file('dump.pm2', dump));
  await checked('serve', forkful.directory, '0');
  await forkful.ok(['set', 'module:key', 'value']);
  await checked('get');
  await checked('get', 'module:key');
}
