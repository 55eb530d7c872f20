// When WebSockets and event streams are told to leave: a clock and connections that this test makes up.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { Leavers } = createRequire(import.meta.url)('../long.cjs');

/** Connections, and a clock that stands. */
class World {
  constructor() {
    this.at = 0;
    this.left = [];
    this.timers = [];
    this.upgraded = new Set();
    this.servers = new Set([{}]);
    this.responses = [];
    this.guarded = (step) => step;
  }

  hidden = (socket, description) => socket[description];
  http1Sockets = () => this.responses.map((response) => ({ _httpMessage: response }));
  timer = (step, ms) => {
    this.timers.push({ at: this.at + ms, step });
    return { unref() {} };
  };

  webSocket(name) {
    const socket = { websocket: { close: (code) => this.left.push({ name, code, at: this.at }) } };
    this.upgraded.add(socket);
    return socket;
  }

  stream(name, header = '\r\nContent-Type: text/event-stream; charset=utf-8\r\n') {
    const response = { headersSent: true, _header: header, on() {}, end: () => this.left.push({ name, closes: response._last, at: this.at }) };
    this.responses.push(response);
  }

  begin(withinMs) {
    new Leavers(this, withinMs, () => this.at).start();
  }

  pass(ms) {
    for (const end = this.at + ms; this.at < end;) {
      this.at += 1;
      const due = this.timers.filter(({ at }) => at <= this.at);
      this.timers = this.timers.filter(({ at }) => at > this.at);
      for (const { step } of due) step();
    }
  }
}

test('a thousand are told to leave evenly, the oldest first', () => {
  const world = new World();
  for (let n = 0; n < 1000; n += 1) world.webSocket(n);
  world.begin(20_000);
  assert.equal(world.left.length, 0, 'none at once');
  world.pass(20_000);
  assert.deepEqual(world.left.map(({ name }) => name), Array.from({ length: 1000 }, (_, n) => n));
  assert.ok(world.left.every(({ code }) => code === 1012));
  assert.ok(world.left.at(-1).at <= 18_100, 'their clients have time to answer');
  const seconds = Array.from({ length: 18 }, (_, second) => world.left.filter(({ at }) => Math.floor(at / 1000) === second).length);
  assert.ok(seconds.every((count) => count > 40 && count < 70), seconds.join());
});

test('one stays until the end; those that end by themselves leave room, and those that come late go, too', () => {
  const world = new World();
  world.webSocket('one');
  world.begin(10_000);
  world.pass(8_900);
  assert.deepEqual(world.left, []);
  world.webSocket('late');
  world.pass(1_000);
  assert.deepEqual(world.left.map(({ name }) => name), ['one', 'late']);

  const other = new World();
  const sockets = Array.from({ length: 10 }, (_, n) => other.webSocket(n));
  other.begin(10_000);
  for (const socket of sockets.slice(0, 5)) other.upgraded.delete(socket);
  other.pass(4_400);
  assert.equal(other.left.length, 0, 'as few are there as may be');
  other.pass(5_600);
  assert.equal(other.left.length, 5);
});

test('event streams end with their connection; other responses and unknown upgrades are left alone', () => {
  const world = new World();
  world.stream('events');
  world.stream('download', '\r\nContent-Type: application/zip\r\n');
  world.upgraded.add({});
  world.begin(1_000);
  world.pass(5_000);
  assert.deepEqual(world.left.map(({ name, closes }) => [name, closes]), [['events', true]]);
});

test('the app is told, for libraries that are not known', async () => {
  const turn = () => new Promise((resolve) => { setImmediate(resolve); });
  // The drains of other tests are told.
  await turn();
  const world = new World();
  const told = [];
  process.once('forkful:drain', (message) => told.push(message));
  world.begin(30_000);
  await turn();
  assert.deepEqual(told, [{ within_ms: 30_000 }]);
});
