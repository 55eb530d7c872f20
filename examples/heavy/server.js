// `/heavy`: a few milliseconds of CPU for each request, as a template or a large JSON document takes them.
'use strict';

const express = require('express');

const PORT = Number(process.env.PORT ?? 3000);
const ROUNDS = 5_000_000;

const app = express();

app.get('/heavy', (_request, response) => {
  let total = 0;
  for (let round = 0; round < ROUNDS; round += 1) total += 1;
  response.send(`The result of the CPU intensive task is ${total}\n`);
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
