// Finds the function that a worker ran while its event loop was blocked: from a CPU profile with a coarse interval, whose samples V8 takes from
// a separate thread. A part of the agent; `stalls.cjs` says when it runs.
'use strict';

/** Between two samples: a stall of 50 ms has five. */
const INTERVAL_US = 10_000;
/** The profiles that `console.profile` of the inspector begins and ends can overlap. An unread profile is discarded after this time, so that its samples do not fill memory. */
const RENEW_MS = 60_000;
/** After this time without a stall, profiling ends: profiles take some megabytes. */
const ARMED_MS = 600_000;
/** The share of time that starting and reading profiles may take, beyond the first. */
const BUDGET = 0.005;
/** The time that the first profiles may take. */
const ALLOWANCE_MS = 100;
/** V8 walks through the whole heap when profiles begin: the time for each megabyte, on a slow machine. */
const START_MS_PER_MB = 2.4;
/** An app whose heap takes longer (100 MB and more) is not profiled. */
const START_MS_MAX = 250;
/** A function that was on the stack in this share of the samples is where the time went. */
const SHARE = 0.5;
/** Frames of a stack that are told. */
const FRAMES_MAX = 16;

/** A frame of the agent, for people. */
const FORKFUL = "Forkful's agent";
/** The agent's own files. */
const agentFolder = `${__dirname}/`;

/** The part of paths that is left out. */
const root = (() => {
  try {
    return `${process.cwd()}/`;
  } catch {
    return '//';
  }
})();

/** The path of a frame's file. */
function pathOf({ url }) {
  return url.startsWith('file://') ? decodeURIComponent(url.slice('file://'.length)) : url;
}

/** Whether a frame is the agent's: Forkful's, and not the app's. */
function isOfAgent(frame) {
  const path = pathOf(frame);
  return path.startsWith(agentFolder) && !path.includes('/', agentFolder.length);
}

/** A frame, for people: `render (views/page.js:12)`. */
function textOf(frame) {
  const name = frame.functionName || '(anonymous)';
  if (!frame.url) return name;
  if (isOfAgent(frame)) return FORKFUL;
  let path = pathOf(frame);
  if (path.startsWith(root)) path = path.slice(root.length);
  return `${name} (${path}:${frame.lineNumber + 1})`;
}

/** Whether a frame is the app's own or a library's: neither Node's nor V8's nor the agent's. */
function isOfApp(frame) {
  return frame.url !== '' && !frame.url.startsWith('node:') && !isOfAgent(frame);
}

/** Whether it is the app's own. */
function isOwn(frame) {
  return isOfApp(frame) && !frame.url.includes('/node_modules/');
}

/**
 * Whether V8 measures the app's coverage. The end of any session in which the profiler is enabled ends the measurement, because V8 has one for the whole
 * process.
 */
function isCovered() {
  return Boolean(process.env.NODE_V8_COVERAGE);
}

/**
 * Whether Node.js takes a CPU profile of the whole run. `console.profile` tells all sessions in which the profiler is enabled, and Node's own session
 * writes such messages, with the profile, to the app's stderr. A pair of sessions in place of `console.profile` is no way out: each new session walks
 * through the whole heap, and does not find code that replaced a function while it ran.
 */
