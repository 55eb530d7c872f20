// The examples that users copy: each is started, loaded, reloaded under load and stopped, as its README says.
// No request fails.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { parse, parseAllDocuments } from 'yaml';

import { build, folderOf, lifeOf, packageOf, PATH, singleLifeOf, Traffic } from './lib/examples.mjs';
import { accepts, freePort, get } from './lib/http.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Like `nest start` of @nestjs/cli, which is not one of the example's packages: the app is a child of a shell, and gets the signals from its parent. */
const NEST_START = fileURLToPath(new URL('fixtures/nest-start.mjs', import.meta.url));

test('Express', (t) => lifeOf(t, 'express'));

test('Fastify', (t) => lifeOf(t, 'fastify'));

test('TypeScript without a build', (t) => lifeOf(t, 'typescript'));

test('TypeScript with tsx', (t) => lifeOf(t, 'typescript', { config: 'tsx.config.js' }));

test('TypeScript by `tsx server.ts`, one instance', (t) => singleLifeOf(t, 'typescript', [packageOf('.bin/tsx'), '--', 'server.ts']));

test('NestJS', async (t) => {
  await build('nestjs');
  await lifeOf(t, 'nestjs');
  // `nest start` is a program that starts the app through a shell.
  await t.test('one instance, by a program that has a shell start it', (each) => singleLifeOf(each, 'nestjs', [NEST_START]));
});

const NEXT = { path: '/api/hello', slow: '/api/slow', page: '/' };
test('Next.js', async (t) => {
  await build('nextjs');
  await lifeOf(t, 'nextjs', NEXT);
  await t.test('one instance, by `next start`', (each) => singleLifeOf(each, 'nextjs', [packageOf('.bin/next'), '--', 'start'], NEXT));
});

/** A command with another port for its probes (`9640`, `:9640`), and time for a busy machine. */
const adapted = (command, port) => command.map((word, n) => ({
  '--probes': word.replace(/\d+$/, String(port)),
  '--kill-timeout': '170s',
})[command[n - 1]] ?? word);

/** Runs a container's command on free ports, and waits until its probe `path` succeeds. */
async function container(t, forkful, command, name, path) {
  const [port, probes] = [await freePort(), await freePort()];
  assert.equal(command[0], 'forkful');
  // Each container has separate files.
  const env = { PATH, PORT: String(port), NODE_ENV: 'production', FORKFUL_HOME: join(forkful.directory, name) };
  const running = forkful.spawn(adapted(command, probes).slice(1), { cwd: folderOf('docker'), env });
  const asked = async (where) => (await get(probes, where)).status;
  await waitUntil(`${name} to be ready`, async () => await asked(path) === 200);
  return { running, port, asked };
}

test('Docker: the command of the image serves, and SIGTERM ends it cleanly', async (t) => {
  const lines = readFileSync(join(folderOf('docker'), 'Dockerfile'), 'utf8').split('\n');
  const command = JSON.parse(lines.find((line) => line.startsWith('CMD ['))?.slice(4) ?? 'null');
  const check = lines.findLast((line) => line.includes('fetch(')) ?? '';
  const forkful = await sandbox(t, 24);
  const { running, port, asked } = await container(t, forkful, command, 'container', '/readyz');
  const [, path] = /http:\/\/127\.0\.0\.1:9640(\/\w+)/.exec(check) ?? [];
  assert.equal(await asked(path), 200, 'the health check of the image');
  const traffic = new Traffic(t, port);
  await traffic.answeredBy([]);
  await traffic.settle();
  running.child.kill('SIGTERM');
  const { code, signal, stderr } = await running.outcome;
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr);
  assert.doesNotMatch(stderr, /SIGKILL/);
  assert.equal(await accepts({ host: '127.0.0.1', port }), false);
});

test('Kubernetes: a rolling update by the probes of the manifest loses no request', async (t) => {
  const manifest = (name) => readFileSync(join(folderOf('kubernetes'), name), 'utf8');
  const deployment = parse(manifest('deployment.yaml'));
  const [service] = parseAllDocuments(manifest('service.yaml')).map((document) => document.toJS());
  const { template, selector } = deployment.spec;
  const [{ command, startupProbe, readinessProbe, livenessProbe, ports }] = template.spec.containers;
  assert.deepEqual(selector.matchLabels, template.metadata.labels);
  assert.deepEqual(service.spec.selector, template.metadata.labels);
  assert.ok(ports.some(({ name }) => name === service.spec.ports[0].targetPort));
  assert.equal(command.at(command.indexOf('--probes') + 1), `:${ports.find(({ name }) => name === readinessProbe.httpGet.port).containerPort}`);

  const forkful = await sandbox(t, 24);
  const old = await container(t, forkful, command, 'old', startupProbe.httpGet.path);
  const before = new Traffic(t, old.port);
  await before.answeredBy([]);
  const next = await container(t, forkful, command, 'next', readinessProbe.httpGet.path);
  assert.equal(await next.asked(livenessProbe.httpGet.path), 200);
  const after = new Traffic(t, next.port);
  old.running.child.kill('SIGTERM');
  // The service removes the pod when it is not ready, and some requests still arrive.
  await waitUntil('the old pod to be taken out', async () => await old.asked(readinessProbe.httpGet.path) === 503);
  await before.settle();
  const { code, stderr } = await old.running.outcome;
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /SIGKILL/);
  await after.answeredBy([]);
  await after.settle();
  next.running.child.kill('SIGTERM');
  assert.equal((await next.running.outcome).code, 0);
});
