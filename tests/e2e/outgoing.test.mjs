// Connections that workers open to a database, with the real `pg`: they are counted by host and worker; a database that
// refuses some is named by `doctor`, and `tune` stays within its places.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { printsLike } from './lib/elsewhere.mjs';
import { freePort, get } from './lib/http.mjs';
import { nodeBinary } from './lib/nodes.mjs';
import { checkOutput } from './lib/outputs.mjs';
import { postgres } from './lib/postgres.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** An app with a pool of 10 connections, all of which are in use at `/fill`. */
function app({ require }) {
  const { Pool } = require(`${process.env.MODULES}/pg`);
  const pool = new Pool({ host: process.env.DB_HOST, port: Number(process.env.DB_PORT), user: 'app', max: 10, idleTimeoutMillis: 0 });
  pool.on('error', () => {});
  const answer = (response, asked) => asked.then(
    () => response.end('done'),
    (error) => response.writeHead(503).end(`${error.code}`),
  );
  require('http').createServer((request, response) => {
    const queries = request.url === '/fill' ? 10 : 1;
    answer(response, Promise.all(Array.from({ length: queries }, () => pool.query('SELECT 42 AS answer'))));
  }).listen(process.env.PORT);
}

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));
const environment = (database, rest) => ({ MODULES, DB_HOST: 'localhost', DB_PORT: String(database.port), ...rest });

test('a database with 40 places and workers with pools of 10: the connections are shown, and the doctor names host and count', async (t) => {
  const database = await postgres(t, { places: 40, queryMs: 5 });
  const forkful = await sandbox(t);
  const port = await freePort();
  const host = `localhost:${database.port}`;
  await forkful.start(app, { name: 'shop', instances: 4, env: environment(database, { PORT: String(port) }) });
  const view = async () => JSON.parse((await forkful.ok(['describe', 'shop', '--json'])).stdout).apps[0];

  const isLoaded = { now: true };
  const load = (async () => {
    while (isLoaded.now) await Promise.all(Array.from({ length: 12 }, () => get(port, '/fill').catch(() => {})));
  })();
  t.after(async () => {
    isLoaded.now = false;
    await load;
  });
  await waitUntil('all places taken', () => database.open === 40);
  assert.equal(database.refused, 0);
  await forkful.ok(['scale', 'shop', '6']);
  const full = await waitUntil('a refusal', async () => {
    const { outgoing = [], workers } = await view();
    const [of] = outgoing;
    return of?.refused > 0 && of.limit === 40 && { of, workers };
  });
  assert.equal(full.of.host, host);
  assert.equal(full.of.most, 10);
  // One that is about to be refused is there for a moment, too.
  assert.ok(full.workers.reduce((sum, { outgoing = [] }) => sum + (outgoing[0]?.connections ?? 0), 0) >= 40, JSON.stringify(full));
  assert.equal(database.most, 40);

  const [json, shown] = await Promise.all([['--json'], []].map((more) => forkful.ok(['doctor', 'shop', ...more, '--for', '10s'])));
  const report = JSON.parse(json.stdout).apps[0];
  assert.equal(report.verdict, 'connection-limit', JSON.stringify(report));
  assert.equal(report.headline, `shop is refused connections by ${host}, which takes 40 of this app (certain)`);
  assert.deepEqual([report.host.host, report.host.limit, report.host.most], [host, 40, 10]);
  assert.equal(report.command, 'forkful scale shop 4');
  printsLike('DOCTOR.md', 'shop is refused', shown.stdout, { names: { 'db:5432': host } });

  const described = (await forkful.ok(['describe', 'shop'])).stdout;
  assert.match(described, new RegExp(`outgoing +${host}: \\d+ connections of \\d workers, at most 10 of one; it refused \\d+, with 40 open`));
  const page = (await forkful.ok(['metrics', 'shop'])).stdout;
  const samples = [...page.matchAll(new RegExp(`^forkful_outgoing_connections\\{app="shop",worker="\\d",host="${host}"\\} (\\d+)(\\.0)?$`, 'gm'))];
  assert.ok(samples.reduce((sum, [, value]) => sum + Number(value), 0) >= 40, page);
  assert.match(page, /^forkful_outgoing_refused_total\{app="shop",worker="[45]"\} [1-9]/m);
  const listed = await forkful.jlist('shop');
  assert.ok(listed.some(({ outgoing = [] }) => outgoing.some((one) => one.host === host && one.connections === 10)));

  // With the advice followed, nothing is refused any more.
  isLoaded.now = false;
  await load;
  await forkful.ok(['scale', 'shop', '4']);
  const before = database.refused;
  await Promise.all(Array.from({ length: 40 }, () => get(port, '/fill')));
  assert.equal(database.refused, before);
});

/**
 * What `tune` finds for the app above. The budget has room for a slow machine: the race is over when one number of workers is left,
 * and never uses it up.
 */
async function tune(forkful, database, workers) {
  const outcome = await forkful.spawn([
    'tune', forkful.script(app), '--path', '/fill', '--workers', workers, '--pools', '4', '-c', '24', '--budget', '15m', '--seed', '1', '--json',
    '--interpreter', nodeBinary(forkful.major),
  ], { env: environment(database) }).outcome;
  assert.match(outcome.stdout, /^\{/, outcome.stderr);
  const document = JSON.parse(outcome.stdout);
  checkOutput('tune', document);
  return document;
}

// Two workers already want too much, whatever number of cores the machine has.
test('tune stays within the 15 places of a database', async (t) => {
  const database = await postgres(t, { places: 15, queryMs: 5 });
  const found = await tune(await sandbox(t), database, '1,2');
  const host = `localhost:${database.port}`;
  const told = JSON.stringify(found);
  assert.ok(database.refused > 0, 'two workers want 20');
  assert.ok(database.most <= 15);
  assert.deepEqual(found.refused.map((one) => one.workers), [2], told);
  assert.equal(found.refused[0].host.host, host);
  assert.equal(found.choice.workers, 1, told);
  assert.equal(found.table.find((row) => row.workers === 2)?.chosen ?? false, false);
  assert.match(found.details.join('\n'), new RegExp(`2 workers or more are never chosen: ${host} refused \\d+ connections?`));
});
