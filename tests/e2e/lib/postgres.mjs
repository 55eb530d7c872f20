// A PostgreSQL server with a limited number of places, as far as clients need one: it lets everybody in, answers every
// query with one row, and refuses connections beyond its places as PostgreSQL does.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';

const TLS_REQUEST = 80_877_103;
const STARTUP = 196_608;

/** A message: its letter, its length, its content. @param {string} letter @param {Buffer} content */
function message(letter, content) {
  const head = Buffer.alloc(5);
  head.write(letter, 'latin1');
  head.writeUInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

const text = (value) => Buffer.from(`${value}\0`, 'utf8');
const int16 = (value) => Buffer.from([value >> 8, value & 255]);
const int32 = (value) => Buffer.from([value >>> 24, (value >> 16) & 255, (value >> 8) & 255, value & 255]);

const READY = message('Z', Buffer.from('I'));
const LET_IN = Buffer.concat([
  message('R', int32(0)),
  message('S', Buffer.concat([text('server_version'), text('17.0')])),
  message('K', Buffer.concat([int32(1), int32(2)])),
  READY,
]);
const TOO_MANY = message('E', Buffer.concat([
  Buffer.from('S'), text('FATAL'), Buffer.from('V'), text('FATAL'), Buffer.from('C'), text('53300'),
  Buffer.from('M'), text('sorry, too many clients already'), Buffer.from('\0'),
]));
/** One row with one column of text. */
const ANSWER = Buffer.concat([
  message('T', Buffer.concat([int16(1), text('answer'), int32(0), int16(0), int32(25), int16(65_535), int32(-1), int16(0)])),
  message('D', Buffer.concat([int16(1), int32(2), Buffer.from('42')])),
  message('C', text('SELECT 1')),
  READY,
]);

/**
 * Starts one, which the end of the test stops.
 * @param {import('node:test').TestContext} t
 * @param {{ places: number, queryMs?: number, secure?: tls.SecureContextOptions }} wish `queryMs`: how long a query takes
 */
export async function postgres(t, { places, queryMs = 0, secure }) {
  const state = { port: 0, open: 0, most: 0, refused: 0 };
  const sockets = new Set();
  const serve = (socket) => {
    let buffer = Buffer.alloc(0);
    let isIn = false;
    const take = (length) => {
      const taken = buffer.subarray(0, length);
      buffer = buffer.subarray(length);
      return taken;
    };
    const letIn = () => {
      if (state.open >= places) {
        state.refused += 1;
        socket.end(TOO_MANY);
        return;
      }
      isIn = true;
      state.open += 1;
      state.most = Math.max(state.most, state.open);
      socket.once('close', () => { state.open -= 1; });
      socket.write(LET_IN);
    };
    const onStart = () => {
      const length = buffer.length >= 8 ? buffer.readUInt32BE(0) : Infinity;
      if (buffer.length < length) return false;
      const code = take(length).readUInt32BE(4);
      if (code === STARTUP) letIn();
      else if (code !== TLS_REQUEST) socket.destroy();
      else if (!secure) socket.write('N');
      else {
        socket.removeAllListeners('data');
        socket.write('S');
        const inner = new tls.TLSSocket(socket, { isServer: true, secureContext: tls.createSecureContext(secure) });
        inner.on('error', () => socket.destroy());
        serve(inner);
      }
      return code === STARTUP;
    };
    const onMessage = () => {
      const length = buffer.length >= 5 ? 1 + buffer.readUInt32BE(1) : Infinity;
      if (buffer.length < length) return false;
      const letter = String.fromCharCode(take(length)[0]);
      if (letter === 'Q') setTimeout(() => { if (socket.writable) socket.write(ANSWER); }, queryMs);
      if (letter === 'X') socket.end();
      return true;
    };
    socket.on('data', (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      while (isIn ? onMessage() : onStart());
    });
  };
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    serve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  state.port = /** @type {net.AddressInfo} */ (server.address()).port;
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return state;
}
