// Alerts with real workers: a burst results in one alert, and a receiver that does not answer does no harm.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';

import { NEWEST, nodeBinary } from './lib/nodes.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** A server for alerts; returns the posted alerts and its URL. */
async function receiver(t, answer = (response) => response.end()) {
  const posts = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (part) => { text += part; }).on('end', () => {
      posts.push(JSON.parse(text));
      answer(response);
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { posts, url: `http://127.0.0.1:${port}/hook?key=of-nobody` };
}

/** Starts an app that crashes repeatedly until it is given up, or serves if SERVES is set. */
async function start(forkful, name, alerts) {
  const script = forkful.script(({ require }) => {
    if (process.env.SERVES) require('http').createServer((_request, response) => response.end()).listen(0);
    else throw new Error('never');
  });
  const config = join(forkful.directory, `${name}.json`);
  const app = { name, script, instances: 1, interpreter: nodeBinary(NEWEST), max_restarts: 6, min_uptime: '10m', listen_timeout: '100s', env: { PAGER_TOKEN: 'of-the-pager' }, exp_backoff_restart_delay: 10, alerts };
  writeFileSync(config, JSON.stringify({ apps: [app] }));
  await forkful.fails(['start', config]);
}

const incidents = async (forkful) => JSON.parse((await forkful.ok(['events', '--json'])).stdout).incidents;

/** Waits until an app is given up. */
const givenUp = (forkful, name) => waitUntil(`${name} to be given up`, async () => (
  (await incidents(forkful)).some(({ app, kind }) => app === name && kind === 'crash_loop')));

test('a webhook gets one alert of each kind for a burst of crashes', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const { posts, url } = await receiver(t);
  await start(forkful, 'loop', { webhook: url, on: ['crash', 'crash_loop'] });
  await givenUp(forkful, 'loop');
  await waitUntil('both alerts', () => posts.length >= 2);
  // An alert of another app follows all alerts of this app.
  await start(forkful, 'other', url);
  await waitUntil('the alert of the other app', () => posts.some(({ app }) => app === 'other'));
  const told = posts.filter(({ app }) => app === 'loop');
  assert.deepEqual(told.map(({ kind }) => kind).sort(), ['crash', 'crash_loop']);
  const of = (await incidents(forkful)).filter(({ app }) => app === 'loop');
  assert.deepEqual(of.map(({ kind }) => kind).sort(), [...Array(5).fill('crash'), 'crash_loop'], JSON.stringify(of));
  const [{ text, host, left_out: leftOut, stderr_tail: tail, end }] = told;
  assert.ok(text.startsWith('loop, worker 0, on ') && text.includes('Error: never'), text);
  assert.deepEqual([leftOut, end.exit_code, typeof host], [0, 1, 'string']);
  assert.ok(tail.includes('Error: never'), JSON.stringify(tail));
  const described = (await forkful.ok(['describe', 'loop', '--json'])).stdout;
  assert.ok(!described.includes('of-nobody'), 'who knows the URL may post there');
});

test('a command gets the alert on stdin, with the environment of the app', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const out = join(forkful.directory, 'alert.json');
  await start(forkful, 'loop', { command: ['/bin/sh', '-c', `cat > ${out}.draft && mv ${out}.draft ${out}`], on: 'crash_loop' });
  const alert = await waitUntil('the alert', () => {
    try {
      return JSON.parse(readFileSync(out, 'utf8'));
    } catch {
      return false;
    }
  });
  assert.deepEqual([alert.app, alert.kind, alert.next], ['loop', 'crash_loop', 'given up: 6 unstable exits in 62 min']);
});

test('an alert that did not arrive is told with the reason, and counted in the next one', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const [out, ready] = ['alert.json', 'ready'].map((name) => join(forkful.directory, name));
  const deliver = `test -e ${ready} || { echo "no route to the pager with $PAGER_TOKEN" >&2; exit 7; }; cat > ${out}.draft && mv ${out}.draft ${out}`;
  await start(forkful, 'loop', { command: ['/bin/sh', '-c', deliver], on: 'crash_loop' });
  await waitUntil('the reason', () => (
    readFileSync(join(forkful.home, 'daemon.log'), 'utf8')
      .includes('loop: an alert did not reach its command: its command ended with code 7: no route to the pager with [redacted]')));
  writeFileSync(ready, '');
  // Five minutes are the usual pause.
  const loops = async () => (await incidents(forkful)).filter(({ kind }) => kind === 'crash_loop').length;
  await waitUntil('the next alert', async () => {
    const before = await loops();
    await forkful.fails(['restart', 'loop']);
    await waitUntil('the app to be given up again', async () => await loops() > before);
    return existsSync(out);
  });
  const { kind, left_out: leftOut } = JSON.parse(readFileSync(out, 'utf8'));
  assert.equal(kind, 'crash_loop');
  assert.ok(leftOut >= 1, `${leftOut} before it`);
});

test('a command that hangs and a server that does not answer harm nothing', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const { posts, url } = await receiver(t, () => {});
  await start(forkful, 'loop', { command: 'sleep 86399', webhook: url, timeout: '1s' });
  await givenUp(forkful, 'loop');
  await waitUntil('the post', () => posts.length > 0);
  // The daemon continues, and both deliveries are given up.
  await forkful.ok(['list']);
  const log = () => readFileSync(join(forkful.home, 'daemon.log'), 'utf8');
  await waitUntil('both to be given up', () => (
    /an alert did not reach its command: its command did not end within 1000 ms/.test(log())
    && /an alert did not reach its webhook: no answer within 1000 ms/.test(log())));
  await waitUntil('the command to be gone', () => forkful.processes('86399').length === 0);
  assert.ok(!log().includes('of-nobody'));
});

test('a URL that is neither https nor of this machine is refused', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const config = join(forkful.directory, 'bad.json');
  writeFileSync(config, JSON.stringify({ apps: [{ name: 'bad', script: forkful.script(() => {}), alerts: 'http://example.com/' }] }));
  const { stderr } = await forkful.fails(['start', config]);
  assert.match(stderr, /alerts/);
});
