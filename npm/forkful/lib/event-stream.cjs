'use strict';
// The events of a home as one stream, whichever daemon runs there: after an update or a crash it goes on with the next daemon.
const { join } = require('node:path');

const { ForkfulError } = require('./errors.cjs');

/** The interval between attempts to reach the next daemon. */
const RECONNECT_PAUSE_MS = 100;

/** Time limit of these attempts: a daemon that stops closes its socket within seconds. */
const RECONNECT_MS_MAX = 10_000;

/** The errors of a request to a daemon that is ending. */
const OF_AN_ENDING_DAEMON = ['LOST', 'INTERNAL'];

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * An async iterator over events. It ends at `close()`, when the signal aborts, when a `for await` loop exits, and after
 * `daemon:ending` if no daemon follows; it throws `NO_DAEMON` if the daemon was lost and none follows.
 */
class EventStream {
  #open;
  #home;
  #stream;
  #openedAt = Date.now();
  #values = this.#follow();
  /** Ends the present stream, and an attempt to reconnect, which waits while the keeper starts a daemon. */
  #closing = new AbortController();
  /** Removes the listener of the caller's signal. */
  #forget;

  /**
   * @param {(signal?: AbortSignal) => import('./streams.cjs').Stream<any>} open opens the stream of the present daemon
   * @param {{ home: string, signal?: AbortSignal }} options
   */
  constructor(open, { home, signal }) {
    this.#open = open;
    this.#home = home;
    const abort = () => this.#closing.abort();
    signal?.addEventListener('abort', abort);
    this.#forget = () => signal?.removeEventListener('abort', abort);
    if (signal?.aborted) abort();
    this.#stream = open(this.#closing.signal);
    /** Resolves when the stream has begun: it contains all later events of this daemon. */
    this.ready = this.#stream.ready;
  }

  get #isClosed() {
    return this.#closing.signal.aborted;
  }

  async *#follow() {
    try {
      yield* this.#eventsOfAll();
    } finally {
      this.#forget();
    }
  }

  /** The events of all daemons. `daemon:ending` is held back until it is known that no daemon follows. */
  async *#eventsOfAll() {
    let ending = null;
    let endingAt = 0;
    for (;;) {
      for await (const event of this.#stream) {
        if (event.type === 'daemon:ending') {
          ending = event;
          endingAt = Date.now();
          continue;
        }
        ending = null;
        yield event;
      }
      if (this.#isClosed) return;
      const isEnd = ending !== null && Date.now() - endingAt < RECONNECT_MS_MAX;
      if (await this.#reconnect()) continue;
      if (this.#isClosed) return;
      if (!isEnd) {
        throw new ForkfulError('NO_DAEMON', 'the daemon ended unexpectedly, and no other has taken over', {
          hint: `its last messages are in ${join(this.#home, 'daemon.log')}`,
        });
      }
      yield ending;
      return;
    }
  }

  /** Opens the stream of the next daemon; false if there is none. */
  async #reconnect() {
    const until = Date.now() + RECONNECT_MS_MAX;
    // A daemon that is ending may open a stream and end it at once.
    if (Date.now() - this.#openedAt < RECONNECT_PAUSE_MS) await pause(RECONNECT_PAUSE_MS);
    for (; !this.#isClosed; await pause(RECONNECT_PAUSE_MS)) {
      this.#openedAt = Date.now();
      this.#stream = this.#open(this.#closing.signal);
      try {
        await this.#stream.ready;
        return true;
      } catch (error) {
        if (this.#isClosed || error.code === 'NO_DAEMON') return false;
        // A daemon that is ending still accepts connections, and closes them or says that it is ending.
        if (!OF_AN_ENDING_DAEMON.includes(error.code) || Date.now() > until) throw error;
      }
    }
    return false;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** The next event. @returns {Promise<IteratorResult<any>>} */
  async next() {
    return this.#isClosed ? { done: true, value: undefined } : this.#values.next();
  }

  async return(value) {
    this.close();
    return { done: true, value };
  }

  /** Ends the stream. */
  close() {
    this.#forget();
    this.#closing.abort();
    this.#stream.close();
  }
}

module.exports = { EventStream };
