// Metrics of all workers at a scrape of the app's own prom-client (`metrics: "merge"`). A part of the agent, which loads it only
// there; agent.cjs has the rules, README.md the protocol. What is wrapped are functions of prom-client: `metrics` and
// `registerMetric` of registries, `push` and `pushAdd` of push gateways; and Node's function that loads a file, to find prom-client.
'use strict';

const Module = require('module');

const { ENTRY, isOpenMetrics, packages } = require('./prom.cjs');

/** The primary gives workers 1 s to answer. */
const ANSWER_MS_MAX = 5000;
/** The interval at which a question is sent again: a new daemon does not know the questions to the previous daemon. */
const AGAIN_MS = 1500;
/** Registries beside prom-client's default one. Scrapes of others give the worker's own values. */
const REGISTRIES_MAX = 16;

// Taken now, because an app may replace it later.
const stop = clearTimeout;

/** @typedef {{ name: string, registry?: string, help: string, type: string, aggregator?: string, values: any[] }} Family */

/** A number as `prom.cjs` writes it. @param {number | string} value */
function number(value) {
  return typeof value === 'number' ? value : Number(value.replace('Inf', 'Infinity'));
}

/** See the top of the file. */
class Merger {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    /** The keys of registries, the same in all workers: '' is the default registry. @type {WeakMap<any, string>} */
    this.keys = new WeakMap();
    /** The registry that each metric was registered in first, by its key. @type {WeakMap<any, string>} */
    this.homes = new WeakMap();
    /** Registries with objects that are not prom-client's metrics, such as registries merged from several workers. */
    this.alone = new WeakSet();
    /** The registries that the app has made, by their keys. @type {Map<string, WeakRef<any>>} */
    this.made = new Map();
    /** The number of the last question. */
    this.last = 0;
    /** @type {{ question: number, settle: (families?: Family[]) => void } | undefined} */
    this.asked = undefined;
    /** The answer to the next question, while another question is unanswered. @type {Promise<Family[] | undefined> | undefined} */
    this.next = undefined;
    this.isPushing = false;
    this.hasTold = false;
  }

  /** Finds prom-client when the app loads it. */
  watch() {
    const extensions = Module._extensions;
    const load = extensions['.js'];
    const look = this.agent.guarded((module, filename) => {
      if (ENTRY.test(filename)) this.wrap(module.exports);
    });
    extensions['.js'] = function (...args) {
      const result = load.apply(this, args);
      look(...args);
      return result;
    };
    // Another preloaded file may have loaded it before.
    for (const prom of packages()) this.wrap(prom);
  }

  /** The app's own registries, each with its key. @returns {[any, string][]} */
  registries() {
    const found = [];
    for (const [key, weak] of this.made) {
      const registry = weak.deref();
      if (registry) found.push([registry, key]);
    }
    return found;
  }

  /** @param {any} prom what prom-client exports */
  wrap(prom) {
    const { Registry, Counter, AggregatorRegistry, Pushgateway, register } = prom;
    const { prototype } = Registry;
    const { metrics, registerMetric } = prototype;
    // Before version 13, the text came without a promise.
    const isKnown = metrics.constructor.name === 'AsyncFunction' && typeof AggregatorRegistry.aggregate === 'function';
    if (!isKnown || this.keys.has(register)) return;
    this.keys.set(register, '');
    const merger = this;
    const Metric = Object.getPrototypeOf(Counter);
    const note = this.agent.guarded((registry, metric) => {
      if (!(metric instanceof Metric)) this.alone.add(registry);
      else if (!this.homes.has(metric)) this.settle(registry, metric);
    });
    for (const metric of register.getMetricsAsArray()) note(register, metric);
    prototype.registerMetric = function (...args) {
      const result = registerMetric.apply(this, args);
      note(this, args[0]);
      return result;
    };
    prototype.metrics = function (...args) {
      const own = () => metrics.apply(this, args);
      let merged;
      merger.agent.guarded(() => { merged = merger.merged(this, prom); })();
      return merged ? merged.then((text) => text ?? own()) : own();
    };
    for (const name of ['push', 'pushAdd']) merger.exceptPush(Pushgateway?.prototype, name);
  }

  /** A push gateway gets the worker's own values: it keeps them for each worker, or for a worker's job. */
  exceptPush(prototype, name) {
    const push = prototype?.[name];
    if (typeof push !== 'function') return;
    const merger = this;
    prototype[name] = function (...args) {
      merger.isPushing = true;
      try {
        return push.apply(this, args);
      } finally {
        merger.isPushing = false;
      }
    };
  }

  /** A metric belongs to its first registry. The key of a registry of the app is the name of its first metric, and a number. */
  settle(registry, metric) {
    let key = this.keys.get(registry);
    if (key === undefined) {
      for (const [old, weak] of this.made) if (!weak.deref()) this.made.delete(old);
      if (this.made.size >= REGISTRIES_MAX) return;
      let at = 0;
      while (this.made.has(`${metric.name}#${at}`)) at += 1;
      key = `${metric.name}#${at}`;
      this.keys.set(registry, key);
      this.made.set(key, new WeakRef(registry));
    }
    this.homes.set(metric, key);
  }

  /** The keys of the registries that the metrics of a registry come from; undefined when it is not ours to merge. */
  homesOf(registry, { AggregatorRegistry }) {
    if (this.alone.has(registry) || registry instanceof AggregatorRegistry) return undefined;
    const homes = new Set(registry.getMetricsAsArray().map((metric) => this.homes.get(metric)));
    homes.add(this.keys.get(registry) ?? [...homes][0]);
    return homes.has(undefined) ? undefined : homes;
  }

  /**
   * The text of a registry with the values of all workers; undefined, or a promise of it, where the worker's own are to be given.
   * @returns {Promise<string | undefined> | undefined}
   */
  merged(registry, prom) {
    const homes = this.isPushing || !this.agent.isConnected() ? undefined : this.homesOf(registry, prom);
    if (!homes) return undefined;
    return this.ask()
      .then((families) => families && this.text(registry, homes, families, prom))
      .catch(() => undefined);
  }

  /** In prom-client's own words. */
  text(registry, homes, families, prom) {
    const isOpen = isOpenMetrics(registry);
    const mine = families.filter((family) => this.isIn(registry, homes, family, prom));
    const list = mine.map(({ name, values, ...rest }) => ({
      ...rest,
      // In OpenMetrics prom-client adds the ending to each sample.
      name: isOpen && rest.type === 'counter' ? name.replace(/_total$/, '') : name,
      values: values.map((sample) => ({ ...sample, labels: sample.labels ?? {}, value: number(sample.value) })),
    }));
    return prom.AggregatorRegistry.aggregate([list], registry.contentType).metrics();
  }

  /** Whether a registry has a family; what only other workers have so far belongs to it when their registry is among its own. */
  isIn(registry, homes, { name, registry: key = '' }, { register }) {
    if (!homes.has(key)) return false;
    const home = key === '' ? register : this.made.get(key)?.deref();
    const own = registry.getSingleMetric(name);
    const theirs = home?.getSingleMetric(name);
    return theirs ? own === theirs : !own;
  }

  /** Asks the primary. The answer to an earlier question might not contain later counts. */
  ask() {
    if (!this.asked) return this.send();
    this.next ??= new Promise((resolve) => {
      const { settle } = this.asked;
      this.asked.settle = (families) => {
        settle(families);
        this.next = undefined;
        resolve(this.send());
      };
    });
    return this.next;
  }

  /** @returns {Promise<Family[] | undefined>} */
  send() {
    const { agent } = this;
    const question = this.last += 1;
    const say = () => agent.tell({ act: 'merge', question });
    return new Promise((resolve) => {
      const again = agent.ticks(agent.guarded(say), AGAIN_MS);
      again.unref();
      const late = agent.timer(agent.guarded(() => {
        if (!this.hasTold) agent.tell({ act: 'unmerged' });
        this.hasTold = true;
        this.asked?.settle();
      }), ANSWER_MS_MAX);
      late.unref();
      this.asked = {
        question,
        settle: (families) => {
          agent.clearTicks(again);
          stop(late);
          this.asked = undefined;
          resolve(families);
        },
      };
      say();
    });
  }

  /** The primary has answered. @param {{ question?: unknown, metrics?: Family[] }} message */
  hear({ question, metrics }) {
    if (this.asked?.question === question) this.asked.settle(Array.isArray(metrics) ? metrics : undefined);
  }
}

module.exports = { Merger };
