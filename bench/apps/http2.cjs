// A plain HTTP/2 server in the clear. It prints its address, and what it has answered when its standard input ends.
'use strict';

const http2 = require('node:http2');

const BODY = 'Hello from Node.js\n';
let answered = 0;

const server = http2.createServer((_request, response) => {
  answered += 1;
  response.setHeader('content-length', Buffer.byteLength(BODY));
  response.end(BODY);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}/\n`));
process.stdin.resume().on('end', () => process.stdout.write(`${answered}\n`, () => process.exit()));
