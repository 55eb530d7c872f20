'use strict';
// Requests to the daemon: HTTP with JSON over its unix socket. Each has its own connection, which on a unix
// socket costs some microseconds, and no connection remains that could keep a process alive.
const http = require('node:http');
const { dirname } = require('node:path');

const { ForkfulError } = require('./errors.cjs');
const { checkHome } = require('./home.cjs');
const { written } = require('./json.cjs');

/** Maximum bytes of a reply: a list of a thousand apps has a few megabytes. */
const REPLY_BYTES_MAX = 256 * 1024 * 1024;

/** The interval between attempts while the daemon's accept queue is full, and the time limit. */
const QUEUE_FULL_PAUSE_MS = 10;
const QUEUE_FULL_MS_MAX = 60_000;

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Sends a request once; resolves with the response when its headers have arrived.
 * @returns {Promise<http.IncomingMessage>}
 */
function sendOnce(socketPath, { method, path, text, signal }) {
  return new Promise((resolve, reject) => {
    const headers = text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    const request = http.request({ socketPath, method, path, headers, agent: false, signal }, resolve);
    request.on('error', reject);
    request.end(text);
  });
}

/** The error of a request that found no daemon, or lost the connection. */
function explain(error, socketPath, request) {
  if (error.name === 'AbortError') return error;
  if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') {
    return new ForkfulError('NO_DAEMON', `no daemon is running at ${socketPath}`, {
      hint: '`start` starts one when there is something to run',
      cause: error,
    });
  }
  if (error.code === 'EACCES') {
    return new ForkfulError('NO_DAEMON', `${socketPath} belongs to another user`, {
      hint: 'run the command as that user (`sudo -u`), or set FORKFUL_HOME to a directory that you own',
      cause: error,
    });
  }
  const what = `${request.method} ${request.path}`;
  return new ForkfulError('LOST', `the daemon closed the connection before its reply to ${what} was complete`, {
    hint: `what the daemon said last is in daemon.log beside ${socketPath}`,
    cause: error,
  });
}

/**
 * Sends a request; resolves with the response, whatever its status.
 * @param {string} socketPath
 * @param {{ method: string, path: string, body?: unknown, bodyName?: string, signal?: AbortSignal }} request
 * @returns {Promise<http.IncomingMessage>}
 */
async function send(socketPath, request) {
  checkHome(dirname(socketPath));
  const { method, path, body, bodyName = 'the request', signal } = request;
  const text = body === undefined ? undefined : written(body, { nameOf: () => bodyName });
  const until = Date.now() + QUEUE_FULL_MS_MAX;
  for (;;) {
    try {
      return await sendOnce(socketPath, { method, path, text, signal });
    } catch (error) {
      // A unix socket reports a full queue immediately, where TCP would wait.
      if (error.code !== 'EAGAIN' || Date.now() > until) throw explain(error, socketPath, request);
      await pause(QUEUE_FULL_PAUSE_MS);
    }
  }
}

/** Reads all of a response. @param {http.IncomingMessage} response */
async function readAll(response) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > REPLY_BYTES_MAX) {
      response.destroy();
      throw new ForkfulError('LOST', `the daemon's reply is larger than ${REPLY_BYTES_MAX} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The error for a refusal by the daemon. */
function refusal(status, text, request) {
  try {
    const { code, error, hint, see } = JSON.parse(text);
    if (typeof error === 'string') return new ForkfulError(String(code).toUpperCase(), error, { hint, see });
  } catch {
    // Not a reply of a daemon.
  }
  return new ForkfulError('LOST', `the reply to ${request.method} ${request.path} makes no sense: status ${status}`, {
    hint: 'is another program listening at $FORKFUL_HOME/forkful.sock?',
  });
}

/** Sends a request and reads the JSON response. A question that changes nothing is asked again when the daemon was replaced meanwhile. */
async function ask(socketPath, request) {
  try {
    return await askOnce(socketPath, request);
  } catch (error) {
    const isCut = error.code === 'LOST' && error.cause !== undefined;
    if (!isCut || request.method !== 'GET') throw error;
    return askOnce(socketPath, request);
  }
}

async function askOnce(socketPath, request) {
  const response = await send(socketPath, request);
  let text;
  try {
    text = await readAll(response);
  } catch (error) {
    throw error instanceof ForkfulError ? error : explain(error, socketPath, request);
  }
  if (response.statusCode !== 200) throw refusal(response.statusCode, text, request);
  try {
    return JSON.parse(text);
  } catch {
    throw refusal(200, '', request);
  }
}

/** Sends a request whose reply is a stream; resolves when it has begun. */
async function open(socketPath, request) {
  const response = await send(socketPath, request);
  if (response.statusCode !== 200) throw refusal(response.statusCode, await readAll(response), request);
  return response;
}

module.exports = { ask, open };
