// The storm of `dev/chaos`: first tests that its ledger finds every planted mistake, then runs a short storm,
// after which every request must be accounted for.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { judge, judgeEnds, judgeLogs, killedForMemory } from './chaos/ledger.mjs';
import { storm } from './chaos/storm.mjs';
import { binary } from './lib/sandbox.mjs';

const COMMAND = fileURLToPath(new URL('../../dev/chaos', import.meta.url));

const KINDS = { new: 4, kept: 6, slow: 3, websocket: 3 };
/** WebSockets keep a leaving worker for most of this time, and these storms should be short. No fault here keeps a worker longer than 2 s. */
const DRAIN_TIMEOUT = '6s';
const FAULTS_OF_A_STORM = 12;
const REQUESTS_WITH_A_PLANT = 300;

const request = (more) => ({ id: 'a', kind: 'new', sentAt: 1_000_000, endedAt: 1_000_100, end: 'answered', ...more });
const cut = (more) => request({ end: 'cut', why: 'reset', ...more });
const verdict = (one, by, faults = []) => {
  const { explained, unaccounted } = judge([one], new Map(by.length ? [['a', by]] : []), faults);
  return unaccounted[0]?.what ?? [...explained.keys()][0];
};
const killed = (pid, at = 1_000_050) => ({ name: 'killed', from: at, until: at, dead: [pid] });
const dropped = { name: 'daemon killed', from: 1_000_050, until: 1_000_060, drops: true };

