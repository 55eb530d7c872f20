// Forkful's agent: preloaded into each worker by `node --require`. It makes drains exact: a worker
// that is told to drain answers every request it was sent, tells its clients to connect elsewhere, and
// closes idle connections only when no request is in transit. README.md beside it has the protocol.
//
// At the primary's request, it also reports the number of requests and how busy the event loop is, counts the
// connections that stay open, and closes some of them so that their clients connect to another worker. Until the first
// request of the primary, it only greets the primary and remembers the servers that listen. Rules for this file:
// - It never throws into the app: each entry point is guarded.
// - It never keeps the process alive: its timers are unref'd, and its listener is for an internal event, which does not
//   hold the channel.
// - It never writes to the app's stdout or stderr.
// - It wraps no object of the app, except child processes that are workers of the app's own cluster and share a socket (`shared.cjs`), and prom-client's if the app's configuration requests it (`merged.cjs`). It adds one property to an object of Node: a getter for `cluster.workers`, which a
//   worker does not have. `watchWorkers` removes the getter when prom-client has read it, or after 16 reads.
'use strict';

// Other modules are loaded when they are needed.
const diagnostics = require('diagnostics_channel');

/** The `cmd` of Node's own messages between a primary and the workers of its cluster. */
const CLUSTER = 'NODE_CLUSTER';

/** How long the end of a drain waits for the app's own metrics. */
const LAST_METRICS_MS = 1000;

/** The version of the protocol in README.md. */
const PROTOCOL = 1;

/** The `cmd` of each message between agent and primary; `NODE_` makes Node hide it from the app's 'message' listeners. */
const COMMAND = 'NODE_FORKFUL';

/**
 * How long an idle connection may still be used once a drain has started, when the primary does not say.
 * A client that reuses connections does so every few milliseconds under load; a socket that was closed
 * while a request was on its way is a failed request. After a second of silence that is unlikely.
 */
const GRACE_MS = 1000;

/** The longest grace that the primary can choose, so that a wrong value cannot hold a worker for ever. */
const GRACE_MS_MAX = 60_000;

/**
 * So long after the first listen, or up to four times as long, compiled code is written for the next start: that takes
 * tens of milliseconds once, and workers that started together should not all do it in the same moment.
 */
const FLUSH_MS = 1000;

/**
 * The start is over so long after the first listen, or up to twice as long. What can wait until then takes 10 ms of CPU time, and workers often
 * start together. Only requests are counted, and stalls noticed, from the first connection on.
 */
const SETTLED_MS = 1000;
/** The same for a process that does not listen, after the primary's first wish. */
const NEVER_LISTENS_MS = 4000;

/** Servers that listen or have open connections; see `learn`. */
const servers = new Set();
/** HTTP/2 servers that have our listener for sessions: a server that listens again gets no second one. */
const heard = new WeakSet();
/** Servers whose upgrades we record. */
const noted = new WeakSet();
/** Open connections of these servers that are not HTTP any more, such as WebSockets; the oldest first. */
const upgraded = new Set();
/** Open HTTP/2 sessions of these servers. */
const sessions = new Set();

/** Functions that are called with each new session. @type {Set<(session: any) => void>} */
const sessionListeners = new Set();

/** @type {import('./drain.cjs').Drain | null} The drain in progress; a drain cannot be cancelled. */
let drain = null;

/** Whether the first listen has been seen. Node.js 18 does not tell of it. */
let hasListened = false;

/** Whether the start is over: enough time has passed, or somebody looks. */
let isSettled = false;

/** @type {typeof import('./drain.cjs') | undefined} Loaded when the start is over: a drain must not depend on whether the file still exists. */
let drains;

/** What waits for the end of the start, by the primary's word for it. @type {Map<string, () => void>} */
const unsettled = new Map();

/** @type {import('./outgoing.cjs').Servers | undefined} Made when reports are asked for. */
let peers;

/** @type {import('./reports.cjs').Reporter | undefined} Made when the start is over and reports are asked for. */
let reporter;

/** @type {import('./requests.cjs').Requests | undefined} Made when reports or stalls are asked for. */
let requests;

/** @type {import('./stalls.cjs').Stalls | undefined} Made when stalls are asked for. */
let stalls;

/** @type {import('./prom.cjs').Prom | undefined} Made when the app's own metrics are asked for. */
let prom;

/** @type {import('./merged.cjs').Merger | undefined} Set if scrapes of the app's own metrics return those of all workers. */
let merger;

