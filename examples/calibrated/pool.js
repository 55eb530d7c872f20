// Every answer is a few milliseconds of PBKDF2 in libuv's thread pool; JavaScript has nothing to do. With
// UV_THREADPOOL_SIZE=1 one process uses one core however many requests there are: the right answer is a pool as large
// as the number of cores, and one worker.
'use strict';

const http = require('node:http');
const { pbkdf2 } = require('node:crypto');

http
  .createServer((_request, response) => {
    pbkdf2('secret', 'salt', 10_000, 64, 'sha512', (error, key) => {
      response.statusCode = error ? 500 : 200;
      response.end(error ? error.message : key.toString('hex'));
    });
  })
  .listen(Number(process.env.PORT ?? 8000));
