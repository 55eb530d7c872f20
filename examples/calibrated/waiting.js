// Every answer waits 50 ms for something that is not this process, as for a database: one worker is right.
'use strict';

const http = require('node:http');

http
  .createServer((_request, response) => setTimeout(() => response.end('done'), 50))
  .listen(Number(process.env.PORT ?? 8000));
