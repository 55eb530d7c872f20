'use strict';
// An HTTP/2 server of Node's own for the engine's tests. `node server.cjs [--key FILE --cert FILE] [--streams N]`
// prints its port; each line on stdin is answered with what it counted; it ends with stdin.
const fs = require('node:fs');
const http2 = require('node:http2');
const readline = require('node:readline');
const { parseArgs } = require('node:util');

const { values } = parseArgs({
  options: { key: { type: 'string' }, cert: { type: 'string' }, streams: { type: 'string' } },
});
const seen = { sessions: 0, requests: 0, bodies: 0, aborted: 0, paths: {} };
const settings = values.streams ? { maxConcurrentStreams: Number(values.streams) } : {};
const server = values.key
  ? http2.createSecureServer({ key: fs.readFileSync(values.key), cert: fs.readFileSync(values.cert), settings })
  : http2.createServer({ settings });

/** What a path does with the stream that is request number `number`. */
const paths = {
  '/'(stream) {
    stream.respond({ ':status': 200, 'content-type': 'text/plain', 'x-worker': String(stream.session.number % 3) });
    stream.end('hello');
  },
  '/big'(stream) {
    stream.respond({ ':status': 200, server: 'test' });
    stream.end('x'.repeat(400_000));
  },
  '/slow'(stream) {
    setTimeout(() => paths['/'](stream), 20);
  },
  '/busy'(stream, number) {
    stream.respond({ ':status': number % 4 === 0 ? 503 : 200 }, { endStream: true });
  },
  '/echo'(stream) {
    const parts = [];
    stream.on('data', (part) => parts.push(part));
    stream.on('end', () => {
      const body = Buffer.concat(parts);
      seen.bodies += body.length;
      stream.respond({ ':status': 200 });
      stream.end(body);
    });
  },
  '/hints'(stream) {
    stream.additionalHeaders({ ':status': 103, link: '</a.css>' });
    setImmediate(() => paths['/'](stream));
  },
  '/hints-for-ever'(stream) {
    for (let i = 0; i < 40; i++) stream.additionalHeaders({ ':status': 103 });
  },
  '/reset'(stream, number) {
    if (number % 5 === 4) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
    else paths['/'](stream);
  },
  '/refuse'(stream, number) {
    if (number % 5 === 4) stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    else paths['/'](stream);
  },
  '/hang'(stream, number) {
    if (number % 10 !== 9) paths['/'](stream);
  },
  '/half'(stream) {
    stream.respond({ ':status': 200, 'content-length': 100 });
    stream.write('half');
  },
  // A graceful end of each connection after its tenth request, as of a server that is reloaded.
  '/roll'(stream) {
    paths['/'](stream);
    stream.session.served = (stream.session.served ?? 0) + 1;
    if (stream.session.served === 10) stream.session.close();
  },
};

server.on('session', (session) => {
  session.number = seen.sessions++;
  session.on('error', () => {});
});
server.on('stream', (stream, headers) => {
  const number = seen.requests++;
  const path = headers[':path'];
  seen.paths[path] = (seen.paths[path] ?? 0) + 1;
  stream.on('aborted', () => seen.aborted++);
  stream.on('error', () => {});
  (paths[path.split('?')[0]] ?? paths['/'])(stream, number);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
readline.createInterface({ input: process.stdin })
  .on('line', () => console.log(JSON.stringify(seen)))
  .on('close', () => process.exit(0));
