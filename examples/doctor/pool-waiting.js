// pool-waiting: every answer reads a byte of a file that is slow, as on a network file system: a thread of libuv's pool waits for
// it. The file is a FIFO that gets a byte every 10 ms.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');

const { serve } = require('./server');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pool-waiting-'));
const fifo = path.join(folder, 'slow');
execFileSync('mkfifo', [fifo]);
// A FIFO that is open for both directions blocks readers only. It has no name from here on.
const file = fs.openSync(fifo, 'r+');
fs.rmSync(folder, { recursive: true });

const read = promisify(fs.read);
let waiting = 0;

setInterval(() => {
  if (waiting > 0) fs.writeSync(file, 'x');
}, 10);

serve(async () => {
  waiting += 1;
  try {
    return (await read(file, Buffer.alloc(1), 0, 1, null)).bytesRead;
  } finally {
    waiting -= 1;
  }
});
