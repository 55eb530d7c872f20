// synchronous-call: every answer waits 40 ms for a command, and so does the whole event loop.
'use strict';

const { execFileSync } = require('node:child_process');

const { serve } = require('./server');

serve(() => execFileSync('sleep', ['0.04']).length);
