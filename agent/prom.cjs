// Reads the app's own prom-client metrics, and what the process holds. A part of the agent, which loads it when the primary asks for the first time;
// agent.cjs has the rules, README.md the protocol. Nothing is wrapped, and between two questions nothing is done.
'use strict';

const { getHeapSpaceStatistics } = require('v8');

/** The entry of prom-client in `require.cache`; as an ES module it is loaded from there, too. */
const ENTRY = /[\\/]prom-client[\\/]index\.js$/;
/** The maximum bytes of a message. Metrics that do not fit are left out. */
const BYTES_MAX = 480 * 1024;
/** The estimate for a sample without its labels, in bytes. */
const SAMPLE_BYTES = 40;
/** The maximum bytes of a character in JSON: `\u0000`. */
const LETTER_BYTES_MAX = 6;
/** The time limit for a metric's own function (`collect`); after it, the last report counts. */
const COLLECT_MS_MAX = 5000;

/** JSON cannot represent numbers that are not finite. @param {unknown} value */
function number(value) {
  if (typeof value !== 'number') return undefined;
  if (Number.isFinite(value)) return value;
  if (Number.isNaN(value)) return 'NaN';
  return value > 0 ? '+Inf' : '-Inf';
}

/** Whether a registry writes OpenMetrics; prom-client then takes `_total` from the names of counters. @param {any} registry */
function isOpenMetrics({ contentType }) {
  return typeof contentType === 'string' && contentType.startsWith('application/openmetrics-text');
}

/** The types of which each is counted by itself. */
const TYPES_MAX = 60;
/** The longest name of a type. */
const TYPE_LETTERS_MAX = 30;

/** How often each name is there. @param {string[]} names */
function countsOf(names) {
  const counts = Object.create(null);
  let types = 0;
  for (const name of names) {
    if (name in counts) counts[name] += 1;
    else if (types === TYPES_MAX) counts.other = (counts.other ?? 0) + 1;
    else {
      counts[name] = 1;
      types += 1;
    }
  }
  return counts;
}

/** What the process holds: the spaces of the heap, and what is active in the event loop, by type, as prom-client names them. */
function inventory() {
  const nameOf = (one) => String(one?.constructor?.name).slice(0, TYPE_LETTERS_MAX);
  const spaces = getHeapSpaceStatistics().map((one) => (
    [one.space_name.replace(/_space$/, ''), [one.space_size, one.space_used_size, one.space_available_size]]));
  return {
    spaces: Object.fromEntries(spaces),
    resources: countsOf(process.getActiveResourcesInfo()),
    handles: countsOf(process._getActiveHandles().map(nameOf)),
    requests: countsOf(process._getActiveRequests().map(nameOf)),
  };
}

/** The exports of each copy of prom-client that the app has loaded. @returns {any[]} */
function packages() {
  const { cache } = require;
  const found = [];
  for (const name of Object.keys(cache)) {
    if (!name.endsWith('index.js') || !ENTRY.test(name)) continue;
    const exports = cache[name]?.exports;
    if (typeof exports?.register?.getMetricsAsJSON === 'function') found.push(exports);
  }
  return found;
}

/** The present metrics of a registry. A counter that prom-client has renamed gets its original name back. */
async function read([register, registry]) {
  const list = await register.getMetricsAsJSON();
  const isRenamed = ({ name, type }) => type === 'counter' && isOpenMetrics(register) && !register.getSingleMetric(name);
  return list.map((family) => ({ ...family, registry, name: isRenamed(family) ? `${family.name}_total` : family.name }));
}

/** Answers the primary. */
class Prom {
  /**
   * @param {import('./agent.cjs').Agent} agent
   * @param {import('./merged.cjs').Merger} [merger] where scrapes of the app's own registries give what all workers have
   */
  constructor(agent, merger) {
    this.agent = agent;
    this.merger = merger;
  }

