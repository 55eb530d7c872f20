// cpu-short-callbacks: every answer is about 2 ms of JavaScript.
'use strict';

const { compute, serve } = require('./server');

serve(() => compute(2));