/** @type {import('./profile.cjs').Profiles | undefined} Made when a profile is asked for. */
let profiles;

/** @type {import('./kept.cjs').Mover | undefined} Made when connections are counted. */
let mover;

/** @type {ReturnType<typeof import('./loans.cjs').lendTo> | undefined} In a process whose sockets the primary lends. */
let loans;

/**
 * Runs a step of the agent so that its failure does not reach the app.
 * @param {(...values: any[]) => void} step
 */
function guarded(step) {
  return (...values) => {
    try {
      step(...values);
    } catch {
      // A drain without the agent is less precise, but an app must not fail because of its supervisor.
    }
  };
}

/**
 * Sends a message to the primary, through the IPC channel unless that belongs to another process.
 * @param {Record<string, unknown>} message
 */
let post = (message) => {
  // With a callback, a closed channel is reported there instead of being thrown or emitted.
  if (process.connected) send.call(process, message, undefined, undefined, () => {});
};

/** Whether messages can reach the primary. */
let isConnected = () => process.connected === true;

/**
 * Sends a message of ours to the primary.
 * @param {Record<string, unknown>} message
 */
function tell(message) {
  post({ cmd: COMMAND, ...message });
}

/**
 * Makes Node write its compiled code, if it has a cache for it (`NODE_COMPILE_CACHE`). By itself, Node writes it when
 * it exits, but not if a signal ends the process. Versions before 22.10 have no function for it.
 */
const flush = guarded(() => {
  if (CACHE) require('module').flushCompileCache?.();
});

/** The value that an object of Node has under a symbol of that description; undefined if there is none. */
function hidden(object, description) {
  const key = Object.getOwnPropertySymbols(object).find((symbol) => symbol.description === description);
  return key && object[key];
}

/** The sockets of a server's HTTP/1 connections, from the list that Node's `closeIdleConnections` uses. */
function http1Sockets(server) {
  const list = hidden(server, 'http.server.connections');
  if (!list || typeof list.all !== 'function') return [];
  return list.all().map((parser) => parser.socket).filter((socket) => socket && !socket.destroyed);
}

/** Whether a server was made by `http2`, found without loading that module. */
function isHttp2(server) {
  for (let type = server; type; type = Object.getPrototypeOf(type)) {
    const name = type.constructor && type.constructor.name;
    if (name === 'Http2Server' || name === 'Http2SecureServer') return true;
  }
  return false;
}

/**
 * Remembers a server, and forgets closed servers. Cheap for a known server.
 * @param {any} server
 * @param {any} [socket] its connection that made us see it: on Node 18 that one's HTTP/2 session exists by then
 */
function learn(server, socket) {
  if (!server || servers.has(server) || loans?.isOwn(server._pipeName)) return;
  for (const known of servers) {
    if (!known.listening && !known._connections) servers.delete(known);
  }
  servers.add(server);
  watchUpgrades(server);
  if (isHttp2(server) && !heard.has(server)) {
    heard.add(server);
    server.on('session', guarded(watchSession));
    const session = socket && hidden(socket, 'kSession');
    if (session) watchSession(session);
  }
}

/**
 * Records the connections of a server that are upgraded. A server without a listener for upgrades answers such requests
 * like any others, so we only listen while the app does.
 */
function watchUpgrades(server) {
  if (noted.has(server)) return;
  noted.add(server);
  const note = guarded((_request, socket) => {
    upgraded.add(socket);
    socket.once('close', () => upgraded.delete(socket));
  });
  const follow = guarded((name) => {
    if (name !== 'upgrade') return;
    const listeners = server.listeners('upgrade');
    const isAlone = listeners.every((listener) => listener === note);
    if (isAlone) server.removeListener('upgrade', note);
    else if (!listeners.includes(note)) server.on('upgrade', note);
  });
  // The event comes before the listener is added.
  server.on('newListener', (name, listener) => { if (name === 'upgrade' && listener !== note) process.nextTick(follow, name); });
  server.on('removeListener', (name, listener) => { if (listener !== note) follow(name); });
  follow('upgrade');
}

function watchSession(session) {
  if (!sessions.has(session)) for (const listener of sessionListeners) listener(session);
  sessions.add(session);
  session.once('close', () => sessions.delete(session));
  if (drain) loadDrains().announce(session, timer);
}

/** Makes a response say `Connection: close`, unless its headers were already sent. */
function refuseReuse(response) {
  if (response && !response.headersSent) response.shouldKeepAlive = false;
}

