// Profiles on every supported Node version: what goes into the stream is a whole CPU profile or heap snapshot, its reader can leave at any moment,
// and neither the app's own sessions nor the stall ledger notice.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { MAJORS } from '../../tests/e2e/lib/nodes.mjs';
import { waitUntil } from '../../tests/e2e/lib/wait.mjs';
import { directory, launch as launchScript, timesRun } from './lib/worker.mjs';

const BUSY = fileURLToPath(new URL('fixtures/busy.cjs', import.meta.url));

const { watchUtilization } = createRequire(import.meta.url)('../reports.cjs');

/** Starts the busy program under the agent. */
const launch = (t, major, { args, execArgv, env } = {}) => launchScript(t, major, BUSY, args, env, execArgv);

let streams = 0;

/** A stream as the daemon makes one: an end for the worker, sent with the order as Node's own handle, and an end to read. */
async function order(t, worker, wish) {
  streams += 1;
  const server = net.createServer();
  server.listen(join(directory, `s${streams}`));
  await once(server, 'listening');
  const theirs = net.connect(server.address());
  const [[ours]] = await Promise.all([once(server, 'connection'), once(theirs, 'connect')]);
  server.close();
  t.after(() => ours.destroy());
  const stream = { socket: ours, bytes: [], ended: once(ours, 'close') };
  ours.on('data', (bytes) => stream.bytes.push(bytes));
  ours.on('error', () => {});
  const taken = () => worker.internal.filter((message) => message.cmd === 'NODE_HANDLE_ACK').length;
  const before = taken();
  worker.child.send({ cmd: 'NODE_FORKFUL', act: 'profile', ...wish }, theirs._handle);
  await waitUntil('the stream arrived', () => taken() > before);
  // Ours is a copy.
  theirs.destroy();
  return stream;
}

/** The parts of a stream that has ended: what each is, and its content. */
function parts(stream) {
  const all = Buffer.concat(stream.bytes);
  const found = [];
  for (let at = 0; at < all.length;) {
    const length = all.readUInt32BE(at + 1);
    found.push({ kind: String.fromCharCode(all[at]), content: all.subarray(at + 5, at + 5 + length) });
    at += 5 + length;
  }
  return found;
}

/** What a whole stream carries. */
async function whole(stream) {
  await stream.ended;
  const all = parts(stream);
  const last = all.pop();
  assert.equal(last?.kind, 'Z', String(last?.content));
  assert.ok(all.every(({ kind }) => kind === 'D'));
  return JSON.parse(Buffer.concat(all.map(({ content }) => content)).toString());
}

/** The reason of a stream that was refused. */
async function refused(stream) {
  await stream.ended;
  const all = parts(stream);
  assert.deepEqual(all.map(({ kind }) => kind), ['E']);
  return all[0].content.toString();
}

