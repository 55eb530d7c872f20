// Random requests: bodies, queries and paths generated from the schemas of each operation in openapi.json,
// both valid and invalid. The daemon answers each as documented, without an internal error, and keeps
// running.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Contract } from './lib/contract.mjs';
import { Generator } from './lib/generate.mjs';
import { sandbox } from './lib/sandbox.mjs';

const DOCUMENT = JSON.parse(readFileSync(new URL('../../crates/forkful-api/openapi.json', import.meta.url), 'utf8'));
/** Requests of each operation. */
const REQUESTS = 100;
const SEED = 20_261_125;
/** Requests of each operation that starts processes. */
const STARTS = 30;
const STARTING = ['POST /v1/apps', 'POST /v1/apply', 'POST /v1/actions/{verb}'];
/** This operation stops the daemon. */
const LEFT_OUT = ['POST /v1/kill'];
/** Additional values for paths and queries, beyond their schemas. */
const PARTS = ['api', 'all', '0', '4294967296', '%00', '%2e%2e', '%ff', 'a%2Fb', '%7B', 'x'.repeat(500)];

function app({ require, report }) {
  require('http').createServer((_, response) => response.end('ok')).listen(process.env.SOCKET, () => report({ ready: true }));
}

describe('requests from the schemas of openapi.json, right and wrong', () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  /** @type {Contract} */
  let api;
  /** @type {any} */
  let definition;
  before(async () => {
    forkful = await sandbox(null);
    await forkful.start(app, { name: 'api', instances: 1, env: { SOCKET: join(forkful.directory, 'app.sock') } });
    api = new Contract(join(forkful.home, 'forkful.sock'));
    ({ definition } = (await api.ask('GET', '/v1/apps/api')).reply.apps[0]);
  });
  after(() => forkful.close());

  /** Bodies with apps: most definitions are real definitions with a few random keys, so that they pass the first check. */
  function enlivened(body, generator) {
    if (typeof body !== 'object' || body === null) return body;
    const mixed = (given) => {
      if (generator.chance() < 0.2 || typeof given !== 'object' || given === null) return given;
      const some = Object.entries(given).filter(() => generator.chance() < 0.1);
      return { ...definition, instances: 1, ...Object.fromEntries(some), name: generator.one(['api', 'b', 'c d']) };
    };
    const lists = Object.entries(body).filter(([key, value]) => ['apps', 'definitions'].includes(key) && Array.isArray(value));
    const targets = Array.isArray(body.targets) && generator.chance() < 0.7 ? { targets: ['api'] } : {};
    return { ...body, ...targets, ...Object.fromEntries(lists.map(([key, value]) => [key, value.map(mixed)])) };
  }

  /** The path and the query of a request. */
  function place(path, parameters, generator) {
    const text = (parameter) => {
      const value = generator.whole(parameter.schema, parameter.name);
      return generator.chance() < 0.3 ? generator.one(PARTS) : encodeURIComponent(typeof value === 'string' ? value : JSON.stringify(value));
    };
    let real = path;
    const query = [];
    for (const parameter of parameters) {
      if (parameter.in === 'path') real = real.replace(`{${parameter.name}}`, text(parameter) || 'x');
      else if (generator.chance() < 0.6) query.push(`${parameter.name}=${text(parameter)}`);
    }
    return query.length > 0 ? `${real}?${query.join('&')}` : real;
  }

  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const [key, operation] of Object.entries(methods)) {
      const name = `${key.toUpperCase()} ${path}`;
      if (LEFT_OUT.includes(name)) continue;
      test(name, async (t) => {
        const generator = new Generator(DOCUMENT, SEED);
        const schema = operation.requestBody?.content['application/json'].schema;
        const counts = {};
        for (let count = 0; count < (STARTING.includes(name) ? STARTS : REQUESTS); count += 1) {
          const real = place(path, operation.parameters ?? [], generator);
          const body = schema && enlivened(generator.whole(schema), generator);
          const sent = `${key.toUpperCase()} ${real} ${JSON.stringify(body)}`;
          const { response, status } = await api.open(key.toUpperCase(), real, body, { wrong: true }).catch((cause) => { throw new Error(`${sent}: ${cause.message}`, { cause }); });
          response.on('error', () => {}).destroy();
          counts[status] = (counts[status] ?? 0) + 1;
          assert.ok(Number(status) < 500, `${status}: ${sent}`);
        }
        t.diagnostic(JSON.stringify(counts));
        assert.equal((await api.ask('GET', '/v1/ping')).status, '200');
      });
    }
  }
});
