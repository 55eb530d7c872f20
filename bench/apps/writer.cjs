// Writes numbered lines to stdout at a steady rate once the file BENCH_GO exists, and says in BENCH_DONE.<pid> how long
// its calls took. By plain write(2), so that what is measured is the manager and not a stream of Node's.
'use strict';

const fs = require('node:fs');

const lines = Number(process.env.BENCH_LINES);
const lineBytes = Number(process.env.BENCH_LINE_BYTES);
const linesPerSecond = Number(process.env.BENCH_LINES_PER_SECOND);
const line = Buffer.alloc(lineBytes, 'x');
line[lineBytes - 1] = 10;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** How long this thread has waited for a core, in ms; 0 where the kernel does not say. */
function waitedForCore() {
  try {
    return Number(fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** One line, whole; gives nanoseconds. A pipe that some manager made non-blocking is waited for. */
function write(number) {
  line.write(`${String(process.pid).padStart(8)} ${String(number).padStart(10)} `, 0, 'latin1');
  const from = process.hrtime.bigint();
  for (let done = 0; done < lineBytes; ) {
    try {
      done += fs.writeSync(1, line, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 0.1);
    }
  }
  return Number(process.hrtime.bigint() - from);
}

function run() {
  const longest = [];
  let blockedMsMax = 0;
  const began = performance.now();
  let number = 0;
  while (number < lines) {
    const due = Math.min(lines, Math.ceil(((performance.now() - began) / 1000) * linesPerSecond));
    let before = waitedForCore();
    while (number < due) {
      const nanoseconds = write(number);
      number += 1;
      if (nanoseconds <= 1e6) continue;
      // What the call took beyond all waiting for a core since the last look: the least that the pipe was full.
      const after = waitedForCore();
      blockedMsMax = Math.max(blockedMsMax, nanoseconds / 1e6 - (after - before));
      before = after;
      longest.push(nanoseconds / 1e6);
    }
    Atomics.wait(pause, 0, 0, 1);
  }
  const seconds = (performance.now() - began) / 1000;
  longest.sort((a, b) => b - a);
  const report = { pid: process.pid, lines, seconds, waitMsMax: longest[0] ?? 0, blockedMsMax, waitsOver1: longest.length, waitsOver10: longest.filter((ms) => ms > 10).length };
  fs.writeFileSync(`${process.env.BENCH_DONE}.${process.pid}`, JSON.stringify(report));
}

fs.writeFileSync(`${process.env.BENCH_READY}.${process.pid}`, '');
const waiting = setInterval(() => {
  if (!fs.existsSync(process.env.BENCH_GO)) return;
  clearInterval(waiting);
  run();
  setInterval(() => {}, 1000);
}, 20);