describe('the ledger of a storm', () => {
  test('a request that was executed once and answered needs no explanation', () => {
    assert.equal(verdict(request(), [7]), undefined);
  });

  test('a request that was executed twice, or answered and not executed, is never explained', () => {
    assert.equal(verdict(request(), [7, 8], [killed(7)]), 'executed 2 times');
    assert.equal(verdict(cut(), [7, 8], [killed(7)]), 'executed 2 times');
    assert.equal(verdict(request(), [], [killed(7)]), 'answered, and not executed');
  });

  test('an answer to another request is never explained', () => {
    assert.equal(verdict(request({ end: 'wrong', why: '200 b 7' }), [7], [killed(7)]), 'wrong (200 b 7), executed');
  });

  test('a refused connection is never explained: the port is open all the time', () => {
    assert.equal(verdict(request({ end: 'refused', why: 'ECONNREFUSED' }), [], [killed(7), dropped]), 'refused (ECONNREFUSED), not executed');
  });

  test('a request that was cut after it began is explained by the death of its own worker alone', () => {
    assert.equal(verdict(cut(), [7], [killed(7)]), 'killed');
    assert.equal(verdict(cut(), [7], [killed(8), dropped]), 'cut (reset), executed');
  });

  test('a worker that was killed for lack of memory is known by its process', () => {
    const said = [
      '1970-01-01T00:16:40.050Z forkful: app worker 1 (process 7): the kernel killed it: its app had used all of its `memory_max` of 1024.0 MiB',
      '1970-01-01T00:16:40.050Z forkful: app worker 1: ended with SIGKILL after 1.1 s',
    ];
    assert.deepEqual(killedForMemory(said), [{ name: 'memory limit, another worker', from: 1_000_050, until: 1_000_050, dead: [7] }]);
    const killed = (why) => killedForMemory([`1970-01-01T00:16:40.050Z forkful: app worker 1 (process 7): killed by Forkful: ${why}`]);
    assert.equal(killed('its event loop stood still for 10.0 s: its app had used 1024.0 MiB of its `memory_max` of 1024.0 MiB').length, 1);
    assert.equal(killed('its event loop did not turn for 10.0 s').length, 0);
    assert.equal(verdict(cut({ heldBy: 7 }), [], killedForMemory(said)), 'memory limit, another worker');
    assert.equal(verdict(cut({ heldBy: 8 }), [], killedForMemory(said)), 'cut (reset), not executed');
  });

  test('a request that was cut before it began is explained by the worker that held its connection', () => {
    assert.equal(verdict(cut({ heldBy: 7 }), [], [killed(7)]), 'killed');
    assert.equal(verdict(cut({ heldBy: 7 }), [], [killed(8), dropped]), 'cut (reset), not executed');
  });

  test('on a new connection, any worker that was killed meanwhile explains it, but none that was killed long before or after', () => {
    assert.equal(verdict(cut(), [], [killed(8)]), 'killed');
    for (const at of [900_000, 1_000_101]) assert.equal(verdict(cut(), [], [killed(8, at)]), 'cut (reset), not executed', `${at}`);
  });

  test('a daemon that hands connections over may take new ones along, and nothing else', () => {
    assert.equal(verdict(cut(), [], [dropped]), 'daemon killed');
    assert.equal(verdict(cut(), [], [{ ...dropped, drops: false }]), 'cut (reset), not executed');
    assert.equal(verdict(cut(), [7], [dropped]), 'cut (reset), executed');
  });

  test('a WebSocket ends with a worker that is told to leave', () => {
    const reload = { name: 'reload', from: 1_000_000, until: Infinity, leaves: true };
    assert.equal(verdict(cut({ kind: 'websocket', heldBy: 7 }), [7], [reload]), 'reload');
    assert.equal(verdict(cut({ kind: 'kept', heldBy: 7 }), [7], [reload]), 'cut (reset), executed');
    // A kept connection ends with it only after a second of silence, and takes no request along that has begun.
    const silent = { kind: 'kept', heldBy: 7, sinceLastMs: 1000 };
    assert.equal(verdict(cut(silent), [], [reload]), 'reload');
    assert.equal(verdict(cut(silent), []), 'cut (reset), not executed');
    assert.equal(verdict(cut(silent), [7], [reload]), 'cut (reset), executed');
    assert.equal(verdict(cut({ ...silent, sinceLastMs: 999 }), [], [reload]), 'cut (reset), not executed');
  });

  test('a reload that was cut off goes on until a later order is done', () => {
    const cutOff = { name: 'reload', from: 900_000, until: 900_010, leaves: true, refused: 'the daemon closed the connection' };
    const scale = { name: 'scale', from: 900_020, until: 900_030, leaves: true };
    const socket = cut({ kind: 'websocket', heldBy: 7 });
    assert.equal(verdict(socket, [], [cutOff]), 'reload');
    assert.equal(verdict(socket, [], [cutOff, { ...scale, refused: 'cut off, too' }]), 'reload');
    assert.equal(verdict(socket, [], [cutOff, scale]), 'cut (reset), not executed');
    assert.equal(verdict(socket, [], [{ ...cutOff, refused: undefined }]), 'cut (reset), not executed');
  });

  test('a worker that handles its stop was told to stop, or was killed', () => {
    const untold = new Set([7, 8]);
    assert.deepEqual(judgeEnds(new Set(), [], []), []);
    assert.deepEqual(judgeEnds(untold, [killed(7), killed(8)], []), []);
    const stuck = '1970-01-01T00:16:40.050Z forkful: app worker 1 (process 8): killed by Forkful: its event loop did not turn for 10.0 s';
    assert.deepEqual(judgeEnds(untold, [killed(7)], [stuck]), []);
    const late = '1970-01-01T00:16:40.050Z forkful: app worker 1: did not end in time and was killed';
    assert.deepEqual(judgeEnds(untold, [killed(7)], [late]), []);
    assert.deepEqual(judgeEnds(untold, [], [late]), ['processes 7, 8 were not told to stop, and 1 were killed because they did not end in time']);
    assert.deepEqual(judgeEnds(untold, [{ name: 'keeper killed', from: 1, until: 1 }], []), []);
  });

  test('each request has one whole line in the log', () => {
    const executions = new Map([['a', [7]], ['b', [8]]]);
    assert.deepEqual(judgeLogs(['executed a .\n', 'executed b .\n'], executions), []);
    assert.deepEqual(judgeLogs(['executed a .\n'], executions), ['b was executed 1 times, and the log has 0 lines of it']);
    // A full disk may lose lines, and nothing else.
    assert.deepEqual(judgeLogs(['executed a .\n'], executions, new Set(['b'])), []);
    assert.deepEqual(judgeLogs(['executed a .\nexecuted a .\n'], executions, new Set(['a', 'b'])), ['a was executed 1 times, and the log has 2 lines of it']);
    assert.deepEqual(judgeLogs(['executed a .\nexecuted a .\nexecuted b .\nexecuted b .\n'], executions, new Set(), new Set(['a'])), ['b was executed 1 times, and the log has 2 lines of it']);
    assert.deepEqual(judgeLogs(['executed b .\n'], executions, new Set(), new Set(['a'])), ['a was executed 1 times, and the log has 0 lines of it']);
    assert.deepEqual(judgeLogs(['executed a .\nexecuted b', ' .\nexecuted b .\n'], executions), ['torn line in the log: executed b', 'torn line in the log:  .']);
  });
});

