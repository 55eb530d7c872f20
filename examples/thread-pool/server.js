// The thread pool: `/` derives a key with PBKDF2, which runs on libuv's pool and not on the event loop; `/fast` needs
// no pool. With a pool of one thread two requests to `/` wait for each other, and `/fast` waits for neither:
//   UV_THREADPOOL_SIZE=1 node server.js
'use strict';

const crypto = require('node:crypto');
const express = require('express');

const PORT = Number(process.env.PORT ?? 3000);
const ROUNDS = Number(process.env.ROUNDS ?? 100_000);
const BYTES = 512;

const app = express();

app.get('/', (_request, response, next) => {
  crypto.pbkdf2('password', 'salt', ROUNDS, BYTES, 'sha512', (error) => {
    if (error) next(error);
    else response.send('Hi there');
  });
});

app.get('/fast', (_request, response) => {
  response.send('This was fast!');
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
