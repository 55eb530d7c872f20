'use strict';
// What the scripts beside this share: each call of a function of PM2's is put down with what its callback got.
const transcript = [];

/** Calls a function with a callback that must be called once. */
function call(pm2, name, ...values) {
  return new Promise((resolve, reject) => {
    let calls = 0;
    pm2[name](...values, (error, result) => {
      calls += 1;
      if (calls > 1) return reject(new Error(`${name} called back twice`));
      transcript.push({ name, error: error ? String(error.message ?? error) : null, isError: error instanceof Error, result });
      return resolve({ error, result });
    });
  });
}

/** As in tests/e2e/lib/wait.mjs: no busy machine reaches it. */
const BOUND_MS = 180_000;

/** Waits until something holds. */
async function until(what, predicate) {
  const end = Date.now() + BOUND_MS;
  while (!(await predicate())) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Writes the transcript to stdout, each object once: PM2 gives circular ones. Then the script is over, also where PM2 would stay. */
function tell(more = {}) {
  const ancestors = [];
  const text = JSON.stringify({ transcript, ...more }, function circular(_key, value) {
    if (typeof value !== 'object' || value === null) return value;
    while (ancestors.length > 0 && ancestors.at(-1) !== this) ancestors.pop();
    if (ancestors.includes(value)) return undefined;
    ancestors.push(value);
    return value;
  });
  process.stdout.write(`\n${text}\n`, () => process.exit(0));
}

module.exports = { call, tell, until };
