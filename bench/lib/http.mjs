// A small HTTP/1.1 client over raw sockets: it reports how a request failed, which other clients hide.
// It reads responses that carry Content-Length, or chunks without trailers, which is all that apps under test send.

import net from 'node:net';

const TIMEOUT_MS = 15_000;

/** @typedef {{kind: 'ok' | string, status: number, body: string, closing: boolean}} Answer */

/** One connection that can carry several requests, one at a time. */
export class Connection {
  /** @param {number} port @param {{host?: string, localAddress?: string, timeoutMs?: number}} [options] */
  constructor(port, { host = '127.0.0.1', localAddress, timeoutMs = TIMEOUT_MS } = {}) {
    this.used = 0;
    this.open = true;
    this.connected = false;
    this.received = '';
    this.settle = null;
    this.socket = net.connect({ port, host, localAddress });
    this.socket.setNoDelay(true);
    this.socket.setEncoding('latin1');
    this.socket.setTimeout(timeoutMs);
    this.socket.on('connect', () => { this.connected = true; });
    this.socket.on('data', (text) => { this.received += text; this.#parse(); });
    this.socket.on('end', () => this.#fail('closed'));
    this.socket.on('error', (error) => this.#fail(error.code ?? 'error'));
    this.socket.on('timeout', () => this.#fail('timeout'));
    this.socket.on('close', () => this.#fail('closed'));
  }

  /** @returns {Promise<Answer>} always fulfilled; `kind` is the result */
  request(path, { close = false } = {}) {
    return new Promise((resolve) => {
      this.settle = resolve;
      this.received = '';
      this.used += 1;
      if (!this.open) return this.#fail('closed');
      this.socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: ${close ? 'close' : 'keep-alive'}\r\n\r\n`);
    });
  }

  close() {
    this.open = false;
    this.socket.destroy();
  }

  #parse() {
    const head = this.received.indexOf('\r\n\r\n');
    if (head < 0 || this.settle === null) return;
    const headers = this.received.slice(0, head);
    if (/\r\ntransfer-encoding: *chunked/i.test(headers) && !this.received.endsWith('\r\n0\r\n\r\n')) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(headers)?.[1] ?? 0);
    if (this.received.length < head + 4 + length) return;
    const closing = /\r\nconnection: *close/i.test(headers);
    const status = Number(headers.slice(9, 12));
    this.#finish({ kind: status === 200 ? 'ok' : 'status', status, body: length === 0 ? this.received.slice(head + 4) : this.received.slice(head + 4, head + 4 + length), closing });
  }

  /** Names the failure by what the client could see of it. */
  #fail(cause) {
    this.open = false;
    this.socket.destroy();
    const stage = !this.connected ? 'connect' : this.received.length > 0 ? 'in response' : this.used > 1 ? 'reused connection' : 'before response';
    this.#finish({ kind: `${cause} (${stage})`, status: 0, body: '', closing: true });
  }

  #finish(answer) {
    const settle = this.settle;
    this.settle = null;
    settle?.(answer);
  }
}

/** One request on its own connection. @returns {Promise<Answer>} */
export async function get(port, path, options = {}) {
  const connection = new Connection(port, options);
  const answer = await connection.request(path, { close: true });
  connection.close();
  return answer;
}

/** Loopback source addresses: client `i` gets its own address, like real clients. */
export const clientAddress = (i) => `127.${1 + (Math.floor(i / 62500) % 100)}.${Math.floor(i / 250) % 250}.${1 + (i % 250)}`;
