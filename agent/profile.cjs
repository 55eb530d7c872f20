// A CPU profile or a heap snapshot of this process, taken by the inspector when the primary asks for one. A part of the agent, which
// loads it at the first request; agent.cjs has the rules, README.md the protocol.
//
// The profile goes into a stream that comes with the request: its other end is the daemon's. The session is one of our own, so that
// the app's sessions and that of `sampler.cjs` go on. When the daemon closes the stream, the profile ends.
'use strict';

/** The longest profile, and the bounds of the time between two samples. */
const FOR_MS_MAX = 60_000;
const INTERVAL_US_MIN = 100;
const INTERVAL_US_MAX = 100_000;
/** A longer profile is not sent: the daemon takes no more. */
const PROFILE_BYTES_MAX = 256 * 1024 * 1024;
/** The maximum length of a reason. */
const REASON_MAX = 500;

/** The kinds of parts of the stream. A part is a byte for its kind, then the length in four bytes (big-endian), then the content. */
const KINDS = { data: 0x44, end: 0x5a, refused: 0x45 };

// Taken when this file is loaded, because an app may replace it later.
const { writeSync } = require('fs');

/** A part of the stream. @param {keyof KINDS} kind @param {Buffer} [content] */
function part(kind, content = Buffer.alloc(0)) {
  const head = Buffer.alloc(5);
  head[0] = KINDS[kind];
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

/** Why there is no profile, for people. @param {unknown} error */
function refusal(error) {
  const text = error instanceof Error ? error.message : String(error);
  return part('refused', Buffer.from(text.slice(0, REASON_MAX)));
}

/** Asks the inspector, which answers before `post` returns. */
function ask(session, method, params) {
  let [fault, answer] = [new Error(`the inspector did not answer ${method}`), undefined];
  session.post(method, params, (error, result) => { [fault, answer] = [error, result]; });
  if (fault) throw fault;
  return answer;
}

/** A profile whose frames of the agent say so: `forkful:` and the file's name in place of its address. */
function marked(profile) {
  const { isOfAgent } = require('./sampler.cjs');
  for (const { callFrame } of profile.nodes) {
    if (isOfAgent(callFrame)) callFrame.url = `forkful:${callFrame.url.slice(callFrame.url.lastIndexOf('/') + 1)}`;
  }
  return profile;
}

/** A separate session of the inspector. */
function open() {
  const session = new (require('inspector').Session)();
  session.connect();
  return session;
}

/** Ends a session. A session that has already ended is not an error. */
function close(session) {
  try {
    session?.disconnect();
  } catch {
    // It is closed.
  }
}

/** A number within bounds. */
function bounded(wish, least, most, usual) {
  return typeof wish === 'number' && Number.isFinite(wish) ? Math.min(Math.max(wish, least), most) : usual;
}

/** Takes profiles, one at a time. */
class Profiles {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    this.isBusy = false;
  }

  /**
   * @param {{ kind?: unknown, for_ms?: unknown, interval_us?: unknown }} order
   * @param {any} handle our end of the stream, as Node.js's own object
   */
  take(order, handle) {
    if (typeof handle?.close !== 'function') return;
    if (order.kind === 'heap' && !this.isBusy) return this.heap(handle);
    const socket = new (require('net').Socket)({ handle, readable: true, writable: true });
    socket.on('error', () => {});
    socket.unref();
    try {
      if (this.isBusy) throw new Error('another profile of this worker is under way');
      if (order.kind !== 'cpu') throw new Error('this version of the agent takes no such profile');
      this.cpu(order, socket);
    } catch (error) {
      socket.end(refusal(error));
    }
  }

  /** A CPU profile. V8 takes the samples from a separate thread. */
  cpu({ for_ms: wish, interval_us: every }, socket) {
    const { guarded, timer, sampling } = this.agent;
    if (require('./sampler.cjs').isCovered()) throw new Error('the coverage of this worker is measured (NODE_V8_COVERAGE), and the end of a CPU profile would end that');
    const session = open();
    this.isBusy = true;
    let isOver = false;
    sampling.begin();
    const over = () => {
      isOver = true;
      this.isBusy = false;
      sampling.end();
    };
    const finish = guarded(() => {
      if (isOver) return;
      over();
      try {
        const { profile } = ask(session, 'Profiler.stop');
        const content = Buffer.from(JSON.stringify(marked(profile)));
        if (content.length > PROFILE_BYTES_MAX) throw new Error('the profile is too large; ask for a shorter one');
        socket.write(part('data', content));
        socket.end(part('end'));
      } catch (error) {
        socket.end(refusal(error));
      } finally {
        close(session);
      }
    });
    try {
      ask(session, 'Profiler.enable');
      ask(session, 'Profiler.setSamplingInterval', { interval: bounded(every, INTERVAL_US_MIN, INTERVAL_US_MAX, 1000) });
      ask(session, 'Profiler.start');
      this.findReplaced(session);
    } catch (error) {
      over();
      close(session);
      throw error;
    }
    timer(finish, bounded(wish, 1, FOR_MS_MAX, 10_000)).unref();
    // The daemon sends nothing: when it closes the stream, the profile ends.
    socket.resume();
    socket.on('close', guarded(() => {
      if (isOver) return;
      over();
      close(session);
    }));
  }

  /**
   * V8 does not find code that replaced a function while it ran, in a long loop, before the profile began: its samples would be the caller's.
   * This throws all optimized code away.
   */
  findReplaced(session) {
    ask(session, 'Profiler.startPreciseCoverage', { callCount: false, detailed: false });
    ask(session, 'Profiler.stopPreciseCoverage');
  }

  /**
   * A heap snapshot. V8 hands all of it over before it lets anything else run, so each piece is written at once, and this process waits while
   * the stream is full. The daemon bounds that wait.
   */
  heap(handle) {
    this.isBusy = true;
    let session;
    let fault;
    const write = (bytes) => {
      for (let at = 0; at < bytes.length;) at += writeSync(handle.fd, bytes, at);
    };
    // Data that cannot be written is dropped: the daemon has ended, and V8 cannot be stopped.
    const tell = (bytes) => {
      if (fault) return;
      try {
        write(bytes);
      } catch (error) {
        fault = error;
      }
    };
    const finish = this.agent.guarded((error) => {
      this.isBusy = false;
      tell(error ? refusal(error) : part('end'));
      close(session);
      handle.close();
    });
    try {
      handle.setBlocking(true);
      session = open();
      session.on('HeapProfiler.addHeapSnapshotChunk', ({ params }) => tell(part('data', Buffer.from(params.chunk))));
      // Since Node.js 22, V8 begins when nothing else runs.
      session.post('HeapProfiler.takeHeapSnapshot', { reportProgress: false }, finish);
    } catch (error) {
      finish(error);
    }
  }
}

module.exports = { Profiles };
