// Where a connection is, by the kernel's tables: for the message of a test whose request got no answer.
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** The states of /proc/net/tcp that such a message needs. */
const STATES = { '01': 'established', '03': 'not accepted, its handshake is under way', '04': 'closing', '05': 'closing', '08': 'closed by the peer', '0A': 'listening' };

/** A row of /proc/net/tcp: ports, state, bytes in its queues and inode. @param {string} line */
function parseRow(line) {
  const [, local, remote, state, queues, , , , , inode] = line.trim().split(/\s+/);
  const port = (/** @type {string} */ address) => Number.parseInt(address.split(':')[1], 16);
  const [sends, receives] = queues.split(':').map((bytes) => Number.parseInt(bytes, 16));
  return { local: port(local), remote: port(remote), state: STATES[state] ?? `state ${state}`, sends, receives, inode };
}

/** All TCP sockets of this machine. */
function rows() {
  return ['tcp', 'tcp6'].flatMap((table) => {
    try {
      return readFileSync(`/proc/net/${table}`, 'latin1').trim().split('\n').slice(1).map(parseRow);
    } catch {
      return [];
    }
  });
}

/** Which processes have a socket open, with their descriptors. @param {string} inode */
function holders(inode) {
  const found = [];
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        if (readlinkSync(`/proc/${pid}/fd/${fd}`) !== `socket:[${inode}]`) continue;
        const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(0, 3).join(' ');
        found.push(`process ${pid} (${command}) as ${fd}`);
      }
    } catch {
      // It has ended, or is another user's.
    }
  }
  return found.length > 0 ? found.join(', ') : 'no process';
}

/**
 * The server's end of a connection, and the sockets that listen at its port, in words.
 * @param {number} client the client's port
 * @param {number} server the server's port
 */
export function whereIs(client, server) {
  const all = rows();
  const ends = all.filter(({ local, remote }) => local === server && remote === client);
  const words = ends.map(({ state, sends, receives, inode }) =>
    `the server's end is ${state}, with ${receives} B to read and ${sends} B to send, ${inode === '0' ? 'not accepted' : `held by ${holders(inode)}`}`);
  if (ends.length === 0) words.push("the server's end is gone");
  const listening = all.filter(({ local, state }) => local === server && state === 'listening');
  words.push(...listening.map(({ receives, inode }) => `a listener has ${receives} connections in its queue, held by ${holders(inode)}`));
  return words.join('; ');
}