function isProfiled() {
  const given = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/[\s"]+/)];
  return given.some((option) => option.replaceAll('_', '-') === '--cpu-prof');
}

/** Takes profiles, and finds the functions that blocked the event loop. */
class Sampler {
  /**
   * @param {() => number} clock milliseconds; the times of questions are those of this clock
   * @param {Pick<import('./agent.cjs').Agent, 'memory' | 'sampling'>} agent
   */
  constructor(clock, { memory, sampling }) {
    this.clock = clock;
    this.memory = memory;
    this.sampling = sampling;
    /** @type {typeof import('inspector') | undefined} */
    this.inspector = undefined;
    /** @type {any} */
    this.session = null;
    /** How many profiles have begun; names the last one. */
    this.number = 0;
    this.startedAt = 0;
    this.armedUntil = 0;
    /** All optimized code was thrown away since profiling began. */
    this.hasDeoptimized = false;
    /** The profile that has just ended. @type {any} */
    this.finished = null;
    this.bornAt = clock();
    this.spentMs = 0;
    /** No profiles are taken: they would disturb what the app's user measures. */
    this.isOff = isCovered() || isProfiled();
    /** Profiles have the kernel's monotonic time. */
    const [seconds, nanoseconds] = process.hrtime();
    this.offsetUs = seconds * 1e6 + nanoseconds / 1e3 - clock() * 1e3;
  }

  /** The event loop was blocked: begins a profile, unless there is one, or profiles have taken too much time or would disturb. */
  start() {
    if (this.isOff) return;
    const now = this.clock();
    this.armedUntil = now + ARMED_MS;
    if (this.session) return;
    const costMs = this.memory().heapUsed / 1e6 * START_MS_PER_MB;
    if (costMs > START_MS_MAX || this.spentMs + costMs > ALLOWANCE_MS + BUDGET * (now - this.bornAt)) return;
    this.timed(() => {
      this.inspector ??= require('inspector');
      const session = new this.inspector.Session();
      session.connect();
      session.on('Profiler.consoleProfileFinished', ({ params }) => {
        if (params.title === this.title(this.number - 1)) this.finished = params.profile;
      });
      session.post('Profiler.enable');
      session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US });
      this.session = session;
      this.sampling.begin();
      this.hasDeoptimized = false;
      this.begin();
    });
  }

  /**
   * V8 does not find code that replaced a function while it ran, in a long loop, before the profiles began. This throws all optimized code
   * away, and the app is slower until V8 has optimized it again: only when a stall was seen whose function is not the app's.
   */
  deoptimize() {
    this.hasDeoptimized = true;
    this.session.post('Profiler.startPreciseCoverage', { callCount: false, detailed: false });
    this.session.post('Profiler.stopPreciseCoverage');
  }

  title(number) {
    return `forkful-stalls-${number}`;
  }

  begin() {
    this.number += 1;
    this.inspector.console.profile(this.title(this.number));
    this.startedAt = this.clock();
  }

  /**
   * Begins the next profile, and ends the one before. Never without one in between: V8 would forget what is compiled, and would not
   * find all of it again (code that replaced a function while this one ran).
   */
  next() {
    this.finished = null;
    this.begin();
    this.inspector.console.profileEnd(this.title(this.number - 1));
    const profile = this.finished;
    this.finished = null;
    return profile;
  }

  /** Ends the profile without reading it. */
  stop() {
    const { session } = this;
    if (!session) return;
    this.session = null;
    this.sampling.end();
    session.disconnect();
  }

  /** Discards a profile that has become long, and begins the next one unless there was no stall for a long time. */
  renew() {
    if (!this.session) return;
    const now = this.clock();
    if (now >= this.armedUntil) this.stop();
    else if (now - this.startedAt >= RENEW_MS) this.timed(() => this.next());
  }

  /** Does something that takes time; when it fails, there are no more profiles. @param {() => void} work */
  timed(work) {
    const began = this.clock();
    try {
      work();
    } catch {
      this.stop();
      this.spentMs = Infinity;
    }
    this.spentMs += this.clock() - began;
  }

  /**
   * The function that blocked the event loop in each of these times; begins another profile.
   * @param {{ from: number, to: number }[]} times
   * @returns {({ name: string, stack: string[], callers: string, isStart: boolean, isTimer: boolean, isOwn: boolean } | undefined)[]} `callers`: the function and those that called it
   */
  read(times) {
    if (!this.session) return [];
    /** @type {any[]} */
    let places = [];
    this.timed(() => {
      const { startedAt } = this;
      const profile = this.next();
      if (!profile) return;
      const samples = samplesOf(profile);
      places = times.map(({ from, to }) => placeOf(samples, from * 1e3 + this.offsetUs, to * 1e3 + this.offsetUs));
      const isUnknown = ({ from }, index) => from >= startedAt && !places[index]?.isOwn;
      if (!this.hasDeoptimized && times.some(isUnknown)) this.deoptimize();
    });
    return places;
  }
}

/** A profile's nodes by id, each with its parent, and its samples with their times. */
function samplesOf({ nodes, samples, timeDeltas, startTime }) {
  const byId = new Map(nodes.map((node) => [node.id, { frame: node.callFrame, parent: undefined }]));
  for (const { id, children } of nodes) {
    for (const child of children ?? []) byId.get(child).parent = byId.get(id);
  }
  let at = startTime;
  return samples.map((id, index) => ({ at: (at += timeDeltas[index]), node: byId.get(id) }));
}

/** Where most of the samples between two times were. */
function placeOf(samples, from, to) {
  const within = samples.filter(({ at, node }) => at >= from && at <= to && node && node.frame.functionName !== '(idle)');
  if (within.length === 0) return undefined;
  const counts = new Map();
  for (const { node } of within) {
    for (let up = node; up?.parent; up = up.parent) counts.set(up, (counts.get(up) ?? 0) + 1);
  }
  /** From the outermost frame inwards, as long as most samples were within. @type {any[]} */
  const path = [];
  for (const [node, count] of counts) if (count >= within.length * SHARE) path.push(node);
  // With a tie at exactly half, two frames may have the same parent; the chain of one is enough.
  const depth = (node) => { let many = 0; for (let up = node; up; up = up.parent) many += 1; return many; };
  const innermost = path.reduce((best, node) => (best && depth(best) >= depth(node) ? best : node), undefined);
  if (!innermost) return undefined;
  const frames = [];
  for (let up = innermost; up?.parent; up = up.parent) frames.push(up.frame);
  const named = frames.find(isOwn) ?? frames.find(isOfApp) ?? frames.find(isOfAgent) ?? frames[0];
  const texts = frames.map(textOf).filter((text, index, all) => text !== all[index - 1]);
  // Which of a function's callers ran is the same in each sample; what it called is not.
  const callers = frames.slice(frames.indexOf(named)).filter(isOfApp).map(textOf).join('\n');
  return { name: textOf(named), stack: texts.slice(0, FRAMES_MAX), callers, isStart: frames.some(isRequestStart), isTimer: isOfTimer(frames), isOwn: isOwn(named) };
}

/** Whether a timer called it, and not a promise between two timers. @param {any[]} frames from the innermost outwards */
function isOfTimer(frames) {
  const outer = frames.find(({ functionName }) => functionName === 'listOnTimeout' || functionName === 'processTicksAndRejections');
  return outer?.functionName === 'listOnTimeout' && outer.url === 'node:internal/timers';
}

/** Whether a frame is the one from which Node.js calls the listeners of a request that starts. */
function isRequestStart({ functionName, url }) {
  return functionName === 'parserOnIncoming' && url === 'node:_http_server';
}

module.exports = { Sampler, isCovered, isOfAgent, placeOf, samplesOf };