/** What is said of the requests of an app that makes a mistake, by what makes them: the storm itself, or its command. */
const PLANTS = { lost: /^cut .* executed$/, doubled: /^executed 2 times$/ };
const PLANTS_BY_COMMAND = { mixed: { expected: /^wrong \(200 another/, host: 'forkful' }, unexecuted: { expected: /^answered, and not executed$/, host: 'cluster' } };

for (const [plant, { expected, host }] of Object.entries(PLANTS_BY_COMMAND)) {
  test(`dev/chaos finds an app that makes a mistake, run by ${host}: ${plant}`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'forkful-chaos-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const file = join(directory, 'report.json');
    const run = (minutes) => {
      rmSync(file, { force: true });
      const args = ['--seed', '7', '--minutes', minutes, '--plant', plant, '--against', host, '--faults', 'event loop blocked', '--json', file];
      const { status, stdout, stderr } = spawnSync(COMMAND, args, { encoding: 'utf8', env: { ...process.env, FORKFUL_BIN: binary() } });
      return { status, told: stdout + stderr, report: JSON.parse(readFileSync(file, 'utf8')) };
    };
    // A slow machine needs longer for enough requests.
    let found = run('0.05');
    for (const minutes of ['0.5', '5']) if (found.report.requests < REQUESTS_WITH_A_PLANT) found = run(minutes);
    const { status, told, report: { seed, against, unaccounted } } = found;
    assert.equal(status, 1, told);
    assert.deepEqual({ seed, against }, { seed: 7, against: host });
    assert.ok(unaccounted.length > 0, told);
    for (const { what } of unaccounted) assert.match(what, expected);
  });
}

for (const [plant, expected] of Object.entries(PLANTS)) {
  test(`an app that makes a mistake is found out: ${plant}`, async () => {
    let requests = 0;
    const found = await storm({ seed: 1, plant, kinds: KINDS, names: ['event loop blocked'], goesOn: () => requests < REQUESTS_WITH_A_PLANT, tell: (_fault, count) => { requests = count; } });
    assert.ok(found.unaccounted.length > 0);
    for (const { what } of found.unaccounted) assert.match(what, expected);
  });
}

test('an app that ends without being told to stop is found out', async () => {
  const { ends, unaccounted } = await storm({ seed: 1, plant: 'deaf', kinds: KINDS, drainTimeout: DRAIN_TIMEOUT, names: ['reload'], goesOn: (struck) => struck < 1 });
  assert.match(ends[0] ?? '', /were not told to stop, and 0 were killed/);
  assert.deepEqual(unaccounted, []);
});

for (const [seed, balance] of [[1, 'auto'], [2, 'exact'], [3, 'direct']]) {
  test(`a storm leaves no request over: seed ${seed}, ${balance}`, async () => {
    const { faults, requests, explained, unaccounted, logs, ends } = await storm({ seed, balance, kinds: KINDS, drainTimeout: DRAIN_TIMEOUT, goesOn: (struck) => struck < FAULTS_OF_A_STORM });
    const story = () => JSON.stringify({ unaccounted: unaccounted.slice(0, 5), logs: logs.slice(0, 5), faults }, null, 1);
    assert.equal(faults.length, FAULTS_OF_A_STORM);
    assert.ok(requests.length > 0);
    assert.deepEqual([unaccounted.length, logs.length, ends], [0, 0, []], story());
    for (const name of explained.keys()) assert.ok(faults.some((fault) => name.startsWith(fault.name)), name);
  });
}
