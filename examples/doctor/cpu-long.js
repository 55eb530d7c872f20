// cpu-long-callbacks: every answer is about 300 ms of JavaScript in one piece; all other requests of the worker wait for it.
'use strict';

const { compute, serve } = require('./server');

serve(() => compute(300));
