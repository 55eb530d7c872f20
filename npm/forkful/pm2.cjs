'use strict';
// The API of `require('pm2')`, implemented by Forkful. README.md lists the differences.
const { Pm2 } = require('./lib/pm2/pm2.cjs');

const pm2 = new Pm2();
pm2.custom = Pm2;

module.exports = pm2;
