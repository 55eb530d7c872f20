// A WebSocket client that sends one short message at a time and says how it failed. The app answers each message with one message.

import { randomBytes } from 'node:crypto';
import net from 'node:net';

const TIMEOUT_MS = 15_000;
const LENGTH_MAX = 125; // longer frames have another header (RFC 6455, section 5.2)
const TEXT = 0x81;
const CLOSE = 0x88;

/** A text frame as clients send it: masked. @param {string} text */
function frameOf(text) {
  const mask = randomBytes(4);
  const payload = Buffer.from(text);
  if (payload.length > LENGTH_MAX) throw new Error(`a message of ${payload.length} bytes`);
  return Buffer.concat([Buffer.of(TEXT, 0x80 | payload.length), mask, payload.map((byte, at) => byte ^ mask[at % 4])]);
}

/** One WebSocket. */
export class Socket {
  /** @param {number} port @param {{localAddress?: string}} [options] */
  constructor(port, { localAddress } = {}) {
    this.open = true;
    this.upgraded = false;
    this.received = Buffer.alloc(0);
    this.settle = null;
    this.socket = net.connect({ port, host: '127.0.0.1', localAddress });
    this.socket.setNoDelay(true);
    this.socket.setTimeout(TIMEOUT_MS);
    this.socket.on('data', (data) => { this.received = Buffer.concat([this.received, data]); this.#parse(); });
    this.socket.on('error', (error) => this.#fail(error.code ?? 'error'));
    this.socket.on('timeout', () => this.#fail('timeout'));
    this.socket.on('end', () => this.#fail('closed'));
    this.socket.on('close', () => this.#fail('closed'));
  }

  #ask(data) {
    return new Promise((resolve) => {
      this.settle = resolve;
      if (this.open) this.socket.write(data);
      else this.#fail('closed');
    });
  }

  /** Asks for the WebSocket. @returns {Promise<{kind: 'ok' | string, body: string}>} always fulfilled */
  upgrade() {
    const key = randomBytes(16).toString('base64');
    return this.#ask(`GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`);
  }

  /** Sends a message and waits for the one that answers it. @param {string} text @returns {Promise<{kind: 'ok' | string, body: string}>} always fulfilled */
  send(text) {
    return this.#ask(frameOf(text));
  }

  close() {
    this.open = false;
    this.socket.destroy();
  }

  #parse() {
    if (!this.upgraded) {
      const end = this.received.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = this.received.toString('latin1', 0, end);
      this.received = this.received.subarray(end + 4);
      if (!head.startsWith('HTTP/1.1 101 ')) return void this.#fail(`status ${head.slice(9, 12)}`);
      this.upgraded = true;
      return void this.#finish({ kind: 'ok', body: '' });
    }
    if (this.received.length < 2 || this.received.length < 2 + this.received[1]) return;
    if (this.received[0] === CLOSE) return void this.#fail('close frame');
    const body = this.received.toString('utf8', 2, 2 + this.received[1]);
    this.received = this.received.subarray(2 + this.received[1]);
    this.#finish({ kind: 'ok', body });
  }

  #fail(cause) {
    this.close();
    this.#finish({ kind: `${cause} (${this.upgraded ? 'open' : 'opening'})`, body: '' });
  }

  #finish(answer) {
    const settle = this.settle;
    this.settle = null;
    settle?.(answer);
  }
}
