// The 30th Fibonacci number by naive recursion: 1.6 million calls for each request. `/?number=20` asks for another one.
'use strict';

const express = require('express');

const PORT = Number(process.env.PORT ?? 5000);
const NUMBER = 30;
const NUMBER_MAX = 40;

const fibonacci = (n) => (n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2));

const app = express();

app.get('/', (request, response) => {
  const number = Number(request.query.number ?? NUMBER);
  if (!Number.isInteger(number) || number < 0 || number > NUMBER_MAX) {
    response.status(400).send(`number is 0 to ${NUMBER_MAX}`);
    return;
  }
  response.send(`fibonacci(${number}) = ${fibonacci(number)}`);
});

app.listen(PORT, () => console.log(`pid ${process.pid} listens on port ${PORT}`));
