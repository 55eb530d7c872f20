// Every answer burns about 2 ms of CPU in JavaScript: as many workers as cores are right, and no pool helps.
'use strict';

const http = require('node:http');

/** The same amount of work each time, whatever the clock says. */
function work() {
  let sum = 0;
  for (let i = 0; i < 120_000; i += 1) sum = (sum + i * i) % 1000003;
  return sum;
}

http.createServer((_request, response) => response.end(String(work()))).listen(Number(process.env.PORT ?? 8000));
