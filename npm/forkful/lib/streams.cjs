'use strict';
// Streams of the daemon as async iterators: lines of JSON, and server-sent events.

/** Maximum length of a stream's line: an app's log line may have many megabytes, escaped as JSON. */
const LINE_CHARACTERS_MAX = 256 * 1024 * 1024;

/** The lines of a text stream, without their newlines. @param {AsyncIterable<string>} chunks */
async function* linesOf(chunks) {
  let parts = [];
  let length = 0;
  for await (const chunk of chunks) {
    const lines = chunk.split('\n');
    const rest = lines.pop();
    for (const line of lines) {
      yield parts.length > 0 ? parts.join('') + line : line;
      parts = [];
      length = 0;
    }
    if (rest !== '') parts.push(rest);
    length += rest.length;
    if (length > LINE_CHARACTERS_MAX) throw new Error('a line without an end came from the daemon');
  }
}

/** Events of `text/event-stream`, as `{ type, ...data }`. @param {AsyncIterable<string>} chunks */
async function* eventsOf(chunks) {
  let type = 'message';
  let data = '';
  for await (const line of linesOf(chunks)) {
    if (line.startsWith('event: ')) type = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
    else if (line === '' && data !== '') {
      yield { type, ...JSON.parse(data) };
      type = 'message';
      data = '';
    }
  }
}

/** Values of a stream with a JSON text on each line. @param {AsyncIterable<string>} chunks */
async function* jsonLinesOf(chunks) {
  for await (const line of linesOf(chunks)) if (line !== '') yield JSON.parse(line);
}

/**
 * The values of a daemon's stream. It ends when the daemon ends it, at `close()`, and when a `for await` loop exits.
 * @template T
 */
class Stream {
  #response = null;
  #values;
  #closed = false;

  /**
   * @param {Promise<import('node:http').IncomingMessage>} opening
   * @param {(chunks: AsyncIterable<string>) => AsyncGenerator<T>} parse
   */
  constructor(opening, parse) {
    /** Resolves when the stream has begun: it contains all later events. */
    this.ready = opening.then((response) => {
      this.#response = response;
      if (this.#closed) response.destroy();
      this.#values = parse(response.setEncoding('utf8'));
    });
    // Readers of the stream get the error, and so do callers that only wait for `ready`.
    this.ready.catch(() => {});
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** The next value. @returns {Promise<IteratorResult<T>>} */
  async next() {
    try {
      await this.ready;
      return this.#closed ? { done: true, value: undefined } : await this.#values.next();
    } catch (error) {
      // A stopped daemon ends its streams; so does `close`.
      const cut = error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE' || error.name === 'AbortError';
      if (this.#closed || cut) return { done: true, value: undefined };
      throw error;
    }
  }

  async return(value) {
    this.close();
    return { done: true, value };
  }

  /** Ends the stream. */
  close() {
    this.#closed = true;
    this.#response?.destroy();
  }
}

module.exports = { Stream, eventsOf, jsonLinesOf };
