// The worker's part of `forkful stalls`: notices when the event loop is blocked, and reports for how long, by which request
// and in which function, and which requests waited. A part of the agent, which loads it when stalls are asked for and the start is over; agent.cjs has the
// rules, README.md the protocol.
//
// Nothing is wrapped, and of a request that is answered nothing is kept but its connection and its path, up to the next tick: objects that live a
// little longer than they would make V8's young generation grow. A timer ticks every 10 ms while requests come, and once
// a second otherwise. Three moments are known to be turns of the loop: a tick, the start of a request, and the end of the response to the request
// that started last. When two of them are further apart than the threshold, the loop was blocked between them. From the first stall on, a CPU profile says which function
// ran (`sampler.cjs`): V8 takes its samples from a separate thread.
'use strict';

/** The time between two ticks while requests arrive. */
const TICK_MS = 10;
/** The time between two ticks while nothing happens. */
const REST_MS = 1000;
/** The time after the last request, or the last busy second, until ticks are slow again. */
const AWAKE_MS = 3000;
/** The same after a stall, and after the second busy second within `AGAIN_MS`: what blocks the loop from time to time is seen each time. */
const ALERT_MS = 30_000;
const AGAIN_MS = 60_000;
/** If the loop was busy for this share of a second, ticks are fast, with or without requests. */
const BUSY_SHARE = 0.05;
/** The last requests that started; a power of two. With more than these between two ticks, each takes little of them. */
const RING = 64;
/** The maximum number of requests in progress that are remembered. */
const UNDER_WAY_MAX = 512;
/** The maximum number of stalls that wait for their function or for their message. */
const PENDING_MAX = 64;
/** The time from a stall to its message: further stalls in this time share one reading of the profile. */
const TELL_MS = 1000;
/** The maximum number of distinct routes; all others share one name. */
const ROUTES_MAX = 256;
/** The maximum number of functions, with their callers, whose route is remembered. */
const LEARNED_MAX = 256;
/** Profiling begins with a stall in which the process was busy for this share, or that was this long without the wait for a core. */
const ARM_SHARE = 0.2;
const ARM_MS = 200;
/** The maximum length of a text in a message. */
const TEXT_MAX = 200;

// Taken when this file is loaded, because an app may replace them later.
const { performance } = require('perf_hooks');
const clock = performance.now.bind(performance);
const loopUse = performance.eventLoopUtilization.bind(performance);
const cpuUsage = process.cpuUsage.bind(process);
const { readFileSync } = require('fs');

/** Whether a request is answered, or its client has disconnected. */
function isOver(response) {
  return response.writableEnded || response.destroyed;
}

/** Milliseconds of CPU time that the process has used. */
function cpuMs() {
  const { user, system } = cpuUsage();
  return (user + system) / 1000;
}

/** The kernel's account of the main thread: nanoseconds on a core, nanoseconds of waiting for one, and how often it got one. */
const SCHEDULED = `/proc/self/task/${process.pid}/schedstat`;

/** Milliseconds for which the main thread has waited for a core; always 0 where that cannot be read. It takes about 20 us. */
function waitMs() {
  try {
    return Number(readFileSync(SCHEDULED, 'latin1').split(' ')[1]) / 1e6 || 0;
  } catch {
    return 0;
  }
}

/** A segment of a path that is a number or an id. */
const ID = /^(?:\d+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|(?=.*\d)[\w~.+=-]{20,})$/i;

/**
 * The route of a request, without the parts that differ from request to request: Express's own pattern if there is one.
 * @param {any} request
 */
function routeOf(request) {
  const method = String(request.method).slice(0, 16);
  const pattern = request.route && request.route.path;
  if (typeof pattern === 'string' && pattern.startsWith('/')) {
    const base = typeof request.baseUrl === 'string' ? request.baseUrl : '';
    return `${method} ${fold(base + pattern)}`.slice(0, TEXT_MAX);
  }
  const url = typeof request.originalUrl === 'string' ? request.originalUrl : request.url;
  return `${method} ${fold(String(url).slice(0, 1024).split(/[?#]/, 1)[0])}`.slice(0, TEXT_MAX);
}

/** @param {string} path */
function fold(path) {
  return path.split('/').map((segment) => (ID.test(segment) ? ':id' : segment)).join('/');
}