/**
 * Starts the drain; later messages change nothing.
 * @param {number} graceMs
 * @param {boolean} closesIdle
 * @param {{ withinMs?: unknown, stop?: unknown }} [how] how long it may take, and what the process is told to stop by, if that is known
 */
function begin(graceMs, closesIdle, { withinMs, stop } = {}) {
  if (drain) return;
  // This is the last chance to send it.
  stalls?.finish();
  drain = new (loadDrains().Drain)(agent, graceMs, closesIdle, stop);
  // The first look may already end the drain.
  guarded(() => loans?.workers.drain(graceMs, withinMs))();
  drain.start();
  // The next steps must not depend on whether the file still exists.
  if (typeof withinMs === 'number' && withinMs > 0) guarded(() => new (require('./long.cjs').Leavers)(agent, withinMs, now).start())();
}

/**
 * What is still to be done at the end of a drain.
 * @param {() => void} then follows when the primary has been told all of it
 */
function finish(then) {
  flush();
  // What has been counted since the last report and the last question.
  guarded(() => {
    if (reporter && unsettled.has('report')) settle();
    else reporter?.report();
  })();
  let isOver = false;
  const over = guarded(() => {
    if (isOver) return;
    isOver = true;
    then();
  });
  // prom-client answers a while later, and one of the app's own functions may take long.
  if (prom) timer(over, LAST_METRICS_MS).unref();
  guarded(() => prom?.tell(over))();
  if (!prom) over();
}

/** Drains without a message of the primary: the next process has the same sockets. */
function leave() {
  begin(GRACE_MS, true);
  stopListening(null);
}

/**
 * Closes ports and unix sockets to new connections, also those that Node.js holds for workers of the app's own.
 * @param {string[] | null} places null is everywhere
 */
function stopListening(places) {
  drain.stopListening(places);
  guarded(() => loans?.stopListening(places))();
}

/** @param {unknown} wish `grace_ms` as it came */
function graceOf(wish) {
  return typeof wish === 'number' && wish >= 0 ? Math.min(wish, GRACE_MS_MAX) : GRACE_MS;
}

/**
 * @param {unknown} wish `every_ms` as it came
 * @param {unknown} quiet `quiet_ms` as it came
 * @param {unknown} atOnce `now` as it came: somebody looks
 */
function report(wish, quiet, atOnce) {
  if (typeof wish !== 'number' || !Number.isFinite(wish)) return;
  if (wish <= 0) {
    unsettled.delete('report');
    peers?.end();
    reporter?.end();
    return;
  }
  if (atOnce === true || quiet === undefined) settle();
  // An app connects to its databases when it starts.
  if (!isSettled) watchPeers();
  whenSettled('report', () => loadReporter().every(wish, typeof quiet === 'number' ? quiet : 0, atOnce === true));
}

/** Learns of the servers that the app connects to during its start. */
function watchPeers() {
  // Where Node.js does not publish all sockets, `outgoing.cjs` has another way.
  if (!publishesSockets()) return void loadPeers().begin();
  const opened = held('net.client.socket');
  const onFirst = guarded((message) => {
    later(() => opened.unsubscribe(onFirst));
    // Otherwise reports have begun, which learn of the servers themselves, or have ended.
    if (!unsettled.has('report')) return;
    loadPeers().begin();
    loadPeers().onSocket(message);
  });
  opened.subscribe(onFirst);
}

function loadPeers() {
  peers ??= new (require('./outgoing.cjs').Servers)(agent, publishesSockets());
  return peers;
}

/** Whether `net.client.socket` has each socket that connects. A function that another program has put around Node's does not say so. */
function publishesSockets() {
  return Function.prototype.toString.call(require('net').Socket.prototype.connect).includes('netClientSocketChannel');
}

/** @type {import('./requests.cjs').Requests['listen']} */
function listenToRequests(name, listener) {
  requests ??= new (require('./requests.cjs').Requests)(agent);
  requests.listen(name, listener);
}

function loadReporter() {
  reporter ??= new (require('./reports.cjs').Reporter)(agent, loadPeers);
  return reporter;
}

function loadDrains() {
  drains ??= require('./drain.cjs');
  return drains;
}

/**
 * Does something when the start is over; of several things by the same name, the last.
 * @param {string} name
 * @param {() => void} step
 */
function whenSettled(name, step) {
  if (isSettled) return step();
  // A worker that listens sets a shorter time.
  if (unsettled.size === 0) timer(guarded(settle), NEVER_LISTENS_MS).unref();
  unsettled.set(name, guarded(step));
}

