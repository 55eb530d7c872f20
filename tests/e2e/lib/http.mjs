// Small HTTP and TCP clients for single requests.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';

import { whereIs } from './sockets.mjs';
import { waitUntil } from './wait.mjs';

/** Default time limit of a test server's answer. */
const ANSWER_MS_MAX = 180_000;

/**
 * One request on a connection of its own.
 * @param {number | string | import('node:https').RequestOptions} where a port, a unix socket's path, or options
 * @returns {Promise<{ status: number | undefined, headers: http.IncomingHttpHeaders, body: string }>}
 */
export function get(where, path = '/') {
  let options = /** @type {https.RequestOptions} */ ({});
  if (typeof where === 'number') options = { host: '127.0.0.1', port: where };
  else if (typeof where === 'string') options = { socketPath: where };
  else options = where;
  const protocol = options.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    const request = protocol.get({ path, agent: false, rejectUnauthorized: false, ...options }, async (response) => {
      try {
        let body = '';
        for await (const text of response.setEncoding('utf8')) body += text;
        resolve({ status: response.statusCode, headers: response.headers, body });
      } catch (error) {
        reject(error);
      }
    });
    const { timeout = ANSWER_MS_MAX } = options;
    request.setTimeout(timeout, () => {
      const { localPort, remotePort } = request.socket ?? {};
      const where = localPort && remotePort ? `: ${whereIs(localPort, remotePort)}` : '';
      request.destroy(new Error(`no answer within ${timeout} ms${where}`));
    });
    request.on('error', reject);
  });
}

/**
 * Sends requests until `count` different bodies were received, and returns them sorted: that many workers answer.
 * @param {Parameters<typeof get>[0]} where
 */
export async function differentAnswers(where, count = 2, path = '/') {
  const seen = new Set();
  await waitUntil(`${count} different answers`, async () => seen.add((await get(where, path)).body).size >= count);
  return [...seen].sort();
}

/**
 * Whether a connection is accepted; false if it is refused.
 * @param {net.NetConnectOpts} options
 */
export async function accepts(options) {
  const socket = net.connect(options);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    if (error.code !== 'ECONNREFUSED') throw error;
    return false;
  } finally {
    socket.destroy();
  }
}

/** The kernel's tables of sockets, with the state of those that listen. */
const LISTENING = { tcp: '0A', tcp6: '0A', udp: '07', udp6: '07' };

/** Whether a process listens on a port, by the kernel's tables: no connection is made. @param {number} port */
export function isListenedOn(port) {
  return Object.entries(LISTENING).some(([table, listens]) => readFileSync(`/proc/net/${table}`, 'latin1').split('\n').slice(1).some((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    return state === listens && Number.parseInt(local.split(':')[1], 16) === port;
  }));
}

/**
 * Below the kernel's ephemeral ports, so that no connection takes it meanwhile. Each test process has a part of its own, from which it takes one port
 * after the other: between the look and the listen, nobody else may take the same one. They are apart, because workers take the next ones for
 * inspectors and by `increment_var`.
 */
const PORTS = { from: 12_000, parts: 180, each: 100, apart: 7 };

/** How many ports were taken. */
let taken = Math.floor(Math.random() * PORTS.each);

/** A port that is free now, for tests of fixed ports. */
export async function freePort() {
  for (;;) {
    const port = PORTS.from + (process.pid % PORTS.parts) * PORTS.each + ((taken * PORTS.apart) % PORTS.each);
    taken += 1;
    const server = net.createServer();
    try {
      server.listen(port, '::');
      await once(server, 'listening');
      server.close();
      await once(server, 'close');
      return port;
    } catch (error) {
      if (error.code !== 'EADDRINUSE') throw error;
    }
  }
}