  /**
   * Sends the present values of the app's metrics to the primary.
   * @param {() => void} [then] follows when they are sent
   */
  tell(then = () => {}) {
    const defaults = packages().map(({ register }) => [register, '']);
    const found = [...defaults, ...this.merger?.registries() ?? []];
    if (found.length === 0) return this.say({ none: true }, then);
    const { guarded, timer } = this.agent;
    let isTold = false;
    const answer = (message) => {
      if (isTold) return;
      isTold = true;
      this.say(message, then);
    };
    timer(guarded(answer), COLLECT_MS_MAX, {}).unref();
    const failed = () => guarded(answer)({});
    Promise.all(found.map(read))
      .then((lists) => answer(fitting(lists)))
      .catch(failed);
  }

  say(message, then) {
    let held;
    try {
      held = inventory();
    } catch {
      // The app has replaced one of these functions.
    }
    this.agent.tell({ act: 'metrics', ...message, inventory: held });
    then();
  }
}

/**
 * What is needed of a metric, and an estimate of its bytes in JSON; without `family` when it is too long by itself.
 * @param {any} metric
 */
function shortened({ name, registry, help, type, aggregator, values }) {
  let bytes = 2 * SAMPLE_BYTES + String(name).length + String(help).length;
  const samples = [];
  for (const { metricName, labels, value } of values) {
    const texts = {};
    for (const [label, text] of Object.entries(labels ?? {})) {
      texts[label] = String(text);
      bytes += label.length + texts[label].length + 6;
    }
    const isOther = metricName !== undefined && metricName !== name;
    bytes += SAMPLE_BYTES + (isOther ? metricName.length + 16 : 0);
    if (bytes > BYTES_MAX) return { bytes, count: values.length };
    const shown = number(value);
    if (shown !== undefined) samples.push({ ...(isOther && { metricName }), labels: texts, value: shown });
  }
  return { family: { name, ...(registry && { registry }), help: String(help), type, aggregator, values: samples }, bytes, count: values.length };
}

/** The metrics that fit into an answer. The largest metrics are left out first, because they are usually the same in each answer. */
class Fitting {
  constructor() {
    /** @type {{ family?: object, bytes: number, count: number }[]} */
    this.kept = [];
    this.bytes = 0;
    this.leftOut = 0;
  }

  /** @param {{ family?: object, bytes: number, count: number }} entry */
  add(entry) {
    this.kept.push(entry);
    this.bytes += entry.bytes;
    while (this.bytes > BYTES_MAX) this.drop();
  }

  drop() {
    const at = this.kept.reduce((largest, { bytes }, index) => (bytes > this.kept[largest].bytes ? index : largest), 0);
    const [{ bytes, count }] = this.kept.splice(at, 1);
    this.bytes -= bytes;
    this.leftOut += count;
  }

  /** The estimates count characters; only a long answer has to be measured. */
  measure() {
    if (this.bytes * LETTER_BYTES_MAX <= BYTES_MAX) return;
    for (const entry of this.kept) entry.bytes = Buffer.byteLength(JSON.stringify(entry.family)) + 1;
    this.bytes = this.kept.reduce((sum, { bytes }) => sum + bytes, 0);
    while (this.bytes > BYTES_MAX) this.drop();
  }
}

/**
 * What is needed of prom-client's lists, as far as it fits into an answer, and how many samples are left out.
 * @param {any[][]} lists
 */
function fitting(lists) {
  const fits = new Fitting();
  const seen = new Set();
  for (const metric of lists.flat()) {
    // Two copies of prom-client have the same metrics of the process.
    const key = `${metric.registry} ${metric.name}`;
    if (seen.has(key)) continue;
    seen.add(key);
    fits.add(shortened(metric));
  }
  fits.measure();
  return { metrics: fits.kept.map(({ family }) => family), ...(fits.leftOut > 0 && { leftOut: fits.leftOut }) };
}

module.exports = { Prom, ENTRY, isOpenMetrics, packages };