/** Notices stalls and reports them to the primary. */
class Stalls {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    this.minMs = 0;
    /** @type {any} */
    this.interval = null;
    /** The pause between two ticks now. */
    this.everyMs = REST_MS;
    this.awakeUntil = 0;
    /** The last slow tick after which the loop was busy. */
    this.busyAt = -Infinity;
    /** The last moment at which the loop is known to have turned. */
    this.lastAt = 0;
    this.lastTick = 0;
    this.cpuAtTick = 0;
    /** How busy the loop was at the last slow tick, and how long the main thread had waited for a core. */
    this.use = loopUse();
    this.waitAtRest = 0;
    /** The same at the last check whether the loop is idle, and the CPU time that the process had used. */
    this.useAwake = this.use;
    this.waitAwake = 0;
    this.cpuAwake = 0;
    /** How long the main thread had waited for a core when that was last read. */
    this.waited = 0;
    /** The connection of the last request that started, where `lastAt` is that moment. @type {any} */
    this.last = null;
    /** How many requests have started, and how many had at the last tick. */
    this.started = 0;
    this.startedAtTick = 0;
    /** Connection, method and URL of the last requests. @type {any[]} */
    this.sockets = new Array(RING).fill(null);
    this.methods = new Array(RING).fill('');
    this.urls = new Array(RING).fill('');
    /** Responses that were in progress at the last tick. @type {any[]} */
    this.underWay = [];
    /** @type {any[]} */
    this.pending = [];
    this.willTell = false;
    this.missed = 0;
    this.routes = new Set();
    /** The route in which a function, with its callers, blocked the loop before. @type {Map<string, string>} */
    this.learned = new Map();
    /** @type {import('./sampler.cjs').Sampler | undefined} */
    this.sampler = undefined;
    this.tick = agent.guarded(() => this.onTick());
    this.notice = agent.guarded((at, response) => this.onGap(at, response));
    this.finish = agent.guarded(() => this.tellAll());
    this.onStart = ({ request, socket }, at) => {
      if (at - this.lastAt >= this.minMs) this.notice(at);
      const place = this.started & (RING - 1);
      this.sockets[place] = socket;
      this.methods[place] = request.method;
      this.urls[place] = request.url;
      this.started += 1;
      this.lastAt = at;
      this.last = socket;
    };
    // After this its connection has no response, so that no more is known of the request than its URL.
    this.onFinish = ({ response, socket }, at) => {
      if (socket === this.last && at - this.lastAt >= this.minMs) this.notice(at, response);
    };
  }

  /** @param {number} minMs the shortest stall that is reported; 0 ends the recording */
  from(minMs) {
    const { listenToRequests } = this.agent;
    const wasOn = this.minMs > 0;
    this.minMs = minMs > 0 ? Math.max(minMs, 2 * TICK_MS) : 0;
    if (this.minMs > 0 && !wasOn) {
      this.sampler = new (require('./sampler.cjs').Sampler)(clock, this.agent);
      this.rest();
      listenToRequests('stalls', this);
    } else if (this.minMs === 0 && wasOn) {
      listenToRequests('stalls', undefined);
      this.agent.clearTicks(this.interval);
      this.interval = null;
      this.sampler?.stop();
      this.turned();
      [this.underWay, this.pending] = [[], []];
    }
  }

  /** Records that the loop turns now. */
  turned() {
    this.lastTick = clock();
    // While nothing happens, the next request is noticed.
    this.lastAt = this.everyMs === REST_MS ? -Infinity : this.lastTick;
    this.cpuAtTick = cpuMs();
    this.sift();
    this.last = null;
  }

  rest() {
    this.tickEvery(REST_MS);
    this.use = loopUse();
    this.waitAtRest = this.readWait();
    this.turned();
  }

  wake() {
    this.stayAwake(clock());
    this.tickEvery(TICK_MS);
    this.turned();
  }

  stayAwake(at) {
    this.awakeUntil = Math.max(this.awakeUntil, at + AWAKE_MS);
    this.useAwake = loopUse();
    this.waitAwake = this.readWait();
    this.cpuAwake = cpuMs();
  }

  readWait() {
    this.waited = waitMs();
    return this.waited;
  }

  /**
   * Whether the loop was busy since a time. A loop that waits for a core seems busy, and is not; nor is it as busy as it seems while samples
   * are taken, and then the CPU time decides.
   */
  wasBusy(use, wait, cpu) {
    const { active, idle } = loopUse(use);
    const busyMs = active - (this.readWait() - wait);
    const leastMs = this.agent.sampling.open > 0 ? Math.min(busyMs, cpuMs() - cpu) : busyMs;
    return active > 0 && leastMs >= BUSY_SHARE * (active + idle);
  }

  tickEvery(ms) {
    const { ticks, clearTicks } = this.agent;
    if (this.interval) clearTicks(this.interval);
    this.everyMs = ms;
    this.interval = ticks(this.tick, ms).unref();
  }

  /** A request starts, or the last one's response ends, a while after the last known turn. */
  onGap(at, response) {
    this.look(at, response);
    if (this.everyMs === REST_MS) this.wake();
    else this.turned();
  }

  onTick() {
    const at = clock();
    this.look(at);
    if (this.everyMs === REST_MS) {
      const isBusy = this.wasBusy(this.use, this.waitAtRest, this.cpuAtTick);
      this.use = loopUse();
      this.waitAtRest = this.waited;
      if (isBusy) {
        this.wake();
        if (at - this.busyAt < AGAIN_MS) this.awakeUntil = at + ALERT_MS;
        this.busyAt = at;
        return;
      }
    } else if (this.started !== this.startedAtTick) {
      this.awakeUntil = Math.max(this.awakeUntil, at + AWAKE_MS);
    } else if (at >= this.awakeUntil) {
      const isBusy = this.wasBusy(this.useAwake, this.waitAwake, this.cpuAwake);
      this.stayAwake(at);
      if (!isBusy) return this.rest();
    }
    this.sampler?.renew();
    this.turned();
  }

  /**
   * Records a stall if the last known turn was too long ago.
   * @param {number} at now
   * @param {any} [ended] the response of the last request, if that has ended now
   */
  look(at, ended) {
    // Between a tick and the next one's time the loop may have waited for something to do.
    const from = this.last ? this.lastAt : this.lastTick + this.everyMs;
    if (at - from < this.minMs) return;
    if (this.pending.length >= PENDING_MAX) {
      this.missed += 1;
      return;
    }
    // Waiting for a core is no stall of the app's making: on a machine whose cores are all in use, to look more closely makes it worse.
    // It may have waited before the stall, too: what it computed is its own in any case.
    const before = this.waited;
    const usedMs = Math.min(at - from, Math.max(0, cpuMs() - this.cpuAtTick));
    const ownMs = Math.max(at - from - (this.readWait() - before), usedMs);
    // A call that waits uses no CPU time: the loop stays watched.
    if (ownMs >= this.minMs) this.awakeUntil = at + ALERT_MS;
    const { waiting, answered } = this.requests((from + at) / 2 - this.lastTick);
    const stall = {
      from,
      to: at,
      cpu_ms: usedMs,
      starter: this.last && this.nameOf(this.starterRoute(ended ?? this.last._httpMessage)),
      answered,
      waiting,
      requests: waiting.length,
      waited_ms: waiting.length * (at - from),
    };
    this.pending.push(stall);
    this.countQueued(stall);
    if (ownMs >= this.minMs && (usedMs >= ownMs * ARM_SHARE || ownMs >= ARM_MS)) this.sampler?.start();
    if (!this.willTell) {
      this.willTell = true;
      this.agent.timer(this.finish, TELL_MS).unref();
    }
  }

  /** The place in the ring of the request that started last. */
  lastPlace() {
    return (this.started - 1) & (RING - 1);
  }

  /**
   * The route of the request that started last.
   * @param {any} response that of its connection, which may have one of an earlier request (pipelining), or none any more
   */
  starterRoute(response) {
    const place = this.lastPlace();
    const request = response?.req;
    const isIts = request && (request.originalUrl ?? request.url) === this.urls[place];
    return routeOf(isIts ? request : { method: this.methods[place], url: this.urls[place] });
  }

  /**
   * The routes of the requests that wait for an answer, and of the requests that were answered a while after the last tick. The request that
   * started last does not wait: it runs.
   */
  requests(afterTick) {
    const [waiting, answered] = [[], []];
    for (const response of this.underWay) {
      if (!isOver(response)) waiting.push(routeOf(response.req));
      else if (this.wasUsed(response.req.socket, afterTick)) answered.push(routeOf(response.req));
    }
    const running = this.last ? this.lastPlace() : -1;
    for (const [place, socket] of this.recent()) {
      const response = socket._httpMessage;
      const isWaiting = response && !isOver(response);
      if (isWaiting && place === running) continue;
      if (isWaiting) waiting.push(routeOf(response.req));
      else if (this.wasUsed(socket, afterTick)) answered.push(routeOf({ method: this.methods[place], url: this.urls[place] }));
    }
    return { waiting: waiting.map((route) => this.nameOf(route)), answered: [...new Set(answered.map((route) => this.nameOf(route)))] };
  }

  /**
   * Whether a connection was used so long after the last tick. For the connection's own time limit, Node.js keeps when it was last used, in
   * milliseconds of the timers' clock; our interval has the time of the last tick by the same clock.
   */
  wasUsed(socket, afterTick) {
    return socket && this.agent.hidden(socket, 'timeout')?._idleStart - this.interval._idleStart > afterTick;
  }

  /** The places in the ring of what started since the last tick, each with its connection. */
  recent() {
    /** @type {[number, any][]} */
    const all = [];
    for (let at = Math.max(this.startedAtTick, this.started - RING); at < this.started; at += 1) {
      const place = at & (RING - 1);
      if (this.sockets[place]) all.push([place, this.sockets[place]]);
    }
    return all;
  }

  /** Keeps the responses that are in progress, and releases all others. */
  sift() {
    const { underWay } = this;
    let kept = 0;
    const keep = (response) => {
      if (!response || isOver(response) || kept >= UNDER_WAY_MAX) return;
      underWay[kept] = response;
      kept += 1;
    };
    for (const response of underWay) keep(response);
    if (this.started !== this.startedAtTick) {
      for (const [place, socket] of this.recent()) {
        keep(socket._httpMessage);
        this.sockets[place] = null;
        this.urls[place] = '';
      }
      this.startedAtTick = this.started;
    }
    underWay.length = kept;
  }

  /** Counts the requests that the loop finds when it turns again: on average they arrived in the middle of the stall. */
  countQueued(stall) {
    const { immediate, guarded } = this.agent;
    const before = this.started;
    // The second one comes behind a whole look at what has come.
    immediate(() => immediate(guarded(() => {
      const came = this.started - before;
      stall.requests += came;
      stall.waited_ms += came * (stall.to - stall.from) / 2;
    })));
  }

  /** A route, unless there are too many of them. */
  nameOf(route) {
    if (this.routes.has(route)) return route;
    if (this.routes.size >= ROUTES_MAX) return 'other routes';
    this.routes.add(route);
    return route;
  }

  /** Reports the collected stalls to the primary. */
  tellAll() {
    this.willTell = false;
    if (this.minMs === 0) return;
    // This may come before the tick that follows a stall.
    this.look(clock());
    this.turned();
    const all = this.pending;
    if (all.length === 0) return;
    this.pending = [];
    const places = this.sampler?.read(all) ?? [];
    // Reading a profile takes time, which is not the app's.
    this.turned();
    const now = clock();
    const stalls = all.map((stall, index) => {
      const place = places[index];
      return {
        ago_ms: Math.round(now - stall.from),
        for_ms: Math.round(stall.to - stall.from),
        cpu_ms: Math.round(stall.cpu_ms),
        route: this.routeFor(stall, place),
        function: place?.name.slice(0, TEXT_MAX),
        stack: place?.stack.map((frame) => frame.slice(0, TEXT_MAX)),
        requests: stall.requests,
        waited_ms: Math.round(stall.waited_ms),
      };
    });
    this.agent.tell({ act: 'stalls', stalls, missed: this.missed });
    this.missed = 0;
  }

  /**
   * The route that blocked the loop. A handler runs when its request starts; for code after an `await`, the route is that
   * of the request that was answered when the loop turned again, or the route in which the same function, with the same callers, blocked the loop before.
   */
  routeFor({ starter, answered, waiting }, place) {
    if (starter && (!place || place.isStart)) return this.learn(place, starter);
    if (answered.length === 1) return this.learn(place, answered[0]);
    const known = place && this.learned.get(place.callers);
    if (known || starter) return known ?? starter;
    // Only likely, so not learned; and a timer more often has nothing to do with a request that waits for something else.
    const isLikely = answered.length === 0 && new Set(waiting).size === 1 && !place?.isTimer;
    return isLikely ? waiting[0] : undefined;
  }

  learn(place, route) {
    if (place && this.learned.size < LEARNED_MAX) this.learned.set(place.callers, route);
    return route;
  }
}

module.exports = { Stalls };