/** The start is over. */
function settle() {
  isSettled = true;
  for (const step of unsettled.values()) step();
  unsettled.clear();
  loadDrains();
}

/** @param {unknown} wish `min_ms` as it came */
function tellStalls(wish) {
  if (typeof wish !== 'number' || !Number.isFinite(wish)) return;
  whenSettled('stalls', () => {
    stalls ??= new (require('./stalls.cjs').Stalls)(agent);
    stalls.from(wish);
  });
}

/**
 * Takes a profile. If this part of the agent cannot be loaded, the daemon sees the stream end.
 * @param {any} message
 * @param {any} handle
 */
function takeProfile(message, handle) {
  try {
    profiles ??= new (require('./profile.cjs').Profiles)(agent);
  } catch (error) {
    handle?.close?.();
    throw error;
  }
  profiles.take(message, handle);
}

/** @param {unknown} wish `connections` as it came */
function move(wish) {
  if (typeof wish === 'number' && Number.isInteger(wish) && wish >= 0 && !drain) mover?.move(wish);
}

/** The actions of our own messages. */
const DEEDS = {
  drain(message) {
    begin(graceOf(message.grace_ms), true, { withinMs: message.within_ms, stop: message.stop });
    if (Array.isArray(message.closes)) stopListening(message.closes);
  },
  stalls: (message) => tellStalls(message.min_ms),
  report: (message) => report(message.every_ms, message.quiet_ms, message.now),
  // libuv's pool has threads.
  pool: () => whenSettled('pool', () => reporter?.usePool()),
  metrics() {
    try {
      (prom ??= new (require('./prom.cjs').Prom)(agent, merger)).tell();
    } catch {
      // Without an answer, the primary would ask again only after a while.
      tell({ act: 'metrics' });
    }
  },
  merged: (message) => merger?.hear(message),
  count: () => (mover ??= new (require('./kept.cjs').Mover)(agent)).count(),
  move: (message) => move(message.connections),
  profile: takeProfile,
  // A new daemon asks: when this is answered, all messages of the previous daemon have been answered.
  echo: () => tell({ act: 'echo' }),
};

/** A message from the primary; all except ours and Node's `disconnect` are ignored. */
function onInternalMessage(message, handle) {
  if (!message) return;
  if (loans && message.cmd === CLUSTER) return loans.hear(message, handle);
  if (message.cmd === COMMAND && Object.hasOwn(DEEDS, message.act)) DEEDS[message.act](message, handle);
  // Node closes idle connections itself now; we only mark the responses.
  if (message.cmd === CLUSTER && message.act === 'disconnect') begin(0, false);
}

/** Removes the agent from the options of the app's own child processes. */
function leaveExecArgv() {
  const { execArgv } = process;
  for (let at = execArgv.length - 1; at >= 0; at -= 1) {
    const value = execArgv[at];
    const next = execArgv[at + 1];
    if ((value === '--require' || value === '-r') && next === __filename) execArgv.splice(at, 2);
    else if (value === `--require=${__filename}`) execArgv.splice(at, 1);
  }
}

/** Some versions of Node hold channels and their subscribers weakly. */
const channels = [];
function held(name) {
  const channel = diagnostics.channel(name);
  channels.push(channel);
  return channel;
}

/**
 * Does something after what is published now: where a subscriber leaves meanwhile, Node.js skips the next one, and Node.js 20.0 to 20.5 throw
 * if it was the last.
 * @param {() => void} step
 */
function later(step) {
  process.nextTick(guarded(step));
}

function watchServers() {
  const perConnection = held('net.server.socket');
  const onSocket = guarded(({ socket }) => learn(socket.server, socket));
  perConnection.subscribe(onSocket);
  // A connection that another process hands over is seen with its first request.
  const firsts = [perConnection, agent.requestStart];
  const onFirst = guarded((message) => {
    // The request would wait for all else that reports need, some milliseconds.
    if (unsettled.has('report')) loadReporter().count();
    reporter?.meet(message);
    const watchStalls = unsettled.get('stalls');
    unsettled.delete('stalls');
    watchStalls?.();
    later(() => { for (const channel of firsts) channel.unsubscribe(onFirst); });
  });
  for (const channel of firsts) channel.subscribe(onFirst);
  // Node 20 and later report each listen, so that nothing needs to be done per connection.
  const perListen = held('tracing:net.server.listen:asyncEnd');
  perListen.subscribe(guarded(({ server }) => {
    perConnection.unsubscribe(onSocket);
    learn(server);
    if (hasListened) return;
    hasListened = true;
    if (CACHE) timer(flush, FLUSH_MS * (1 + 3 * Math.random())).unref();
    timer(guarded(settle), SETTLED_MS * (1 + Math.random())).unref();
  }));
}

