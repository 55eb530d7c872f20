// The service that `upstream.js` calls, and an app that waits for something that cannot be seen from outside (other-waiting): every
// answer waits for 100 ms.
'use strict';

const { setTimeout: wait } = require('node:timers/promises');

const { serve } = require('./server');

serve(async () => {
  await wait(100);
  return 'done';
});
