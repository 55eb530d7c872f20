// The slow and the fast route: `/delay` burns CPU (5 s, or `?ms=`), `/fast` answers at once with its worker's
// pid. In one process `/fast` waits for `/delay`; on all cores it must not. Nothing in it knows of Forkful.
'use strict';

const express = require('express');

const DELAY_MS = 5000;
const PORT = Number(process.env.PORT ?? 8000);

/** Keeps the event loop busy, as a computation does. */
function burn(milliseconds) {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

const app = express();

app.get('/delay', (request, response) => {
  const wish = Number(request.query.ms ?? DELAY_MS);
  if (!(wish >= 0 && wish <= DELAY_MS)) {
    response.status(400).send(`ms is 0 to ${DELAY_MS}`);
    return;
  }
  burn(wish);
  response.send(`burnt ${wish} ms in ${process.pid}`);
});

app.get('/fast', (_request, response) => {
  response.send(String(process.pid));
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
