// The daemon is repeatedly killed at random moments while it saves, and each time another daemon restores the
// saved state: all apps exist exactly once, and every acknowledged change is kept. `SAVE_KILLS=1000` is the
// long form; `SAVE_KILLS_SEED` repeats a run as far as the machine's timing does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';

import { binary, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const KILLS = Number(process.env.SAVE_KILLS ?? 20);
const SEED = Number(process.env.SAVE_KILLS_SEED ?? Date.now() % 1_000_000);
const APPS = 20;
/** Concurrent changes. */
const CLIENTS = 3;
/** A kill happens after fewer answered changes than this, and a short delay. */
const ANSWERS_MAX = 8;
const KILL_MS_MAX = 20;
/** Apps that come and go, so that there is something to save. */
const CHANGING_MAX = 12;

/** Numbers from 0 to 1, the same for the same seed (mulberry32). @param {number} seed */
function chance(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {string} name @param {boolean} autostart */
const app = (name, autostart = false) => ({
  name, program: '/bin/sleep', program_args: ['100000'], script: null, args: [], cwd: '/', runtime: 'other',
  mode: 'fork', instances: 1, balance: 'auto', autorestart: true, max_restarts: 3, restart_window_ms: 60_000,
  min_uptime_ms: 0, restart_delay_ms: null, exp_backoff_restart_delay_ms: 250, stop_exit_codes: [],
  wait_ready: false, listen_timeout_ms: null, kill_signal: 15, kill_timeout_ms: 1600, drain_timeout_ms: 9000,
  out_file: null, error_file: null, merge_logs: false, time: false, agent: false, autostart,
  // Enough that a save is more than one page.
  env: { FILLER: 'x'.repeat(2000) },
});

test(`${KILLS} kills of a daemon that saves: no app is lost, none is doubled`, async (t) => {
  const box = await sandbox(t);
  const random = chance(SEED);
  t.diagnostic(`SAVE_KILLS_SEED=${SEED}`);
  const socketPath = join(box.home, 'forkful.sock');

  const ask = (method, path, body) => new Promise((resolve, reject) => {
    const text = body === undefined ? '' : JSON.stringify(body);
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    const request = http.request({ socketPath, path, method, headers, agent: false }, (response) => {
      let received = '';
      response.setEncoding('utf8').on('data', (chunk) => { received += chunk; });
      response.on('error', reject);
      response.on('end', () => {
        try {
          resolve({ status: response.statusCode, body: JSON.parse(received) });
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on('error', reject).end(text);
  });

  const begin = async () => {
    const child = spawn(binary(), ['daemon', '--no-keeper'], { env: box.env, stdio: 'ignore' });
    const ended = once(child, 'exit');
    await waitUntil('the daemon to answer', async () => {
      assert.equal(child.exitCode, null, 'the daemon has ended');
      return (await ask('GET', '/v1/ping').catch(() => null))?.status === 200;
    });
    return { child, ended };
  };

  /** What is certain of the apps that come and go: there, gone, or either. @type {Map<string, 'there' | 'gone' | 'either'>} */
  const known = new Map();
  let created = 0;
  let answered = 0;
  let unanswered = 0;

  const change = async () => {
    const there = [...known].filter(([, state]) => state === 'there').map(([name]) => name);
    const removes = there.length > 0 && (there.length >= CHANGING_MAX || random() < 0.45);
    const name = removes ? there[Math.floor(random() * there.length)] : `changing-${created += 1}`;
    known.set(name, 'either');
    const reply = removes
      ? await ask('POST', '/v1/actions/delete', { targets: [name], wait: true })
      : await ask('POST', '/v1/apps', { apps: [app(name)], wait: true });
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    // A reply may say that the disk is slow, and then nothing is promised.
    if (!reply.body.apps.some(({ notes }) => notes.some((note) => /saved/.test(note)))) {
      known.set(name, removes ? 'gone' : 'there');
      answered += 1;
    }
  };

  const check = async (round) => {
    const names = (await ask('GET', '/v1/apps')).body.apps.map(({ definition }) => definition.name);
    assert.equal(new Set(names).size, names.length, `round ${round}: doubled: ${names}`);
    for (let number = 0; number < APPS; number += 1) {
      assert.ok(names.includes(`app-${number}`), `round ${round}: app-${number} is lost`);
    }
    for (const [name, state] of known) {
      if (state === 'either') known.set(name, names.includes(name) ? 'there' : 'gone');
      else assert.equal(names.includes(name), state === 'there', `round ${round}: ${name} should be ${state}`);
    }
    for (const [name, state] of known) if (state === 'gone') known.delete(name);
    assert.equal(names.length, APPS + known.size, `round ${round}: ${names}`);
  };

  let daemon = await begin();
  const base = Array.from({ length: APPS }, (_, number) => app(`app-${number}`, number === 0));
  assert.equal((await ask('POST', '/v1/apps', { apps: base, wait: true })).status, 200);
  for (let round = 1; round <= KILLS; round += 1) {
    let ends = false;
    const clients = Array.from({ length: CLIENTS }, async () => {
      // Which change was cut off is known by its name's state.
      while (!ends) await change().catch((error) => { if (!ends) throw error; unanswered += 1; });
    });
    const enough = answered + Math.floor(random() * ANSWERS_MAX);
    await waitUntil('changes to be answered', () => answered >= enough);
    await new Promise((resolve) => { setTimeout(resolve, random() * KILL_MS_MAX); });
    ends = true;
    daemon.child.kill('SIGKILL');
    await Promise.all([daemon.ended, ...clients]);
    daemon = await begin();
    const reply = await ask('POST', '/v1/resurrect', { wait: true });
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    assert.deepEqual(reply.body.apps.filter(({ ok }) => !ok), [], `round ${round}`);
    await check(round);
  }
  t.diagnostic(`${KILLS} kills, ${answered} changes answered, ${unanswered} cut off, ${APPS + known.size} apps at the end`);
  assert.ok(answered > 0);
});