/** Where Node keeps compiled code, if anywhere. */
const CACHE = process.env.NODE_COMPILE_CACHE;
// Taken now, because an app may replace them later (test doubles, APM tools).
const send = process.send;
const timer = setTimeout;
/** How sockets are lent, if they are. */
const LENDS = process.env.FORKFUL_LENDS;
const { lendTo, isMain, isOfApp } = LENDS ? require('./loans.cjs') : {};
const immediate = setImmediate;
const ticks = setInterval;
const clearTicks = clearInterval;
const memory = process.memoryUsage;
const clock = process.hrtime;

/**
 * The agent's own CPU profiles. V8 takes samples with a signal, which interrupts the event loop's wait, and libuv then loses the idle time
 * before the signal: the loop seems busier than it is. macOS has other means.
 */
const sampling = {
  open: 0,
  /** Whether one has run since this was last reset. */
  wasOpen: false,
  begin() {
    if (process.platform === 'darwin') return;
    this.open += 1;
    this.wasOpen = true;
  },
  end() { this.open = Math.max(0, this.open - 1); },
};

/**
 * The functions of this file that other parts of the agent use.
 * @typedef {object} Agent
 * @property {(step: (...values: any[]) => void) => (...values: any[]) => void} guarded keeps our failures from the app
 * @property {(message: object) => void} post sends a message to the primary
 * @property {(message: object) => void} tell sends a message of ours to the primary
 * @property {(message: object, handle?: any) => void} hear takes a message of the primary
 * @property {() => boolean} isConnected whether messages reach the primary
 * @property {() => void} greet tells the primary that the agent runs
 * @property {() => boolean} isLeaving whether a drain is in progress
 * @property {() => void} leave begins a drain without a message of the primary
 * @property {() => boolean} lends whether the primary lends sockets to this process, or to the primary of the app's own cluster
 * @property {() => Iterable<any>} underWay responses under way, where requests are counted
 * @property {() => number} ownWorkers workers of the app's own cluster that have not drained
 * @property {() => void} finish what is still to be done at the end of a drain
 * @property {() => number} now milliseconds of a monotonic clock
 * @property {(server: any) => void} learn remembers a server
 * @property {Set<any>} servers servers that listen or have open connections
 * @property {Set<any>} sessions open HTTP/2 sessions of these servers
 * @property {Set<(session: any) => void>} sessionListeners functions that are called with each new session
 * @property {Set<any>} upgraded connections that are not HTTP any more
 * @property {(object: any, description: string) => any} hidden what an object of Node's holds under a symbol
 * @property {(server: any) => any[]} http1Sockets the sockets of a server's HTTP/1 connections
 * @property {(response: any) => void} refuseReuse makes a response say `Connection: close`, unless its headers were sent
 * @property {WeakMap<any, any>} pipelined connections whose clients have sent a request while another was under way: the response to the last such request
 * @property {any} requestStart the channel of each HTTP/1 request; set once the agent watches
 * @property {import('./requests.cjs').Requests['listen']} listenToRequests sets a listener for HTTP/1 requests
 * @property {typeof setTimeout} timer
 * @property {typeof setImmediate} immediate
 * @property {typeof setInterval} ticks
 * @property {typeof clearInterval} clearTicks
 * @property {typeof process.memoryUsage} memory
 * @property {typeof sampling} sampling
 * @property {(name: string) => any} held a channel of `diagnostics_channel`, which stays
 */
/** Whether this is a worker of an app's own cluster. */
let isOwnWorker = false;

/** @type {Agent} */
const agent = {
  guarded, post: (message) => post(message), tell, hear: guarded(onInternalMessage), isConnected: () => isConnected(), greet, isLeaving: () => drain !== null, leave,
  lends: () => loans !== undefined || isOwnWorker, underWay: () => reporter?.underWay() ?? [], ownWorkers: () => loans?.workers.busy.size ?? 0, finish, now, learn, servers, sessions, sessionListeners, upgraded, hidden, http1Sockets, refuseReuse, pipelined: new WeakMap(), requestStart: undefined, listenToRequests, timer, ticks, clearTicks, memory, immediate, sampling, held,
};

