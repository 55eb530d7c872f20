// What is measured for reports, by itself.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { watchGarbage } = createRequire(import.meta.url)('../reports.cjs');

const MINOR = { detail: { kind: 1 }, duration: 0.5 };
const MAJOR = { detail: { kind: 4 }, duration: 20 };

/** Periods of a second, with the busy time and the collections of each; whether the next one is observed, and how many were counted so far. */
function periods(isClose) {
  let active = 0;
  let entries = [];
  let isObserving = false;
  class PerformanceObserver {
    observe() { isObserving = true; }
    disconnect() { isObserving = false; }
    takeRecords() { return entries.splice(0); }
  }
  const meter = watchGarbage({ PerformanceObserver, performance: { eventLoopUtilization: () => ({ active }) } }, { guarded: (step) => step });
  meter.isClose = isClose;
  return (busyMs, minor, major = 0) => {
    active += busyMs;
    if (isObserving) entries = [...Array(minor).fill(MINOR), ...Array(major).fill(MAJOR)];
    meter.read(1);
    const count = ({ counts }) => Math.round(counts.reduce((sum, one) => sum + one));
    return [isObserving, count(meter.kinds[0]), count(meter.kinds[1])];
  };
}

test('few collections are all observed', () => {
  const period = periods(false);
  assert.deepEqual(period(500, 20), [true, 20, 0]);
  assert.deepEqual(period(500, 3, 1), [true, 23, 1]);
});

test('of many collections, one period of five is observed, and the others are like it for the time in which the loop was busy', () => {
  const period = periods(false);
  assert.deepEqual(period(500, 100, 1), [false, 100, 1]);
  assert.deepEqual(period(500, 70), [false, 200, 2]);
  assert.deepEqual(period(250, 70), [false, 250, 3], 'a major one more or less is not known');
  assert.deepEqual(period(500, 70), [false, 350, 4]);
  assert.deepEqual(period(500, 70), [true, 450, 5]);
  assert.deepEqual(period(500, 10), [true, 460, 5]);
});

test('collections are observed again when there is less to do', () => {
  const period = periods(false);
  period(500, 100);
  assert.deepEqual(period(10, 70), [true, 102, 0]);
  assert.deepEqual(period(500, 5), [true, 107, 0]);
});

test('whoever looks closely sees all', () => {
  const period = periods(true);
  assert.deepEqual(period(500, 100), [true, 100, 0]);
  assert.deepEqual(period(500, 90), [true, 190, 0]);
});
