// The busy loop: every request counts to 30 million, five times, and keeps the event loop from everything else.
'use strict';

const express = require('express');

const PORT = Number(process.env.PORT ?? 8000);
const ROUNDS = Number(process.env.ROUNDS ?? 3e7);

const app = express();

app.get('/', (_request, response) => {
  for (let times = 0; times < 5; times += 1) {
    for (let round = 0; round < ROUNDS; round += 1);
  }
  response.send(`counted to ${ROUNDS} five times in ${process.pid}`);
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
