// The agent on every supported Node version, against a primary that is this test: what it tells, and that the app never notices that it is there.
// drain.test.mjs is about drains.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { MAJORS } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil, within } from '../../tests/e2e/lib/wait.mjs';
import { SERVER, client, connect, directory, launch, serve, sync } from './lib/worker.mjs';

const HOUR_MS = 3_600_000;

/** The rows of docs/METRICS.md that agents measure: their names. */
const METRICS = [...readFileSync(new URL('../../docs/METRICS.md', import.meta.url), 'utf8').matchAll(/^\| `(\w+)` \|.*\| agent \|/gm)].map(([, name]) => name);
/** What the daemon makes of counters and histograms of two reports. */
const DERIVED = /_per_s$|^http_latency_|^http_requests_total$|^gc_/;

for (const major of MAJORS) {
  describe(`on Node ${major}`, { concurrency: 4 }, () => {
    test('tells when prom-client asks a worker for the workers, and leaves the app what it has', async (t) => {
      const script = join(directory, `workers-${major}.cjs`);
      await writeFile(script, `
        const cluster = require('cluster');
        function clusterMetrics() { return typeof cluster.workers; }
        const seen = [Object.keys(cluster).includes('workers'), cluster.workers, clusterMetrics(), 'workers' in cluster];
        cluster.workers = { of: 'the app' };
        seen.push(cluster.workers.of);
        process.send({ seen });
        process.disconnect();
      `);
      const inCluster = launch(t, major, script, [], { NODE_UNIQUE_ID: '1' });
      const { seen } = await inCluster.heard('what it saw', (m) => m.seen);
      assert.deepEqual(seen, [false, null, 'undefined', false, 'the app']);
      await inCluster.exited;
      assert.equal(inCluster.internal.filter((m) => m.act === 'lacks-workers').length, 1);

      // A plain child process has workers of its own, none.
      const plain = launch(t, major, script);
      assert.deepEqual((await plain.heard('what it saw', (m) => m.seen)).seen.slice(1, 4), [{}, 'object', true]);
      await plain.exited;
      assert.equal(plain.internal.some((m) => m.act === 'lacks-workers'), false);
    });

    test('says hello, and neither the app nor its children see anything of it', async (t) => {
      const script = join(directory, `trace-${major}.cjs`);
      await writeFile(script, `
        const seen = [];
        process.on('message', (m) => { seen.push(m); if (m === 'report') {
          process.send({ seen, execArgv: process.execArgv, argv: process.argv.slice(1), main: require.main === module, node: process.versions.node });
          process.disconnect();
        } });`);
      const worker = launch(t, major, script, ['a', '--b']);
      await waitUntil('hello', () => worker.internal.length > 0);
      worker.drain(0);
      await worker.drained();
      worker.child.send('report');
      const report = await worker.heard('a report', (m) => m.seen);
      assert.deepEqual(report, { seen: ['report'], execArgv: [], argv: [script, 'a', '--b'], main: true, node: report.node });
      assert.equal(report.node.split('.')[0], String(major));
      assert.deepEqual(worker.internal[0], { cmd: 'NODE_FORKFUL', act: 'hello', version: 1, can: ['drain', 'report', 'stalls', 'metrics', 'count', 'move', 'echo', 'profile'], node: report.node });
      assert.deepEqual(await within('the exit', worker.exited), [0, null]);
      assert.equal(worker.output, '');
    });

    test('reports requests and the loop while it is asked to, and no longer', async (t) => {
      const worker = await serve(t, major, 'http');
      const { get } = client(t, 'http');
      await get(worker.port, '/now');
      const reports = () => worker.internal.filter((m) => m.act === 'report');
      assert.equal(reports().length, 0);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1 });
      await sync(worker);
      for (let i = 0; i < 3; i += 1) await get(worker.port, '/now');
      const report = await waitUntil('a report', () => reports().find((m) => m.requests === 3));
      assert.ok(reports()[0].values.heap_used_bytes > 0, 'the first report comes at once');
      assert.equal('event_loop_utilization' in reports()[0].values, false, 'nothing has been measured by then');
      const sometimes = new Set(['pool_wait_ms', 'event_loop_iterations_total', 'event_loop_active_seconds_total', 'event_loop_idle_seconds_total']);
      const all = METRICS.filter((name) => !DERIVED.test(name));
      for (const name of Object.keys(report.values)) assert.ok(all.includes(name), `${name} is in the table`);
      // Between two reports the loop may not have been late once.
      await waitUntil('all values', () => all.every((name) => sometimes.has(name) || reports().some(({ values }) => name in values)));
      assert.equal(report.latency.length, 26);
      assert.equal(report.latency.slice(0, 25).reduce((sum, count) => sum + count), 3);
      assert.deepEqual([report.values.http_responses_2xx_total, report.gc.length], [3, 32]);
      for (const [name, value] of Object.entries(report.values)) assert.ok(Number.isFinite(value) && value >= 0, `${name}: ${value}`);
      assert.ok(report.values.event_loop_utilization <= 1);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 0 });
      await sync(worker);
      const before = reports().length;
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 'x' });
      await sync(worker);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1 });
      await waitUntil('reports again', () => reports().length > before);
      assert.equal(reports().at(-1).requests, 3, 'the count goes on where it was');
      assert.equal(worker.output, '');
    });

    test('a worker without work reports seldom; the first request and the primary get a report at once', async (t) => {
      const [quiet, awake] = await Promise.all([serve(t, major, 'http'), serve(t, major, 'http')]);
      const reports = (worker) => worker.internal.filter((m) => m.act === 'report');
      // While this one reports at its usual pace, the other one could, too.
      const meanwhile = async () => {
        const before = reports(awake).length;
        await waitUntil('reports of the other worker', () => reports(awake).length > before + 5);
        await sync(quiet);
      };
      awake.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 100, quiet_ms: 0 });
      quiet.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 500, quiet_ms: HOUR_MS });
      await waitUntil('the quiet pace', () => reports(quiet).at(-1)?.quiet === true);
      const seldom = reports(quiet).length;
      await meanwhile();
      assert.equal(reports(quiet).length, seldom);
      const { get } = client(t, 'http');
      await get(quiet.port, '/now');
      const woken = await waitUntil('a report of the request', () => reports(quiet).find((m) => m.requests === 1));
      assert.equal(woken.quiet, undefined);
      await waitUntil('the quiet pace again', () => reports(quiet).at(-1).quiet === true);
      const before = reports(quiet).length;
      await meanwhile();
      assert.equal(reports(quiet).length, before);
      // Without a quiet pace, and the next report is due in an hour.
      quiet.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: HOUR_MS });
      await waitUntil('a report on demand', () => reports(quiet).length === before + 1);
      assert.equal(reports(quiet).at(-1).quiet, undefined);
      assert.ok(reports(awake).every((m) => m.quiet === undefined));
      assert.deepEqual([quiet.output, awake.output], ['', '']);
    });

    test('a process that starts is measured after a while, and its requests count from the first connection on', async (t) => {
      const [asked, left] = [1, 2].map(() => launch(t, major, SERVER, ['http'], { LISTENS_WHEN_TOLD: '1' }));
      const said = (worker, act) => worker.internal.findIndex((message) => message.act === act);
      for (const worker of [asked, left]) {
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1000, quiet_ms: HOUR_MS });
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'echo' });
        worker.child.send('listen');
      }
      const { port } = await asked.heard('a port', (m) => m.port);
      await client(t, 'http').get(port, '/now');
      await waitUntil('reports', () => said(asked, 'report') >= 0 && said(left, 'report') >= 0);
      // What the primary says together comes together; the answer to the second would come later if the first were done at once.
      for (const worker of [asked, left]) assert.ok(said(worker, 'echo') < said(worker, 'report'), JSON.stringify(worker.internal));
      await waitUntil('the request', () => asked.internal.some((message) => message.act === 'report' && message.requests === 1));
    });

    test('a connection that another process hands over is measured from its first request on', async (t) => {
      const script = join(directory, `handed-${major}.cjs`);
      await writeFile(script, `
        const server = require('http').createServer((_request, response) => response.end('now'));
        process.on('message', (message, socket) => { if (socket) server.emit('connection', socket); });`);
      const worker = launch(t, major, script);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 100, quiet_ms: HOUR_MS });
      const giver = net.createServer({ pauseOnConnect: true }, (socket) => worker.child.send('socket', socket)).listen(0, '127.0.0.1');
      t.after(() => giver.close());
      await once(giver, 'listening');
      const { get } = client(t, 'http');
      for (let count = 0; count < 3; count += 1) await get(giver.address().port, '/now');
      const last = () => worker.internal.findLast((message) => message.act === 'report');
      await waitUntil('all requests', () => last()?.values.http_responses_2xx_total === 3);
      assert.equal(last().requests, 3);
    });

    test("the app's own listener for connections hears of each", async (t) => {
      const script = join(directory, `hears-${major}.cjs`);
      await writeFile(script, `
        const onSocket = globalThis.onSocket = () => { onSocket.heard = (onSocket.heard ?? 0) + 1; };
        require('diagnostics_channel').subscribe('net.server.socket', onSocket);
        const server = require('http').createServer((_request, response) => response.end(String(onSocket.heard)));
        server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));`);
      const worker = launch(t, major, script);
      const { port } = await worker.heard('a port', (m) => m.port);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1000, quiet_ms: HOUR_MS });
      for (const expected of ['1', '2', '3']) assert.equal((await client(t, 'http').get(port, '/')).body, expected);
    });

    test('a quiet worker tells another daemon that it is quiet', async (t) => {
      const worker = await serve(t, major, 'http');
      const reports = () => worker.internal.filter((m) => m.act === 'report');
      const ask = (more) => worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 500, quiet_ms: HOUR_MS, ...more });
      ask();
      await waitUntil('the quiet pace', () => reports().at(-1)?.quiet === true);
      for (const more of [{}, { now: true }]) {
        const before = reports().length;
        ask(more);
        await waitUntil('an answer', () => reports().length === before + 1 && reports().at(-1).quiet);
      }
    });

    test('garbage collection is measured', async (t) => {
      const script = join(directory, `garbage-${major}.cjs`);
      await writeFile(script, "process.on('message', () => {}); setInterval(() => { for (let i = 0; i < 1e5; i += 1) globalThis.kept = new Array(10).fill(i); }, 5);");
      const worker = launch(t, major, script);
      await waitUntil('hello', () => worker.internal.length > 0);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1 });
      await waitUntil('a pause', () => worker.internal.some((m) => m.gc?.some((count) => count > 0)));
      assert.equal(worker.output, '');
    });

    test('reports do not keep a process alive', async (t) => {
      const script = join(directory, `reports-${major}.cjs`);
      await writeFile(script, "process.on('message', (m) => { process.send(m); process.disconnect(); });");
      const worker = launch(t, major, script);
      await waitUntil('hello', () => worker.internal.length > 0);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 1 });
      await waitUntil('a report', () => worker.internal.some((m) => m.act === 'report'));
      worker.child.send('end');
      assert.deepEqual(await within('the exit', worker.exited), [0, null]);
      assert.equal(worker.output, '');
    });

    for (const kind of ['http', 'https']) {
      test(`${kind}: kept connections are counted, and as many as wished end with an answer`, async (t) => {
        const worker = await serve(t, major, kind);
        const clients = Array.from({ length: 4 }, () => client(t, kind));
        const all = () => Promise.all(clients.map(({ get }) => get(worker.port, '/now')));
        const counted = () => worker.internal.filter((m) => m.act === 'count').map(({ staying, movable }) => [staying, movable]);
        const count = async () => {
          worker.child.send({ cmd: 'NODE_FORKFUL', act: 'count' });
          await sync(worker);
          return counted().at(-1);
        };
        await all();
        assert.deepEqual(await count(), [0, 0], 'connections are new at the first count');
        assert.deepEqual(await count(), [4, 0], 'unused connections stay, and need not move');
        await all();
        assert.deepEqual(await count(), [4, 4]);
        for (const connections of ['2', -1, 1.5, null]) worker.child.send({ cmd: 'NODE_FORKFUL', act: 'move', connections });
        for (let n = 0; n < 3; n += 1) assert.deepEqual((await all()).filter(({ connection }) => connection === 'close'), []);
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'move', connections: 2 });
        await sync(worker);
        const answers = [];
        for (let n = 0; n < 4; n += 1) answers.push(...await all());
        assert.deepEqual(answers.map(({ body }) => body), Array(16).fill('now'));
        assert.equal(answers.filter(({ connection }) => connection === 'close').length, 2);
        // What is left of a wish ends with the next count.
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'move', connections: 4 });
        await count();
        for (let n = 0; n < 3; n += 1) assert.deepEqual((await all()).filter(({ connection }) => connection === 'close'), []);
        assert.equal(worker.output, '');
      });
    }

    test('a connection that has pipelined requests or requests with bodies does not move', async (t) => {
      const worker = await serve(t, major, 'http');
      const requests = {
        pipelined: 'GET /now HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2),
        body: 'POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy',
        chunked: 'POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n',
      };
      for (const [name, text] of Object.entries(requests)) {
        const kept = await connect(t, worker.port);
        const answers = (count) => waitUntil('the answers', () => kept.text.split('HTTP/1.1 200').length - 1 >= count);
        const each = name === 'pipelined' ? 2 : 1;
        kept.socket.write(text);
        await answers(each);
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'count' });
        worker.child.send({ cmd: 'NODE_FORKFUL', act: 'move', connections: 9 });
        await sync(worker);
        for (let n = 2; n < 6; n += 1) {
          kept.socket.write(text);
          await answers(n * each);
        }
        assert.doesNotMatch(kept.text, /connection: close/i, name);
        assert.ok(!kept.ended && !kept.error, name);
      }
    });

    test('a plain process is lent its socket, serves connections that are handed over, and tells of its close', async (t) => {
      const script = join(directory, `lent-${major}.cjs`);
      await writeFile(script, `
        const server = require('http').createServer((_request, response) => response.end('of the app'));
        server.listen(1, () => process.send({ address: server.address(), lends: process.env.FORKFUL_LENDS }));
        process.send({ early: [server.listening, server.address()] });
        process.on('message', () => server.close(() => process.disconnect()));
      `);
      const ours = net.createServer().listen(0, '127.0.0.1');
      t.after(() => ours.close());
      await once(ours, 'listening');
      const worker = launch(t, major, script, [], { FORKFUL_LENDS: 'ipc:' });
      const query = await waitUntil('a query', () => worker.internal.find((m) => m.act === 'queryServer'));
      assert.deepEqual([query.address, query.port, query.addressType], [null, 1, 4]);
      assert.deepEqual((await worker.heard('what it sees meanwhile', (m) => m.early)).early, [true, { address: '::', family: 'IPv6', port: 1 }]);
      worker.child.send({ cmd: 'NODE_CLUSTER', ack: query.seq, errno: 0, key: 'k', seq: 0 }, ours._handle);
      const { address, lends } = await worker.heard('its address', (m) => m.address);
      assert.deepEqual([address, lends], [ours.address(), undefined]);
      await waitUntil('the word that it listens', () => worker.internal.find((m) => m.act === 'listening'));

      // A connection that the primary has accepted.
      const other = net.createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
      t.after(() => other.close());
      await once(other, 'listening');
      const answer = new Promise((resolve, reject) => {
        http.get({ port: other.address().port, host: '127.0.0.1', headers: { connection: 'close' } }, (response) => response.setEncoding('utf8').on('data', resolve)).on('error', reject);
      });
      const [socket] = await once(other, 'connection');
      worker.child.send({ cmd: 'NODE_CLUSTER', act: 'newconn', key: 'k', seq: 7 }, socket._handle);
      assert.equal(await within('the answer', answer), 'of the app');
      assert.equal((await waitUntil('the word that it took it', () => worker.internal.find((m) => m.ack === 7))).accepted, true);
      socket.destroy();

      worker.child.send('close');
      await waitUntil('the word that it has closed', () => worker.internal.find((m) => m.act === 'close' && m.key === 'k'));
      assert.deepEqual(await within('the exit', worker.exited), [0, null]);
    });

    test('workers of an app that share a socket (SCHED_NONE) get one that is lent, and connections that are handed over', async (t) => {
      const script = join(directory, `shared-${major}.cjs`);
      await writeFile(script, `
        const { join } = require('path');
        const cluster = require('cluster');
        cluster.schedulingPolicy = cluster.SCHED_NONE;
        if (cluster.isPrimary) {
          const tell = (message) => { for (const worker of Object.values(cluster.workers)) worker.send(message); };
          cluster.on('listening', (worker, { port }) => process.send({ listens: worker.id, port }));
          cluster.on('message', (_worker, message) => process.send(message));
          cluster.on('exit', () => { if (Object.keys(cluster.workers).length === 0) process.disconnect(); });
          process.on('message', tell);
          for (let n = 0; n < 2; n += 1) cluster.fork();
        } else {
          const server = require('http').createServer((_request, response) => response.end(String(cluster.worker.id)));
          server.listen(Number(process.argv[2]), '127.0.0.1');
          require('net').createServer().listen(join(require('os').tmpdir(), \`forkful-shared-\${process.pid}.sock\`), function () { this.close(); });
          process.on('message', (wish) => {
            if (wish === cluster.worker.id) server.close(() => process.send({ closed: wish }));
            if (wish === 'end') process.disconnect();
          });
        }
      `);
      const ours = net.createServer().listen(0, '127.0.0.1');
      t.after(() => ours.close());
      await once(ours, 'listening');
      const { port } = ours.address();
      // Workers have the agent, too.
      const worker = launch(t, major, script, [String(port)], { FORKFUL_LENDS: `ipc:${join(directory, 'lends.sock')}` });
      const query = await waitUntil('a query', () => worker.internal.find((m) => m.act === 'queryServer'));
      assert.deepEqual([query.address, query.port, query.addressType], ['127.0.0.1', port, 4]);
      worker.child.send({ cmd: 'NODE_CLUSTER', ack: query.seq, errno: 0, key: 'k', seq: 0 }, ours._handle);
      for (const id of [1, 2]) await worker.heard('that it listens', (m) => m.listens === id);
      assert.equal(worker.internal.filter((m) => m.act === 'queryServer').length, 1);
      await waitUntil('the word that they listen', () => worker.internal.find((m) => m.act === 'listening'));

      ours.close();
      const answer = (to) => new Promise((resolve, reject) => {
        http.get({ port: to, host: '127.0.0.1', headers: { connection: 'close' } }, (response) => response.setEncoding('utf8').on('data', resolve)).on('error', reject);
      });
      assert.match(await within('an answer', answer(port)), /^[12]$/);

      const other = net.createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
      t.after(() => other.close());
      await once(other, 'listening');
      let seq = 10;
      const hand = async () => {
        const coming = answer(other.address().port);
        const [socket] = await once(other, 'connection');
        seq += 1;
        worker.child.send({ cmd: 'NODE_CLUSTER', act: 'newconn', key: 'k', seq }, socket._handle);
        const text = await within('the answer', coming);
        socket.destroy();
        return text;
      };
      assert.deepEqual([await hand(), await hand()].sort(), ['1', '2']);
      worker.child.send(1);
      await worker.heard('that one has closed its server', (m) => m.closed === 1);
      assert.deepEqual([await hand(), await hand()], ['2', '2']);

      worker.child.send({ cmd: 'NODE_CLUSTER', act: 'disconnect' });
      await waitUntil('the word that they have closed', () => worker.internal.find((m) => m.act === 'close' && m.key === 'k'));
      worker.child.send('end');
      assert.deepEqual(await within('the exit', worker.exited), [0, null]);
      assert.equal(worker.output, '');
    });

    test("a worker of the app's own cluster answers all pipelined requests in a drain", async (t) => {
      const script = join(directory, `pipelined-${major}.cjs`);
      await writeFile(script, `
        const cluster = require('cluster');
        if (cluster.isPrimary) {
          const worker = cluster.fork();
          cluster.on('message', (_worker, message) => process.send(message));
          cluster.on('listening', () => process.send('listens'));
          process.on('message', (message) => worker.send(message));
        } else {
          const waiting = [];
          const server = require('http').createServer((request, response) => {
            waiting.push(() => response.end(request.url));
            if (waiting.length === 3) process.send('has all');
          });
          server.listen(Number(process.argv[2]), '127.0.0.1');
          process.on('internalMessage', ({ act }) => { if (act === 'drain') setImmediate(() => process.send('drains')); });
          process.on('message', () => { for (const answer of waiting) answer(); });
        }
      `);
      const ours = net.createServer().listen(0, '127.0.0.1');
      t.after(() => ours.close());
      await once(ours, 'listening');
      const { port } = ours.address();
      const worker = launch(t, major, script, [String(port)], { FORKFUL_LENDS: `ipc:${join(directory, 'lends.sock')}` });
      const query = await waitUntil('a query', () => worker.internal.find((m) => m.act === 'queryServer'));
      worker.child.send({ cmd: 'NODE_CLUSTER', ack: query.seq, errno: 0, key: 'k', seq: 0 }, ours._handle);
      await worker.heard('that it listens', (m) => m === 'listens');
      ours.close();
      const seen = await connect(t, port);
      for (const path of ['/1', '/2', '/3']) seen.socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      await worker.heard('the requests', (m) => m === 'has all');
      worker.drain(10_000);
      await worker.heard('the drain', (m) => m === 'drains');
      worker.child.send('answer');
      await waitUntil('the end of the connection', () => seen.ended);
      assert.deepEqual(seen.text.match(/\/[123]$|\/[123](?=HTTP)/g), ['/1', '/2', '/3']);
    });

    test('a process that is lent its socket has drained when the connections that are not HTTP have ended, too', async (t) => {
      const script = join(directory, `waits-${major}.cjs`);
      await writeFile(script, `
        const server = require('net').createServer((socket) => socket.on('error', () => {}).pipe(socket));
        server.listen(1, () => process.send('listening'));
      `);
      const ours = net.createServer().listen(0, '127.0.0.1');
      t.after(() => ours.close());
      await once(ours, 'listening');
      const worker = launch(t, major, script, [], { FORKFUL_LENDS: 'ipc:' });
      const query = await waitUntil('a query', () => worker.internal.find((m) => m.act === 'queryServer'));
      worker.child.send({ cmd: 'NODE_CLUSTER', ack: query.seq, errno: 0, key: 'k', seq: 0 }, ours._handle);
      await worker.heard('that it listens', (m) => m === 'listening');
      const { port } = ours.address();
      ours.close();
      const seen = await connect(t, port);
      seen.socket.write('a');
      await waitUntil('an echo', () => seen.text === 'a');
      worker.drain(1);
      seen.socket.write('b');
      await waitUntil('another echo', () => seen.text === 'ab');
      // The drain looks at its connections every 25 ms. By the end of this other process it would have answered, if it did not wait.
      await once(launch(t, major, '-e', ['setTimeout(() => {}, 100)']).child, 'exit');
      seen.socket.end();
      assert.deepEqual(await worker.drained(), { cmd: 'NODE_FORKFUL', act: 'drained', idle: 0, busy: 0 });
    });

    test('what a primary refuses, or says nothing of, a plain process opens itself', async (t) => {
      const script = join(directory, `refused-${major}.cjs`);
      await writeFile(script, `
        const server = require('http').createServer((_request, response) => response.end('of the app'));
        server.on('error', (error) => process.send({ error: error.message }));
        server.listen(Number(process.argv[2]), '127.0.0.1', () => process.send({ address: server.address() }));
        process.on('message', () => server.close(() => process.disconnect()));
      `);
      const taken = net.createServer().listen(0, '127.0.0.1');
      t.after(() => taken.close());
      await once(taken, 'listening');
      const { port } = taken.address();
      const one = launch(t, major, script, [String(port)], { FORKFUL_LENDS: 'ipc:' });
      const query = await waitUntil('a query', () => one.internal.find((m) => m.act === 'queryServer'));
      one.child.send({ cmd: 'NODE_CLUSTER', ack: query.seq, errno: -98, key: 'none', seq: 0 });
      const { error } = await one.heard('the error', (m) => m.error);
      assert.equal(error, `listen EADDRINUSE: address already in use 127.0.0.1:${port}`);
      taken.close();
      await once(taken, 'close');
      const other = launch(t, major, script, [String(port)], { FORKFUL_LENDS: 'ipc:' });
      assert.equal((await other.heard('its address', (m) => m.address)).address.port, port);
      other.child.send('close');
      assert.deepEqual(await within('the exit', other.exited), [0, null]);
      assert.equal(other.internal.some((m) => m.act === 'close' || m.act === 'listening'), false);
    });

    test('an echo comes after the answers to all that was sent before', async (t) => {
      const worker = await serve(t, major, 'http');
      for (const act of ['count', 'echo', 'count', 'echo']) worker.child.send({ cmd: 'NODE_FORKFUL', act });
      await sync(worker);
      const acts = worker.internal.map(({ act }) => act).filter((act) => act === 'count' || act === 'echo');
      assert.deepEqual(acts, ['count', 'echo', 'count', 'echo']);
    });

    test('a script that has nothing to do ends', async (t) => {
      const script = join(directory, `ends-${major}.cjs`);
      await writeFile(script, `
        require('net').createServer().listen(0, function () { this.close(); });
        const { Worker } = require('worker_threads');
        new Worker('require("http").createServer().listen(0, function () { this.close(); })', { eval: true });`);
      const worker = launch(t, major, script);
      assert.deepEqual(await within('the exit', worker.exited), [0, null]);
      assert.equal(worker.output, '');
      assert.equal(worker.internal.filter((m) => m.act === 'hello').length, 1);
    });

    test('streams of HTTP/2 are requests, those of a session before the first report, too', async (t) => {
      const worker = await serve(t, major, 'h2c');
      const session = http2.connect(`http://127.0.0.1:${worker.port}`);
      t.after(() => session.destroy());
      const ask = (path) => once(session.request({ ':path': path }).resume(), 'end');
      await ask('/now');
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 100 });
      await sync(worker);
      await ask('/now');
      const cancelled = session.request({ ':path': '/held' });
      cancelled.on('error', () => {});
      await worker.heard('the request', (m) => m.asked === '/held');
      const last = () => worker.internal.findLast((message) => message.act === 'report');
      await waitUntil('a request in flight', () => last().values.http_in_flight === 1);
      cancelled.close(http2.constants.NGHTTP2_CANCEL);
      await waitUntil('none in flight', () => last().values.http_in_flight === 0);
      const { requests, values, latency } = last();
      assert.deepEqual([requests, values.http_responses_2xx_total, values.http_aborted_total], [2, 1, 1]);
      assert.equal(latency.slice(0, -1).reduce((sum, count) => sum + count), 1);
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 0 });
      await sync(worker);
      await ask('/now');
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 100 });
      await sync(worker);
      assert.equal(last().requests, 2);
      assert.equal(worker.output, '');
    });
  });
}
