// What commands print with `--json` is as docs/output.schema.json says, which is made from their types.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import Ajv2020 from 'ajv/dist/2020.js';

import { get } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const read = (path) => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8');
const SCHEMA = JSON.parse(read('output.schema.json'));

/** Widths of numbers, which the schemas bound themselves. */
const FORMATS = Object.fromEntries(['int32', 'uint', 'uint16', 'uint32', 'uint64', 'float', 'double'].map((name) => [name, true]));

/** Commands whose output is not typed in the document: those of load tests, and those that print configurations or lines of logs. */
const ELSEWHERE = ['bench', 'compare', 'experiment', 'get', 'import', 'logs', 'serve', 'tune', 'validate'];

/** An object's schema that says nothing of other keys allows none, so that an output with a key that is not described fails. */
function closed(schema) {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isObject = copy.type === 'object' && typeof copy.properties === 'object' && copy.additionalProperties === undefined;
  return isObject ? { ...copy, unevaluatedProperties: false } : copy;
}

const ajv = new Ajv2020({ strict: false, allErrors: true, formats: FORMATS });
ajv.addSchema(closed(SCHEMA), 'outputs');

/** Fails unless a command's output is as its schema says. */
function check(command, output) {
  const validate = ajv.getSchema(`outputs#/properties/${encodeURIComponent(command)}`);
  assert.ok(validate, `the document has no ${command}`);
  assert.ok(validate(output), `forkful ${command}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(output).slice(0, 3000)}`);
}

/** Blocks its event loop at `/block`, and throws at `/crash`. */
function app({ require }) {
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

test('the document has each command that prints JSON, or this test names why not', () => {
  const documented = read('CLI.md').split(/^### forkful /m).slice(1)
    .filter((section) => /^\| `--json`/m.test(section))
    .map((section) => section.split(/\s/, 1)[0]);
  const described = Object.keys(SCHEMA.properties).map((name) => name.split(' ')[0]);
  assert.deepEqual([...new Set([...described, ...ELSEWHERE])].sort(), [...new Set([...documented, 'jlist'])].sort());
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
  for (const [command, ...args] of [
    ['list'], ['describe', 'api'], ['stalls', 'api'], ['doctor', 'api', '--for', '10s'], ['env', 'api'], ['ping'], ['dashboard'],
    ['scale', 'api', '3'], ['reload', 'api'], ['restart', 'api'], ['reset', 'api'], ['flush', 'api'], ['reloadLogs'], ['signal', 'SIGCONT', 'api'],
    ['save'], ['stop', 'api'], ['list'], ['describe', 'api'], ['start', 'api'], ['delete', 'api'], ['resurrect'], ['cleardump'],
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
  await checked('kill');
});
