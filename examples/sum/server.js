// The sum of all numbers up to a hundred million, for each request.
'use strict';

const express = require('express');

const PORT = Number(process.env.PORT ?? 3000);
const LAST = Number(process.env.LAST ?? 1e8);

const app = express();

app.get('/', (_request, response) => {
  let sum = 0;
  for (let number = 1; number <= LAST; number += 1) sum += number;
  response.send(`the sum is ${sum}`);
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
