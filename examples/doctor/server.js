// What the apps of this folder have in common: a server on PORT that answers with what `work` gives.
'use strict';

const http = require('node:http');

const PORT = Number(process.env.PORT ?? 8000);

/** @param {() => unknown} work what a request costs; it may be asynchronous */
exports.serve = (work) => {
  const answer = async (_request, response) => {
    try {
      response.end(String(await work()));
    } catch (error) {
      response.statusCode = 500;
      response.end(error.message);
    }
  };
  http.createServer(answer).listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
};

/** About `ms` milliseconds of JavaScript on a core of 2.5 GHz: the same amount of work each time, whatever the clock says. */
exports.compute = (ms) => {
  let sum = 0;
  for (let i = 0; i < 60_000 * ms; i += 1) sum = (sum + i * i) % 1_000_003;
  return sum;
};
