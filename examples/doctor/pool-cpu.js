// pool-cpu: every answer is about 10 ms of PBKDF2 in libuv's thread pool. Start it with UV_THREADPOOL_SIZE=1.
'use strict';

const { pbkdf2 } = require('node:crypto');
const { promisify } = require('node:util');

const { serve } = require('./server');

const derive = promisify(pbkdf2);

serve(async () => (await derive('secret', 'salt', 20_000, 64, 'sha512')).toString('hex'));