for (const major of MAJORS) {
  describe(`Node ${major}`, () => {
    test('a CPU profile has the function that burns', async (t) => {
      const worker = launch(t, major);
      await waitUntil('it burns', () => worker.said.includes('burning'));
      const profile = await whole(await order(t, worker, { kind: 'cpu', for_ms: 1500, interval_us: 500 }));
      const counts = new Map(profile.nodes.map((node) => [node.id, 0]));
      for (const sample of profile.samples) counts.set(sample, counts.get(sample) + 1);
      const of = (name) => profile.nodes.filter(({ callFrame }) => callFrame.functionName === name)
        .reduce((sum, { id }) => sum + counts.get(id), 0);
      const idle = of('(idle)') + of('(program)');
      assert.ok(of('burn') > (profile.samples.length - idle) / 2, `${of('burn')} of ${profile.samples.length - idle}`);
      assert.equal(worker.output, '');
    });

    test('reports say when samples were taken, and frames of the agent say whose they are', async (t) => {
      const worker = launch(t, major, { args: ['briefly'] });
      const last = (isSampled) => waitUntil(`a report, sampled: ${isSampled}`, () => {
        const report = worker.internal.findLast?.((message) => message.act === 'report') ?? worker.internal.filter((message) => message.act === 'report').pop();
        return report && (report.sampled === true) === isSampled;
      });
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'report', every_ms: 100 });
      await last(false);
      const stream = await order(t, worker, { kind: 'cpu', for_ms: 500 });
      await last(true);
      const urls = (await whole(stream)).nodes.map(({ callFrame }) => callFrame.url);
      assert.ok(urls.includes('forkful:profile.cjs'), urls.join());
      assert.ok(!urls.some((url) => /\/agent\/\w+\.cjs$/.test(url)), urls.join());
      await last(false);
    });

    test('a heap snapshot is whole', async (t) => {
      const worker = launch(t, major);
      await waitUntil('it burns', () => worker.said.includes('burning'));
      const { snapshot, nodes, strings } = await whole(await order(t, worker, { kind: 'heap' }));
      assert.equal(nodes.length, snapshot.node_count * snapshot.meta.node_fields.length);
      assert.ok(strings.includes('a text that only the fixture has'));
      // The stream is closed, and the next one begins.
      await whole(await order(t, worker, { kind: 'cpu', for_ms: 10 }));
      assert.equal(worker.output, '');
    });

    test("a CPU profile is refused while the app's coverage is measured, and a heap snapshot is not", async (t) => {
      const folder = mkdtempSync(join(directory, 'coverage-'));
      const worker = launch(t, major, { env: { NODE_V8_COVERAGE: folder } });
      assert.match(await refused(await order(t, worker, { kind: 'cpu', for_ms: 10 })), /coverage of this worker is measured \(NODE_V8_COVERAGE\)/);
      await whole(await order(t, worker, { kind: 'heap' }));
      worker.child.send('end');
      assert.deepEqual(await worker.exited, [0, null]);
      assert.equal(timesRun(folder, BUSY, 'last'), 1);
      assert.equal(worker.output, '');
    });

    test('one at a time, and nothing else', async (t) => {
      const worker = launch(t, major);
      const first = await order(t, worker, { kind: 'cpu', for_ms: 60_000 });
      for (const kind of ['cpu', 'heap', 'cpu']) {
        assert.equal(await refused(await order(t, worker, { kind })), 'another profile of this worker is under way');
      }
      first.socket.destroy();
      // Its end is noticed, and then there is room again.
      const again = await waitUntil('room', async () => {
        const next = await order(t, worker, { kind: 'cpu', for_ms: 10 });
        await next.ended;
        return parts(next)[0]?.kind === 'D' && next;
      });
      await whole(again);
      for (const wish of [{ kind: 'other' }, {}]) assert.match(await refused(await order(t, worker, wish)), /takes no such profile/);
      assert.equal(worker.output, '');
    });

    test('a reader of a heap snapshot that leaves harms nobody', async (t) => {
      const worker = launch(t, major);
      await waitUntil('it burns', () => worker.said.includes('burning'));
      const stream = await order(t, worker, { kind: 'heap' });
      await once(stream.socket, 'data');
      stream.socket.destroy();
      await whole(await order(t, worker, { kind: 'cpu', for_ms: 10 }));
      assert.equal(worker.output, '');
    });

    test('a process that has nothing left to do ends, with its profile cut off', async (t) => {
      const worker = launch(t, major, { args: ['briefly'] });
      const stream = await order(t, worker, { kind: 'cpu', for_ms: 60_000 });
      worker.child.send('end');
      assert.deepEqual(await worker.exited, [0, null]);
      await stream.ended;
      assert.deepEqual(parts(stream), []);
    });

    test("the app's own session and the stall ledger go on", async (t) => {
      const worker = launch(t, major, { args: ['session'] });
      await waitUntil('it burns', () => worker.said.includes('burning'));
      worker.child.send({ cmd: 'NODE_FORKFUL', act: 'stalls', min_ms: 40 });
      const named = () => worker.internal.filter(({ act }) => act === 'stalls').flatMap(({ stalls }) => stalls)
        .filter((stall) => stall.function?.startsWith('burn')).length;
      await waitUntil('stalls are named', () => named() > 0);
      const stream = await order(t, worker, { kind: 'cpu', for_ms: 3000 });
      const before = named();
      await waitUntil('stalls are named during a profile', () => named() > before);
      await whole(stream);
      const later = named();
      await waitUntil('stalls are named after a profile', () => named() > later);
      worker.child.send('session');
      const { profiled } = await waitUntil("the app's profile", () => worker.said.find((message) => message.profiled));
      assert.ok(profiled.includes('burn'), String(profiled));
      assert.equal(worker.output, '');
    });
  });
}

test('time in which samples have made the loop seem busy counts as idle', () => {
  const sampling = { open: 0, wasOpen: false };
  const delay = { share: 0, lateShare() { return this.share; } };
  const loop = { active: 1000, idle: 1000 };
  const of = ({ active, idle }) => ({ active, idle, utilization: active + idle > 0 ? active / (active + idle) : 0 });
  const performance = {
    nodeTiming: {},
    eventLoopUtilization: (now, before) => of(before ? { active: now.active - before.active, idle: now.idle - before.idle } : loop),
  };
  const meter = watchUtilization({ performance }, { sampling }, delay);
  /** Milliseconds after a period that the loop tells of so, in which it was late for this share. */
  const counted = (active, idle, lateShare = 0) => {
    loop.active += active;
    loop.idle += idle;
    delay.share = lateShare;
    const values = meter.read((active + idle) / 1000);
    return [values.event_loop_active_seconds_total, values.event_loop_idle_seconds_total].map((seconds) => Math.round(seconds * 1000));
  };
  assert.deepEqual(counted(0, 0), [1000, 1000]);
  assert.deepEqual(counted(400, 600), [1400, 1600], 'without samples, as the loop tells');
  sampling.wasOpen = true;
  // So long that the CPU time of this test is less.
  assert.deepEqual(counted(900_000, 100_000, 0.5), [501_400, 501_600], 'late for half of the time');
  assert.deepEqual(counted(400, 600), [501_800, 502_200]);
  sampling.wasOpen = true;
  const [active, idle] = counted(900_000, 100_000);
  assert.equal(active + idle, 2_004_000, 'no time is lost');
  assert.ok(active >= 501_800 && active < 1_000_000, 'the CPU time of this test');
  sampling.wasOpen = true;
  assert.equal(counted(1000, 0, 2)[0], active + 1000, 'never busier than the loop tells');
});