/** Milliseconds of a monotonic clock. */
function now() {
  const [seconds, nanoseconds] = clock.call(process);
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** After this many reads of `cluster.workers`, its getter is removed: each read costs a stack trace. */
const WORKERS_LOOKS_MAX = 16;

/**
 * Tells the primary when prom-client asks for `cluster.workers`, which a worker does not have: its `clusterMetrics()`
 * then gives an empty text, and no error. The app still reads `undefined`.
 */
function watchWorkers() {
  // Node loads the module before us in a cluster worker. Elsewhere it would take milliseconds.
  if (!process.moduleLoadList?.includes('NativeModule internal/cluster/child')) return;
  const cluster = require('cluster');
  if (!cluster.isWorker || 'workers' in cluster) return;
  let looks = 0;
  const look = guarded(() => {
    looks += 1;
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 10;
    const stack = String(new Error().stack);
    Error.stackTraceLimit = stackTraceLimit;
    const isMetrics = stack.includes('clusterMetrics');
    if (isMetrics) tell({ act: 'lacks-workers' });
    if (isMetrics || looks >= WORKERS_LOOKS_MAX) delete cluster.workers;
  });
  Object.defineProperty(cluster, 'workers', {
    configurable: true,
    enumerable: false,
    get: () => look(),
    set: (value) => {
      Object.defineProperty(cluster, 'workers', { configurable: true, enumerable: true, writable: true, value });
    },
  });
}

/**
 * Has the primary asked for ports that the app would open for this worker alone (`reusePort`, `exclusive`), so that they outlive
 * the worker: `loans.cjs` does it. Node.js calls this function at the end of each listen, with the primary's handle when it has one.
 */
function watchOwn() {
  if (!process.moduleLoadList?.includes('NativeModule internal/cluster/child')) return;
  const { prototype } = require('net').Server;
  const listen = prototype._listen2;
  if (typeof listen !== 'function') return;
  prototype._listen2 = function (...args) {
    let isAsked = false;
    const ask = guarded(() => { isAsked = require('./loans.cjs').askAsWorker(agent, listen, this, args); });
    if (!this._handle && args[1] > 0) ask();
    return isAsked ? undefined : listen.apply(this, args);
  };
}

/** Notes a client that pipelines: it does not wait for answers. */
function notePipelined({ response, socket }) {
  const current = socket._httpMessage;
  if (current && current !== response) agent.pipelined.set(socket, response);
}

/** Makes scrapes of the app's own prom-client return the metrics of all workers. */
function mergeMetrics() {
  merger = new (require('./merged.cjs').Merger)(agent);
  merger.watch();
}

/** Tells the primary that the agent runs. */
function greet() {
  tell({ act: 'hello', version: PROTOCOL, can: ['drain', 'report', 'stalls', 'metrics', 'count', 'move', 'echo', 'profile'], node: process.versions.node });
}

/**
 * Loads `AsyncLocalStorage`, which takes 0.1 ms, before the agent sends its first message. Otherwise V8 does not inline the methods of Node's
 * `AsyncContextFrame` (Node.js 24 and later) and looks them up by name at each tick, which costs a request 0.3 us.
 */
function loadStorage() {
  if (Number.parseInt(process.versions.node, 10) >= 24) void require('async_hooks').AsyncLocalStorage;
}

guarded(() => {
  leaveExecArgv();
  const isBelow = lendTo && !LENDS.startsWith('ipc:');
  // The channel of a worker of an app's own cluster is its primary's, which has it drain.
  isOwnWorker = Boolean(isBelow) && typeof send === 'function' && isOfApp();
  // A worker thread has no channel either; the channel of a child process is not the daemon's.
  if (!isOwnWorker && (isBelow ? !isMain() : typeof send !== 'function')) return;
  agent.requestStart = held('http.server.request.start');
  watchServers();
  if (isOwnWorker) {
    // Nobody asks it for reports, with which requests are watched otherwise.
    agent.requestStart.subscribe(guarded(notePipelined));
    return void process.on('internalMessage', agent.hear);
  }
  if (process.env.FORKFUL_METRICS === 'merge') guarded(mergeMetrics)();
  guarded(() => { loans = lendTo?.(agent, LENDS, __filename); })();
  if (isBelow) {
    post = (message) => loans?.link?.say(message);
    isConnected = () => loans?.link !== undefined;
    return;
  }
  process.on('internalMessage', agent.hear);
  guarded(watchWorkers)();
  if (!LENDS) guarded(watchOwn)();
  guarded(loadStorage)();
  greet();
})();
